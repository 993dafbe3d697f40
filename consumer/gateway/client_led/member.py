"""A member of a client-led group, as the gateway knows it that serves it: whether its client is
there, a heartbeat that is parked, commits that wait. Pure: what it answers is taken from it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from consumer.gateway.wire.actions import WireTimes
from consumer.gateway.wire.parking import HeartbeatInterval, Parked, Presence
from consumer.gateway.wire.requests import (
    Answer,
    BeatAnswer,
    Caller,
    CommitAnswer,
    CommitRequest,
)
from zkcoord.core.classic.requests import ClassicBeat
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition

COMMITS_MAX = 1_000
COMES_MS = 3_000
"""For so long after its client came from another gateway a member commits nothing that goes back.
"""


@dataclass(slots=True)
class WaitingOffsets:
    """A commit that is not answered yet: what of it is stored, and what of the rest is answered.
    `tries`: how often the state had changed when it was to be stored.
    """

    connection: int
    ticket: int
    request: CommitRequest
    offsets: dict[TopicPartition, tuple[int, str]]
    refused: dict[TopicPartition, WireCode] = field(default_factory=dict)
    tries: int = 0


class LedMember:
    """See the module. `waits` counts its JoinGroup and SyncGroup requests under way: while one is,
    it is there, as long as its connection is. `commits`: the first one is being stored while
    `is_storing`.
    """

    def __init__(
        self,
        group: str,
        member_id: str,
        instance: str | None,
        session_timeout_ms: int,
        times: WireTimes,
        library: str = "",
    ) -> None:
        self.group = group
        self.member_id = member_id
        self.instance = instance
        self.session_timeout_ms = session_timeout_ms
        self.library = library
        self.presence = Presence()
        self.beat: Parked | None = None
        self.beats: ClassicBeat | None = None
        self.waits = 0
        self.commits: deque[WaitingOffsets] = deque()
        self.is_storing = False
        self.wake_ms: int | None = None
        self._returned_ms: int | None = None
        self._times = times
        self._interval = HeartbeatInterval(times)
        self._out: list[tuple[int, Answer]] = []

    def take(self) -> list[tuple[int, Answer]]:
        """What is to be answered by now."""
        out, self._out = self._out, []
        return out

    def returned(self, now_ms: int) -> None:
        """Its client comes from another gateway."""
        self._returned_ms = now_ms
        self._interval.returned()

    def has_just_come(self, now_ms: int) -> bool:
        """Whether what is asked of it may be older than what its client has asked another gateway:
        one that hung reads all that has come meanwhile at once.
        """
        return self._returned_ms is not None and now_ms < self._returned_ms + COMES_MS

    # requests

    def heard(self, now_ms: int, connection: int) -> None:
        """A request of it, other than a heartbeat."""
        self.presence.heard(now_ms, connection)
        self._interval.interrupted()

    def answered(self, now_ms: int) -> None:
        """Something that it waited for was answered."""
        self.waits -= 1
        self.presence.seen_ms = now_ms

    def heartbeat(
        self, now_ms: int, ticket: int, caller: Caller, beats: ClassicBeat, code: WireCode
    ) -> None:
        """Heartbeat, and what there is to say: with nothing to say it is parked, but on a
        connection that is for records too, and of a library that says no name: kafkajs, for one,
        fetches nothing before it has its answer.
        """
        self._interval.came(now_ms)
        self.presence.heard(now_ms, caller.connection)
        self.end_beat(now_ms, WireCode.NONE)
        if code is not WireCode.NONE or caller.is_shared or not caller.library:
            self._out.append((ticket, BeatAnswer(code)))
            return
        until = self._interval.parked_until_ms(now_ms, self.session_timeout_ms)
        self.beat = Parked(ticket, caller.connection, until, caller.asks_again)
        self.beats = beats

    def end_beat(self, now_ms: int, code: WireCode) -> None:
        """Answer the heartbeat that is parked."""
        if self.beat is not None:
            ticket, self.beat, self.beats = self.beat.ticket, None, None
            self.presence.seen_ms = now_ms
            self._interval.answered(code)
            self._out.append((ticket, BeatAnswer(code)))

    def another_request(self, now_ms: int, connection: int) -> None:
        """Something else was asked on a connection: what is parked there stands in its way."""
        if self.beat is not None and self.beat.connection == connection:
            self.end_beat(now_ms, self._interval.overtaken(self.beat.comes_again))

    def disconnected(self, now_ms: int, connection: int) -> None:
        """A connection is gone."""
        if connection in self.presence.connections:
            if self.beat is not None and self.beat.connection == connection:
                self.end_beat(now_ms, WireCode.NONE)
            # its client may have committed more, elsewhere, since it gave this connection up
            gone = [one for one in self.commits if one.connection == connection]
            refused = CommitAnswer(WireCode.NOT_COORDINATOR)
            self._out += [(one.ticket, refused) for one in gone]
            self.commits = deque(one for one in self.commits if one.connection != connection)
            self.presence.disconnected(now_ms, connection)

    # time

    def next_wake_ms(self) -> int | None:
        """When `tick`, or `is_gone`, has something to say."""
        times = [] if self.waits else [self._expires_ms()]
        if self.beat is not None:
            times.append(self.beat.until_ms)
        return min(times) if times else None

    def tick(self, now_ms: int) -> None:
        """Time passed."""
        if self.beat is not None and now_ms >= self.beat.until_ms:
            self.end_beat(now_ms, WireCode.NONE)

    def is_gone(self, now_ms: int) -> bool:
        """Whether its client was silent for its session timeout, or is without a connection for
        longer than the grace; one with an instance is kept as long as it asked for.
        """
        return not self.waits and now_ms >= self._expires_ms()

    def _expires_ms(self) -> int:
        waits = [self.beat.until_ms] if self.beat is not None else []
        grace_ms = self._times.disconnect_grace_ms if self.instance is None else None
        return self.presence.expires_ms(waits, self.session_timeout_ms, grace_ms)
