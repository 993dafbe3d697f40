"""Groups whose leader is a client, served by the elected coordinator."""
