"""A rebalance: when it begins, whom it waits for, and how the leader ends it with SyncGroup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zkcoord.core.error_codes import WireCode

from .barrier import Barrier, RebalanceStory, Waits, initial_barrier
from .checks import protocol_code
from .messages import CauseKind, ClassicCause, Dismissed, Rejoin
from .requests import ClassicJoined, ClassicSync, ClassicSynced
from .seats import Seat
from .standing import Standing, Step
from .state import (
    ASSIGNMENT_BYTES_MAX,
    WORDS_CHARS_MAX,
    ClassicPhase,
    ClassicState,
    size_of,
)

EMPTY, PREPARING, COMPLETING, STABLE, _ = ClassicPhase
NONE = WireCode.NONE
UNKNOWN = ""  # the id of who has none


class ClassicRebalance:
    """Of one group. `barrier`: who has not joined is waited for (None: nobody is, also while that
    is being persisted); `unsynced`: who has not asked for its assignment, until `sync_until_ms`.
    `story`: of the rebalance that has not ended yet.
    """

    def __init__(self, at: Standing, is_heard: Callable[[str], bool]) -> None:
        self._at = at
        self._is_heard = is_heard
        self.barrier: Barrier | None = None
        self.unsynced: set[str] = set()
        self.sync_until_ms: int | None = None
        self.story: RebalanceStory | None = None
        self._last = ""

    def may_begin(self, now_ms: int, cause: ClassicCause) -> None:
        """Unless one has begun."""
        if self._at.phase in (EMPTY, COMPLETING, STABLE):
            self.begin(now_ms, cause)

    def begin(self, now_ms: int, cause: ClassicCause) -> None:
        """A rebalance: everybody is to join."""
        if self.story is None:
            self.story = RebalanceStory(cause, now_ms)
        else:
            self.story.begins_again()
        if self._at.phase is COMPLETING:
            self._at.end_syncs(now_ms, WireCode.REBALANCE_IN_PROGRESS)
        self.sync_until_ms = None
        longest = self._at.seats.rebalance_timeout_ms
        if self._at.phase is EMPTY:
            self.barrier = initial_barrier(now_ms, self._at.options.initial_delay_ms, longest)
        else:
            self.barrier = Barrier(now_ms + longest)
        self._at.move(PREPARING, cause.words)
        others = sorted(set(self._at.seats.seats) - self._at.seats.joining)
        if others:
            self._at.do(Rejoin(tuple(others)))

    def look(self, now_ms: int) -> None:
        """Whether the barrier is complete."""
        barrier = self.barrier
        if barrier is not None and not barrier.is_initial and self._at.seats.all_joined:
            self._complete(now_ms)

    def _complete(self, now_ms: int) -> None:
        """Those who have joined are the members; static ones are, also if they have not."""
        for seat in self._at.seats:
            if seat.join is None and seat.member.instance is None:
                self._is_out(seat.member.member_id)
        if not self._at.seats.is_led() and len(self._at.seats):
            longest = self._at.seats.rebalance_timeout_ms
            self.barrier = Barrier(now_ms + max(longest, 1))  # nobody has come
            return
        self.barrier = None
        if self.story is not None:
            self.story.all_joined(now_ms)
        self._at.highest = max(self._at.highest, self._at.generation) + 1
        if not len(self._at.seats):
            state = ClassicState(EMPTY, self._at.highest, self._at.protocol_type)
            self._at.persist(Step.EMPTIED, state)
            return
        members = tuple(replace(seat.member, assignment=b"") for seat in self._at.seats)
        state = ClassicState(
            COMPLETING,
            self._at.highest,
            self._at.protocol_type,
            self._at.seats.elected(),
            self._at.seats.leader,
            members,
        )
        self._at.persist(Step.GENERATION, state)

    def generation_persisted(self, now_ms: int, state: ClassicState) -> None:
        """Who has joined is told so."""
        self._at.generation, self._at.protocol = state.generation, state.protocol
        self._at.move(COMPLETING, "all have joined")
        for seat in self._at.seats:
            leads = self._at.seats.leader == seat.member.member_id
            ticket = self._at.seats.joined(seat)
            if ticket is not None:
                self._at.reply(ticket, self._at.joined(seat, leads))
            seat.is_new, seat.is_told = False, True
            self._at.arm(now_ms, seat)
        self.await_syncs(now_ms)

    def generation_lost(self, now_ms: int, code: WireCode) -> None:
        """Nobody has joined. Who does not know its id yet comes as another one."""
        self.barrier = Barrier(now_ms + max(self._at.seats.rebalance_timeout_ms, 1))
        for seat in self._at.seats:
            member_id, ticket = seat.member.member_id, self._at.seats.joined(seat)
            if ticket is not None:
                self._at.reply(ticket, ClassicJoined(code, member_id if seat.is_told else UNKNOWN))
            if seat.is_told:
                seat.is_new = False
                self._at.arm(now_ms, seat)
            else:
                self.forget(member_id)
        self.look(now_ms)

    def await_syncs(self, now_ms: int) -> None:
        """Everybody is to ask for its assignment, within the rebalance timeout."""
        self.unsynced = set(self._at.seats.seats)
        self.sync_until_ms = now_ms + self._at.seats.rebalance_timeout_ms

    def taken_over(self, now_ms: int) -> None:
        """Another coordinator goes on where everybody has joined."""
        self.story = RebalanceStory(ClassicCause(CauseKind.TAKEN_OVER), now_ms, now_ms)
        self.await_syncs(now_ms)

    def synced(self, member_id: str) -> None:
        """It has."""
        self.unsynced.discard(member_id)
        if not self.unsynced:
            self.sync_until_ms = None

    def _barrier_is_over(self, now_ms: int, barrier: Barrier) -> None:
        """Who has not joined yet is out."""
        if not barrier.is_extended(now_ms):
            self._complete(now_ms)

    def _syncs_are_over(self, now_ms: int) -> None:
        """Who has not asked for its assignment is out."""
        late = sorted(self.unsynced)
        for member_id in late:
            self._is_out(member_id)
        words = f"no SyncGroup of {', '.join(late)[:WORDS_CHARS_MAX]}"
        self.begin(now_ms, ClassicCause(CauseKind.NOT_SYNCED, late[0], words))

    def _is_silent(self, now_ms: int, member_id: str) -> None:
        """Who waits for an answer need not be heard of, but for new members."""
        seat = self._at.seats.seats.get(member_id)
        if seat is not None and not seat.is_new and seat.waits:
            return
        if seat is not None and self._is_heard(member_id):
            return self._at.arm(now_ms, seat)
        if self.story is not None:
            self.story.is_out(member_id)
        self.forget(member_id)
        if seat is not None:
            words = f"{member_id} is silent"
            self.may_begin(now_ms, ClassicCause(CauseKind.SILENT, member_id, words))
        return self.look(now_ms)

    def _is_out(self, member_id: str) -> None:
        if self.story is not None:
            self.story.is_out(member_id)
        self.forget(member_id)

    def forget(self, member_id: str) -> None:
        """A member, or an id that was given out, is gone; what waits for it is answered so."""
        self._at.expiries.disarm(member_id)
        seat = self._at.seats.remove(member_id)
        unknown = WireCode.UNKNOWN_MEMBER_ID
        if seat is not None and seat.join is not None:
            self._at.reply(seat.join, ClassicJoined(unknown))
        if seat is not None and seat.sync is not None:
            self._at.reply(seat.sync, ClassicSynced(unknown))
        if seat is not None:
            self._at.do(Dismissed(member_id, unknown))

    def emptied(self, now_ms: int) -> None:
        """It goes on, without members."""
        self._at.generation, self._at.protocol = self._at.highest, ""
        self._at.move(EMPTY, "nobody is left")
        self.ended(now_ms)

    def ended(self, now_ms: int) -> None:
        """What there is to say of it is said."""
        if self.story is not None:
            at, members = self._at, len(self._at.seats)
            leader = at.seats.leader if members else ""
            at.do(self.story.told(now_ms, at.generation, members, self._last, leader))
        self.story, self._last = None, ""

    def waits(self) -> Waits | None:
        """Who is waited for; None: nobody is."""
        seats, story = self._at.seats, self.story
        if story is None:
            return None
        if self.barrier is not None:
            return Waits(
                story.cause,
                story.began_ms,
                self.barrier.until_ms,
                self.barrier.is_initial,
                tuple(name for name in seats.seats if name not in seats.joining),
                tuple(sorted(seats.pending)),
            )
        if self.sync_until_ms is None or self._at.in_flight is not None:
            return None
        unsynced = tuple(name for name in seats.seats if name in self.unsynced)
        return Waits(
            story.cause,
            story.began_ms,
            self.sync_until_ms,
            unsynced=unsynced,
            leader=seats.leader,
        )

    def due(self, now_ms: int) -> Callable[[], None] | None:
        """The next timer that is over."""
        barrier = self.barrier
        if barrier is not None and barrier.until_ms <= now_ms:
            return lambda: self._barrier_is_over(now_ms, barrier)
        if self.sync_until_ms is not None and self.sync_until_ms <= now_ms:
            return lambda: self._syncs_are_over(now_ms)
        gone = self._at.expiries.gone(now_ms)
        return None if gone is None else lambda: self._is_silent(now_ms, gone)

    def joins(self, seat: Seat, ticket: int) -> int | None:
        """It waits for the others; the ticket that waited before it."""
        self._last = seat.member.member_id
        return self._at.seats.joins(seat, ticket)

    def take_place(self, seat: Seat, ticket: int) -> None:
        """It waits for the others, in the place of what it asked before."""
        before = self.joins(seat, ticket)
        if before is not None:
            busy = WireCode.REBALANCE_IN_PROGRESS
            self._at.reply(before, ClassicJoined(busy, seat.member.member_id))


class Syncing:
    """Of one group."""

    def __init__(self, at: Standing, rebalance: ClassicRebalance) -> None:
        self._at = at
        self._rebalance = rebalance

    def sync(self, now_ms: int, ticket: int, request: ClassicSync) -> None:
        """SyncGroup."""
        code = protocol_code(
            self._at.seats, self._at.generation, self._at.protocol_type, self._at.protocol, request
        )
        if code is NONE and self._at.phase is PREPARING:
            code = WireCode.REBALANCE_IN_PROGRESS
        if code is not NONE:
            return self._at.reply(ticket, ClassicSynced(code))
        seat = self._at.seats.seats[request.member_id]
        self._rebalance.synced(request.member_id)
        if self._at.phase is STABLE:
            self._at.arm(now_ms, seat)
            return self._at.reply(ticket, self._at.assigned(seat))
        before, seat.sync = seat.sync, ticket
        if before is not None:
            self._at.reply(before, ClassicSynced(WireCode.REBALANCE_IN_PROGRESS))
        if self._at.seats.leader == request.member_id:
            self._take_assignment(now_ms, request)
        return None

    def _take_assignment(self, now_ms: int, request: ClassicSync) -> None:
        if size_of(request.assignments) > ASSIGNMENT_BYTES_MAX:
            self._at.end_syncs(now_ms, WireCode.UNKNOWN_SERVER_ERROR)
            words = "the assignment is too large"
            cause = ClassicCause(CauseKind.TOO_LARGE, request.member_id, words)
            return self._rebalance.begin(now_ms, cause)
        given = dict(request.assignments)
        members = tuple(
            replace(seat.member, assignment=given.get(seat.member.member_id, b""))
            for seat in self._at.seats
        )
        self._at.persist(Step.ASSIGNMENT, replace(self._at.state(), phase=STABLE, members=members))
        return None

    def assignment_persisted(self, now_ms: int, state: ClassicState) -> None:
        """Who waits for it is told."""
        self._at.move(STABLE, "the leader has assigned")
        for member in state.members:
            seat = self._at.seats.seats[member.member_id]
            seat.member = member
            if seat.sync is not None:
                ticket, seat.sync = seat.sync, None
                self._at.reply(ticket, self._at.assigned(seat))
                self._at.arm(now_ms, seat)
        self._rebalance.ended(now_ms)
