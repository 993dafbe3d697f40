"""Recordings replayed, and what-if."""
