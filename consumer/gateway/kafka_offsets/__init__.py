"""Groups whose offsets Kafka keeps: what is checked here, and asked of Kafka's own coordinator."""
