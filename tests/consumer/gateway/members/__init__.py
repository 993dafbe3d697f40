"""Tests of the wire members of a gateway, and of what is remembered of them."""
