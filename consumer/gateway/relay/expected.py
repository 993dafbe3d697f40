"""Whose turn it is to be answered on a client's connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from consumer.gateway.frames import Head


@dataclass(slots=True)
class Expected:
    """An answer that is due: ours once `ready` is set, or a broker's (`ours` is False), which is
    rewritten if `head` is there, or given to `after`. What was `asked_by_us` is not the client's to
    see. `since_s`: when a request that is answered here came. `held_bytes`: of the request, or
    of its answer, while they are kept.
    """

    ours: bool
    head: Head | None = None
    ready: bytes | None = None
    after: Callable[[bytes], None] | None = None
    asked_by_us: bool = False
    since_s: float = 0.0
    held_bytes: int = 0
