"""What a classic group is now, which its parts share, what is being persisted, and what waits for
it.
"""

from __future__ import annotations

import enum
import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from zkcoord.core.error_codes import WireCode

from .barrier import Expiries
from .messages import ClassicAction, ClassicReply, Moved, Persist
from .requests import (
    ClassicAnswer,
    ClassicJoin,
    ClassicJoined,
    ClassicLeft,
    ClassicRequest,
    ClassicSync,
    ClassicSynced,
    JoinedPeer,
)
from .seats import Seat, Seats
from .state import ClassicOptions, ClassicPhase, ClassicState, size_of


class Step(enum.Enum):
    """What is decided by a state that is persisted."""

    GENERATION = "the members of a generation"
    EMPTIED = "nobody is left"
    ASSIGNMENT = "what the leader assigned"
    REPLACEMENT = "another member of an instance"
    DELETION = "the group is deleted"


@dataclass(slots=True)
class InFlight:
    """A `Persist` that is out. `tickets` wait for it besides what waits in seats; `left` are those
    of LeaveGroup, with what they are answered.
    """

    token: int
    step: Step
    state: ClassicState | None
    tickets: list[int] = field(default_factory=list)
    left: list[tuple[int, ClassicLeft]] = field(default_factory=list)
    old_id: str = ""
    request: ClassicJoin | None = None


def _bytes(request: ClassicRequest) -> int:
    if isinstance(request, ClassicJoin):
        return size_of(request.protocols)
    if isinstance(request, ClassicSync):
        return size_of(request.assignments)
    return 0


class WaitingRequests:
    """Requests that change something, while something is being persisted: later, in order."""

    def __init__(self, options: ClassicOptions) -> None:
        self._options = options
        self._requests: deque[tuple[int, ClassicRequest]] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._requests)

    def __iter__(self) -> Iterator[ClassicRequest]:
        return (request for _, request in self._requests)

    def add(self, ticket: int, request: ClassicRequest) -> bool:
        """Whether there is room for it."""
        size = self._bytes + _bytes(request)
        if len(self._requests) >= self._options.waiting_max:
            return False
        if size > self._options.waiting_bytes_max and self._requests:
            return False
        self._bytes = size
        self._requests.append((ticket, request))
        return True

    def next(self) -> tuple[int, ClassicRequest]:
        """The earliest."""
        ticket, request = self._requests.popleft()
        self._bytes -= _bytes(request)
        return ticket, request


class Standing:
    """A group that nobody has joined is known to nobody (`exists`). `highest`: of all generations
    that were tried.
    """

    def __init__(self, options: ClassicOptions) -> None:
        self.options = options
        self.phase = ClassicPhase.EMPTY
        self.exists = False
        self.generation = 0
        self.highest = 0
        self.protocol_type = ""
        self.protocol = ""
        self.seats = Seats()
        self.expiries = Expiries()
        self.in_flight: InFlight | None = None
        self._tokens = itertools.count()
        self._out: list[ClassicAction] = []

    def take(self) -> list[ClassicAction]:
        """What is to be done, in order."""
        done, self._out = self._out, []
        return done

    def do(self, action: ClassicAction) -> None:
        """This is to be done."""
        self._out.append(action)

    def move(self, phase: ClassicPhase, reason: str) -> None:
        """Another state."""
        before, self.phase = self.phase, phase
        self._out.append(Moved(before, phase, self.generation, reason))

    def reply(self, ticket: int, answer: ClassicAnswer) -> None:
        """The answer to a request."""
        self._out.append(ClassicReply(ticket, answer))

    def arm(self, now_ms: int, seat: Seat) -> None:
        """A member is heard of."""
        member = seat.member
        self.expiries.arm(member.member_id, now_ms + member.session_timeout_ms)

    def persist(self, step: Step, state: ClassicState | None) -> InFlight:
        """Ask for it; nothing else may be in flight."""
        self.in_flight = InFlight(next(self._tokens), step, state)
        self._out.append(Persist(self.in_flight.token, state))
        return self.in_flight

    def state(self) -> ClassicState:
        """As it is now."""
        return ClassicState(
            self.phase,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.seats.leader,
            tuple(seat.member for seat in self.seats),
        )

    def joined(self, seat: Seat, tells_members: bool, leader: str | None = None) -> ClassicJoined:
        """What a member that joined is told."""
        peers = [seat.member for seat in self.seats] if tells_members else []
        return ClassicJoined(
            WireCode.NONE,
            seat.member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.seats.leader if leader is None else leader,
            tuple(JoinedPeer(p.member_id, p.instance, p.metadata(self.protocol)) for p in peers),
        )

    def assigned(self, seat: Seat) -> ClassicSynced:
        """What a member is told to have."""
        return ClassicSynced(
            WireCode.NONE, self.protocol_type, self.protocol, seat.member.assignment
        )

    def end_syncs(self, now_ms: int, code: WireCode) -> None:
        """Who waits for its assignment is answered this."""
        for seat in self.seats:
            if seat.sync is not None:
                ticket, seat.sync = seat.sync, None
                self.reply(ticket, ClassicSynced(code))
                self.arm(now_ms, seat)
