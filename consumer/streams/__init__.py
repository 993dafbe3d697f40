"""The old high-level consumer's message streams on top of `KafkaConsumer`."""
