"""What everybody uses of kafka-python, and of Kafka's protocol."""
