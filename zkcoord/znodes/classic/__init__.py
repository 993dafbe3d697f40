"""Nodes of groups whose leader is a client: where they are, and what they hold."""
