"""Clusters on their way from ZooKeeper to KRaft, in the simulator."""
