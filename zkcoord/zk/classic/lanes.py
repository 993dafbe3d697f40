"""Names of requests that have still to be read, a lane for each group: each pays for the time that
its requests take, as groups do that the coordinator assigns (`core/filing/fair_queue.py`). So a
group that asks for much waits behind the others, and they do not wait behind it.

A lane is what a request's name begins with (`znodes/classic/paths.py`): nothing has to be read to
know it. Gateways of earlier releases began all names differently, so each of theirs has a lane.

In each lane the order is that in which requests were added. Of one group `OF_GROUP_AT_ONCE_MAX` are
out (being read, or read and not answered) at a time, of one that is heavy a single one, and of all
heavy ones `HEAVY_AT_ONCE_MAX`. When `REQUESTS_WAITING_MAX` wait, the longest lane gives half of its
places to others: what was taken out is to be looked for again.
"""

from __future__ import annotations

from collections import Counter, deque

from zkcoord.core.filing.fair_queue import FairQueue
from zkcoord.znodes.classic.paths import lane_of

REQUESTS_WAITING_MAX = 20_000
OF_GROUP_AT_ONCE_MAX = 4
HEAVY_AT_ONCE_MAX = 8


class Lanes:
    """See the module. `len` is how many wait. Pure: the time, in ms, comes from the caller."""

    def __init__(self) -> None:
        self._fair = FairQueue()
        self._names: dict[str, deque[str]] = {}
        self._waiting = 0
        self._out: Counter[str] = Counter()
        self._heavy_out: set[str] = set()

    def __len__(self) -> int:
        return self._waiting

    def add(self, name: str, now_ms: int) -> list[str]:
        """One more; returned is what has to be left out for it, or it itself."""
        left_out: list[str] = []
        if self._waiting >= REQUESTS_WAITING_MAX:
            left_out = self._make_room()
            if not left_out:
                return [name]
        lane = lane_of(name)
        self._names.setdefault(lane, deque()).append(name)
        self._waiting += 1
        self._queue(lane, now_ms)
        return left_out

    def _make_room(self) -> list[str]:
        """The younger half of the longest lane, unless hardly any lane has more than one."""
        if len(self._names) > REQUESTS_WAITING_MAX // 2:
            return []
        longest = max(self._names.values(), key=len)
        gone = [longest.pop() for _ in range(len(longest) // 2)]
        self._waiting -= len(gone)
        return gone

    def _queue(self, lane: str, now_ms: int) -> None:
        """It waits for its turn, if it has something to be read and not too much is out."""
        room = 1 if self._fair.is_heavy(lane, now_ms) else OF_GROUP_AT_ONCE_MAX
        if lane in self._names and self._out[lane] < room:
            self._fair.add(lane, now_ms)

    def take(self, now_ms: int) -> str | None:
        """The next one to be read, which is out from now on; None: nobody's turn has come."""
        lane = self._fair.take(now_ms, len(self._heavy_out) < HEAVY_AT_ONCE_MAX)
        if lane is None:
            return None
        names = self._names[lane]
        name = names.popleft()
        self._waiting -= 1
        if not names:
            del self._names[lane]
        self._out[lane] += 1
        if self._fair.is_heavy(lane, now_ms):
            self._heavy_out.add(lane)
        self._queue(lane, now_ms)
        return name

    def done(self, name: str, spent_us: int, now_ms: int) -> None:
        """One that was out is answered, or gone; so much time was spent on it."""
        lane = lane_of(name)
        self._out[lane] -= 1
        if not self._out[lane]:
            del self._out[lane]
            self._heavy_out.discard(lane)
        self._fair.charge(lane, spent_us, now_ms)
        self._queue(lane, now_ms)

    def is_heavy(self, name: str, now_ms: int) -> bool:
        """Whether its group owes so much that it gets what others leave."""
        return self._fair.is_heavy(lane_of(name), now_ms)

    def ready_at_ms(self, now_ms: int) -> int | None:
        """When `take` has something. None: nothing waits, or what waits does so until one that is
        out is done.
        """
        if len(self._heavy_out) >= HEAVY_AT_ONCE_MAX:
            return None
        return self._fair.ready_at_ms(now_ms)
