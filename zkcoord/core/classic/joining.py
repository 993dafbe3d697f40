"""JoinGroup: who may join, and what that means; static members that come back."""

from __future__ import annotations

from dataclasses import replace

from zkcoord.core.error_codes import WireCode

from .checks import member_code
from .messages import CauseKind, ClassicCause, Dismissed
from .rebalance import ClassicRebalance
from .requests import ClassicJoin, ClassicJoined, ClassicSynced
from .seats import Seat, member_of
from .standing import InFlight, Standing, Step
from .state import (
    NEW_MEMBER_MS,
    PENDING_MAX,
    ClassicPhase,
    size_of,
    too_large,
    words_of,
)

EMPTY, PREPARING, _, STABLE, _ = ClassicPhase
NONE = WireCode.NONE
UNKNOWN = ""  # the id of who has none


class Joining:
    """Into one group."""

    def __init__(self, at: Standing, rebalance: ClassicRebalance) -> None:
        self._at = at
        self._rebalance = rebalance

    def join(self, now_ms: int, ticket: int, request: ClassicJoin) -> None:
        """JoinGroup."""
        member_id = request.member_id
        code = self._join_code(request)
        if code is NONE:
            self._at.exists = True
            if not self._has_room(member_id):
                self._rebalance.forget(member_id)
                code, member_id = WireCode.GROUP_MAX_SIZE_REACHED, UNKNOWN
            elif not self._accepts(request):
                code = WireCode.INCONSISTENT_GROUP_PROTOCOL
            elif not member_id:
                self._newcomer(now_ms, ticket, request)
            elif member_id in self._at.seats.pending:
                code = self._comes_with_its_id(now_ms, ticket, request)
            else:
                code = self._joins_again(now_ms, ticket, request)
        if code is not NONE:
            self._at.reply(ticket, ClassicJoined(code, member_id))
        self._rebalance.look(now_ms)

    def _join_code(self, request: ClassicJoin) -> WireCode:
        """Why it is refused, whatever the group's state."""
        options = self._at.options
        shortest, longest = options.min_session_timeout_ms, options.max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            return WireCode.INVALID_SESSION_TIMEOUT
        if request.member_id and not self._at.exists:
            return WireCode.UNKNOWN_MEMBER_ID
        seat = self._at.seats.seats.get(request.member_id)
        own_bytes = 0 if seat is None else size_of(seat.member.protocols)
        return too_large(request, self._at.seats.metadata_bytes - own_bytes)

    def _has_room(self, member_id: str) -> bool:
        """While a group prepares, who has joined counts: the last to come again have no place."""
        if self._at.phase is EMPTY:
            return True
        seat = self._at.seats.seats.get(member_id)
        if self._at.phase is PREPARING:
            joined = seat is not None and seat.join is not None
            return joined or len(self._at.seats.joining) < self._at.options.max_size
        return seat is not None or len(self._at.seats) < self._at.options.max_size

    def _accepts(self, request: ClassicJoin) -> bool:
        if self._at.phase is EMPTY:
            return bool(request.protocol_type and request.protocols)
        same_type = request.protocol_type == self._at.protocol_type
        return same_type and self._at.seats.ballot.accepts(request.protocols)

    def _newcomer(self, now_ms: int, ticket: int, request: ClassicJoin) -> None:
        old_id = self._at.seats.holder(request.instance)
        if old_id is not None:
            self._comes_back(now_ms, ticket, request, old_id)
        elif request.instance is None and request.named_first:
            if len(self._at.seats.pending) >= PENDING_MAX:
                code, given = WireCode.GROUP_MAX_SIZE_REACHED, UNKNOWN
            else:
                code, given = WireCode.MEMBER_ID_REQUIRED, request.fresh_id
                self._at.seats.pending.add(given)
                self._at.expiries.arm(given, now_ms + request.session_timeout_ms)
            self._at.reply(ticket, ClassicJoined(code, given))
        else:
            self._add(now_ms, ticket, request, request.fresh_id, False)

    def _comes_with_its_id(self, now_ms: int, ticket: int, request: ClassicJoin) -> WireCode:
        if request.instance is not None:
            return WireCode.UNKNOWN_MEMBER_ID
        self._add(now_ms, ticket, request, request.member_id, True)
        return NONE

    def _add(
        self, now_ms: int, ticket: int, request: ClassicJoin, member_id: str, told: bool
    ) -> None:
        if self._rebalance.barrier is not None and self._at.generation == 0:
            self._rebalance.barrier.newcomers = True
        if not self._at.seats.seats:
            self._at.protocol_type = request.protocol_type
        seat = Seat(member_of(request, member_id), is_new=True, is_told=told)
        self._at.seats.add(seat)
        self._rebalance.joins(seat, ticket)
        self._at.expiries.arm(member_id, now_ms + NEW_MEMBER_MS)
        words = f"{member_id} joins; {words_of(request.reason)}"
        self._rebalance.may_begin(now_ms, ClassicCause(CauseKind.JOINED, member_id, words))

    def _joins_again(self, now_ms: int, ticket: int, request: ClassicJoin) -> WireCode:
        code = member_code(self._at.seats, request.member_id, request.instance)
        if code is not NONE:
            return code
        seat = self._at.seats.seats[request.member_id]
        leads = self._at.seats.leader == request.member_id
        changed = seat.member.protocols != request.protocols
        if self._at.phase is PREPARING or changed or (self._at.phase is STABLE and leads):
            self._at.seats.change(seat, request)
            self._rebalance.take_place(seat, ticket)
            why = "with other metadata" if changed else "again"
            words = f"{request.member_id} joins {why}; {words_of(request.reason)}"
            kind = CauseKind.CHANGED if changed else CauseKind.JOINED_AGAIN
            self._rebalance.may_begin(now_ms, ClassicCause(kind, request.member_id, words))
        else:
            self._at.reply(ticket, self._at.joined(seat, leads))
        return NONE

    def _comes_back(self, now_ms: int, ticket: int, request: ClassicJoin, old_id: str) -> None:
        """A static member under another id. As long as the protocol stays, a stable group does."""
        member = member_of(request, request.fresh_id)
        if (
            self._at.phase is STABLE
            and self._at.seats.elected_with(member, old_id) == self._at.protocol
        ):
            state = self._at.state()
            assignment = self._at.seats.seats[old_id].member.assignment
            members = tuple(
                replace(member, assignment=assignment) if one.member_id == old_id else one
                for one in state.members
            )
            leads = state.leader == old_id
            state = replace(
                state, members=members, leader=member.member_id if leads else state.leader
            )
            flight = self._at.persist(Step.REPLACEMENT, state)
            flight.tickets.append(ticket)
            flight.old_id, flight.request = old_id, request
            return
        self._replaced(now_ms, old_id, request)
        self._rebalance.joins(self._at.seats.seats[request.fresh_id], ticket)
        if self._at.phase is not PREPARING:
            why = f"{member.instance} is {request.fresh_id} now; {words_of(request.reason)}"
            cause = ClassicCause(CauseKind.REPLACED, request.fresh_id, why)
            self._rebalance.begin(now_ms, cause)

    def _replaced(self, now_ms: int, old_id: str, request: ClassicJoin) -> None:
        """What waits for the old one is answered that it is another's."""
        old = self._at.seats.seats[old_id]
        member = member_of(request, request.fresh_id)
        fenced = WireCode.FENCED_INSTANCE_ID
        if old.join is not None:
            self._at.reply(old.join, ClassicJoined(fenced, old_id))
        if old.sync is not None:
            self._at.reply(old.sync, ClassicSynced(fenced))
        self._at.do(Dismissed(old_id, fenced))
        if old_id in self._rebalance.unsynced:
            self._rebalance.unsynced.discard(old_id)
            self._rebalance.unsynced.add(member.member_id)
        self._at.expiries.disarm(old_id)
        self._at.arm(now_ms, self._at.seats.replace(old_id, member))

    def replacement_persisted(self, now_ms: int, flight: InFlight) -> None:
        """Now the old one is fenced, and the new one is told so."""
        request, leader = flight.request, self._at.seats.leader
        assert request is not None
        self._replaced(now_ms, flight.old_id, request)
        seat = self._at.seats.seats[request.fresh_id]
        leads = self._at.seats.leader == request.fresh_id
        if request.may_skip:
            answer = replace(self._at.joined(seat, leads), skip_assignment=leads)
        else:
            # told that it leads, it would assign anew, and a stable group does not hear of it
            answer = self._at.joined(seat, False, leader)
        for ticket in flight.tickets:
            self._at.reply(ticket, answer)
