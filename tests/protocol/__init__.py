"""The protocol's rules, one by one, between production drivers and real ZooKeeper servers."""
