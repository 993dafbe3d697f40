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
* A SyncGroup is answered when others give up nothing more for its member, as the coordinator says;
  a member that has nothing waits for its first partitions, at most `sync_park_ms`. While it waits,
  what is due costs nothing: the client has not heard of it.
* A Heartbeat is parked until there is something to say, another request comes on its connection, or
  the client's own interval is nearly over. Not that of a client that asks for nothing else before
  the answer: it would get no records.
"""

from __future__ import annotations

from consumer.core import messages as msg
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Subscription, TopicPartition
from zkcoord.znodes.gateway_nodes import RememberedClient

from .actions import Begin, Gone, Remember, Reply, Tell, WayOut, WireAction, WireTimes, WrittenDown
from .committing import Committing, judged
from .judging import WAITING, JoinWishes, ended_with
from .parking import HeartbeatInterval, Parked, Presence
from .requests import (
    Answer,
    BeatAnswer,
    Caller,
    CommitAnswer,
    CommitRequest,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    SyncAnswer,
    SyncRequest,
    refused,
)
from .restoring import COMMITS_MAX, Restoring, Returned, WaitingCommit
from .revocations import Revocations, Stored

GENERATION_MAX = 2**31 - 1


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
        self.held: dict[TopicPartition, Stored] = {}
        self.has: frozenset[TopicPartition] = frozenset()
        self.synced = False
        self.client_id = ""
        self.host = ""
        self.topics: tuple[str, ...] = ()
        self.lists: tuple[str, ...] = ()
        self.protocol = ""  # the name of the assignor that the client was answered
        self.more_since_ms: int | None = None  # since when others have yet to give up more for it
        self._joined = False
        self.session_timeout_ms = 10_000
        self._revocations = Revocations()
        # partitions that the client must let go of and take again: their position was changed
        self._again: set[TopicPartition] = set()
        self._nothing_to_get = False
        self._lost: set[TopicPartition] = set()
        self.forming = False
        self._changed_ms = 0
        self.presence = Presence()
        self._flux_ms = 0
        self._epoch = 0
        self.parked_sync: Parked | None = None
        self.parked_beat: Parked | None = None
        self._interval = HeartbeatInterval(times)
        self._tokens = 0
        self.commits_under_way: dict[int, Committing] = {}
        self._remembering: dict[int, JoinAnswer | SyncAnswer] = {}
        self._renamed = self._has_unwritten = False
        self._restoring: Restoring | None = None
        self._returned = Returned()
        self._out: list[WireAction] = []

    def restore(self, now_ms: int, client: RememberedClient) -> None:
        """Go on with a client of another gateway, which has been told this and nothing since."""
        self.generation, self.protocol = client.generation, client.protocol
        self.session_timeout_ms, self.topics = client.session_timeout_ms, client.topics
        self.client_id, self.host, self.lists = client.client_id, client.host, client.lists
        self.has, self.synced, self._joined = client.has, True, True
        self.presence.seen_ms = now_ms
        self._interval.returned()
        self._restoring = Restoring(self.times, now_ms, client.has, client.generation)
        self._out.append(Tell(msg.Subscribe(Subscription(dict.fromkeys(client.topics, 1)))))

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
        return self._revocations.due

    @property
    def revocations(self) -> tuple[int, ...]:
        """Tokens of the agent's revocations that wait for an answer."""
        return tuple(self._revocations.asked)

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
        self.forming = forming and not self._joined
        self.protocol, self.session_timeout_ms = wishes.protocol, request.session_timeout_ms
        self.lists = wishes.lists
        topics = wishes.subscription.topics
        if not self._joined or topics != self.topics:
            self._joined, self.topics = True, topics
            self._nothing_to_get = False
            self._out.append(Tell(msg.Subscribe(Subscription(dict.fromkeys(topics, 1)))))
        owned = wishes.subscription.owned if wishes.cooperative else frozenset()
        expected = self.has if self._restoring is not None else frozenset()
        self.has = owned & (frozenset(self.held) | expected | self._lost)
        self._returned.keep(self.has)
        # what was lost is not, once it has come back, what the client still believes to own
        self._again = (self._again | self._lost) & self.has
        self._lost.clear()
        self.synced = self._has_unwritten = False
        self._give_up_due()
        self.generation = min(self.generation + 1, GENERATION_MAX)
        answer = JoinAnswer(WireCode.NONE, self.member_id, self.generation, self.protocol)
        if not self._renamed:
            return self._reply(ticket, answer)
        self._renamed = False
        return self._answer_written(ticket, answer)

    def sync(self, now_ms: int, ticket: int, connection: int, request: SyncRequest) -> None:
        """SyncGroup: parked until the assignment has settled."""
        self._heard(now_ms, connection)
        self._catch_up(request.generation)
        if request.generation != self.generation:
            return self._reply(ticket, SyncAnswer(WireCode.ILLEGAL_GENERATION))
        if request.protocol_name and request.protocol_name != self.protocol:
            return self._reply(ticket, SyncAnswer(WireCode.INCONSISTENT_GROUP_PROTOCOL))
        self._end_sync(WireCode.REBALANCE_IN_PROGRESS)
        until = now_ms + self.times.sync_park_ms
        self.parked_sync = Parked(ticket, connection, until)
        self._look(now_ms)

    def heartbeat(
        self,
        now_ms: int,
        ticket: int,
        caller: Caller,
        request: HeartbeatRequest,
        ask_again: bool = False,
    ) -> None:
        """Heartbeat: answered when there is something to say; at once on a shared connection.
        `ask_again`: others move, and the client should ask again what it has.
        """
        self._interval.came(now_ms)
        self._heard(now_ms, caller.connection)
        self._end_beat(WireCode.NONE)
        self._catch_up(request.generation)
        code = self._code(request.generation)
        if code is WireCode.NONE and ask_again:
            code = WireCode.REBALANCE_IN_PROGRESS
        if code is not WireCode.NONE or caller.is_shared or self.protocol in WAITING:
            return self._reply(ticket, BeatAnswer(code))
        until = self._interval.parked_until_ms(now_ms, self.session_timeout_ms)
        self.parked_beat = Parked(ticket, caller.connection, until, caller.asks_again)

    def commit(self, now_ms: int, ticket: int, connection: int, request: CommitRequest) -> None:
        """OffsetCommit of a member: only what it holds is stored."""
        self._heard(now_ms, connection)
        self._catch_up(request.generation)
        if self._restoring is not None and len(self._restoring.commits) < COMMITS_MAX:
            self._restoring.commits.append(WaitingCommit(ticket, connection, request))
            return None
        if request.generation != self.generation:
            return self._reply(ticket, CommitAnswer(WireCode.ILLEGAL_GENERATION))
        stored, refused = judged(request.offsets, self._may_store)
        if not stored:
            return self._reply(ticket, CommitAnswer(WireCode.NONE, refused))
        self._tokens += 1
        self.commits_under_way[self._tokens] = Committing(ticket, refused, stored)
        offsets = {tp: offset for tp, (offset, _) in stored.items()}
        texts = {tp: text for tp, (_, text) in stored.items() if text}
        self._out.append(Tell(msg.Commit(self._tokens, offsets, self._epoch, texts)))

    def is_behind(self, generation: int) -> bool:
        """Whether who names this generation was at another gateway since: it was not given here."""
        return self._restoring is None and generation > self.generation

    def _may_store(self, tp: TopicPartition, offset: int) -> WireCode:
        if tp in self.held and tp not in self._again | self._lost:
            if not self._returned.is_behind(tp, offset):
                return WireCode.NONE
            self._again.add(tp)
        return WireCode.REBALANCE_IN_PROGRESS if self._busy else WireCode.ILLEGAL_GENERATION

    def leave(self, reason: str) -> None:
        """The client leaves."""
        if not self.over:
            self._end(WireCode.UNKNOWN_MEMBER_ID, reason, WayOut.LEAVES)

    def hand_over(self, reason: str) -> None:
        """Another gateway, or another agent, goes on with this client."""
        if not self.over:
            self._end(WireCode.NOT_COORDINATOR, reason, WayOut.WAITS)

    def remembered(self, now_ms: int, ticket: int, how: WrittenDown, heard: bool = True) -> None:
        """What the client is to be told was written down, or not. Where its registration is gone
        none of it is so, unless the agent `heard`. Who takes an instance over waits until it can.
        """
        answer: Answer | None = self._remembering.pop(ticket, None)
        if answer is None:
            return
        self.presence.seen_ms = now_ms
        if isinstance(answer, JoinAnswer) and how is not WrittenDown.DONE:
            self._renamed = True
            answer = refused(answer, WireCode.COORDINATOR_NOT_AVAILABLE)
        elif how is WrittenDown.GONE:
            answer, self.synced = SyncAnswer(WireCode.REBALANCE_IN_PROGRESS), False
        if how is WrittenDown.GONE and not heard:
            self._lost |= frozenset(self.held)
            self._lose(frozenset(self.held))
        self._reply(ticket, answer)

    def succeeded(self, member_id: str) -> None:
        """Another client has this instance now, under this id; what the one before waits for is
        over.
        """
        self.member_id, self._renamed = member_id, True
        self._end_waits(WireCode.FENCED_INSTANCE_ID)
        self.presence.connections.clear()
        self._interval.forget()

    def others_move(self, now_ms: int, until_ms: int) -> None:
        """Other members give something up just now, for which it should wait as long as this."""
        self._flux_ms = until_ms
        self._look(now_ms)

    # connections

    def another_request(self, now_ms: int, connection: int) -> None:
        """Something else was asked on a connection: what is parked there stands in its way."""
        beat = self.parked_beat
        if beat is not None and beat.connection == connection:
            self._end_beat(self._interval.overtaken(beat.comes_again), now_ms)
        self._end_commits(connection)

    def disconnected(self, now_ms: int, connection: int) -> None:
        """A connection is gone."""
        if connection not in self.presence.connections:
            return
        if self.parked_beat is not None and self.parked_beat.connection == connection:
            self._end_beat(WireCode.NONE)
        if self.parked_sync is not None and self.parked_sync.connection == connection:
            self._end_sync(WireCode.REBALANCE_IN_PROGRESS)
        self._end_commits(connection)
        self.presence.disconnected(now_ms, connection)

    # the agent

    def told(self, now_ms: int, message: msg.ToFetcher) -> None:
        """Take what the agent says."""
        match message:
            case msg.Assigned():
                self._assigned(message)
                self.more_since_ms = now_ms if message.more else None
                if self._restoring is not None and (message.offsets or message.unset):
                    self._restoring.came(now_ms)
            case msg.Revoke():
                self.more_since_ms = now_ms if message.more else None
                self._revocations.ask(message.token, message.partitions, message.in_part)
                self._give_up_due()
            case msg.Resumed():
                self.held = self._revocations.withdraw(frozenset(message.partitions)) | self.held
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
                return self._end(ended_with(message), message.message)
            case _:
                return
        self._changed_ms = now_ms
        self._look(now_ms)

    def _assigned(self, message: msg.Assigned) -> None:
        self._epoch = max(self._epoch, message.assignment_epoch)
        for tp, offset in message.offsets.items():
            self.held[tp] = (offset, message.metadata.get(tp, ""))
        if self._restoring is not None:
            self._returned.came(message.offsets)
        for tp in message.unset:
            self.held[tp] = (-1, "")
        self._nothing_to_get = not message.offsets and not message.unset and not self.held

    def _lose(self, partitions: frozenset[TopicPartition]) -> None:
        for tp in partitions:
            self.held.pop(tp, None)
        self._revocations.withdraw(partitions)
        self._again -= partitions
        # of these it may commit nothing, and must not believe any longer that it owns them
        self._lost |= partitions & self.has

    def _committed(self, message: msg.CommitDone) -> None:
        commit = self.commits_under_way.pop(message.token, None)
        if commit is None:
            return
        codes, stored = commit.ended(message)
        self.held.update({tp: value for tp, value in stored.items() if tp in self.held})
        self._reply(commit.ticket, CommitAnswer(WireCode.NONE, codes))

    # time

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""
        if self.over:
            return None
        times = [self._expires_ms()]
        if self.parked_beat is not None:
            times.append(self.parked_beat.until_ms)
        if self._restoring is not None:
            times.append(self._restoring.until_ms)
        elif self.parked_sync is not None:
            times.append(self._sync_due_ms(self.parked_sync))
        return min(times)

    def tick(self, now_ms: int) -> None:
        """Time passed."""
        if self.over:
            return
        if now_ms >= self._expires_ms():
            silent = bool(self.presence.connections)
            reason = "its session timeout is over" if silent else "it is gone"
            return self._end(WireCode.UNKNOWN_MEMBER_ID, reason, WayOut.MISSED)
        if self.parked_beat is not None and now_ms >= self.parked_beat.until_ms:
            self._end_beat(WireCode.NONE, now_ms)
        self._look(now_ms)

    # within

    @property
    def _busy(self) -> bool:
        """Whether the client has something to do."""
        return not self.synced or self.given != self.has

    def _code(self, generation: int) -> WireCode:
        if generation != self.generation or self._lost:
            return WireCode.ILLEGAL_GENERATION
        busy = self._busy and self._restoring is None
        return WireCode.REBALANCE_IN_PROGRESS if busy else WireCode.NONE

    def _catch_up(self, generation: int) -> None:
        """A client that had joined again, and was given nothing before its gateway was lost, or
        what could not be written then, names a later generation than was written down.
        """
        restoring = self._restoring
        if restoring is not None and restoring.generation == self.generation < generation:
            self.generation, self.synced, self._has_unwritten = generation, False, True

    def _reply(self, ticket: int, answer: Answer) -> None:
        self._out.append(Reply(ticket, answer))

    def _answer_written(self, ticket: int, answer: JoinAnswer | SyncAnswer) -> None:
        """Write down what the client is to be told, then tell it."""
        self._remembering[ticket] = answer
        self._out.append(Remember(ticket))

    def _heard(self, now_ms: int, connection: int) -> None:
        self.presence.heard(now_ms, connection)

    def _expires_ms(self) -> int:
        """When it is gone. Whose request is parked, or whose assignment is being written down, is
        there; one with an instance is kept as long as it asked for.
        """
        waits = [
            parked.until_ms for parked in (self.parked_sync, self.parked_beat) if parked is not None
        ]
        if self._remembering:
            waits.append(self.presence.seen_ms + self.times.restore_ms)
        grace_ms = self.times.disconnect_grace_ms if self.instance is None else None
        return self.presence.expires_ms(waits, self.session_timeout_ms, grace_ms)

    def _give_up_due(self) -> None:
        """Answer the revocations of which the client has let go."""
        has = frozenset(self.held) if self._has_unwritten else self.has
        for token, given, kept in self._revocations.answered(has):
            for tp in sorted(given & self.held.keys()):
                self._revocations.given[tp] = self.held.pop(tp)
            self._out.append(Tell(msg.Revoked(token, {}, tuple(sorted(kept)))))

    def _look(self, now_ms: int) -> None:
        """Answer what is parked and has something to hear."""
        restoring = self._restoring
        if restoring is not None:
            if not restoring.is_over(now_ms, self.held):
                return
            self._restoring = None
            for one in restoring.commits:
                self.commit(now_ms, one.ticket, one.connection, one.request)
        if self.parked_sync is not None and now_ms >= self._sync_due_ms(self.parked_sync):
            ticket, self.parked_sync = self.parked_sync.ticket, None
            self.presence.seen_ms = now_ms
            self.has, self.synced = self.given, True
            partitions = tuple(sorted(self.has))
            self._answer_written(ticket, SyncAnswer(WireCode.NONE, partitions, self.protocol))
        if self.parked_beat is not None:
            code = self._code(self.generation)
            if code is not WireCode.NONE:
                self._end_beat(code, now_ms)

    def _sync_due_ms(self, sync: Parked) -> int:
        if self.has - self.given:
            return self.presence.seen_ms  # it waits to hear what to give up
        if not self.given and not self._nothing_to_get:
            return sync.until_ms
        more = self.times.settle_ms if self.more_since_ms is not None else 0
        settle = self.times.forming_ms if self.forming else more
        return min(max(self._changed_ms + settle, self._flux_ms), sync.until_ms)

    def _end_sync(self, code: WireCode) -> None:
        if self.parked_sync is not None:
            ticket, self.parked_sync = self.parked_sync.ticket, None
            self._reply(ticket, SyncAnswer(code))

    def _end_commits(self, connection: int) -> None:
        """Those that wait for what comes back wait no longer."""
        if self._restoring is not None:
            for ticket in self._restoring.no_longer(connection):
                self._reply(ticket, CommitAnswer(WireCode.COORDINATOR_LOAD_IN_PROGRESS))

    def _end_beat(self, code: WireCode, now_ms: int | None = None) -> None:
        if self.parked_beat is not None:
            ticket, self.parked_beat = self.parked_beat.ticket, None
            self.presence.seen_ms = now_ms or self.presence.seen_ms
            self._interval.answered(code)
            self._reply(ticket, BeatAnswer(code))

    def _end(self, code: WireCode, reason: str, ending: WayOut = WayOut.OVER) -> None:
        self.over = True
        self._end_waits(code)
        self._out.append(Gone(reason, ending, code))

    def _end_waits(self, code: WireCode) -> None:
        self._end_sync(code)
        self._end_beat(code)
        waiting = self._restoring.commits if self._restoring is not None else []
        tickets = [c.ticket for c in self.commits_under_way.values()] + [c.ticket for c in waiting]
        for ticket in tickets:
            self._reply(ticket, CommitAnswer(code))
        for ticket, answer in self._remembering.items():
            self._reply(ticket, refused(answer, code))
        self.commits_under_way.clear()
        self._remembering.clear()
        self._restoring = None
