"""Fetching without brokers: buffers, iteration, the two clients' common surface."""
