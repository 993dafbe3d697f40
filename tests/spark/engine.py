"""Spark's side of a streaming query without Spark: the calls that its micro-batch engine makes of a
source, in their order, with a log of offsets and commits that outlives the query, as a checkpoint
does.

A query can end at each point where a process can die: `Crash` says where. What is written to the
sink stays. The process itself is the test's: a death is a session that is closed without a word, as
it is when the JVM is killed and the source's process hears of it. Everything else is real:
ZooKeeper, coordinator, broker, decoder.
"""

from __future__ import annotations

import enum
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.streaming.datasource import ReadLimit

from consumer.spark.plan import parse_plan
from consumer.spark.schema import full_schema
from consumer.spark.source import ZkcoordSource, ZkcoordStreamReader
from tests.harness.wait import wait_until
from zkcoord.core.model import TopicPartition

PATIENCE_S = 120.0


class Crash(enum.Enum):
    """Where a query dies: after which of its steps."""

    PLANNED = "latestOffset answered, nothing logged"
    LOGGED = "the offsets are logged, nothing is read"
    READ = "records are read, nothing is written"
    WRITTEN = "the sink has the batch, Spark's commit is not logged"
    COMMITTED = "Spark's commit is logged, the group does not know"


@dataclass
class Checkpoint:
    """What survives a query. `rows` is what the sink has: how often each record."""

    offsets: list[str] = field(default_factory=list)
    commits: int = 0


Sink = Counter[tuple[str, int, int]]


class Query:
    """One run of a query on a checkpoint."""

    def __init__(self, options: Mapping[str, str], checkpoint: Checkpoint, sink: Sink) -> None:
        source = ZkcoordSource({name.lower(): value for name, value in options.items()})
        reader = source.streamReader(full_schema(headers=False))
        self.reader: ZkcoordStreamReader = cloudpickle.loads(cloudpickle.dumps(reader))
        self.checkpoint = checkpoint
        self.sink = sink
        self.limit: ReadLimit = self.reader.getDefaultReadLimit()
        self.begun = False
        self.ended = False
        self.written = 0
        self.start: dict[str, Any] = {}

    def begin(self) -> None:
        """As after a start: a batch that was logged and not committed is run first."""
        for _ in self.beginning():
            pass

    def beginning(self) -> Iterator[Crash]:
        """The same, step by step."""
        self.begun = True
        log = self.checkpoint.offsets
        if not log:
            self.start = json.loads(json.dumps(self.reader.initialOffset()))
            return
        self.start = json.loads(log[-1])
        if self.checkpoint.commits < len(log):
            before = json.loads(log[-2]) if len(log) > 1 else self.reader.initialOffset()
            yield from self.run(before, self.start)

    def steps(self) -> Iterator[Crash]:
        """One trigger, step by step; no step where there is nothing to read."""
        if not self.begun:
            yield from self.beginning()
        end = json.loads(
            json.dumps(self.reader.latestOffset(json.loads(json.dumps(self.start)), self.limit))
        )
        if json.dumps(end) == json.dumps(self.start):
            return
        yield Crash.PLANNED
        self.checkpoint.offsets.append(json.dumps(end))
        yield Crash.LOGGED
        before, self.start = self.start, end
        yield from self.run(before, end)

    def run(self, before: dict[str, Any], end: dict[str, Any]) -> Iterator[Crash]:
        """From the log of the offsets to that of the commit, step by step."""
        tasks = [
            cloudpickle.loads(cloudpickle.dumps(task))
            for task in self.reader.partitions(before, end)
        ]
        executor: ZkcoordStreamReader = cloudpickle.loads(cloudpickle.dumps(self.reader))
        rows = [
            (row["topic"], row["partition"], row["offset"])
            for task in tasks
            for batch in executor.read(task)
            for row in batch.select(["topic", "partition", "offset"]).to_pylist()
        ]
        yield Crash.READ
        self.sink.update(rows)
        self.written += len(rows)
        yield Crash.WRITTEN
        self.checkpoint.commits = len(self.checkpoint.offsets)
        yield Crash.COMMITTED

    def trigger(self, crash: Crash | None = None) -> int:
        """One trigger: how many records were written. With `crash` the query ends there, if there
        is something to read.
        """
        before = self.written
        if not self.begun:
            self.begin()
        for step in self.steps():
            if step is crash:
                return self.die()
        return self.written - before

    def die(self) -> int:
        """The session ends; nothing is stored."""
        self.ended = True
        self.reader.stop()
        return 0

    stop = die

    @property
    def owned(self) -> set[TopicPartition]:
        """What the member owns now."""
        member = self.reader._membership()
        with member.assignment.lock:
            return set(member.assignment.owned)

    def drained(self) -> None:
        """Trigger until nothing is left and all is stored."""
        wait_until(
            lambda: self.trigger() == 0 and not self.reader._membership().assignment.uncommitted,
            PATIENCE_S,
            "the end of a backlog",
        )

    def last_ranges(self) -> dict[str, tuple[int, int]]:
        """Of the plan that was logged last."""
        return {str(r.tp): (r.start, r.end) for r in parse_plan(self.checkpoint.offsets[-1]).ranges}


def settled(queries: list[Query], partitions: int) -> None:
    """Trigger all until they own everything, each once and evenly."""

    def shared() -> bool:
        for query in queries:
            query.trigger()
        sizes = sorted(len(query.owned) for query in queries)
        return sum(sizes) == partitions and sizes[-1] - sizes[0] <= 1

    wait_until(shared, PATIENCE_S, f"{partitions} partitions shared by {len(queries)} queries")


def until(queries: list[Query], sink: Sink, total: int) -> None:
    """Trigger all until so many different records are written."""

    def enough() -> bool:
        for query in queries:
            query.trigger()
        return len(sink) >= total

    wait_until(enough, PATIENCE_S, f"{total} records")
