"""Rows in the order in which the rules want them.

By time, where all processes that wrote them share a clock (their first lines name one host). Else
by ZooKeeper: each row of a member belongs to the ownership that the member's own lines say it was
in (a stay: from a claim to the next one of the same member), stays are ordered by the lowest
version of the offset that they tell of, which their claims wrote, and no time of one host is
compared with one of another. A stay that tells of no version and handed out nothing says nothing.

How a member ended. What a scenario or the member itself says counts. A member whose lines just end
is taken for killed when it last did something (a zombie may wake, see that its lease is over, and
die before it can write down what it lost).
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from consumer.spark.audit.rows import AFTER_ALL, BEFORE_ALL, SCHEMA, UNKNOWN, FactRow, RowKind
from zkcoord.errors import ConfigurationError
from zkcoord.verdict.facts import OwnershipEnd, RebalanceSeen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Order(enum.Enum):
    """What orders the ownerships of a partition; the values are the words of the command line."""

    AUTO = "auto"
    TIME = "time"
    ZOOKEEPER = "zookeeper"


@dataclass
class Processes:
    """What the lines say of the processes themselves. `unordered`: ownerships of which ZooKeeper's
    order is not told.
    """

    hosts: set[str] = field(default_factory=set)
    unordered: int = 0
    unreadable: int = 0
    holes: int = 0
    rebalances: list[RebalanceSeen] = field(default_factory=list)
    last_ns: dict[str, int] = field(default_factory=dict)
    ended: dict[str, tuple[int, str]] = field(default_factory=dict)

    def choose(self, wanted: Order, untold: Callable[[], int]) -> Order:
        """TIME or ZOOKEEPER. `untold` counts the stays that cannot be ordered. Raises
        `ConfigurationError` where ZooKeeper's order is wanted and not told.
        """
        if wanted is Order.TIME or (wanted is Order.AUTO and len(self.hosts) <= 1):
            return Order.TIME
        self.unordered = untold()
        if wanted is Order.ZOOKEEPER and self.unordered:
            raise ConfigurationError(
                f"{self.unordered} of the ownerships in the journal do not say where they stand in"
                " ZooKeeper's order (`orders` in the consumers' lines): use --order time, if all"
                " hosts' clocks agree."
            )
        return Order.TIME if self.unordered else Order.ZOOKEEPER


def processes_of(rows: DataFrame) -> Processes:
    """Collected to the driver: a few rows for each process, one for each rebalance."""
    from pyspark.sql import functions as F

    found = Processes()
    few = rows.where(F.col("kind") >= int(RowKind.ENDED)).select(
        "t", "kind", "member", "a", "b", "text"
    )
    for t, kind, member, a, b, text in few.collect():
        if kind == RowKind.ALIVE:
            found.last_ns[member] = max(t, found.last_ns.get(member, 0))
        elif kind == RowKind.ENDED:
            before = found.ended.get(member)
            found.ended[member] = (
                (t, text) if before is None or text == OwnershipEnd.KILLED.value else before
            )
        elif kind == RowKind.STARTED:
            found.hosts.add(text)
        elif kind == RowKind.REBALANCED:
            found.rebalances.append(RebalanceSeen(t, text, member, a, b))
        elif kind == RowKind.UNREADABLE:
            found.unreadable += 1
        elif kind == RowKind.HOLE:
            found.holes += a
    found.rebalances.sort(key=lambda rebalance: rebalance.t_ns)
    return found


def stays(rows: DataFrame) -> DataFrame:
    """The rows of members with `stay` (counted for each partition and member; 0: before any claim)
    and `begun`, the lowest version that the stay tells of, null for none.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    own = (
        Window.partitionBy("topic", "number", "member")
        .orderBy("t", "rank", "line")
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    counted = rows.where((F.col("kind") < int(RowKind.ENDED)) & (F.col("member") != "")).withColumn(
        "stay", F.sum(F.when(F.col("kind") == int(RowKind.ASSIGNED), 1).otherwise(0)).over(own)
    )
    return counted.withColumn(
        "begun",
        F.min(F.when(F.col("orders") != UNKNOWN, F.col("orders"))).over(
            Window.partitionBy("topic", "number", "member", "stay")
        ),
    )


def untold(rows: DataFrame) -> int:
    """How many stays handed something out and tell of no version."""
    from pyspark.sql import functions as F

    return (
        stays(rows)
        .where(
            (F.col("stay") > 0)
            & F.col("begun").isNull()
            & (F.col("kind") == int(RowKind.DELIVERED))
        )
        .select("topic", "number", "member", "stay")
        .distinct()
        .count()
    )


def ends_of(processes: Processes) -> list[FactRow]:
    """ENDED rows of members whose lines just end."""
    return [
        FactRow(
            "", 0, 0, t, 0, AFTER_ALL, int(RowKind.ENDED), member, text=OwnershipEnd.KILLED.value
        )
        for member, t in processes.last_ns.items()
        if member not in processes.ended
    ]


def in_order(
    spark: SparkSession, rows: DataFrame, order: Order, more_ends: list[FactRow]
) -> DataFrame:
    """The rows of partitions, with their blocks; how members ended is told to each partition that
    they had.
    """
    from pyspark.sql import functions as F

    columns = rows.columns
    ends = rows.where(F.col("kind") == int(RowKind.ENDED))
    if more_ends:
        ends = ends.unionAll(spark.createDataFrame([tuple(row) for row in more_ends], SCHEMA))
    of_partitions = rows.where(F.col("kind") < int(RowKind.ENDED))
    had = (
        of_partitions.where(F.col("kind") == int(RowKind.ASSIGNED))
        .select("member", "topic", "number")
        .distinct()
    )
    released = (
        ends.drop("topic", "number")
        .join(had, "member")
        .withColumn("kind", F.lit(int(RowKind.RELEASED)))
        .select(*columns)
    )
    facts = of_partitions.unionAll(released)
    if order is Order.TIME:
        return facts
    of_members = stays(facts).where((F.col("stay") == 0) | F.col("begun").isNotNull())
    of_members = of_members.withColumn(
        "block", F.when(F.col("stay") == 0, F.lit(BEFORE_ALL + 1)).otherwise(F.col("begun"))
    )
    of_members = of_members.withColumn(
        "orders",
        F.when(F.col("kind") == int(RowKind.ASSIGNED), F.col("begun")).otherwise(F.col("orders")),
    )
    others = facts.where(
        (F.col("member") == "") & (F.col("kind") != int(RowKind.STORED))
    ).withColumn("block", F.lit(BEFORE_ALL).cast("long"))
    return of_members.select(*columns).unionAll(others.select(*columns))
