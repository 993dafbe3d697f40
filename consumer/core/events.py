"""What goes into a member's core besides the fetching side's messages, and what comes out besides
messages to it.

The driver (consumer/member/driver.py) turns `MemberAction`s into reads and multis and their answers
into `MemberEvent`s. Times are ms of the process's own clock.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field

from zkcoord.core.model import Command, Malformed, Mode, Subscription, Thread, TopicPartition
from zkcoord.core.value_type import value

from .messages import FailureCode, FromFetcher, ToFetcher
from .topic_incarnations import ExpectedNote, IncarnationMark, TopicNote


@value
class SessionOpened:
    """A new ZooKeeper session is connected; `name` is this session's consumer id."""

    now_ms: int
    name: str
    timeout_ms: int


@value
class SessionSuspended:
    """The connection is gone. Whatever was under way has been answered as unknown."""

    now_ms: int


@value
class SessionResumed:
    """The same session is connected again, and its watches are set again."""

    now_ms: int


@value
class SessionOver:
    """The session is gone for certain: expired or closed."""

    now_ms: int


@value
class JoinFailed:
    """Registering failed for good: a sentence for the user."""

    now_ms: int
    code: FailureCode
    message: str


@value
class Registered:
    """The registration exists. `epoch` and `lease_max_ms` are the epoch node's (0 where no
    coordinator has ever run).
    """

    now_ms: int
    incarnation: int
    epoch: int
    lease_max_ms: int
    sent_ms: int


@value
class EpochRead:
    """The epoch node, read because a command named another epoch."""

    now_ms: int
    epoch: int
    lease_max_ms: int


@value
class CommandsRead:
    """Commands in the channel; with `complete`, there are no others."""

    now_ms: int
    commands: tuple[Command | Malformed, ...]
    complete: bool = False


@value
class CommandVanished:
    """A command's node was deleted, by our ack or by the coordinator. A hint."""

    now_ms: int
    node: str


@value
class RegistrationTouched:
    """Something happened to the registration's node. A hint."""

    now_ms: int


class Whose(enum.Enum):
    """Whom an owner node belongs to."""

    MINE = "mine"
    FOREIGN = "foreign"
    NOBODY = "nobody"


@value
class PartitionReading:
    """One partition as read: its owner node, and its stored offset with the version that the next
    write must name (None: no such node) and the transaction that wrote it. `metadata` is what was
    committed beside this very offset ("": nothing, or beside another), `noted` says whether there
    is a node of metadata at all, and `noted_in` which transaction wrote it.
    """

    whose: Whose
    offset: int | Malformed | None
    version: int | None
    written: int = 0
    metadata: str = ""
    noted: bool = False
    noted_in: int = 0


@value
class PartitionsRead:
    """Answer to `ReadPartitions`, read after a sync where it was asked. `incarnation` is None when
    the registration is gone; `command_there` says whether the named command is. `beside` is what is
    said of the offsets of the topics asked for (those missing have none stored), `topics` which
    incarnation each of them is now ("": it does not exist; missing: it cannot be read).
    """

    now_ms: int
    token: int
    incarnation: int | None
    command_there: bool
    holdings: Mapping[TopicPartition, PartitionReading]
    beside: Mapping[str, TopicNote | Malformed] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)


class Ending(enum.Enum):
    """How a multi of ours ended."""

    OK = "ok"
    EVICTED = "evicted"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@value
class Wrote:
    """Answer to an ack, commit, renewal or drop. `versions` are the offset nodes' new versions;
    `sent_ms` is when it was queued.
    """

    now_ms: int
    token: int
    ending: Ending
    sent_ms: int
    versions: Mapping[TopicPartition, int] = field(default_factory=dict)
    why: str = ""


@value
class LeaderSeen:
    """Whether a coordinator leads, as read; `group_state` is the group's reported state, for
    people.
    """

    now_ms: int
    alive: bool
    group_state: str


@value
class ModeRead:
    """The group's mode, read when the member registered, when its connection was back and when the
    node changed. None: nobody said anything.
    """

    now_ms: int
    mode: Mode | Malformed | None


@value
class LegacyGroupTouched:
    """Something changed below ids, or of a subscribed topic. A hint."""

    now_ms: int


@value
class LegacyGroupRead:
    """Answer to `ReadLegacyGroup`: what stands for the registrations, as in a command's `seen`, and
    for the subscribed topics with their partitions.
    """

    now_ms: int
    token: int
    seen: str
    topics: str


@value
class NobodyServes:
    """At some moment from `at_ms` until now the ensemble had no quorum: no session ended then, and
    each gets its whole timeout again when there is one.
    """

    now_ms: int
    at_ms: int


@value
class FromApplication:
    """A message of the fetching side."""

    now_ms: int
    message: FromFetcher


@value
class MemberTick:
    """Time passed."""

    now_ms: int


SessionEvent = (
    SessionOpened
    | SessionSuspended
    | SessionResumed
    | SessionOver
    | JoinFailed
    | Registered
    | NobodyServes
)
"""What became of the session and the registration."""

NodeEvent = (
    EpochRead
    | CommandsRead
    | CommandVanished
    | RegistrationTouched
    | PartitionsRead
    | Wrote
    | LeaderSeen
    | ModeRead
    | LegacyGroupTouched
    | LegacyGroupRead
)
"""What was read, how a write ended, and hints."""

MemberEvent = SessionEvent | NodeEvent | FromApplication | MemberTick


@value
class OpenSession:
    """Open a new session under a new name, `after_ms` from now or later."""

    after_ms: int = 0


@value
class CloseSession:
    """Close the session: registration and owner nodes go with it, in one transaction."""

    reason: str


@value
class Join:
    """Make channel and registration. Answered by `Registered` or `JoinFailed`, or by neither when
    the connection is lost. `first`: this consumer was never registered before, so a static member
    may take its instance over from another process; later it is the one to go. `ended`: how its
    membership before ended (`MembershipEnd`; "": it ended it itself, or there was none).
    """

    name: str
    subscription: Subscription
    user_data: str = ""
    first: bool = True
    ended: str = ""


@value
class ReadEpoch:
    """Read the epoch node. Answered by `EpochRead`."""


@value
class ReadCommands:
    """Read the whole channel. Answered by `CommandsRead(complete)`."""


@value
class ReadLeader:
    """Is there a coordinator? Answered by `LeaderSeen`."""


@value
class ReadPartitions:
    """Read registration, one command, `topics` (with the incarnation that is meant) and what is
    said of their offsets, and owner and offset nodes (making missing parents); after a sync if
    `sync`. Answered by `PartitionsRead`, or not at all when the connection is lost.
    """

    token: int
    partitions: tuple[TopicPartition, ...]
    command: str
    sync: bool
    topics: Mapping[str, str] = field(default_factory=dict)


@value
class ReadLegacyGroup:
    """Watch, sync, then read all registrations of the group and the topics of this subscription.
    Answered by `LegacyGroupRead`, or not at all when the connection is lost.
    """

    token: int
    subscription: Subscription


@value
class StartPartition:
    """Part of a start ack: make the owner node, and store `offset` at `version` (None: create the
    node); without an offset nothing is stored. `metadata` and `noted` are what stands beside the
    offset, which stays. `note`: what the first offset must find said of its topic's offsets.
    """

    partition: TopicPartition
    thread: Thread
    offset: int | None
    version: int | None
    metadata: str = ""
    noted: bool = False
    note: ExpectedNote | None = None


@value
class StopPartition:
    """Part of a stop ack: delete the owner node, and store `offset` at `version` (None: create the
    node); without an offset nothing is stored. `clears`: delete the metadata of another offset.
    """

    partition: TopicPartition
    offset: int | None
    version: int | None
    clears: bool = False


@value
class Ack:
    """ONE multi: check of one's own registration, delete the command (where there is one: a release
    has none), all starts and stops, and whose the offsets of whole topics are (`marks`). `notes`:
    topics, and at which version that must stand beside the first offset of one of their partitions.
    """

    token: int
    command: str
    starts: tuple[StartPartition, ...] = ()
    stops: tuple[StopPartition, ...] = ()
    marks: tuple[IncarnationMark, ...] = ()
    notes: Mapping[str, int] = field(default_factory=dict)


@value
class Store:
    """ONE multi: check of one's own registration, and offsets at their versions (value, version;
    None: create the node); with nothing to store it only proves membership. `owned`: check the
    owner nodes, too, since an old consumer may have deleted ours. `metadata`: what is to stand
    beside an offset ("": nothing), where something does or did, and whether its node exists.
    `notes`: as in an `Ack`.
    """

    token: int
    values: Mapping[TopicPartition, tuple[int, int | None]]
    owned: bool = False
    metadata: Mapping[TopicPartition, tuple[str, bool]] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)


@value
class DropOwners:
    """ONE multi: check of one's own registration, and delete these owner nodes of ours (their
    offset nodes were deleted by somebody).
    """

    token: int
    partitions: tuple[TopicPartition, ...]


@value
class Resubscribe:
    """ONE multi: delete these commands, delete and create the registration. Answered by `Wrote`;
    the new incarnation is read with `ReadPartitions`.
    """

    token: int
    name: str
    subscription: Subscription
    commands: tuple[str, ...]
    user_data: str = ""


@value
class SendMessage:
    """The fetching side has to hear this."""

    message: ToFetcher


MemberWrite = Ack | Store | DropOwners | Resubscribe
"""Answered by `Wrote`, with the token."""

MemberRequest = (
    Join | ReadEpoch | ReadCommands | ReadLeader | ReadPartitions | ReadLegacyGroup | MemberWrite
)
"""What a session is needed for."""

MemberAction = OpenSession | CloseSession | SendMessage | MemberRequest
