"""Who is in a classic group: members, what they wait for, and ids that were given out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .requests import ClassicJoin
from .state import WORDS_CHARS_MAX, ClassicMember, size_of
from .voting import Ballot


@dataclass(slots=True)
class Seat:
    """A member. `join` and `sync`: tickets that wait. `is_new`: of the rebalance under way;
    `is_told`: its client knows its id.
    """

    member: ClassicMember
    is_new: bool = False
    is_told: bool = True
    join: int | None = None
    sync: int | None = None


def member_of(request: ClassicJoin, member_id: str) -> ClassicMember:
    """Who joins, as it is persisted."""
    return ClassicMember(
        member_id,
        request.instance,
        request.client_id[:WORDS_CHARS_MAX],
        request.host[:WORDS_CHARS_MAX],
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        request.protocols,
    )


class Seats:
    """In the order in which they came; the leader is the first, unless it does not join."""

    def __init__(self) -> None:
        self.seats: dict[str, Seat] = {}
        self.by_instance: dict[str, str] = {}
        self.pending: set[str] = set()
        self.leader = ""
        self.joining: set[str] = set()
        self.ballot = Ballot()
        self.metadata_bytes = 0

    def __len__(self) -> int:
        return len(self.seats)

    def __iter__(self) -> Iterator[Seat]:
        return iter(tuple(self.seats.values()))

    @property
    def all_joined(self) -> bool:
        """Whether nobody is waited for, neither who was given an id and has not come with it."""
        return len(self.joining) == len(self.seats) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of all members'."""
        return max((seat.member.rebalance_timeout_ms for seat in self.seats.values()), default=0)

    def elected(self) -> str:
        """The protocol that members vote for."""
        return self.ballot.elected(seat.member.protocols for seat in self.seats.values())

    def elected_with(self, member: ClassicMember, old_id: str) -> str:
        """The same if this member were in the place of another one."""
        old = self.seats[old_id].member
        self._count(old, -1)
        self._count(member, 1)
        lists = [s.member for s in self.seats.values() if s.member.member_id != old_id]
        name = self.ballot.elected(one.protocols for one in [*lists, member])
        self._count(member, -1)
        self._count(old, 1)
        return name

    def add(self, seat: Seat) -> None:
        """A new member, without the id that it was given before."""
        member = seat.member
        self.pending.discard(member.member_id)
        self.seats[member.member_id] = seat
        if member.instance is not None:
            self.by_instance[member.instance] = member.member_id
        self._count(member, 1)
        self.leader = self.leader or member.member_id

    def remove(self, member_id: str) -> Seat | None:
        """It is gone; somebody else leads then."""
        self.pending.discard(member_id)
        seat = self.seats.pop(member_id, None)
        if seat is None:
            return None
        self.joining.discard(member_id)
        self._count(seat.member, -1)
        if seat.member.instance is not None:
            del self.by_instance[seat.member.instance]
        if self.leader == member_id:
            self.leader = next(iter(self.seats), "")
        return seat

    def change(self, seat: Seat, request: ClassicJoin) -> None:
        """What a member says of itself when it joins again."""
        self._count(seat.member, -1)
        seat.member = replace(
            seat.member,
            protocols=request.protocols,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
        )
        self._count(seat.member, 1)

    def replace(self, old_id: str, member: ClassicMember) -> Seat:
        """Another id in the place of an old one, with its assignment; nothing waits there."""
        old = self.seats[old_id]
        member = replace(member, assignment=old.member.assignment)
        seat = Seat(member, is_new=old.is_new)
        self._count(old.member, -1)
        self._count(member, 1)
        self.joining.discard(old_id)
        self.seats = {
            (member.member_id if key == old_id else key): (seat if key == old_id else value)
            for key, value in self.seats.items()
        }
        if member.instance is not None:
            self.by_instance[member.instance] = member.member_id
        if self.leader == old_id:
            self.leader = member.member_id
        return seat

    def joins(self, seat: Seat, ticket: int) -> int | None:
        """It waits for the others; the ticket that waited before it."""
        before, seat.join = seat.join, ticket
        self.joining.add(seat.member.member_id)
        return before

    def joined(self, seat: Seat) -> int | None:
        """It waits no longer; its ticket."""
        ticket, seat.join = seat.join, None
        self.joining.discard(seat.member.member_id)
        return ticket

    def is_led(self) -> bool:
        """Whether the leader has joined, or anybody else, who leads then."""
        if self.leader and self.leader not in self.joining:
            self.leader = next((i for i in self.seats if i in self.joining), self.leader)
        return self.leader in self.joining

    def _count(self, member: ClassicMember, sign: int) -> None:
        self.metadata_bytes += sign * size_of(member.protocols)
        if sign > 0:
            self.ballot.add(member.protocols)
        else:
            self.ballot.remove(member.protocols)
