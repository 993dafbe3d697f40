"""Which offsets a micro-batch reads: planned ranges, the JSON that carries them, and how they are
spread over tasks. Pure.

The end offset that the source gives to Spark IS the plan of a batch: Spark writes it into its log
before anything is read, and gives it back after a crash. So it holds everything that is needed to
read exactly the same records again, to commit them, and to fence a sink:

    {"v":1,"n":17,"group":"billing","zookeeper":"zk1:2181/kafka","layout":"draft","member":"billing_host-1790000000000-0a1b2c3d","incarnation":8589934601,"generation":31,"epoch":7,
     "ranges":{"orders-0":[1000,1500,6,8589934640],"orders-3":[700,1200,4,8589934641]}}

`ranges` maps topic-number to [first offset, next offset after the last, version of the offset node,
czxid of the owner node]. Keys are always written in this order, so that an unchanged plan is an
unchanged text (Spark compares texts).

**What a fenced sink may rely on.** While a batch runs, the source writes no offset of a partition
in it. So, for a batch whose end offset is `plan`, one multi of

    check(layout.registration(plan.group, plan.member), 0)
    setData(layout.offset(plan.group, (topic, partition)), str(r.end), r.version)
        for each r of plan.ranges
    create(intent)

succeeds at most once, and only if this member is still the one that planned it, still owns every
partition, and nobody (a successor's start, an operator's reset) has touched the offsets since. The
member knows beforehand which values may appear (`ExpectCommit`): it takes them for its own commits,
and the next `latestOffset` has nothing to write. In a transaction of a database the fence is
`r.owner`, which rises with each start of the partition by whomever. A sink that is not fenced does
nothing of this: the source commits each plan when Spark asks for the next.

When a batch is *replayed* after a crash, Spark's log gives back the plan of the process that is
gone; a multi with that fence fails. What the replay reads is decided anew: only ranges whose
partition is owned again and still stands where the range begins. Before it is read, the source
writes that decision, a `Plan` with the present member, versions and owners and only the ranges that
are read, into the ephemeral node `layout.replayed_plan(group, plan.incarnation, plan.number)`,
numbers of the plan in Spark's log. So a fenced sink looks there first: if the node exists it holds
the plan to fence with, else the plan in Spark's log is it. A range that the replay leaves out was
moved on by somebody else (or by the sink's own multi before the crash): nothing of it is in the
batch.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from consumer.errors import ConsumerError
from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value
from zkcoord.znodes.codec import FencedRange, ReplayedPlan

PLAN_VERSION = 1
PARTITIONS_PER_PLAN_MAX = 400
RANGES_NAMED_MAX = 5
TINY_ROWS = 20_000


class PlanError(ConsumerError):
    """What Spark's log, or ZooKeeper, gives back is no plan of this source; one sentence."""

    fatal = True


@dataclass(frozen=True, slots=True, order=True)
class PlannedRange:
    """Offsets of one partition."""

    topic: str
    partition: int
    # The first offset, and the next after the last.
    start: int
    end: int
    # The version of the offset node while it was planned; -1: there is no group.
    version: int = -1
    # The czxid of the owner node while it was planned; -1: there is no group.
    owner: int = -1

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def rows(self) -> int:
        """How many offsets it covers: at most so many records."""
        return self.end - self.start


@value
class Plan:
    """One batch, and who planned it."""

    # Counts the plans of a query; 0: nothing was planned yet.
    number: int = 0
    group: str = ""
    # Where ZooKeeper is, as the query's options say it.
    zookeeper: str = ""
    layout: str = ""
    # The name of the member that planned it, and the czxid of its registration.
    member: str = ""
    incarnation: int = 0
    # Those of the member's latest command.
    generation: int = 0
    epoch: int = 0
    ranges: tuple[PlannedRange, ...] = ()

    @property
    def rows(self) -> int:
        """How many offsets it covers."""
        return sum(r.rows for r in self.ranges)

    def to_dict(self) -> dict[str, Any]:
        """For Spark, which makes the text of it: keys in their order, partitions sorted."""
        ranges = {
            f"{r.topic}-{r.partition}": [r.start, r.end, r.version, r.owner]
            for r in sorted(self.ranges)
        }
        return {
            "v": PLAN_VERSION,
            "n": self.number,
            "group": self.group,
            "zookeeper": self.zookeeper,
            "layout": self.layout,
            "member": self.member,
            "incarnation": self.incarnation,
            "generation": self.generation,
            "epoch": self.epoch,
            "ranges": ranges,
        }

    def to_replayed(self) -> ReplayedPlan:
        """For the node that fenced sinks read."""
        return ReplayedPlan(
            self.number,
            self.group,
            self.zookeeper,
            self.layout,
            self.member,
            self.incarnation,
            self.generation,
            self.epoch,
            tuple(FencedRange(r.tp, r.start, r.end, r.version, r.owner) for r in self.ranges),
        )

    def to_json(self) -> str:
        """The text of it."""
        return json.dumps(self.to_dict())


def plan_of(replayed: ReplayedPlan) -> Plan:
    """The plan that a replayed plan's node holds."""
    return Plan(
        replayed.number,
        replayed.group,
        replayed.zookeeper,
        replayed.layout,
        replayed.member,
        replayed.incarnation,
        replayed.generation,
        replayed.epoch,
        tuple(
            PlannedRange(*r.partition, r.start, r.end, r.version, r.owner) for r in replayed.ranges
        ),
    )


def parse_plan(given: str | Mapping[str, Any] | None) -> Plan:
    """The plan in an offset of Spark's log; an empty one is the beginning. Raises `PlanError`."""
    try:
        value = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError) as e:
        raise PlanError(
            f"the checkpoint holds an offset that is no JSON ({e}): it was not written by this"
            " source, use a new checkpointLocation"
        ) from None
    if not value:
        return Plan()
    if not isinstance(value, Mapping) or value.get("v") != PLAN_VERSION:
        raise PlanError(
            "the checkpoint holds an offset of another source, or of another version of this one:"
            " use a new checkpointLocation, the group's positions are in ZooKeeper"
        )
    try:
        ranges = tuple(
            sorted(_range(str(name), numbers) for name, numbers in value["ranges"].items())
        )
        texts = [_typed(value[key], str) for key in ("group", "zookeeper", "layout", "member")]
        numbers = [_typed(value[key], int) for key in ("n", "incarnation", "generation", "epoch")]
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise PlanError(
            f"the checkpoint holds an offset that is damaged ({type(e).__name__}: {e}): use a new"
            " checkpointLocation, the group's positions are in ZooKeeper"
        ) from None
    fields: list[Any] = [numbers[0], *texts, *numbers[1:], ranges]
    return Plan(*fields)


def _typed(value: Any, wanted: type) -> Any:
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise TypeError(f"{value!r} where {wanted.__name__} is expected")
    return value


def _range(name: str, numbers: Any) -> PlannedRange:
    topic, dash, partition = name.rpartition("-")
    start, end, version, owner = (_typed(number, int) for number in numbers)
    if not (dash and topic and partition.isdecimal()) or not 0 <= start <= end:
        raise ValueError(f"{name}: {numbers}")
    return PlannedRange(topic, int(partition), start, end, version, owner)


def ranges_named(ranges: Iterable[PlannedRange]) -> str:
    """For people: the first of these, and how many more there are."""
    listed = sorted(r for r in ranges if r.rows)
    named = [f"{r.tp} from {r.start} to {r.end - 1}" for r in listed[:RANGES_NAMED_MAX]]
    more = len(listed) - len(named)
    return ", ".join(named) + (f" and {more} more partitions" if more else "")


def plan(
    available: Mapping[TopicPartition, tuple[int, int]], max_rows: int | None = None
) -> dict[TopicPartition, tuple[int, int]]:
    """{partition: (start, end)} of one batch, of {partition: (position, end of its log)}; what has
    nothing to read is left out.

    `max_rows` is spread in proportion to what each has to read, as Spark's Kafka source does:
    rounded down, but at least one row each, so nobody starves (and the sum may exceed `max_rows` by
    less than the number of partitions).
    """
    lag = {tp: end - start for tp, (start, end) in available.items() if end > start}
    total = sum(lag.values())
    if max_rows is None or total <= max_rows:
        return {tp: available[tp] for tp in lag}
    found = {}
    for tp, size in lag.items():
        start, end = available[tp]
        found[tp] = (start, min(end, start + max(1, math.floor(max_rows * size / total))))
    return found


def pack(
    ranges: Iterable[PlannedRange], tasks: int, tiny_rows: int = TINY_ROWS
) -> list[tuple[PlannedRange, ...]]:
    """Ranges as `tasks` tasks at most, longest first into the least loaded. A range that is more
    than a task's share is split (a partition with all the lag must not wait for one core); a batch
    of less than `tiny_rows` is one task, which opens all its ranges together. No task has two
    pieces of one partition.
    """
    wanted = [r for r in sorted(ranges) if r.rows > 0]
    total = sum(r.rows for r in wanted)
    if not wanted:
        return []
    if tasks <= 1 or total < tiny_rows:
        return [tuple(wanted)]
    share = math.ceil(total / tasks)
    pieces = [piece for r in wanted for piece in _split(r, math.ceil(r.rows / share))]
    loads = [0] * tasks
    packed: list[list[PlannedRange]] = [[] for _ in range(tasks)]
    for piece in sorted(pieces, key=lambda r: (-r.rows, r)):
        number = min(
            (n for n in range(tasks) if all(r.tp != piece.tp for r in packed[n])),
            key=lambda n: (loads[n], n),
        )
        packed[number].append(piece)
        loads[number] += piece.rows
    return [tuple(sorted(task)) for task in packed if task]


def _split(r: PlannedRange, pieces: int) -> Sequence[PlannedRange]:
    """Almost equal pieces, in order."""
    cuts = [r.start + r.rows * n // pieces for n in range(pieces + 1)]
    return [replace(r, start=start, end=end) for start, end in itertools.pairwise(cuts)]
