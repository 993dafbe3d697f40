"""A rebalance: when it begins, whom it waits for, and how the leader ends it with SyncGroup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zkcoord.core.error_codes import WireCode

from .barrier import Barrier, initial_barrier
from .checks import protocol_code
from .messages import Dismissed, Rejoin
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
    """

    def __init__(self, at: Standing, is_heard: Callable[[str], bool]) -> None:
        self._at = at
        self._is_heard = is_heard
        self.barrier: Barrier | None = None
        self.unsynced: set[str] = set()
        self.sync_until_ms: int | None = None

    def may_begin(self, now_ms: int, reason: str) -> None:
        """Unless one has begun."""
        if self._at.phase in (EMPTY, COMPLETING, STABLE):
            self.begin(now_ms, reason)

    def begin(self, now_ms: int, reason: str) -> None:
        """A rebalance: everybody is to join."""
        if self._at.phase is COMPLETING:
            self._at.end_syncs(now_ms, WireCode.REBALANCE_IN_PROGRESS)
        self.sync_until_ms = None
        longest = self._at.seats.rebalance_timeout_ms
        if self._at.phase is EMPTY:
            self.barrier = initial_barrier(now_ms, self._at.options.initial_delay_ms, longest)
        else:
            self.barrier = Barrier(now_ms + longest)
        self._at.move(PREPARING, reason)
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
                self.forget(seat.member.member_id)
        if not self._at.seats.is_led() and len(self._at.seats):
            longest = self._at.seats.rebalance_timeout_ms
            self.barrier = Barrier(now_ms + max(longest, 1))  # nobody has come
            return
        self.barrier = None
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
            self.forget(member_id)
        self.begin(now_ms, f"no SyncGroup of {', '.join(late)[:WORDS_CHARS_MAX]}")

    def _is_silent(self, now_ms: int, member_id: str) -> None:
        """Who waits for an answer need not be heard of, but for new members."""
        seat = self._at.seats.seats.get(member_id)
        if seat is not None and not seat.is_new and seat.waits:
            return
        if seat is not None and self._is_heard(member_id):
            return self._at.arm(now_ms, seat)
        self.forget(member_id)
        if seat is not None:
            self.may_begin(now_ms, f"{member_id} is silent")
        return self.look(now_ms)

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

    def emptied(self) -> None:
        """It goes on, without members."""
        self._at.generation, self._at.protocol = self._at.highest, ""
        self._at.move(EMPTY, "nobody is left")

    def due(self, now_ms: int) -> Callable[[], None] | None:
        """The next timer that is over."""
        barrier = self.barrier
        if barrier is not None and barrier.until_ms <= now_ms:
            return lambda: self._barrier_is_over(now_ms, barrier)
        if self.sync_until_ms is not None and self.sync_until_ms <= now_ms:
            return lambda: self._syncs_are_over(now_ms)
        gone = self._at.expiries.gone(now_ms)
        return None if gone is None else lambda: self._is_silent(now_ms, gone)

    def take_place(self, seat: Seat, ticket: int) -> None:
        """It waits for the others, in the place of what it asked before."""
        before = self._at.seats.joins(seat, ticket)
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
            return self._rebalance.begin(now_ms, "the assignment is too large")
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
