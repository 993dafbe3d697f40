"""Who of many has something to do next: members, groups, whatever else waits."""

from __future__ import annotations

import heapq
from typing import Generic, Protocol, TypeVar

KEPT = 64


class Waking(Protocol):
    """What is due at some time; None: never."""

    wake_ms: int | None


W = TypeVar("W", bound=Waking)


class Wakes(Generic[W]):
    """Of each one time counts (`wake_ms`), the latest that was noted."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, W]] = []
        self._number = 0
        self._most = KEPT

    def __len__(self) -> int:
        return len(self._heap)

    def note(self, waiting: W, wake_ms: int | None) -> None:
        """It is due then; None: never."""
        if wake_ms == waiting.wake_ms:
            return
        waiting.wake_ms = wake_ms
        if wake_ms is not None:
            self._number += 1
            heapq.heappush(self._heap, (wake_ms, self._number, waiting))
        if len(self._heap) > self._most:  # most of them are times that were changed
            self._heap = [one for one in self._heap if one[2].wake_ms == one[0]]
            heapq.heapify(self._heap)
            self._most = max(KEPT, 2 * len(self._heap))

    def next_ms(self) -> int | None:
        """When the first one is due."""
        while self._heap and self._heap[0][2].wake_ms != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self, now_ms: int) -> W | None:
        """One that is due, which is to be noted again; None: nobody is."""
        wake_ms = self.next_ms()
        if wake_ms is None or wake_ms > now_ms:
            return None
        waiting = heapq.heappop(self._heap)[2]
        waiting.wake_ms = None
        return waiting
