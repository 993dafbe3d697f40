"""The edge to ZooKeeper, on real servers."""
