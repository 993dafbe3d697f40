"""Requests that wait for their answer, how often a client sends heartbeats, and when it was there
last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from statistics import median

from zkcoord.core.error_codes import WireCode

from .actions import WireTimes

INTERVALS_KEPT = 7
MOVES_KEPT = 32


@dataclass(slots=True)
class Parked:
    """A request without its answer yet. `comes_again`: see `Caller.asks_again`."""

    ticket: int
    connection: int
    until_ms: int
    comes_again: bool = False


class MovesPace:
    """How long members waited lately for what others gave up for them: on a machine with much to do
    it takes longer.
    """

    def __init__(self, times: WireTimes) -> None:
        self._times = times
        self._took_ms: deque[int] = deque(maxlen=MOVES_KEPT)

    def took(self, move_ms: int) -> None:
        """Some were somebody's after this time. Of a client that was stuck it says nothing."""
        if move_ms <= self._times.flux_max_ms:
            self._took_ms.append(move_ms)

    @property
    def flux_ms(self) -> int:
        """How long more of them are worth waiting for: as a rule twice the longest."""
        longest = max(self._took_ms, default=0)
        return min(max(self._times.flux_ms, 2 * longest), self._times.flux_max_ms)


@dataclass(slots=True)
class Presence:
    """When a client was there last: it was heard, or what it waited for was answered. Before that
    it could say nothing; and one that skips a heartbeat while another is parked says nothing for an
    interval after it. Of one without a connection nothing is heard.
    """

    connections: set[int] = field(default_factory=set)
    seen_ms: int = 0
    gone_ms: int | None = None

    def heard(self, now_ms: int, connection: int) -> None:
        """A request of it."""
        self.connections.add(connection)
        self.gone_ms, self.seen_ms = None, now_ms

    def disconnected(self, now_ms: int, connection: int) -> None:
        """One of its connections is gone."""
        self.connections.discard(connection)
        if not self.connections:
            self.gone_ms = now_ms

    def expires_ms(self, waits: Collection[int], session_ms: int, grace_ms: int | None) -> int:
        """When it is gone, if nothing more is heard: `waits` is until when its requests wait at
        most; without a connection `grace_ms` later, if that is said.
        """
        silent = max([self.seen_ms, *waits]) + session_ms
        if self.gone_ms is None or grace_ms is None:
            return silent
        return min(silent, self.gone_ms + grace_ms)


class HeartbeatInterval:
    """Learnt from when heartbeats come, each from the one before; after an assignment a client may
    send the first at once, or an interval later.
    """

    def __init__(self, times: WireTimes) -> None:
        self._times = times
        self._intervals: deque[int] = deque(maxlen=INTERVALS_KEPT)
        self._last_ms: int | None = None
        self._ended_well = True
        self._is_first = False
        self._until_ms = 0

    def returned(self) -> None:
        """Its client comes from another gateway: the next one is to be answered well, and soon."""
        self._ended_well, self._is_first = False, True

    def answered(self, code: WireCode) -> None:
        """How the last one was answered."""
        self._ended_well, self._is_first = code is not WireCode.REQUEST_TIMED_OUT, False

    def overtaken(self, comes_again: bool) -> WireCode:
        """What to answer one behind which another request stands: a client that sends the next one
        soon can be told something then, others not before their interval is over. Not twice: such
        an answer keeps no client's session alive.
        """
        if not comes_again or not self._ended_well:
            return WireCode.NONE
        self.interrupted()
        return WireCode.REQUEST_TIMED_OUT

    def interrupted(self) -> None:
        """Something else was asked in between: the next one says nothing of the interval."""
        self._last_ms = None

    def came(self, now_ms: int) -> None:
        """A heartbeat."""
        if self._last_ms is not None:
            self._intervals.append(now_ms - self._last_ms)
        self._last_ms = now_ms

    def forget(self) -> None:
        """Another client comes in its place."""
        self._intervals.clear()
        self._last_ms = None

    def parked_until_ms(self, now_ms: int, session_ms: int) -> int:
        """Until when to park a heartbeat. One that comes again stands for the one before: it waits
        no longer than that would have, or its client's session ends meanwhile.
        """
        until_ms = now_ms + self._hold_ms(session_ms)
        if not (self._ended_well or self._is_first):
            until_ms = min(until_ms, self._until_ms)
        self._until_ms = until_ms
        return until_ms

    def _hold_ms(self, session_ms: int) -> int:
        session_part = session_ms // 3
        if self._is_first:
            return min(self._times.returned_beat_ms, session_part)
        if not self._intervals:
            return min(self._times.heartbeat_first_ms, session_part)
        return min(int(median(self._intervals) * self._times.heartbeat_part), session_part)
