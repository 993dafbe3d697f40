"""Indexes: who is decided next, whom a change concerns, and where each partition is filed."""
