"""Whose turn it is to be answered on a client's connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from consumer.gateway.frames import Head


@dataclass(slots=True)
class Expected:
    """An answer that is due: ours once `ready` is set, or a broker's (`ours` is False), which is
    rewritten if `head` is there, or given to `after`. What we have `asked` ourselves is not the
    client's to see. `since_s`: when a request that is answered here came. `held_bytes`: of the
    request, or of its answer, while they are kept.
    """

    ours: bool
    head: Head | None = None
    ready: bytes | None = None
    after: Callable[[bytes], None] | None = None
    asked: asyncio.Future[bytes] | None = None
    since_s: float = 0.0
    held_bytes: int = 0


def waiting_at(queue: Iterable[Expected], head: Head) -> int | None:
    """Where in a queue a request of ours is that has no answer yet; None: nowhere."""
    for at, expected in enumerate(queue):
        if expected.head is head and expected.ours and expected.ready is None:
            return at
    return None
