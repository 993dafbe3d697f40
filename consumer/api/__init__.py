"""`KafkaConsumer` itself: the public class, and the parts that it holds."""
