"""Groups whose leader is a client: a gateway's part."""
