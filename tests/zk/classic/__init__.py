"""Groups whose leader is a client, through nodes of ZooKeeper: scenarios and takeovers."""
