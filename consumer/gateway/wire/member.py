"""One wire member, pure: what its client asks and what its agent says go in, answers and messages
to the agent come out.

The agent (`consumer.core.group_member`, the same core as every other member's) says which
partitions are this member's; the client is told so by an answer to SyncGroup, and that there is
something new by an answer to Heartbeat. So three sets are kept apart: what is `held` (the agent's
word), what is `due` back (the agent's `Revoke`, not answered yet), and what the client `has` (what
it was last told, less what it gave up). A client has something to do as long as `held` without
`due` is not what it `has`; then its heartbeats are answered REBALANCE_IN_PROGRESS, at once.

* A JoinGroup is answered at once, by its member alone: there is no barrier. It is the
  acknowledgement of what is due: of a cooperative client what it does not name as owned any more,
  of an eager client everything (it stops before it sends JoinGroup). What an eager client keeps is
  not given up in between: it gets it back with the next SyncGroup, and nobody else notices.
* A SyncGroup is answered when nothing has changed for `settle_ms`; a member that has nothing waits
  for its first partitions, at most `sync_park_ms`. While it waits, what is due costs nothing: the
  client has not heard of it.
* A Heartbeat is parked until there is something to say, another request comes on its connection, or
  the client's own interval is nearly over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from consumer.core import messages as msg
from zkcoord.core.model import Subscription, TopicPartition

from .actions import Begin, Gone, Reply, Tell, WireAction, WireTimes
from .judging import JoinWishes
from .parking import HeartbeatInterval, Parked
from .requests import (
    Answer,
    BeatAnswer,
    CommitAnswer,
    CommitRequest,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    SyncAnswer,
    SyncRequest,
    WireCode,
)

GENERATION_MAX = 2**31 - 1
METADATA_CHARS_MAX = 4_096


@dataclass(slots=True)
class _Committing:
    ticket: int
    refused: dict[TopicPartition, WireCode] = field(default_factory=dict)
    offsets: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)


class WireMember:
    """See the module. `take` gives the actions since it was last called."""

    def __init__(
        self, member_id: str, instance: str | None, times: WireTimes, generation: int = 0
    ) -> None:
        self.member_id = member_id
        self.instance = instance
        self.times = times
        self.generation = generation
        self.over = False
        self.held: dict[TopicPartition, tuple[int, str]] = {}
        self.has: frozenset[TopicPartition] = frozenset()
        self.synced = False
        self.client_id = ""
        self.host = ""
        self.topics: tuple[str, ...] = ()
        self.protocol = ""  # the name of the assignor that the client was answered
        self._joined = False
        self._session_ms = 10_000
        self._due: dict[int, frozenset[TopicPartition]] = {}
        self._in_part: set[int] = set()
        # partitions that the client must let go of and take again: their position was changed
        self._again: set[TopicPartition] = set()
        self._nothing_to_get = False
        self._lost: set[TopicPartition] = set()
        self._forming = False
        self._changed_ms = 0
        self._seen_ms = 0
        self._gone_ms: int | None = None
        self._flux_ms = 0
        self._epoch = 0
        self._connections: set[int] = set()
        self._sync: Parked | None = None
        self._beat: Parked | None = None
        self._interval = HeartbeatInterval(times)
        self._tokens = 0
        self._committing: dict[int, _Committing] = {}
        self._out: list[WireAction] = []

    def take(self) -> list[WireAction]:
        """What is to be done, in order."""
        done, self._out = self._out, []
        return done

    @property
    def given(self) -> frozenset[TopicPartition]:
        """What the client is to have now."""
        return frozenset(self.held) - self.due - self._again

    @property
    def due(self) -> frozenset[TopicPartition]:
        """What is to be given up and is not yet."""
        return frozenset().union(*self._due.values()) if self._due else frozenset()

    @property
    def waits_for_sync(self) -> bool:
        """Whether a SyncGroup is parked."""
        return self._sync is not None

    # requests

    def join(
        self,
        now_ms: int,
        ticket: int,
        connection: int,
        request: JoinRequest,
        wishes: JoinWishes,
        forming: bool,
    ) -> None:
        """JoinGroup of this member, which has been checked. `forming`: its group is about to
        begin.
        """
        self._heard(now_ms, connection)
        self._end_sync(WireCode.REBALANCE_IN_PROGRESS)
        self._end_beat(WireCode.NONE)
        self._interval.interrupted()
        self._forming = forming and not self._joined
        self.protocol, self._session_ms = wishes.protocol, request.session_timeout_ms
        topics = wishes.subscription.topics
        if not self._joined or topics != self.topics:
            self._joined, self.topics = True, topics
            self._nothing_to_get = False
            subscription = Subscription(dict.fromkeys(topics, 1))
            self._out.append(Tell(msg.Subscribe(subscription)))
        owned = wishes.subscription.owned if wishes.cooperative else frozenset()
        self.has = owned & frozenset(self.held)
        # what was lost and has come back is not what the client still believes to own
        self._again = (self._again | self._lost) & self.has
        self._lost.clear()
        self.synced = False
        self._give_up_due()
        self.generation = min(self.generation + 1, GENERATION_MAX)
        self._reply(
            ticket,
            JoinAnswer(WireCode.NONE, self.member_id, self.generation, self.protocol),
        )

    def sync(self, now_ms: int, ticket: int, connection: int, request: SyncRequest) -> None:
        """SyncGroup: parked until the assignment has settled."""
        self._heard(now_ms, connection)
        if request.generation != self.generation:
            return self._reply(ticket, SyncAnswer(WireCode.ILLEGAL_GENERATION))
        if request.protocol_name and request.protocol_name != self.protocol:
            return self._reply(ticket, SyncAnswer(WireCode.INCONSISTENT_GROUP_PROTOCOL))
        self._end_sync(WireCode.REBALANCE_IN_PROGRESS)
        until = now_ms + self.times.sync_park_ms
        self._sync = Parked(ticket, connection, until)
        self._look(now_ms)

    def heartbeat(
        self, now_ms: int, ticket: int, connection: int, request: HeartbeatRequest
    ) -> None:
        """Heartbeat: answered when there is something to say."""
        self._interval.came(now_ms)
        self._heard(now_ms, connection)
        self._end_beat(WireCode.NONE)
        code = self._code(request.generation)
        if code is not WireCode.NONE:
            return self._reply(ticket, BeatAnswer(code))
        self._beat = Parked(ticket, connection, now_ms + self._interval.hold_ms(self._session_ms))

    def commit(self, now_ms: int, ticket: int, connection: int, request: CommitRequest) -> None:
        """OffsetCommit of a member: only what it holds is stored."""
        self._heard(now_ms, connection)
        if request.generation != self.generation:
            return self._reply(ticket, CommitAnswer(WireCode.ILLEGAL_GENERATION))
        refused: dict[TopicPartition, WireCode] = {}
        stored: dict[TopicPartition, tuple[int, str]] = {}
        for tp, (offset, metadata) in request.offsets.items():
            if offset < 0:
                refused[tp] = WireCode.INVALID_REQUEST
            elif len(metadata.encode("utf-16-le")) // 2 > METADATA_CHARS_MAX:
                refused[tp] = WireCode.OFFSET_METADATA_TOO_LARGE
            elif tp in self.held and tp not in self._again:
                stored[tp] = (offset, metadata)
            else:
                refused[tp] = (
                    WireCode.REBALANCE_IN_PROGRESS if self._busy else WireCode.ILLEGAL_GENERATION
                )
        if not stored:
            return self._reply(ticket, CommitAnswer(WireCode.NONE, refused))
        self._tokens += 1
        self._committing[self._tokens] = _Committing(ticket, refused, stored)
        offsets = {tp: offset for tp, (offset, _) in stored.items()}
        texts = {tp: text for tp, (_, text) in stored.items() if text}
        self._out.append(Tell(msg.Commit(self._tokens, offsets, self._epoch, texts)))

    def leave(self, reason: str) -> None:
        """The client leaves, or is taken for gone."""
        if not self.over:
            self._out.append(Tell(msg.Close({}, self._epoch)))
            self._end(WireCode.UNKNOWN_MEMBER_ID, reason)

    def succeeded(self, member_id: str) -> None:
        """Another client has this instance now, under this id; what the one before waits for is
        over.
        """
        self.member_id = member_id
        self._end_waits(WireCode.FENCED_INSTANCE_ID)
        self._connections.clear()
        self._interval.forget()

    def others_move(self, now_ms: int, until_ms: int) -> None:
        """Other members give something up just now, which may become this one's: `until_ms` is as
        long as that is worth waiting for.
        """
        self._flux_ms = until_ms
        self._look(now_ms)

    # connections

    def another_request(self, connection: int) -> None:
        """Something else was asked on a connection: what is parked there stands in its way."""
        if self._beat is not None and self._beat.connection == connection:
            self._end_beat(WireCode.NONE)

    def disconnected(self, now_ms: int, connection: int) -> None:
        """A connection is gone."""
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        if self._beat is not None and self._beat.connection == connection:
            self._beat = None
        if self._sync is not None and self._sync.connection == connection:
            self._sync = None
        if not self._connections:
            self._gone_ms = now_ms

    # the agent

    def told(self, now_ms: int, message: msg.ToFetcher) -> None:
        """Take what the agent says."""
        match message:
            case msg.Assigned():
                self._assigned(message)
            case msg.Revoke():
                self._due[message.token] = frozenset(message.partitions)
                if message.in_part:
                    self._in_part.add(message.token)
                self._give_up_due()
            case msg.Resumed():
                self._resumed(frozenset(message.partitions))
            case msg.Lost():
                self._epoch = max(self._epoch, message.assignment_epoch)
                self._lose(frozenset(message.partitions))
            case msg.Seek():
                self._epoch = max(self._epoch, message.assignment_epoch)
                self.held[message.partition] = (message.offset, "")
                if message.partition in self.has:
                    self._again.add(message.partition)
            case msg.Resolve():
                self._out.append(Begin(message))
                return
            case msg.CommitDone():
                return self._committed(message)
            case msg.Failed():
                fenced = message.code is msg.FailureCode.FENCED_INSTANCE_ID
                code = WireCode.FENCED_INSTANCE_ID if fenced else WireCode.UNKNOWN_MEMBER_ID
                return self._end(code, message.message)
            case _:
                return
        self._changed_ms = now_ms
        self._look(now_ms)

    def _assigned(self, message: msg.Assigned) -> None:
        self._epoch = max(self._epoch, message.assignment_epoch)
        for tp, offset in message.offsets.items():
            self.held[tp] = (offset, message.metadata.get(tp, ""))
        for tp in message.unset:
            self.held[tp] = (-1, "")
        self._nothing_to_get = not message.offsets and not message.unset and not self.held

    def _resumed(self, back: frozenset[TopicPartition]) -> None:
        for token, partitions in list(self._due.items()):
            self._due[token] = partitions - back
            if not self._due[token]:
                self._forget_due(token)

    def _lose(self, partitions: frozenset[TopicPartition]) -> None:
        for tp in partitions:
            self.held.pop(tp, None)
        self._resumed(partitions)
        self._again -= partitions
        # of these it may commit nothing, and must not believe any longer that it owns them
        self._lost |= partitions & self.has

    def _committed(self, message: msg.CommitDone) -> None:
        commit = self._committing.pop(message.token, None)
        if commit is None:
            return
        codes = dict(commit.refused)
        bad = _COMMIT_CODES[message.outcome]
        named = set(message.partitions) or set(commit.offsets)
        for tp, value in commit.offsets.items():
            if message.outcome is not msg.CommitOutcome.OK and tp in named:
                codes[tp] = bad
            elif tp in self.held:
                self.held[tp] = value
        self._reply(commit.ticket, CommitAnswer(WireCode.NONE, codes))

    # time

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""
        if self.over:
            return None
        times = [self._expires_ms()]
        if self._beat is not None:
            times.append(self._beat.until_ms)
        if self._sync is not None:
            times.append(self._sync_due_ms(self._sync))
        return min(times)

    def tick(self, now_ms: int) -> None:
        """Time passed."""
        if self.over:
            return
        if now_ms >= self._expires_ms():
            return self.leave("its session timeout is over" if self._connections else "it is gone")
        if self._beat is not None and now_ms >= self._beat.until_ms:
            self._end_beat(WireCode.NONE)
        self._look(now_ms)

    # within

    @property
    def _busy(self) -> bool:
        """Whether the client has something to do."""
        return not self.synced or self.given != self.has

    def _code(self, generation: int) -> WireCode:
        if generation != self.generation or self._lost:
            return WireCode.ILLEGAL_GENERATION
        return WireCode.REBALANCE_IN_PROGRESS if self._busy else WireCode.NONE

    def _reply(self, ticket: int, answer: Answer) -> None:
        self._out.append(Reply(ticket, answer))

    def _heard(self, now_ms: int, connection: int) -> None:
        self._connections.add(connection)
        self._gone_ms, self._seen_ms = None, now_ms

    def _expires_ms(self) -> int:
        """When it is gone. Whose request is parked is there; of a client without a connection
        nothing is heard, and one with an instance is kept as long as it asked for.
        """
        waits = [parked.until_ms for parked in (self._sync, self._beat) if parked is not None]
        silent = max([self._seen_ms, *waits]) + self._session_ms
        if self._gone_ms is None or self.instance is not None:
            return silent
        return min(silent, self._gone_ms + self.times.disconnect_grace_ms)

    def _forget_due(self, token: int) -> None:
        del self._due[token]
        self._in_part.discard(token)

    def _give_up_due(self) -> None:
        """Answer the revocations of which the client has nothing any more; where a part will do,
        those of which it has not everything.
        """
        for token, partitions in list(self._due.items()):
            kept = partitions & self.has
            if kept and not (token in self._in_part and kept < partitions):
                continue
            self._forget_due(token)
            for tp in partitions - kept:
                self.held.pop(tp, None)
            self._out.append(Tell(msg.Revoked(token, {}, tuple(sorted(kept)))))

    def _look(self, now_ms: int) -> None:
        """Answer what is parked and has something to hear."""
        if self._sync is not None and now_ms >= self._sync_due_ms(self._sync):
            ticket, self._sync = self._sync.ticket, None
            self.has, self.synced = self.given, True
            partitions = tuple(sorted(self.has))
            self._reply(ticket, SyncAnswer(WireCode.NONE, partitions, self.protocol))
        if self._beat is not None:
            code = self._code(self.generation)
            if code is not WireCode.NONE:
                self._end_beat(code)

    def _sync_due_ms(self, sync: Parked) -> int:
        if self.has - self.given:
            return self._seen_ms  # it waits to hear what to give up
        if not self.given and not self._nothing_to_get:
            return sync.until_ms
        settle = self.times.forming_ms if self._forming else self.times.settle_ms
        return min(max(self._changed_ms + settle, self._flux_ms), sync.until_ms)

    def _end_sync(self, code: WireCode) -> None:
        if self._sync is not None:
            ticket, self._sync = self._sync.ticket, None
            self._reply(ticket, SyncAnswer(code))

    def _end_beat(self, code: WireCode) -> None:
        if self._beat is not None:
            ticket, self._beat = self._beat.ticket, None
            self._reply(ticket, BeatAnswer(code))

    def _end(self, code: WireCode, reason: str) -> None:
        self.over = True
        self._end_waits(code)
        self._out.append(Gone(reason))

    def _end_waits(self, code: WireCode) -> None:
        self._end_sync(code)
        self._end_beat(code)
        for commit in self._committing.values():
            self._reply(commit.ticket, CommitAnswer(code))
        self._committing.clear()


_COMMIT_CODES: Mapping[msg.CommitOutcome, WireCode] = {
    msg.CommitOutcome.OK: WireCode.NONE,
    msg.CommitOutcome.REFUSED: WireCode.COORDINATOR_NOT_AVAILABLE,
    msg.CommitOutcome.OVERRULED: WireCode.REBALANCE_IN_PROGRESS,
    msg.CommitOutcome.NOT_OWNED: WireCode.ILLEGAL_GENERATION,
    msg.CommitOutcome.GROUP_ALIVE: WireCode.UNKNOWN_MEMBER_ID,
    msg.CommitOutcome.NO_LONGER_MEMBER: WireCode.UNKNOWN_MEMBER_ID,
    msg.CommitOutcome.UNAVAILABLE: WireCode.COORDINATOR_LOAD_IN_PROGRESS,
}
