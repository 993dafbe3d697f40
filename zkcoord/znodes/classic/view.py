"""What everybody can tell of a classic group from what was decided last, and from what has happened
since: what its machine would answer to requests that only read. Who has joined since is not in it.
"""

from __future__ import annotations

from zkcoord.core.classic.checks import commit_code, generation_code, member_code
from zkcoord.core.classic.requests import (
    ClassicBeat,
    ClassicDescribed,
    CommitCheck,
    DescribedPeer,
)
from zkcoord.core.classic.seats import Seat, Seats
from zkcoord.core.classic.state import ClassicMember, ClassicPhase, ClassicState
from zkcoord.core.error_codes import WireCode
from zkcoord.znodes.classic.documents import ClassicRound
from zkcoord.znodes.classic.paths import member_digest

EMPTY, PREPARING, _, STABLE, DEAD = ClassicPhase
NOTHING = ClassicRound()


class ClassicView:
    """See the module. `state` is None where nothing was ever decided; `since`: what has happened
    since.
    """

    def __init__(self, state: ClassicState | None, since: ClassicRound = NOTHING) -> None:
        self._exists = state is not None
        self.state = state if state is not None else ClassicState(EMPTY, 0)
        self.phase = self.state.phase
        if self._exists and self.phase is not EMPTY and since.rebalances == self.state.generation:
            self.phase = PREPARING
        self._since = since
        self._seats = Seats()
        for member in self.state.members:
            self._seats.add(Seat(member))

    def _gone(self, member_id: str) -> WireCode | None:
        return self._since.gone.get(member_digest(member_id)) if self._since.gone else None

    def member(self, member_id: str) -> ClassicMember | None:
        """One who is in it."""
        seat = self._seats.seats.get(member_id)
        return None if seat is None else seat.member

    def of_instance(self, instance: str) -> str | None:
        """The member of an instance."""
        return self._seats.by_instance.get(instance)

    def knows(self, member_id: str, instance: str | None) -> WireCode:
        """Whether it is a member, and who it says it is."""
        gone = self._gone(member_id)
        return gone if gone is not None else member_code(self._seats, member_id, instance)

    def beat(self, request: ClassicBeat) -> WireCode:
        """Answer to Heartbeat."""
        gone = self._gone(request.member_id)
        if gone is not None:
            return gone
        code = generation_code(self._seats, self.state.generation, request)
        if code is WireCode.NONE and self.phase is PREPARING:
            return WireCode.REBALANCE_IN_PROGRESS
        return code

    def commit(self, request: CommitCheck) -> WireCode:
        """Whether offsets may be stored, as long as the state stays."""
        if not self._exists and request.generation >= 0 and not request.in_transaction:
            return WireCode.ILLEGAL_GENERATION
        gone = self._gone(request.member_id)
        if gone is not None:
            return gone
        return commit_code(self._seats, self.phase, self.state.generation, request)

    def described(self) -> ClassicDescribed:
        """Answer to DescribeGroups."""
        if not self._exists:
            return ClassicDescribed(WireCode.NONE, DEAD.value)
        tells = self.phase is STABLE
        members = tuple(
            DescribedPeer(
                one.member_id,
                one.instance,
                one.client_id,
                one.host,
                one.metadata(self.state.protocol) if tells else b"",
                one.assignment if tells else b"",
            )
            for one in self.state.members
        )
        protocol = self.state.protocol if tells else ""
        return ClassicDescribed(
            WireCode.NONE, self.phase.value, self.state.protocol_type, protocol, members
        )
