"""The documents of client-led groups."""
