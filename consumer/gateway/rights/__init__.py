"""What a client may do with groups and topics: asked of its broker."""
