"""Where topics and brokers come from, where ZooKeeper has none of Kafka's."""
