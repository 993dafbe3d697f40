"""Records from brokers: by kafka-python's client or librdkafka's, buffered and handed out by
turns.
"""
