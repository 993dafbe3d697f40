"""Values that the decisions are made of. All immutable; none of them knows bytes, JSON, a path or a clock.

Names are Kafka's: a *member* is one registration of one consumer session, its *incarnation* the transaction id (czxid) that created it. A name means one session for ever, so
(name, incarnation) never needs a third part. A *thread* is one stream of a member, written `<member>-<n>`; owner nodes carry threads.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Union


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


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now. `incarnation` is the topic id, or the czxid of its node for brokers that write none: a re-created topic is another topic."""

    name: str
    incarnation: str
    partitions: tuple[int, ...]


class PatternKind(enum.Enum):
    """How a subscription names its topics; the values are what the old consumer writes."""

    STATIC = "static"
    WHITE_LIST = "white_list"
    BLACK_LIST = "black_list"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A wildcard subscription: a full-match regular expression (RE2 syntax) over topic names."""

    kind: PatternKind
    regex: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member wants: `topics` maps a topic to its number of streams; with a `pattern`, `topics` is empty and `streams` counts for every match."""

    topics: Mapping[str, int] = field(default_factory=dict)
    pattern: Pattern | None = None
    streams: int = 1


@dataclass(frozen=True, slots=True)
class Member:
    """One registration. `session` is the ephemeralOwner that its owner nodes carry too."""

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
    legacy: bool = False


@dataclass(frozen=True, slots=True)
class Malformed:
    """Something in ZooKeeper that is not what it should be: named, counted and left out, never deleted."""

    what: str
    name: str
    reason: str


class Option(enum.Enum):
    """A command's kind; the values are the draft's."""

    START = "start-fetcher"
    STOP = "stop-fetcher"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Command:
    """A command in a member's channel.

    `start` (of a start-fetcher) maps partitions to the thread that shall own them; `stop` lists partitions to give up. `node` is the last path component once it exists.
    Commands of one incarnation take effect in the order of (epoch, seq); the suffix of `node` orders nothing.
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
    node: str = ""

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions that its ack will change."""
        return tuple(self.start) if self.option is Option.START else self.stop


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner node: belongs to the registration with the same `session`; its text only says which thread. `version` is 1 for a node of ours, 0 for a legacy member's."""

    session: int
    thread: Thread
    version: int


@dataclass(frozen=True, slots=True)
class Departed:
    """A static instance that left: what it had, and since when (wall-clock ms)."""

    instance: str
    partitions: tuple[TopicPartition, ...]
    since_ms: int


class GroupState(enum.Enum):
    """Kafka's names of a group's states."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    QUARANTINED = "Quarantined"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a rebalance began: Kafka-like reason, and the member or topic that triggered it."""

    reason: str = ""
    trigger: str = ""


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """The group node's data: a report and a hint for the next coordinator. `since_ms` is wall clock, for people."""

    generation: int = 0
    state: GroupState = GroupState.EMPTY
    assignor: str = ""
    protocol: str = "cooperative"
    topics: tuple[str, ...] = ()
    members: int = 0
    configuration: Mapping[str, Union[str, int]] = field(default_factory=dict)
    departed: tuple[Departed, ...] = ()
    cause: Cause = Cause()
    since_ms: int = 0
    ownership: str = ""
