"""`KafkaConsumer` itself: turns of poll, subscriptions, what is asked of brokers and of the
group.
"""
