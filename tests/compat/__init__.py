"""One test body for both consumers: kafka-python's `KafkaConsumer` in a group of the broker, and
ours in a group of the coordinator, on the same real broker.

Where the two legitimately differ a test asks `side.differs("<name>")`, which is true for ours;
every such name is a line of the table of differences in docs/consumer.md, and no line of it is
without a test.
"""
