"""Clients of brokers, and frames."""
