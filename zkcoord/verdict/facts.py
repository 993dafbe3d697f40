"""What can be known about a partition, one value per thing that happened. Times are wall-clock
nanoseconds of one machine (or of machines whose clocks agree to better than a hand-over takes).

What each time means is what makes the rules sharp:

* `PartitionAssigned`: before the first record is handed out. `Released`: after the last record was
  handed out, before anybody else may be told to start. So the time between them contains the
  member's true ownership and touches nobody else's, if all is well.
* `Died`: the process was alive at no later time; for a killed one the moment before the signal was
  sent, or its last sign of life if that is later.
* `Delivered`: after the hand-out and before the application asks for more. `OffsetCommitted`: after
  the commit was answered. `OffsetSeen`: before an observer began to read the offset, or after it.

Where clocks do not agree, `order` does: the version of the partition's offset in ZooKeeper after
the write that a fact tells of (or knows of). Each claim, commit and release raises it by one, so it
orders all ownerships of a partition and everything that was written under them, whatever any clock
says. None: not known.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple


class Partition(NamedTuple):
    """A partition, ordered by topic and number; `str()` is topic-number."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


class OwnershipEnd(enum.Enum):
    """How a member's ownership ended. Only KILLED excuses that records are handed out again."""

    REVOKED = "revoked"
    LOST = "lost"
    CLOSED = "closed"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class PartitionAssigned:
    """`member` may hand out from `offset` on, which is the offset stored at that moment; None: its
    client does not tell.
    """

    t_ns: int
    partition: Partition
    member: str
    offset: int | None
    order: int | None = None


@dataclass(frozen=True, slots=True)
class Released:
    """`member` hands out nothing more of `partition`; None: of nothing at all."""

    t_ns: int
    partition: Partition | None
    member: str
    end: OwnershipEnd
    order: int | None = None


@dataclass(frozen=True, slots=True)
class Delivered:
    """`member` handed out the records `first` .. `last`, both included. `order`: of the latest
    write before that it knew of.
    """

    t_ns: int
    partition: Partition
    member: str
    first: int
    last: int
    order: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetCommitted:
    """The commit of next offset `offset` by `member` was acknowledged."""

    t_ns: int
    partition: Partition
    member: str
    offset: int
    order: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetSeen:
    """An observer that is no member read `offset` as the stored offset. Where it took its time
    that is two facts: before it began to read no more was stored (`compares`), and when it had read
    no less had been (`raises`).
    """

    t_ns: int
    partition: Partition
    offset: int
    compares: bool = True
    raises: bool = True


@dataclass(frozen=True, slots=True)
class RecordsFound:
    """The records `first` .. `last`, both included, are in the output, each `times` times (beside
    what other facts say of them). `member`: who put them there, "" where that is not known. After
    all other facts of the partition.
    """

    t_ns: int
    partition: Partition
    first: int
    last: int
    times: int = 1
    member: str = ""


@dataclass(frozen=True, slots=True)
class Produced:
    """Records below `end` are in the partition for good."""

    t_ns: int
    partition: Partition
    end: int


@dataclass(frozen=True, slots=True)
class Steady:
    """The warm-up is over: gaps count from here on."""

    t_ns: int


@dataclass(frozen=True, slots=True)
class ProducerStopped:
    """Nothing is produced any more."""

    t_ns: int


PartitionFact = (
    PartitionAssigned
    | Released
    | Delivered
    | OffsetCommitted
    | OffsetSeen
    | RecordsFound
    | Produced
    | Steady
    | ProducerStopped
)


@dataclass(frozen=True, slots=True)
class FirstFetch:
    """The first fetch response (or, of clients that tell of none, the first records) of a partition
    since it was assigned to `member`.
    """

    t_ns: int
    partition: Partition
    member: str


@dataclass(frozen=True, slots=True)
class Started:
    """The process of `member` began, on the machine `host` ("" where it is not told): facts of one
    host have one clock.
    """

    t_ns: int
    member: str
    host: str


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """`member` heard that its session was over, or that its registration was gone."""

    t_ns: int
    member: str


@dataclass(frozen=True, slots=True)
class CommandSeen:
    """`member` saw a command of a coordinator."""

    t_ns: int
    member: str


@dataclass(frozen=True, slots=True)
class StepBegan:
    """The scenario did something to the group. `quiet`: a step that must cause no command."""

    t_ns: int
    name: str
    quiet: bool


@dataclass(frozen=True, slots=True)
class StepBalanced:
    """The group is at rest again after the step of this name, whose effect is counted from
    `clock_ns` on (a registration, a kill).
    """

    t_ns: int
    name: str
    clock_ns: int


@dataclass(frozen=True, slots=True)
class RebalanceSeen:
    """A coordinator's account of one rebalance."""

    t_ns: int
    cause: str
    trigger: str
    duration_ms: int
    moved: int


ScenarioFact = (
    Started | FirstFetch | SessionEnded | CommandSeen | StepBegan | StepBalanced | RebalanceSeen
)
Fact = PartitionFact | ScenarioFact
