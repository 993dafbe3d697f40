"""Which batch is Spark running? What a function of `foreachBatch` is not told, asked of the query
that calls it: its id, and the plan of the batch, which is the end offset that the source gave.

The batch's thread carries the query's id as a local property; from there the running query is found
in the session's list, and its offsets are read. A batch whose end is where the last one ended has
no ranges: Spark runs such a batch when a watermark has moved.

A batch that is read again after a crash has the plan of a member that is gone. The source decides
anew what of it is still its own, and says so in ZooKeeper (`Layout.replayed_plan`) before Spark
calls the sink.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from consumer.spark.plan import Plan, PlanError, parse_plan, plan_of
from consumer.spark.sink.effects import Keeper
from consumer.spark.sink.errors import SinkRefusedError
from zkcoord.core.model import Malformed
from zkcoord.core.value_type import value
from zkcoord.zk.port import GetData, Node
from zkcoord.znodes.codec import decode_replayed_plan
from zkcoord.znodes.names import shown
from zkcoord.znodes.paths import layout_named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID = "sql.streaming.queryId"
OUTSIDE = (
    "the fenced sink is not called by a streaming query: give it to writeStream.foreachBatch(...),"
    " in the driver of a classic Spark session"
)


@value
class RunningBatch:
    """What a query runs now."""

    # The query's id, a UUID.
    query: str
    # The plan of its present batch.
    plan: Plan
    # Whether the query is still active; any thread.
    active: Callable[[], bool]


def planned(df: DataFrame) -> RunningBatch:
    """The batch that `df` is. Raises `SinkRefusedError` where it is none, or not of one source of
    ours alone.
    """
    spark: Any = df.sparkSession
    if not hasattr(spark, "_jvm"):
        raise SinkRefusedError(OUTSIDE)
    query = spark.sparkContext.getLocalProperty(QUERY_ID)
    execution = query and spark._jsparkSession.sharedState().activeStreamingQueries().get(
        spark._jvm.java.util.UUID.fromString(query)
    )
    if not execution:
        raise SinkRefusedError(OUTSIDE)
    ends, begins = _texts(execution.availableOffsets()), _texts(execution.committedOffsets())
    if len(ends) != 1 or not _is_plan(ends[0]):
        raise SinkRefusedError(
            "the fenced sink needs a query that reads from one zkcoord source and nothing else:"
            " join or union with other streams in a query of its own, downstream of this sink's"
            " files"
        )
    plan = parse_plan(ends[0])
    return RunningBatch(
        query, replace(plan, ranges=()) if ends == begins else plan, lambda: _is_active(execution)
    )


def _is_active(execution: Any) -> bool:
    from py4j.protocol import Py4JError

    try:
        return bool(execution.isActive())
    except (Py4JError, OSError):
        return False  # its JVM is gone


def current(plan: Plan, keeper: Keeper) -> Plan:
    """The plan itself, or the one that takes its place where the batch is read again; of the same
    group, because everything that a sink writes is of that one. Raises `PlanError`,
    `UnavailableError`.
    """
    path = layout_named(plan.layout).replayed_plan(plan.group, plan.incarnation, plan.number)
    (again,) = keeper.look((GetData(path),))
    if not isinstance(again, Node):
        return plan
    replayed = decode_replayed_plan(path.rpartition("/")[2], again.data)
    if isinstance(replayed, Malformed):
        raise PlanError(
            f"the plan in {path} cannot be read ({replayed.reason}): see who wrote it, then start"
            " the query again, which writes it anew"
        )
    if (replayed.group, replayed.layout) != (plan.group, plan.layout):
        raise PlanError(
            f"the plan in {path} is one of the group {shown(replayed.group)}: see who wrote it,"
            " then start the query again, which writes it anew"
        )
    return plan_of(replayed)


def _texts(progress: Any) -> list[str]:
    """The offsets of a query's sources, as texts."""
    found, offsets = [], progress.valuesIterator()
    while offsets.hasNext():
        offset = offsets.next()
        found.append(str(offset.json()) if offset is not None else "")
    return found


def _is_plan(text: str) -> bool:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and {"v", "n", "ranges", "incarnation"} <= set(value)
