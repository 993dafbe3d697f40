"""One group as a gateway knows it: its wire members with their agents, who may name which id, and
what moves between them just now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

from consumer.core import messages as msg
from consumer.gateway.wire.actions import WireTimes
from consumer.gateway.wire.drain import Drain
from consumer.gateway.wire.member import WireMember
from consumer.gateway.wire.parking import MovesPace
from consumer.gateway.wire.requests import LeaveRequest, MayCommitRequest, Request
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value
from zkcoord.znodes.gateway_nodes import RememberedClient

FENCED_IDS_MAX = 100


class Agent(Protocol):
    """A member's agent: told on the loop's thread."""

    def receive(self, message: msg.FromFetcher) -> None:
        """Take a message."""

    def tick(self) -> None:
        """Do what is due."""

    def next_wake_ms(self) -> int | None:
        """When something is due."""

    @property
    def name(self) -> str:
        """Of its registration, which may be still to come; "" without one."""

    @property
    def registered(self) -> bool:
        """Whether its registration is there, as far as is known."""

    @property
    def finished(self) -> bool:
        """Closed for good, its session over."""


@value
class AgentWishes:
    """What the agent of a new member is to be. `alone`: nobody else can have its instance yet."""

    group: str
    client_id: str
    host: str
    instance: str | None
    grace_ms: int
    assignors: tuple[str, ...]
    rebalance_timeout_ms: int
    alone: bool = False
    library: str = ""


MakeAgent = Callable[
    [AgentWishes, Callable[[msg.ToFetcher], None], Callable[[], None]],
    Agent,
]
"""Wishes, who hears what the agent says, and what is called after each of its events."""


@dataclass(slots=True, eq=False)
class ServedMember:
    """A member with its agent. `wishes` are those of its registration. `drain`: its client left.
    `patient_since_ms`: of one whose heartbeats are not parked, when it asked what it has now.
    `registered_as`: the registration under which its agent was told something last;
    `remembered_as`: the one under which it was written down what its client was told. `renamed`:
    another client has its instance since, and that is not written down yet; `unwritten`: the
    JoinGroups that wait for the registration with which it can be.
    `connections`: those on which it was named, and that are not gone. `begun_anew_ms`: when it came
    in the place of one that named other assignors. `goes_over`: its agent wants nothing.
    """

    group: str
    wire: WireMember
    agent: Agent
    wishes: AgentWishes
    wake_ms: int | None = None
    closing: bool = False
    remembered: bool = False
    patient_since_ms: int | None = None
    registered_as: str = ""
    remembered_as: str = ""
    renamed: bool = False
    unwritten: list[int] = field(default_factory=list)
    drain: Drain | None = None
    connections: set[int] = field(default_factory=set)
    begun_anew_ms: int | None = None
    goes_over: bool = False

    @property
    def is_remembered(self) -> bool:
        """Whether its present registration is that under which it was written down."""
        return self.remembered_as == self.agent.name

    def is_after(self, client: RememberedClient, fenced: Collection[str]) -> bool:
        """Whether what another gateway has written of its instance is of the client itself, or of
        one whose place it takes here, which could not be written yet.
        """
        mine = client.member_id == self.wire.member_id
        return mine or (self.renamed and client.member_id in fenced)

    def to_remember(self) -> RememberedClient:
        """What its client has been told, or is about to be."""
        wire, wishes = self.wire, self.wishes
        return RememberedClient(
            wire.member_id,
            wire.instance,
            wire.generation,
            wire.protocol,
            wishes.assignors,
            wire.topics,
            wire.has,
            wire.session_timeout_ms,
            wishes.rebalance_timeout_ms,
            wire.client_id,
            wire.host,
            wishes.library,
            wire.lists,
        )


@value
class Noted:
    """What a member had, was to give up, and waited for, when it was looked at."""

    held: frozenset[TopicPartition] = frozenset()
    due: frozenset[TopicPartition] = frozenset()
    more_since_ms: int | None = None


class Moves:
    """What of a group's partitions changes hands just now, and how long who waits for an assignment
    should wait for more: to be told of it a moment later costs a client another round.
    """

    def __init__(self, times: WireTimes, pace: MovesPace) -> None:
        self._times = times
        self._pace = pace
        self._changed_ms = 0
        self._known: dict[int, Noted] = {}

    @property
    def _is_due(self) -> bool:
        return any(one.due for one in self._known.values())

    def concern(self, served: ServedMember) -> bool:
        """Whether a patient member should ask again what it has: what others are to give up may
        become its own, and it hears of that only when its next heartbeat is due.
        """
        since = served.patient_since_ms
        return since is not None and self._changed_ms > since and self._is_due

    def until_ms(self, served: ServedMember) -> int:
        """How long this member should wait; 0: not at all. A patient one also waits for what others
        have still to hear, or have just given up: it may be commanded nothing before.
        """
        more_since = served.wire.more_since_ms
        until = 0 if more_since is None else more_since + self._pace.flux_ms
        if served.patient_since_ms is None:
            return until
        if not self._is_due:
            return max(until, self._changed_ms + self._pace.flux_ms)
        since = max(served.patient_since_ms, self._changed_ms)
        return max(until, since + self._times.patient_ms)

    def note(self, now_ms: int, served: ServedMember) -> bool:
        """Compare a member with what was noted before; whether anything is different."""
        wire = served.wire
        before = self._known.pop(id(served), Noted())
        noted = Noted()
        if not wire.over:
            noted = Noted(frozenset(wire.held), wire.due, wire.more_since_ms)
            self._known[id(served)] = noted
        if before.more_since_ms is not None and noted.held - before.held:
            self._pace.took(now_ms - before.more_since_ms)
        if (noted.held, noted.due) == (before.held, before.due):
            return False
        self._changed_ms = now_ms
        return True


@dataclass(slots=True)
class WireGroup:
    """See the module. `pending`: ids that clients were given and have not joined with -> until when
    they are kept. `fenced`: ids whose instance another client has now. `goes_over`: a client is to
    lead it from now on.
    """

    name: str
    moves: Moves
    members: dict[str, ServedMember] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    fenced: dict[str, None] = field(default_factory=dict)
    goes_over: bool = False

    @property
    def is_empty(self) -> bool:
        """Nobody is here, and nobody is about to be."""
        return not self.members and not self.pending

    @property
    def is_forming(self) -> bool:
        """Nobody here has an assignment yet."""
        return not any(one.wire.synced for one in self.members.values())

    def has_news_for(self, served: ServedMember) -> bool:
        """Whether a member whose heartbeat comes is to join again."""
        return self.goes_over or self.moves.concern(served)

    def add(self, member_id: str, served: ServedMember) -> None:
        """A new member."""
        self.members[member_id] = served
        self.pending.pop(member_id, None)
        if served.wire.instance is not None:
            self.instances[served.wire.instance] = member_id

    def known(self, member_id: str, instance: str | None) -> WireCode:
        """NONE where it is a member, else what who names it is answered."""
        if instance is not None:
            current = self.instances.get(instance)
            if current is None:
                return WireCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return WireCode.FENCED_INSTANCE_ID
        if member_id in self.members:
            return WireCode.NONE
        fenced = member_id in self.fenced
        return WireCode.FENCED_INSTANCE_ID if fenced else WireCode.UNKNOWN_MEMBER_ID

    def rival(self, request: Request) -> ServedMember | None:
        """The member with the instance that a request names, where it is by another id."""
        if isinstance(request, LeaveRequest | MayCommitRequest) or request.instance is None:
            return None
        other = self.of_instance(request.instance)
        is_other = other is not None and request.member_id not in ("", other.wire.member_id)
        return other if is_other else None

    def of_instance(self, instance: str) -> ServedMember | None:
        """The member with this instance id."""
        member_id = self.instances.get(instance)
        return self.members.get(member_id) if member_id is not None else None

    def rename(self, served: ServedMember, member_id: str) -> None:
        """A client with an instance began again: the one before is fenced (KIP-345)."""
        old = served.wire.member_id
        del self.members[old]
        served.wire.succeeded(member_id)
        served.renamed = True
        self.add(member_id, served)
        self.fenced[old] = None
        while len(self.fenced) > FENCED_IDS_MAX:
            del self.fenced[next(iter(self.fenced))]

    def forget(self, served: ServedMember) -> None:
        """A member is over."""
        member_id, instance = served.wire.member_id, served.wire.instance
        if self.members.get(member_id) is served:
            del self.members[member_id]
            if instance is not None and self.instances.get(instance) == member_id:
                del self.instances[instance]

    def forget_pending(self, now_ms: int) -> None:
        """Forget the ids that nobody has joined with in time."""
        for member_id in [m for m, until in self.pending.items() if now_ms >= until]:
            del self.pending[member_id]
