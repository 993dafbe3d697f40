"""What a member knows: for as long as its application lives (`MemberState`), for one ZooKeeper
session (`SessionState`), and what other threads may see of both (`MemberSnapshot`).

Nothing of a session outlives it: a new session is a new name, a new registration, a new lease, and
a new `SessionState`. Positions come back from the offset nodes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from zkcoord.core.error_codes import MembershipEnd
from zkcoord.core.model import Command, Subscription, TopicPartition
from zkcoord.core.value_type import value

from .in_progress import CommandInProgress, DueWrite, InFlightKind, Intent, RequestInFlight
from .messages import Subscribe
from .owned_partitions import OwnedPartition
from .phases import Happening, Phase, next_phase


@dataclass(slots=True)
class SessionState:
    """One ZooKeeper session of a member. Made anew by `MemberState.begin_session` alone; the
    comment at a field names the parts (`consumer.core.parts`) that change it.
    """

    name: str = ""
    """The consumer id of this session; "": no session. Set once."""

    connected: bool = False
    """Whether requests can be sent now. Changed by `Sessions`."""

    timeout_ms: int = 0
    """The session's timeout, as negotiated. Changed by `Sessions`."""

    incarnation: int = 0
    """The registration's czxid, which commands name. Changed by `Sessions` and, after the
    subscription was changed, by `Doubts`.
    """

    leaving: bool = False
    """The application closes: what is to be stored is written first. Changed by `Sessions`."""

    # the lease

    proof_ms: int | None = None
    """When the latest proof of membership was sent (ms; None: no right to anything). Changed by
    `LeaseProofs`.
    """

    lease_max_ms: int = 0
    """The epoch node's limit of a lease (ms; 0: it says none). Changed by `LeaseProofs`."""

    lapsed: bool = False
    """The lease ran out, and that was reported. Changed by `LeaseProofs`."""

    failsafe: bool = False
    """The lease is prolonged because nobody serves, and that was reported. Changed by
    `LeaseProofs`.
    """

    # the channel

    known_epoch: int = 0
    """The epoch whose `lease_max_ms` is known. Changed by `Sessions` and `Answers`."""

    seen_epoch: int = 0
    """The highest epoch that a command named. Changed by `Sessions` and `CommandChannel`."""

    done: tuple[int, int] = (0, 0)
    """Epoch and sequence of the latest command that was acked. Changed by `Commands`."""

    pending: dict[str, Command] = field(default_factory=dict)
    """Commands that were read and not begun, by node. Changed by `CommandChannel` and `Doubts`."""

    channel_read_due: bool = False
    """The whole channel is to be read. Changed by `Sessions`, `Doubts` and `Requests`."""

    # work

    current: CommandInProgress | None = None
    """The command being carried out. Changed by `CommandChannel`, `LegacyGroupRules`, `Commands`
    and `Sessions`.
    """

    intents: deque[Intent] = field(default_factory=deque)
    """Writes that are due, in the order in which they became due. Every part adds its own;
    `Requests` takes the next.
    """

    in_flight: RequestInFlight | None = None
    """The one request under way. Set by whoever sends it, cleared by whoever reads its answer."""

    doubt: bool = False
    """Something may have happened that is not known: a synced read comes before all else. Raised by
    whoever finds an unknown outcome, settled by `Doubts`.
    """

    # ownership

    held: dict[TopicPartition, OwnedPartition] = field(default_factory=dict)
    """The owner nodes of this session. `Commands` and `Starts` add to it; they, `Doubts`,
    `LegacyGroupRules` and `Sessions` remove what is given up or lost.
    """

    unannounced: set[TopicPartition] = field(default_factory=set)
    """Those of `held` that were started and that the fetching side has not heard of. Changed by
    `Announcements`, `Commands`, `Starts` and `Sessions`.
    """

    unproved: dict[TopicPartition, str] = field(default_factory=dict)
    """Those of `held` whose topic is still to be read, to see whether it is the incarnation (the
    value) that the start meant. Changed by `Commands` and `Starts`.
    """

    more_to_come: bool = False
    """Whether the latest command said that others have yet to give up more. Changed by `Commands`.
    """

    # the coordinator, as seen from here (changed by `CoordinatorWatch`)

    leader_gone_ms: int | None = None
    """Since when nobody leads (ms; None: somebody does)."""

    leader_warned: bool = False
    """That nobody leads was reported."""

    idle_look_at_ms: int | None = None
    """When to look whether the group is balanced without this member (ms; None: it was commanded
    something since it registered, or was told that it has nothing). Changed by `Sessions` and
    `CommandChannel`, too.
    """

    idle_looks: int = 0
    """How often it has looked."""

    # a group shared with old consumers (changed by `LegacyGroupRules`, and `Sessions` at the end)

    shared: bool = False
    """The group has old consumers."""

    group_read_due: bool = False
    """Registrations and topics of the group are to be read."""

    group_seen: tuple[str, str] | None = None
    """What stood for registrations and topics at the latest reading (None: none yet)."""

    start_checked: str = ""
    """The node of the latest start before which the registrations were read."""

    starts_refused: int = 0
    """How many starts in a row were decided from other registrations."""

    release_by_ms: int | None = None
    """When everything that is held must be given up (ms; None: nothing is being released)."""

    stood_still_ms: int = 0
    """The longest time by which a step came too late since the latest proof: so long this thread
    stood still, for whatever reason. Changed by `GroupMember`.
    """

    stood_until_ms: int = 0
    """When that step came (ms). Changed by `GroupMember`."""

    def is_in_flight(self, kind: InFlightKind) -> bool:
        """Whether the request under way is of this kind."""
        return self.in_flight is not None and self.in_flight.kind is kind

    def discard(self, write: DueWrite) -> None:
        """A write is due no more."""
        self.intents = deque(intent for intent in self.intents if intent is not write)


@dataclass(slots=True)
class MemberState:
    """One member, for as long as its application lives; sessions and names come and go."""

    phase: Phase = Phase.IDLE
    """Where it stands. Changed by `Sessions`."""

    wanted: Subscribe = field(default_factory=lambda: Subscribe(Subscription()))
    """What the application subscribed last. Changed by `Sessions`."""

    requested: Subscribe = field(default_factory=lambda: Subscribe(Subscription()))
    """What the latest write of the registration says. Changed by `Sessions` and `Requests`."""

    registered: Subscribe = field(default_factory=lambda: Subscribe(Subscription()))
    """What the registration is known to say. Changed by `Sessions` and `Doubts`."""

    polled_ms: int = 0
    """When the application was last heard of (ms). Changed by `GroupMember`."""

    generation: int = 0
    """The generation of the last command that was acked (0: none yet). Changed by `Commands`."""

    assignment_epoch: int = 0
    """Rises with every change that the fetching side must hear of in order, and with every session.
    Changed by `Announcements` and `begin_session`.
    """

    lost_epoch: int = 0
    """The assignment epoch of the latest `Lost`. Changed by `Announcements`."""

    registered_before: bool = False
    """This consumer has been registered, in this session or an earlier one. Changed by
    `Sessions`.
    """

    rejections: int = 0
    """How often in a row the coordinator sent it away. Changed by `Sessions` and `Commands`."""

    rejoin_after_ms: int = 0
    """How long the next session has to wait (ms). Changed by `Sessions`."""

    ended: MembershipEnd | None = None
    """How the membership before ended, until the next one has begun (None: its application ended
    it, or there was none). Changed by `Sessions`.
    """

    rebalance_failed: bool = False
    """That the group cannot be rebalanced was reported. Changed by `Announcements`."""

    recreated: set[tuple[str, str]] = field(default_factory=set)
    # Of each partition whose stored text is no offset what was reported: its node, and the version.
    unreadable: dict[TopicPartition, tuple[str, int | None]] = field(default_factory=dict)
    """Topics with the incarnation whose ignored offsets were reported. Changed by `Starts`."""

    session: SessionState = field(default_factory=SessionState)
    """The present session, or one without a name. Replaced by `begin_session`."""

    def begin_session(self, name: str) -> None:
        """Forget all that was true of the session before; "": there is none now."""
        self.assignment_epoch += 1
        self.session = SessionState(name)

    def move(self, happening: Happening) -> None:
        """The phase after `happening`. Raises `AssertionError` where the table has none."""
        self.phase = next_phase(self.phase, happening)

    @property
    def is_member(self) -> bool:
        """Registered, as far as anybody knows."""
        return self.phase is Phase.MEMBER


@value
class MemberSnapshot:
    """A member as it was at the end of one step, for other threads."""

    phase: Phase
    """Where it stands."""

    generation: int
    """The generation of the last command that was acked (0: none yet)."""

    epoch: int
    """The highest epoch of a coordinator that it has heard of."""

    proof_ms: int | None
    """When it last proved its membership (ms of the process's own clock; None: it has no lease)."""

    busy: bool
    """A command is being carried out, or waits to be."""

    @classmethod
    def of(cls, state: MemberState) -> MemberSnapshot:
        """The member now."""
        session = state.session
        return cls(
            state.phase,
            state.generation,
            max(session.known_epoch, session.seen_epoch),
            session.proof_ms,
            session.current is not None or bool(session.pending),
        )
