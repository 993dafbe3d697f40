"""How a gateway is watched and ended."""
