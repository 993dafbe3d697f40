"""One group of Kafka's classic protocol, whose leader is a client: a pure machine."""
