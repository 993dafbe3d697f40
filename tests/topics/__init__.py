"""Topics and brokers of clusters that have no ZooKeeper underneath."""
