"""What a gateway does now and then, one thing after the other, on its pool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


class Chores:
    """See the module. Each of `chores`: how often, in seconds, and what; it blocks, and raises
    nothing that is no defect.
    """

    def __init__(self, *chores: tuple[float, Callable[[], Any]]) -> None:
        self._chores = chores
        self._due_s = [0.0] * len(chores)

    async def do(self, run: Callable[[Callable[[], Any]], Awaitable[Any]], now_s: float) -> None:
        """Do what is due."""
        for number, (every_s, work) in enumerate(self._chores):
            if now_s >= self._due_s[number]:
                self._due_s[number] = now_s + every_s
                await run(work)
