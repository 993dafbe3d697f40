"""A model of a Kafka consumer: what the Java client's ConsumerCoordinator (3.9) asks of a group's
coordinator, in which order, and how it takes each code.

* It is eager or cooperative, static or not, and knows nothing of gateways but that any of them is
  the coordinator. Its own host never dies with one. It polls: a poll finishes what the one before
  handed out, obeys, commits now and then and hands out more. Heartbeats go on beside it.
* An eager client commits and lets go of everything before it joins; a cooperative one goes on with
  what it owns, and lets go, after it has synced, of what it was not given again; then it joins once
  more.
* REBALANCE_IN_PROGRESS: it joins again. ILLEGAL_GENERATION and UNKNOWN_MEMBER_ID: everything is
  lost, without a commit, and it joins again, in the latter case as somebody new. FENCED_INSTANCE_ID
  ends it. NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, a connection that is gone, and no heartbeat's
  answer within the session timeout: it looks for a gateway again, with all that it has, and asks
  again what was not answered.

What it is given, lets go of, hands out and commits is told to a `WireWitness`; nothing here judges
it. Times are ms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from consumer.gateway.wire.requests import (
    BeatAnswer,
    CommitAnswer,
    CommitRequest,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveRequest,
    SyncAnswer,
    SyncRequest,
)
from consumer.gateway.wire.subscription import encode_subscription
from tests.sim.application import Log
from tests.sim.kernel import Host, Kernel
from tests.sim.wire_gateway import (
    AnyAnswer,
    FetchOffsets,
    GatewayProcess,
    Offsets,
    WireConnection,
)
from tests.sim.wire_link import ELSEWHERE, LATER, WireLink
from tests.sim.wire_witness import At, WireHabits, WireWitness
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition

RECORDS_PER_POLL_MAX = 200
RETRY_MS = 100
POLL_MS = (20, 150)
SLOW_MS = 2_500


class WireClient:
    """See the module. `find` names a gateway to try."""

    def __init__(
        self,
        kernel: Kernel,
        name: str,
        habits: WireHabits,
        log: Log,
        witness: WireWitness,
        find: Callable[[], GatewayProcess | None],
    ) -> None:
        self.kernel = kernel
        self.host = Host(kernel, name)
        self.habits = habits
        self.log = log
        self.witness = witness
        self.link = WireLink(
            kernel, self.host, find, self._link_changed, partial(witness.unexpected, self)
        )
        self.member_id = ""
        self.generation = -1
        self.protocol = ""
        self.positions: dict[TopicPartition, At] = {}
        self.stable = False  # it has joined and synced, and need not do so again yet
        self.joining = False  # JoinGroup or SyncGroup is under way
        self.rejoins = False  # it must join (again)
        self.leaving = False
        self.fenced = False
        self.stopped = False
        self.cut_at_join = 0  # how many JoinGroups lose their connection just after they are sent
        self.asked: set[tuple[TopicPartition, int]] = set()
        # the same, and as which member, in which generation
        self.asked_as: set[tuple[TopicPartition, int, str, int]] = set()
        self.told_to_rejoin = 0
        self.lost_all = 0
        self.assignments = 0
        self.busy_until_ms = 0
        self._rejoin_wanted = True
        self._beat_sent_ms: int | None = None
        self._beat_ok_ms = kernel.now
        self._commits_under_way = 0
        self._fetching = False
        self._next_commit_ms = 0
        self._attempt = 0  # what an earlier one still waits for does not go on
        self.troubled_ms = kernel.now  # when it was paused or continued last
        self.host.on_state.append(lambda: setattr(self, "troubled_ms", kernel.now))
        self.host.after(kernel.between(0, 50), self._poll)
        self.host.after(kernel.between(0, habits.interval_ms), self._beat_timer)

    @property
    def running(self) -> bool:
        """Whether it exists and wants to be a member."""
        return self.host.alive and not (self.leaving or self.fenced or self.stopped)

    @property
    def wants_to_join(self) -> bool:
        """Whether it is about to join again, or does so."""
        return self._rejoin_wanted or self.rejoins

    @property
    def consuming(self) -> list[TopicPartition]:
        """What it hands out records of."""
        if self.stopped or self.fenced:
            return []
        return [tp for tp, at in self.positions.items() if at.processed is not None]

    @property
    def connection(self) -> WireConnection | None:
        """To a gateway, where there is one."""
        return self.link.connection

    def join_again(self) -> None:
        """Its application asks for another round."""
        self._rejoin_wanted = True

    def _link_changed(self) -> None:
        self._beat_sent_ms, self._beat_ok_ms = None, self.kernel.now
        if self.connection is not None:
            self.connection.asks_again = self.habits.asks_again

    # polls

    def _poll(self) -> None:
        if self.stopped or self.fenced:
            return
        now = self.kernel.now
        if now < self.busy_until_ms:
            return self.host.after(self.busy_until_ms - now, self._poll, timer=True)
        self.finish()
        if self.connection is None:
            self.link.connect(self.habits.group, self.habits.session_ms // 2)
        elif self._rejoin_wanted and not self.rejoins and now >= self.link.try_ms:
            self._prepare()
        elif self.stable and not self.rejoins:
            self._commit_sometimes()
            self._ask_where()
        self._hand_out()
        if self.kernel.chance(self.habits.slow_chance):
            self.busy_until_ms = now + self.kernel.between(1, SLOW_MS)
            self.kernel.faults["slow_wire_client"] += 1
        self.host.after(self.kernel.between(*POLL_MS), self._poll, timer=True)

    def finish(self) -> None:
        """What was handed out is processed."""
        for tp, at in self.positions.items():
            if at.processed is not None and at.processed != at.handed:
                at.processed = at.handed
                self.witness.processed(self, tp, at.handed)

    def _hand_out(self) -> None:
        if self.joining and not self.habits.cooperative:
            return
        for tp in self.consuming:
            at = self.positions[tp]
            first, last = at.handed, min(self.log.end(tp), at.handed + RECORDS_PER_POLL_MAX)
            at.handed = max(first, last)
            self.witness.handed_out(self, tp, first, at.handed)

    # joining

    def _prepare(self) -> None:
        """Before JoinGroup: an eager client commits what it has processed and lets go of it."""
        self.rejoins = True
        stops = not self.habits.cooperative
        self._commit_then(self._if_current(self._stop_and_join if stops else self._join))

    def _if_current(self, then: Callable[[], None]) -> Callable[[], None]:
        self._attempt += 1
        attempt = self._attempt

        def go_on() -> None:
            if attempt == self._attempt:
                then()

        return go_on

    def _commit_then(self, then: Callable[[], None]) -> None:
        """Commit where that makes sense; `then` in any case."""
        if self.stable and self.generation >= 0 and self.connection is not None:
            self._commit(self.positions, lambda: then())
        else:
            then()

    def _stop_and_join(self) -> None:
        self.finish()
        self.positions.clear()
        self._join()

    def _join(self) -> None:
        if self.stopped or self.fenced or self.leaving:
            return
        if self.connection is None:
            self._again()
            return
        self.stable, self.joining, self.rejoins = False, True, True
        self._rejoin_wanted = False
        request = self.join_request()
        self.link.ask(request, self._joined, request.rebalance_timeout_ms + 5_000)
        if self.cut_at_join and self.connection is not None:
            self.cut_at_join -= 1
            self.kernel.after(self.kernel.between(0, 12), self.connection.cut)
            self.kernel.happened["JoinGroup lost its connection"] += 1

    def join_request(self) -> JoinRequest:
        """What it says when it joins."""
        h = self.habits
        owned = tuple(self.positions) if h.cooperative else ()
        blob = encode_subscription(h.topics, owned)
        return JoinRequest(
            h.group,
            self.member_id,
            h.session_ms,
            h.rebalance_ms,
            "consumer",
            tuple((name, blob) for name in h.assignors),
            h.instance,
        )

    def _again(self, delay_ms: int = 0) -> None:
        """Join (again), a moment later."""
        self._attempt += 1
        self.joining = self.rejoins = False
        self._rejoin_wanted = True
        self.link.try_ms = max(self.link.try_ms, self.kernel.now + delay_ms)

    def _joined(self, answer: AnyAnswer | None) -> None:
        if answer is None:
            self._again()
            return
        assert isinstance(answer, JoinAnswer)
        match answer.code:
            case WireCode.NONE:
                self.member_id, self.generation = answer.member_id, answer.generation
                self.protocol = answer.protocol
                self.has_joined(answer)
                self._sync()
            case WireCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
                self._join()
            case _:
                self._refused("JoinGroup", answer.code)

    def _refused(self, what: str, code: WireCode) -> None:
        """JoinGroup or SyncGroup ended with this."""
        match code:
            case WireCode.REBALANCE_IN_PROGRESS:
                self._again()
            case WireCode.UNKNOWN_MEMBER_ID | WireCode.ILLEGAL_GENERATION:
                self._lose(code)
            case WireCode.FENCED_INSTANCE_ID:
                self._fenced()
            case _ if code is LATER:
                self._again(RETRY_MS)
            case _ if code in ELSEWHERE:
                self._again(RETRY_MS)
                self.link.disconnect()
            case _:
                self.witness.unexpected(self, f"{what} is answered {code.name}")
                self._again(RETRY_MS)

    def has_joined(self, answer: JoinAnswer) -> None:
        """It has, and takes this answer."""

    def sync_request(self) -> SyncRequest:
        """What it says then."""
        h = self.habits
        return SyncRequest(
            h.group, self.member_id, self.generation, h.instance, "consumer", self.protocol
        )

    def given_by(self, answer: SyncAnswer) -> set[TopicPartition]:
        """All that it is to have."""
        return set(answer.partitions)

    def _sync(self) -> None:
        self.link.ask(self.sync_request(), self._synced, self.habits.rebalance_ms + 5_000)

    def _synced(self, answer: AnyAnswer | None) -> None:
        if answer is None:
            self._again()
            return
        assert isinstance(answer, SyncAnswer)
        if answer.code is not WireCode.NONE:
            self._refused("SyncGroup", answer.code)
            return
        self.joining = self.rejoins = False
        self.stable = True
        self._beat_ok_ms = self.kernel.now
        self.assignments += 1
        new = self.given_by(answer)
        if not self.habits.cooperative:
            self.positions.clear()
        added = new - self.positions.keys()
        gone = sorted(self.positions.keys() - new)
        self.positions.update((tp, At()) for tp in sorted(added))
        self.witness.synced(self, self.generation, bool(new))
        self.witness.given(self, sorted(added))
        if gone:
            self._let_go(gone)

    def _let_go(self, gone: list[TopicPartition]) -> None:
        """A cooperative client revokes what it was not given again, then joins once more."""

        def over() -> None:
            for tp in gone:
                self.positions.pop(tp, None)
            self._rejoin_wanted, self.rejoins = True, False

        self.rejoins = True
        self.finish()
        self._commit({tp: self.positions[tp] for tp in gone}, self._if_current(over))

    def _lose(self, code: WireCode) -> None:
        """It is no member any more, or one without an assignment."""
        self.kernel.trace(self.host.name, f"loses everything: {code.name}")
        self.lost_all += 1
        self.kernel.happened[f"wire client lost all: {code.name}"] += 1
        self.positions.clear()
        self.stable = False
        self.generation = -1
        if code is WireCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self._again()

    def _fenced(self) -> None:
        self.witness.fenced(self)
        self.kernel.happened["wire client fenced"] += 1
        self.positions.clear()
        self.stable, self.fenced = False, True
        self.link.disconnect()

    # heartbeats

    def _beat_timer(self) -> None:
        if self.stopped or self.fenced:
            return
        self.host.after(self.habits.interval_ms, self._beat_timer, timer=True)
        self._beat()

    def _beat(self) -> None:
        if self.connection is None or not self.stable or self.joining:
            return
        if self.kernel.now - self._beat_ok_ms > self.habits.session_ms:
            self.kernel.trace(self.host.name, "hears nothing of its coordinator")
            return self.link.disconnect()
        if self._beat_sent_ms is None:
            self._beat_sent_ms = self.kernel.now
            asked = HeartbeatRequest(
                self.habits.group, self.member_id, self.generation, self.habits.instance
            )
            # its time is that of the session
            self.link.ask(asked, lambda answer: self._beaten(asked, answer), 10**6)

    def _beaten(self, asked: HeartbeatRequest, answer: AnyAnswer | None) -> None:
        self._beat_sent_ms = None
        if answer is None:
            return
        assert isinstance(answer, BeatAnswer)
        if answer.code is WireCode.REQUEST_TIMED_OUT and self.habits.asks_again:
            return self.host.after(RETRY_MS, self._beat)
        self._beat_ok_ms = self.kernel.now
        now = (self.member_id, self.generation)
        if (asked.member_id, asked.generation) != now or not self.stable:
            return
        match answer.code:
            case WireCode.NONE:
                pass
            case WireCode.REBALANCE_IN_PROGRESS:
                self.told_to_rejoin += not self._rejoin_wanted
                self._rejoin_wanted = True
            case WireCode.UNKNOWN_MEMBER_ID | WireCode.ILLEGAL_GENERATION:
                self._lose(answer.code)
            case WireCode.FENCED_INSTANCE_ID:
                self._fenced()
            case _ if answer.code in ELSEWHERE:
                self.link.disconnect()
            case _:
                self.witness.unexpected(self, f"Heartbeat is answered {answer.code.name}")

    # commits

    def _commit_sometimes(self) -> None:
        if self.kernel.now >= self._next_commit_ms and not self._commits_under_way:
            every = self.habits.commit_every_ms
            self._next_commit_ms = self.kernel.now + self.kernel.between(every // 2, every * 3 // 2)
            self._commit(self.positions, lambda: None)

    def _commit(self, those: dict[TopicPartition, At], then: Callable[[], None]) -> None:
        offsets = {
            tp: at.processed
            for tp, at in those.items()
            if at.processed is not None and at.processed != at.committed
        }
        if not offsets or self.connection is None:
            then()
            return
        self.asked.update(offsets.items())
        me = self.member_id, self.generation
        self.asked_as.update((*one, *me) for one in offsets.items())
        resets = {tp: self.witness.resets(self, tp) for tp in offsets}
        asked = CommitRequest(
            self.habits.group,
            self.member_id,
            self.generation,
            {tp: (offset, "") for tp, offset in offsets.items()},
            self.habits.instance,
        )
        self._commits_under_way += 1

        def answered(answer: AnyAnswer | None) -> None:
            self._commits_under_way -= 1
            if answer is not None:
                assert isinstance(answer, CommitAnswer)
                self._committed(asked, answer, resets)
            then()

        self.link.ask(asked, answered, self.habits.session_ms)

    def _committed(
        self, asked: CommitRequest, answer: CommitAnswer, resets: dict[TopicPartition, int]
    ) -> None:
        codes = {tp: answer.others.get(tp, answer.code) for tp in asked.offsets}
        for tp, code in codes.items():
            if code is WireCode.NONE:
                self.witness.acked(self, tp, asked.offsets[tp][0], resets[tp])
                if tp in self.positions:
                    self.positions[tp].committed = asked.offsets[tp][0]
        found = set(codes.values()) - {WireCode.NONE, LATER}
        now = (self.member_id, self.generation)
        if not found or (asked.member_id, asked.generation) != now or not self.stable:
            return
        for code in found:
            self.kernel.happened[f"commit refused: {code.name}"] += 1
        if WireCode.FENCED_INSTANCE_ID in found:
            self._fenced()
        elif WireCode.UNKNOWN_MEMBER_ID in found:
            self._lose(WireCode.UNKNOWN_MEMBER_ID)
        elif WireCode.ILLEGAL_GENERATION in found:
            self._lose(WireCode.ILLEGAL_GENERATION)
        elif WireCode.REBALANCE_IN_PROGRESS in found:
            self.told_to_rejoin += not self._rejoin_wanted
            self._rejoin_wanted = True
        elif found & set(ELSEWHERE):
            self.link.disconnect()
        else:
            self.witness.unexpected(self, f"OffsetCommit is answered {found}")

    # where partitions begin

    def _ask_where(self) -> None:
        unknown = tuple(tp for tp, at in self.positions.items() if at.processed is None)
        if self._fetching or not unknown:
            return
        self._fetching = True
        asked = {tp: self.positions[tp] for tp in unknown}
        resets = {tp: self.witness.resets(self, tp) for tp in unknown}

        def answered(answer: AnyAnswer | None) -> None:
            self._fetching = False
            if answer is None:
                return
            assert isinstance(answer, Offsets)
            if answer.code is not WireCode.NONE:
                return self.link.disconnect()
            for tp, at in asked.items():
                if self.positions.get(tp) is at:
                    offset = max(answer.offsets[tp], 0)
                    at.processed = at.handed = offset
                    at.committed = answer.offsets[tp]
                    self.witness.begins(self, tp, offset, resets[tp])

        self.link.ask(FetchOffsets(self.habits.group, unknown), answered, self.habits.session_ms)

    # the end

    def leave(self) -> None:
        """A clean close: commit, stop, leave (a static client only goes)."""
        self.leaving = True
        self.host.after(0, self._leave)

    def _leave(self) -> None:
        if self.stopped or self.fenced:
            return
        self.finish()
        self._commit_then(self._left)

    def _left(self) -> None:
        had = sorted(self.positions)
        self.positions.clear()
        self.stopped = True
        if self.connection is None or not self.member_id or self.habits.instance is not None:
            self._ended(None)
            return
        self.witness.leaves(self, had)
        leave = LeaveRequest(self.habits.group, ((self.member_id, None),))
        self.link.ask(leave, self._ended, self.habits.session_ms)

    def _ended(self, _answer: AnyAnswer | None) -> None:
        self.link.disconnect()
        self.host.after(20, self.host.kill)
