"""What a coordinator does in ZooKeeper as long as it leads."""
