"""Blocking reads and snapshots for tools."""
