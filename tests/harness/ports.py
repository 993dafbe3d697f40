"""Free TCP ports for tests: the stack's own choice, so that both avoid the same ranges."""

from __future__ import annotations

from zkcoord.stack.ports import HOST, free_port, free_ports, is_free

__all__ = ["HOST", "free_port", "free_ports", "is_free"]
