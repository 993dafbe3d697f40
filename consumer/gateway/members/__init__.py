"""The wire members of a gateway, and what is remembered of them."""
