"""Values that the decisions are made of. All immutable; none of them knows bytes, JSON, a path or a
clock.

Names are Kafka's: a *member* is one registration of one consumer session, its *incarnation* the
transaction id (czxid) that created it. A name means one session for ever, so (name, incarnation)
never needs a third part. A *thread* is one stream of a member, written `<member>-<n>`; owner nodes
carry threads.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from .value_type import value

MALFORMED_NAME_CHARS_MAX = 300
SOMEBODY = "somebody"


class TopicPartition(NamedTuple):
    """A partition, ordered by topic and number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Thread(NamedTuple):
    """A member's stream. `str()` is the text of an owner node: the old consumer's thread id."""

    member: str
    number: int

    def __str__(self) -> str:
        return f"{self.member}-{self.number}"


@value
class Topic:
    """A topic as it is now. A re-created topic is another topic: `incarnation` says which one it is
    (see `same_incarnation`), `created` is the transaction that made its node, so an owner node that
    is older was made for an earlier one.
    """

    name: str
    incarnation: str
    partitions: tuple[int, ...]
    created: int = 0


def same_incarnation(a: str, b: str) -> bool:
    """Whether two incarnations, each `<czxid>` or `<czxid>.<topic id>`, are of one topic: equal ids
    (a moved ensemble has other transactions), or equal transactions (an upgraded broker adds the id
    later).
    """
    (made_a, _, id_a), (made_b, _, id_b) = a.partition("."), b.partition(".")
    return id_a == id_b if id_a and id_b else made_a == made_b


class PatternKind(enum.Enum):
    """How a subscription names its topics; the values are what the old consumer writes."""

    STATIC = "static"
    WHITE_LIST = "white_list"
    BLACK_LIST = "black_list"


@value
class Pattern:
    """A wildcard subscription: a full-match regular expression (RE2 syntax) over topic names; over
    Kafka's internal topics only with `internal`.
    """

    kind: PatternKind
    regex: str
    internal: bool = False


@value
class Subscription:
    """What a member wants: `topics` maps a topic to its number of streams; with a `pattern`,
    `topics` is empty and `streams` counts for every match.
    """

    topics: Mapping[str, int] = field(default_factory=dict)
    pattern: Pattern | None = None
    streams: int = 1


@value
class Member:
    """One registration. `session` is the ephemeralOwner that its owner nodes carry too. Of an old
    consumer `unfollowed` says why nobody here knows what it subscribes to, although it consumes:
    its subscription is empty then, but for the streams that it has of each topic, where these are
    known (else 0).
    """

    name: str
    incarnation: int
    session: int
    subscription: Subscription
    assignors: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ("cooperative",)
    instance: str | None = None
    process: str = ""
    grace_ms: int = 0
    rebalance_timeout_ms: int = 60_000
    user_data: str = ""
    client: str = ""
    host: str = ""
    # What ZooKeeper granted; 0: it does not say.
    session_timeout_ms: int = 0
    # Of a gateway's client: its library, and the gateway's address.
    library: str = ""
    gateway: str = ""
    legacy: bool = False
    unfollowed: str = ""
    # How its membership before this one ended (`error_codes.MembershipEnd`); "": it was none.
    ended: str = ""

    @property
    def is_leaving(self) -> bool:
        """Whether it says goodbye: a static member that wants nothing, and for which nothing is to
        wait.
        """
        wants = self.subscription
        return (
            self.instance is not None
            and not self.grace_ms
            and not wants.topics
            and wants.pattern is None
        )

    @property
    def wants_nothing(self) -> bool:
        """Whether it subscribes to nothing: a gateway's member whose client left says so until it
        has given up what it had.
        """
        wants = self.subscription
        return not wants.topics and wants.pattern is None and not self.legacy


@value
class Malformed:
    """Something in ZooKeeper that is not what it should be: named, counted and left out, never
    deleted.
    """

    what: str
    name: str
    reason: str

    def shown(self) -> dict[str, str]:
        """For a record: a name may be a megabyte long."""
        name = (
            self.name
            if len(self.name) <= MALFORMED_NAME_CHARS_MAX
            else self.name[:MALFORMED_NAME_CHARS_MAX] + "..."
        )
        return {"what": self.what, "name": name, "reason": self.reason}


class Option(enum.Enum):
    """A command's kind; start and stop are the draft's. A reject sends the member away, a
    notification only tells it something (`code`, `message`).
    """

    START = "start-fetcher"
    STOP = "stop-fetcher"
    REJECT = "reject"
    NOTIFY = "notify"


@value
class Command:
    """A command in a member's channel.

    `start` (of a start-fetcher) maps partitions to the thread that is to own them,
    `incarnations` their topics to what they are now; `stop` lists partitions to give up.
    `more`, of both: the member is to be started with further ones. `node` is the last path
    component once it exists. `user_data` is what a custom assignor has for the member, None
    where it has nothing new. `seen` stands for the registrations that the command was decided
    from, in a group that is shared with old consumers (see `zkcoord.core.shared.mark_of`).
    Commands of one incarnation take effect in the order of (epoch, seq); the suffix of `node`
    orders nothing.
    """

    member: str
    incarnation: int
    option: Option
    epoch: int
    seq: int
    generation: int
    start: Mapping[TopicPartition, Thread] = field(default_factory=dict)
    stop: tuple[TopicPartition, ...] = ()
    code: str = ""
    fatal: bool = False
    message: str = ""
    incarnations: Mapping[str, str] = field(default_factory=dict)
    more: bool = False
    user_data: str | None = None
    seen: str = ""
    node: str = ""

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions that its ack will change."""
        return tuple(self.start) if self.option is Option.START else self.stop


@value
class Owner:
    """An owner node: belongs to the registration with the same `session`; its text only says which
    thread. `version` is 1 for a node of ours, 0 for a legacy member's; `created` is its czxid.
    """

    session: int
    thread: Thread
    version: int
    created: int = 0


class RequestKind(enum.Enum):
    """What an operator can ask of the coordinator."""

    REBALANCE = "rebalance"
    EVICT = "evict"


@value
class Request:
    """An operator's request, a node that the coordinator deletes when it has taken it up. `fresh`:
    assign as if nobody owned anything. `by` says who asked. `member` is whom an eviction is about,
    `session` the ephemeralOwner of its registration: who has its name later is somebody else.
    """

    kind: RequestKind
    fresh: bool = False
    by: str = ""
    member: str = ""
    session: int = 0


class GroupMode(enum.Enum):
    """Whom a group belongs to: old consumers, both (by the old consumers' maths), or the
    coordinator.
    """

    LEGACY = "legacy"
    MIXED = "mixed"
    COORDINATED = "coordinated"


@value
class Mode:
    """An operator's word about a group. `strategy` is the maths of the old consumers in it, which
    nothing in ZooKeeper says; `paused`: nothing is handed out to anybody (coordinated groups only).
    """

    kind: GroupMode
    strategy: str = "legacy-range"
    by: str = ""
    paused: bool = False

    @property
    def paused_by(self) -> str:
        """Who has paused the group; "": nobody."""
        return (self.by or SOMEBODY) if self.paused else ""


@value
class Departed:
    """A static instance: what it has, or had when it left at `since_ms` (0: it was there when this
    was written), and how long that is kept for it. In the core `since_ms` is on the process's own
    clock, in ZooKeeper it is wall clock, for people: a new coordinator counts again. `numbers` are
    the threads of its partitions (0 where it names none), `topics` what it subscribed to, wildcards
    resolved, with its streams: without them a new coordinator would assign to another member than
    the one that left.
    """

    instance: str
    partitions: tuple[TopicPartition, ...]
    since_ms: int
    grace_ms: int = 0
    numbers: Mapping[TopicPartition, int] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)


class Registrants(enum.Enum):
    """Who is registered in a group whom the coordinator assigns."""

    NOBODY = enum.auto()
    LEAVING = enum.auto()  # only members that want nothing any more
    CLIENTS = enum.auto()  # and clients of gateways, which can go over to a leader among them
    MEMBERS = enum.auto()


class GroupState(enum.Enum):
    """Kafka's names of a group's states."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    QUARANTINED = "Quarantined"


@value
class Cause:
    """Why a rebalance began: Kafka-like reason, and the member or topic that triggered it."""

    reason: str = ""
    trigger: str = ""


@value
class GroupMetadata:
    """The group node's data: a report and a hint for the next coordinator. `since_ms` is wall
    clock, for people; `failure` says why a group is quarantined, `mode` whose it is, `problems`
    what is wrong with the old consumers in it, and `paused` who paused it ("": nobody).
    """

    generation: int = 0
    state: GroupState = GroupState.EMPTY
    assignor: str = ""
    protocol: str = "cooperative"
    topics: tuple[str, ...] = ()
    members: int = 0
    configuration: Mapping[str, str | int] = field(default_factory=dict)
    departed: tuple[Departed, ...] = ()
    cause: Cause = Cause()
    since_ms: int = 0
    ownership: str = ""
    failure: str = ""
    mode: str = ""
    problems: tuple[str, ...] = ()
    paused: str = ""
