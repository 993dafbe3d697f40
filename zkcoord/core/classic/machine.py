"""One classic group: what it is told goes in, what is to be done comes out.

The semantics are those of Kafka 3.9's coordinator, with one difference, of the design that Kafka's
own began with: everything that decides is persisted before it is answered.

* The barrier completes: the generation with its members is persisted, then JoinGroup is answered.
* The leader brings the assignment: it is persisted, then SyncGroup is answered.
* A static member comes back under another id: its replacement is persisted, then it is answered;
  until then the old one is the member.
* Nobody is left: that is persisted, then the LeaveGroup that led to it is answered.

So whoever has joined, or has its assignment, finds it again at another coordinator (`restore`), in
the same generation. A rebalance that has begun is not persisted, nor who left or was fenced in it:
who was told of it joins again, and who is gone is not heard of, whoever coordinates then.

While something is being persisted, requests that change something wait, in order; what only reads
(Heartbeat, OffsetCommit, DescribeGroups) is answered by what holds until then, and no timer ends.
What was not persisted has not happened: who waits for a generation is answered a retriable code and
joins again, an assignment is forgotten and the group rebalances, the old static member stays. The
number of such a generation is not used again.

A ticket is answered once. A second JoinGroup or SyncGroup of the same member takes the place of the
first, which is answered REBALANCE_IN_PROGRESS (Kafka never answers it: its connection is gone).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from zkcoord.core.error_codes import WireCode

from .barrier import Waits
from .checks import commit_code, generation_code, member_code
from .joining import Joining
from .messages import (
    Asked,
    CauseKind,
    ClassicAction,
    ClassicCause,
    ClassicInput,
    ClassicTick,
    NotPersisted,
    Persisted,
    Unload,
)
from .rebalance import ClassicRebalance, Syncing
from .requests import (
    ClassicBeat,
    ClassicDelete,
    ClassicDescribe,
    ClassicJoin,
    ClassicJoined,
    ClassicLeave,
    ClassicLeft,
    ClassicRequest,
    ClassicSaid,
    ClassicSync,
    ClassicSynced,
    CommitCheck,
    Leaver,
    Opaque,
    classic_refusal,
)
from .seats import Seat
from .standing import InFlight, Standing, Step, WaitingRequests
from .state import (
    WORDS_CHARS_MAX,
    ClassicMember,
    ClassicOptions,
    ClassicPhase,
    ClassicState,
    described,
    words_of,
)
from .table import Trigger, judged

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = ClassicPhase
NONE = WireCode.NONE
TRIGGERS: dict[type, Trigger] = {
    ClassicJoin: Trigger.JOIN,
    ClassicSync: Trigger.SYNC,
    ClassicBeat: Trigger.BEAT,
    ClassicLeave: Trigger.LEAVE,
    CommitCheck: Trigger.COMMIT,
    ClassicDescribe: Trigger.DESCRIBE,
    ClassicDelete: Trigger.DELETE,
}
ONLY_READ = (ClassicBeat, CommitCheck, ClassicDescribe)


class ClassicGroup:
    """See the module. `is_heard(member_id)`: whether somebody else hears of a member, who would say
    that it is silent.
    """

    def __init__(
        self, options: ClassicOptions, is_heard: Callable[[str], bool] = lambda member_id: False
    ) -> None:
        self._at = Standing(options)
        self._rebalance = ClassicRebalance(self._at, is_heard)
        self._joining = Joining(self._at, self._rebalance)
        self._syncing = Syncing(self._at, self._rebalance)
        self._waiting = WaitingRequests(options)

    @property
    def phase(self) -> ClassicPhase:
        """Its state."""
        return self._at.phase

    @property
    def exists(self) -> bool:
        """Whether anybody has asked to join, or committed: else it is known to nobody."""
        return self._at.exists and self._at.phase is not DEAD

    @property
    def generation(self) -> int:
        """The last one that was persisted."""
        return self._at.generation

    @property
    def members(self) -> tuple[ClassicMember, ...]:
        """Who is in it now, also those who are not persisted yet."""
        return tuple(seat.member for seat in self._at.seats)

    def holds(self, member_id: str) -> bool:
        """Whether this is one of them."""
        return member_id in self._at.seats.seats

    def holder(self, instance: str | None) -> str | None:
        """The member of an instance."""
        return self._at.seats.holder(instance)

    def brought(self) -> Iterator[Opaque]:
        """What members have brought and have, also those who are not persisted yet, and what
        requests bring that wait.
        """
        flight = self._at.in_flight
        decided = () if flight is None or flight.state is None else flight.state.members
        for member in (*self.members, *decided):
            yield member.assignment
            yield from (data for _, data in member.protocols)
        for request in self._waiting:
            if isinstance(request, ClassicJoin):
                yield from (data for _, data in request.protocols)
            elif isinstance(request, ClassicSync):
                yield from (data for _, data in request.assignments)

    @property
    def leader(self) -> str:
        """Of the generation."""
        return self._at.seats.leader

    @property
    def protocol_type(self) -> str:
        """What it is for."""
        return self._at.protocol_type

    @property
    def protocol(self) -> str:
        """What its members have voted for; "" before they have."""
        return self._at.protocol

    def waits(self) -> Waits | None:
        """Whom a rebalance waits for that is under way; None: for nobody."""
        return self._rebalance.waits()

    @property
    def is_forgotten(self) -> bool:
        """Whether nothing is, or will be, known of it but what was persisted."""
        if self._at.phase is EMPTY:
            return self._at.in_flight is None and not self._at.seats.pending
        return self._at.phase is DEAD

    def step(self, now_ms: int, told: ClassicInput) -> list[ClassicAction]:
        """What is to be done, in order."""
        match told:
            case Asked():
                self._asked(now_ms, told.ticket, told.request)
            case Persisted():
                self._persisted(now_ms, told.token, None)
            case NotPersisted():
                self._persisted(now_ms, told.token, told.code)
            case ClassicTick():
                self._tick(now_ms)
            case Unload():
                self._one(Trigger.UNLOADED, self._unload)
        return self._at.take()

    def restore(self, now_ms: int, state: ClassicState) -> list[ClassicAction]:
        """Go on from what was persisted; everybody has its whole time again."""
        self._one(Trigger.RESTORED, lambda: self._restore(now_ms, state))
        return self._at.take()

    def next_wake_ms(self) -> int | None:
        """When a tick has something to do."""
        if self._at.in_flight is not None or self._at.phase is DEAD:
            return None
        barrier = None if self._rebalance.barrier is None else self._rebalance.barrier.until_ms
        times = (barrier, self._rebalance.sync_until_ms, self._at.expiries.next_ms())
        return min((at_ms for at_ms in times if at_ms is not None), default=None)

    def _one(self, trigger: Trigger, act: Callable[[], None]) -> None:
        before = self._at.phase
        act()
        judged(before, trigger, self._at.phase)

    def _asked(self, now_ms: int, ticket: int, request: ClassicRequest) -> None:
        if self._at.in_flight is None or isinstance(request, ONLY_READ):
            self._one(TRIGGERS[type(request)], lambda: self._answer(now_ms, ticket, request))
        elif not self._waiting.add(ticket, request):
            busy = WireCode.COORDINATOR_LOAD_IN_PROGRESS
            if isinstance(request, ClassicSync):  # old clients do not expect that one
                busy = WireCode.REBALANCE_IN_PROGRESS
            self._at.reply(ticket, classic_refusal(request, busy))

    def _answer(self, now_ms: int, ticket: int, request: ClassicRequest) -> None:
        if self._at.phase is DEAD and not isinstance(request, ClassicDescribe):
            code = WireCode.COORDINATOR_NOT_AVAILABLE
            return self._at.reply(ticket, classic_refusal(request, code))
        match request:
            case ClassicJoin():
                self._joining.join(now_ms, ticket, request)
            case ClassicSync():
                self._syncing.sync(now_ms, ticket, request)
            case ClassicBeat():
                self._at.reply(ticket, ClassicSaid(self._beat(now_ms, request)))
            case ClassicLeave():
                self._leave(now_ms, ticket, request)
            case CommitCheck():
                self._at.reply(ticket, ClassicSaid(self._commit(now_ms, request)))
            case ClassicDescribe():
                self._at.reply(ticket, described(self._at.state() if self.exists else None))
            case ClassicDelete():
                self._delete(ticket)

    def _beat(self, now_ms: int, request: ClassicBeat) -> WireCode:
        code = generation_code(self._at.seats, self._at.generation, request)
        if code is not NONE:
            return code
        self._at.arm(now_ms, self._at.seats.seats[request.member_id])
        return WireCode.REBALANCE_IN_PROGRESS if self._at.phase is PREPARING else NONE

    def _commit(self, now_ms: int, request: CommitCheck) -> WireCode:
        if not self._at.exists and request.generation >= 0 and not request.in_transaction:
            return WireCode.ILLEGAL_GENERATION
        self._at.exists = True
        code = commit_code(self._at.seats, self._at.phase, self._at.generation, request)
        seat = self._at.seats.seats.get(request.member_id)
        if code is NONE and seat is not None and not request.in_transaction:
            self._at.arm(now_ms, seat)
        return code

    def _leave(self, now_ms: int, ticket: int, request: ClassicLeave) -> None:
        """All of them leave before anybody looks what that means."""
        before = len(self._at.seats)
        left = [(one, self._leaves(one)) for one in request.members]
        answer = ClassicLeft(NONE, tuple(code for _, code in left))
        if len(self._at.seats) < before:
            names = [f"{one.member_id or one.instance}" for one, code in left if code is NONE]
            words = next((one.reason for one in request.members if one.reason), "")
            cause = ClassicCause(
                CauseKind.LEFT,
                names[0],
                f"{'; '.join(names)[:WORDS_CHARS_MAX]} left; {words_of(words)}",
            )
            self._rebalance.may_begin(now_ms, cause)
        self._rebalance.look(now_ms)
        flight = self._at.in_flight
        if flight is not None and flight.step is Step.EMPTIED:
            flight.left.append((ticket, answer))
        else:
            self._at.reply(ticket, answer)

    def _leaves(self, leaver: Leaver) -> WireCode:
        member_id = leaver.member_id or self._at.seats.holder(leaver.instance)
        if member_id is None:
            return WireCode.UNKNOWN_MEMBER_ID
        pending = member_id in self._at.seats.pending
        code = NONE if pending else member_code(self._at.seats, member_id, leaver.instance)
        if code is NONE:
            self._rebalance.forget(member_id)
        return code

    def _delete(self, ticket: int) -> None:
        if not self._at.exists:
            return self._at.reply(ticket, ClassicSaid(WireCode.GROUP_ID_NOT_FOUND))
        if self._at.phase is not EMPTY:
            return self._at.reply(ticket, ClassicSaid(WireCode.NON_EMPTY_GROUP))
        self._at.persist(Step.DELETION, None).tickets.append(ticket)
        return None

    def _unload(self) -> None:
        code = WireCode.NOT_COORDINATOR
        for seat in self._at.seats:
            if seat.join is not None:
                self._at.reply(seat.join, ClassicJoined(code, seat.member.member_id))
            if seat.sync is not None:
                self._at.reply(seat.sync, ClassicSynced(code))
            seat.join = seat.sync = None
        self._end_flight(code)
        while self._waiting:
            ticket, request = self._waiting.next()
            self._at.reply(ticket, classic_refusal(request, code))
        self._at.move(DEAD, "another coordinator has it")

    def _end_flight(self, code: WireCode) -> None:
        """Who waits for what is in flight, and not in a seat, is answered this."""
        flight, self._at.in_flight = self._at.in_flight, None
        if flight is None:
            return
        for ticket in flight.tickets:
            joins = flight.step is Step.REPLACEMENT
            self._at.reply(ticket, ClassicJoined(code) if joins else ClassicSaid(code))
        for ticket, answer in flight.left:
            self._at.reply(ticket, answer if code is NONE else ClassicLeft(code))

    def _persisted(self, now_ms: int, token: int, code: WireCode | None) -> None:
        """What was in flight is persisted, or (with a code) is not."""
        flight = self._at.in_flight
        if flight is None or flight.token != token:
            return
        if code is None:
            self._one(Trigger.PERSISTED, lambda: self._happened(now_ms, flight))
        else:
            self._one(Trigger.NOT_PERSISTED, lambda: self._did_not_happen(now_ms, flight, code))
        while self._waiting and self._at.in_flight is None:
            ticket, request = self._waiting.next()
            self._asked(now_ms, ticket, request)

    def _happened(self, now_ms: int, flight: InFlight) -> None:
        if flight.step is Step.REPLACEMENT:
            self._at.in_flight = None
            return self._joining.replacement_persisted(now_ms, flight)
        self._end_flight(NONE)
        if flight.state is None:
            self._at.move(DEAD, "it was deleted")
        elif flight.step is Step.EMPTIED:
            self._rebalance.emptied(now_ms)
        elif flight.step is Step.GENERATION:
            self._rebalance.generation_persisted(now_ms, flight.state)
        else:
            self._syncing.assignment_persisted(now_ms, flight.state)
        return None

    def _did_not_happen(self, now_ms: int, flight: InFlight, code: WireCode) -> None:
        self._end_flight(code)
        if flight.step is Step.GENERATION:
            self._rebalance.generation_lost(now_ms, code)
        elif flight.step is Step.ASSIGNMENT:
            self._at.end_syncs(now_ms, code)
            words = "what the leader assigned could not be persisted"
            self._rebalance.begin(now_ms, ClassicCause(CauseKind.NOT_WRITTEN, "", words))
        elif flight.step is Step.EMPTIED:
            # nobody is left, whatever was written: the members there will not be heard of
            self._rebalance.emptied(now_ms)

    def _restore(self, now_ms: int, state: ClassicState) -> None:
        self._at.exists = True
        self._at.generation = self._at.highest = state.generation
        self._at.protocol_type, self._at.protocol = state.protocol_type, state.protocol
        for member in state.members:
            seat = Seat(member)
            self._at.seats.add(seat)
            self._at.arm(now_ms, seat)
        self._at.seats.leader = state.leader
        if state.phase is not EMPTY:
            self._at.move(state.phase, "restored")
        if state.phase is COMPLETING:
            self._rebalance.taken_over(now_ms)
        if len(self._at.seats) > self._at.options.max_size:
            words = f"more than {self._at.options.max_size} members"
            self._rebalance.begin(now_ms, ClassicCause(CauseKind.TOO_MANY, "", words))

    def _tick(self, now_ms: int) -> None:
        while self._at.in_flight is None and self._at.phase is not DEAD:
            due = self._rebalance.due(now_ms)
            if due is None:
                return
            self._one(Trigger.TIMER, due)
