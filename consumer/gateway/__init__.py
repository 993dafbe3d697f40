"""The gateway: unmodified Kafka clients as members of coordinated groups (docs/gateway.md)."""
