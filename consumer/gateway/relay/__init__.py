"""Bytes between clients and brokers: listeners, connections, and what is rewritten on the way."""
