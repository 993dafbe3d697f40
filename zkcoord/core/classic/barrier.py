"""How long a rebalance waits for those who have not joined yet; and who is silent for too long."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

STALE_ENTRIES_MAX = 64


@dataclass(slots=True)
class Barrier:
    """Until when. An initial one, of a group without members, waits for its time whoever has
    joined, and again for each time in which somebody came, up to the rebalance timeout.
    """

    until_ms: int
    is_initial: bool = False
    delay_ms: int = 0
    remaining_ms: int = 0
    newcomers: bool = False

    def is_extended(self, now_ms: int) -> bool:
        """Whether an initial one, whose time is over, waits on."""
        if not self.newcomers or not self.remaining_ms:
            return False
        self.newcomers = False
        self.until_ms = now_ms + min(self.delay_ms, self.remaining_ms)
        self.remaining_ms = max(self.remaining_ms - self.delay_ms, 0)
        return True


def initial_barrier(now_ms: int, delay_ms: int, rebalance_timeout_ms: int) -> Barrier:
    """That of a group without members."""
    rest = max(rebalance_timeout_ms - delay_ms, 0)
    return Barrier(now_ms + delay_ms, True, delay_ms, rest)


class Expiries:
    """When members, and ids that were given out, are gone unless they are heard of. One entry each
    in a heap, which is put right when its time has come: a heartbeat costs nothing.
    """

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        self._earliest: dict[str, int] = {}

    def arm(self, member_id: str, at_ms: int) -> None:
        """Gone at this time, and not before."""
        self._at[member_id] = at_ms
        earliest = self._earliest.get(member_id)
        if earliest is None or at_ms < earliest:
            self._earliest[member_id] = at_ms
            heapq.heappush(self._heap, (at_ms, member_id))

    def _without_the_gone(self) -> None:
        """What is in the heap of those who are not watched any more is not kept until its time."""
        if len(self._heap) > 2 * len(self._at) + STALE_ENTRIES_MAX:
            self._earliest = dict(self._at)
            self._heap = [(at_ms, member_id) for member_id, at_ms in self._at.items()]
            heapq.heapify(self._heap)

    def disarm(self, member_id: str) -> None:
        """Not watched any more."""
        self._at.pop(member_id, None)
        self._without_the_gone()

    def next_ms(self) -> int | None:
        """The earliest time at which one is gone."""
        while self._heap:
            at_ms, member_id = self._heap[0]
            if self._at.get(member_id) == at_ms:
                return at_ms
            heapq.heappop(self._heap)
            if self._earliest.get(member_id) == at_ms:
                del self._earliest[member_id]
                if member_id in self._at:
                    self.arm(member_id, self._at[member_id])
        return None

    def gone(self, now_ms: int) -> str | None:
        """One whose time is over; it is not watched any more."""
        at_ms = self.next_ms()
        if at_ms is None or at_ms > now_ms:
            return None
        _, member_id = heapq.heappop(self._heap)
        del self._earliest[member_id], self._at[member_id]
        return member_id
