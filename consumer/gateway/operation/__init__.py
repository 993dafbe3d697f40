"""How a gateway is watched and ended: figures, HTTP, signals."""
