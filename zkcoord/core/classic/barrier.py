"""How long a rebalance waits for those who have not joined yet, and what came of it; and who is
silent for too long.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from zkcoord.core.value_type import value

from .messages import ClassicCause, Rebalanced

STALE_ENTRIES_MAX = 64
OUT_SAID_MAX = 100


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


@dataclass(slots=True)
class RebalanceStory:
    """What is to be said of a rebalance when it has ended (`Rebalanced`)."""

    cause: ClassicCause
    began_ms: int
    joined_ms: int | None = None
    out: list[str] = field(default_factory=list)
    again: int = 0

    def begins_again(self) -> None:
        """Before it has ended."""
        self.again += 1

    def all_joined(self, now_ms: int) -> None:
        """Nobody is waited for any more, who had to join."""
        self.joined_ms = now_ms

    def is_out(self, member_id: str) -> None:
        """It did not come in time. Of many some are named."""
        if len(self.out) < OUT_SAID_MAX:
            self.out.append(member_id)

    def told(
        self, now_ms: int, generation: int, members: int, last: str, leader: str
    ) -> Rebalanced:
        """It has ended; `last`: who joined last."""
        joined_ms = now_ms if self.joined_ms is None else self.joined_ms
        return Rebalanced(
            self.cause,
            generation,
            members,
            now_ms - self.began_ms,
            joined_ms - self.began_ms,
            last,
            leader,
            tuple(self.out),
            self.again,
        )


@value
class Waits:
    """What a rebalance that is under way waits for, and until when at most. `since_ms`: when it
    began; `unjoined`: members that have not joined yet, `pending`: ids that were given out and have
    not been used; `unsynced`: members without a SyncGroup, of whom the `leader`'s is needed. An
    initial one waits for whoever comes.
    """

    cause: ClassicCause
    since_ms: int
    until_ms: int
    is_initial: bool = False
    unjoined: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    unsynced: tuple[str, ...] = ()
    leader: str = ""


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
