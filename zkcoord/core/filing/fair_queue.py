"""Who is decided next: each group pays for the time that was spent on it.

A group is in the queue once, however often it changes. Time spent on a group (reading it, matching
its wildcards, deciding, writing) is charged to it, in microseconds of the thread that decides, and
forgiven at `FORGIVEN_US_PER_MS`: so a group may take that share of the thread for ever. One that
owes more than `OWED_US_MAX` is *heavy*. Groups that are not heavy are served in the order in which
they changed. Heavy ones get what is left: the one that owes least first, when nobody else waits and
nothing has happened that is not known yet (`idle`); after work for any of them all rest, for
`REST_PER_WORK` times as long as that took (`REST_MS_MAX` at most). When they have rested, one that
has waited for `HEAVY_WAIT_MS_MAX` is served before all others.

Pure: the time comes from the caller, and what was spent with it.
"""

from __future__ import annotations

from collections import deque

FORGIVEN_US_PER_MS = 10
OWED_US_MAX = 20_000
OWED_US_CAP = 200_000
REST_PER_WORK = 2
REST_MS_MAX = 500
HEAVY_WAIT_MS_MAX = 1_000
US_PER_MS = 1_000
NAMES_KEPT_MIN = 1_000


class FairQueue:
    """See the module. `len` is how many groups wait."""

    def __init__(self) -> None:
        self._light: deque[str] = deque()
        # heavy groups that wait, and since when
        self._heavy: dict[str, int] = {}
        self._waiting: set[str] = set()
        # what groups owe, and when that was
        self._owed: dict[str, tuple[int, int]] = {}
        self._forgive_at = NAMES_KEPT_MIN
        self._rested_at_ms = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, group: object) -> bool:
        return group in self._waiting

    def add(self, group: str, now_ms: int) -> None:
        """It is to be decided."""
        if group in self._waiting:
            return
        self._waiting.add(group)
        if self.is_heavy(group, now_ms):
            self._heavy[group] = now_ms
        else:
            self._light.append(group)

    def charge(self, group: str, spent_us: int, now_ms: int) -> None:
        """So much time was spent on it."""
        owed = min(self._owes(group, now_ms) + spent_us, OWED_US_CAP)
        self._owed[group] = (owed, now_ms)
        if len(self._owed) > self._forgive_at:
            # whoever owes nothing any more is forgotten
            self._owed = {g: o for g, o in self._owed.items() if self._owes(g, now_ms)}
            self._forgive_at = max(NAMES_KEPT_MIN, 2 * len(self._owed))
        if owed > OWED_US_MAX:
            rest_ms = spent_us * REST_PER_WORK // US_PER_MS
            self._rested_at_ms = min(
                max(self._rested_at_ms, now_ms) + rest_ms, now_ms + REST_MS_MAX
            )

    def _owes(self, group: str, now_ms: int) -> int:
        owed, at_ms = self._owed.get(group, (0, now_ms))
        return max(0, owed - (now_ms - at_ms) * FORGIVEN_US_PER_MS)

    def is_heavy(self, group: str, now_ms: int) -> bool:
        """Whether it owes so much that it gets what others leave."""
        return group in self._owed and self._owes(group, now_ms) > OWED_US_MAX

    def rests(self, group: str, now_ms: int) -> bool:
        """Whether nothing is to be done for it now: it is heavy, and heavy groups rest."""
        return now_ms < self._rested_at_ms and self.is_heavy(group, now_ms)

    @property
    def rested_at_ms(self) -> int:
        """When heavy groups have rested."""
        return self._rested_at_ms

    def ready_at_ms(self, now_ms: int) -> int | None:
        """When somebody can be served; None: nobody waits."""
        if self._light:
            return now_ms
        return max(now_ms, self._rested_at_ms) if self._heavy else None

    def take(self, now_ms: int, idle: bool) -> str | None:
        """Who is next, out of the queue; None: nobody can be served now."""
        group = self._next(now_ms, idle)
        if group is not None:
            self._waiting.discard(group)
        return group

    def _next(self, now_ms: int, idle: bool) -> str | None:
        may_heavy = bool(self._heavy) and idle and now_ms >= self._rested_at_ms
        oldest, since_ms = next(iter(self._heavy.items()), ("", now_ms))
        overdue = now_ms - since_ms >= HEAVY_WAIT_MS_MAX
        while self._light and not (may_heavy and overdue):
            group = self._light.popleft()
            if not self.is_heavy(group, now_ms):
                return group
            self._heavy[group] = now_ms  # it became so while it waited
            may_heavy = idle and now_ms >= self._rested_at_ms
        if not may_heavy:
            return None
        first = oldest if overdue else min(self._heavy, key=lambda g: self._owes(g, now_ms))
        del self._heavy[first]
        return first
