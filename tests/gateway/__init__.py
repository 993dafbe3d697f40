"""The gateway with real clients on a real broker."""
