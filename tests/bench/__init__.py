"""Benchmarks: programs that print figures beside their bars. Nothing here fails because a machine
is slow.
"""

from __future__ import annotations
