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

    @property
    def waits(self) -> bool:
        """For an answer."""
        return self.join is not None or self.sync is not None


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
    """In the order in which they came. `leader`: of the last generation; where it does not join,
    it is the first that does.
    """

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

    def holder(self, instance: str | None) -> str | None:
        """The member of this instance, if there is one."""
        return None if instance is None else self.by_instance.get(instance)

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
        self._discount(old)
        self._count(member)
        members = (s.member for s in self.seats.values())
        name = self.ballot.elected((member if m is old else m).protocols for m in members)
        self._discount(member)
        self._count(old)
        return name

    def add(self, seat: Seat) -> None:
        """A new member, without the id that it was given before."""
        member = seat.member
        self.pending.discard(member.member_id)
        self.seats[member.member_id] = seat
        if member.instance is not None:
            self.by_instance[member.instance] = member.member_id
        self._count(member)

    def remove(self, member_id: str) -> Seat | None:
        """It is gone."""
        self.pending.discard(member_id)
        seat = self.seats.pop(member_id, None)
        if seat is None:
            return None
        self.joining.discard(member_id)
        self._discount(seat.member)
        if seat.member.instance is not None:
            del self.by_instance[seat.member.instance]
        return seat

    def change(self, seat: Seat, request: ClassicJoin) -> None:
        """What a member says of itself when it joins again."""
        self._discount(seat.member)
        seat.member = replace(
            seat.member,
            protocols=request.protocols,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
        )
        self._count(seat.member)

    def replace(self, old_id: str, member: ClassicMember) -> Seat:
        """Another id in the place of an old one, with its assignment; nothing waits there."""
        old = self.seats[old_id]
        member = replace(member, assignment=old.member.assignment)
        seat = Seat(member, is_new=old.is_new)
        self._discount(old.member)
        self._count(member)
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
        if self.leader not in self.joining:
            self.leader = next((i for i in self.seats if i in self.joining), self.leader)
        return self.leader in self.joining

    def _count(self, member: ClassicMember) -> None:
        self.metadata_bytes += size_of(member.protocols)
        self.ballot.add(member.protocols)

    def _discount(self, member: ClassicMember) -> None:
        self.metadata_bytes -= size_of(member.protocols)
        self.ballot.remove(member.protocols)
