"""The fenced sink: a model with every order of crashes, real ZooKeeper, real Spark."""
