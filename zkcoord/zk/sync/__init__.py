"""Blocking reads, writes and snapshots, for tools and start-up."""
