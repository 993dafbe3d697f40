"""Requests of tools: about groups, and no member's."""
