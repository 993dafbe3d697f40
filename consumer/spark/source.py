"""`format("zkcoord")`: the streaming source whose applications share one coordinated group, and the
batch reader.

Where things run. Spark pickles the data source and its readers, and calls a stream reader's
`latestOffset`, `partitions` and `stop` in one process for the life of a query (a child of the
driver's JVM): there, on first use, the membership begins. `read` runs in Python workers on
executors and knows nothing but its ranges. Importing this module needs pyspark and pyarrow.

The order of a batch, which everything here relies on: latestOffset (what it is given is durably
written) -> Spark logs what it returned -> partitions -> read -> the sink's commit -> Spark logs
that -> latestOffset. After a crash between the two logs a new process is asked for `partitions` of
the logged batch before anything else.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from consumer.errors import ConsumerOptionError
from consumer.spark.batch_reader import BatchPlanner
from consumer.spark.decode import open_reader
from consumer.spark.journal import QueryJournal
from consumer.spark.options import (
    BatchOptions,
    ReadOptions,
    StreamOptions,
    batch_options,
    check_at_load,
    stream_options,
)
from consumer.spark.plan import PARTITIONS_PER_PLAN_MAX, Plan, PlannedRange, pack, parse_plan
from consumer.spark.plan_recovery import replay
from consumer.spark.progress import aim, arrived, report, warn_of_unsettled
from consumer.spark.query_member import QueryMember
from consumer.spark.schema import columns_of, full_schema
from consumer.spark.task_process import begin_task, task_ends, tell_people
from consumer.spark.workers import carried

log = logging.getLogger(__name__)

FORMAT = "zkcoord"
IDLE_WAIT_S = 0.05
ALL_ROWS = 2**62
"""The limit of a query without one. Spark asks with it each time, but for Trigger.Once, which asks
for all that is available.
"""
PATIENCE_SESSIONS = 3
PATIENCE_MIN_S = 60.0


class ZkcoordSource(DataSource):
    """The data source; `consumer.spark.register` makes it known. Options:
    `consumer.spark.options`.
    """

    def __init__(self, options: dict[str, str]) -> None:
        """What `load()` does. Raises `ConsumerOptionError`, which says all that is refused."""
        super().__init__(options)
        check_at_load(options)

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return FORMAT

    def schema(self) -> StructType:
        """All columns of Spark's own Kafka source; `headers` on request."""
        return full_schema(self.options.get("includeheaders", "false").strip().lower() == "true")

    def streamReader(self, schema: StructType) -> ZkcoordStreamReader:
        """A stream's reader. Raises `ConfigurationError`."""
        return ZkcoordStreamReader(stream_options(self.options), columns_of(schema))

    def reader(self, schema: StructType) -> ZkcoordReader:
        """A batch's reader. Raises `ConfigurationError`."""
        return ZkcoordReader(batch_options(self.options), columns_of(schema))


@dataclass
class ReadTask(InputPartition):
    """What one task reads."""

    ranges: tuple[PlannedRange, ...]
    # Kafka's bootstrap servers, for options that do not name them.
    brokers: str


def read_task(
    options: ReadOptions, columns: Sequence[str], task: ReadTask
) -> Iterator[pa.RecordBatch]:
    """The records of a task. Raises `ReadError`."""
    settings = {"bootstrap.servers": task.brokers, **options.kafka}
    reader = open_reader(
        settings,
        options.engine,
        options.fail_on_data_loss,
        null_timestamps=options.null_timestamps,
    )
    yield from reader.read(task.ranges, columns)
    task_ends()


class ZkcoordReader(DataSourceReader):
    """Explicit ranges, no group."""

    def __init__(self, options: BatchOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def __reduce__(self) -> Any:
        return carried(self, self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        begin_task(self, state)

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges as tasks; asks the brokers where they begin and end. Raises `ReadError`."""
        ranges = BatchPlanner(self._options).ranges()
        return [
            ReadTask(task, self._options.read.kafka["bootstrap.servers"])
            for task in pack(ranges, self._options.read.tasks)
        ]

    def read(self, partition: ReadTask) -> Iterator[pa.RecordBatch]:  # type: ignore[override]  # of ours alone
        """The records of a task, as Arrow."""
        return read_task(self._options.read, self._columns, partition)


class ZkcoordStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query's reader. Spark calls it on one thread at a time."""

    def __init__(self, options: StreamOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        # Only in the process that plans, from the first call until `stop`; a copy that was pickled
        # begins without.
        self._member: QueryMember | None = None
        # As `_member`, from the first line on.
        self._journal: QueryJournal | None = None
        # The start that Spark asked with last, and the plan that it holds.
        self._asked: tuple[dict[str, Any], Plan] = ({}, Plan())

    def __reduce__(self) -> Any:
        return carried(self, {**self.__dict__, "_member": None, "_journal": None})

    def __setstate__(self, state: dict[str, Any]) -> None:
        begin_task(self, state)

    def _membership(self) -> QueryMember:
        if self._member is None:
            tell_people()
            self._member = QueryMember(self._options, self._lines.observer)
            leave_on_sigterm()
        return self._member

    @property
    def _lines(self) -> QueryJournal:
        if self._journal is None:
            self._journal = QueryJournal(self._options.journal)
        return self._journal

    @property
    def _patience_s(self) -> float:
        return max(
            PATIENCE_MIN_S, PATIENCE_SESSIONS * self._membership().zk.session_timeout_ms / 1000
        )

    # planning

    def initialOffset(self) -> dict[str, Any]:
        """Nothing was planned yet. Joins, so that the group may assign while Spark goes on."""
        self._membership()
        return Plan().to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:
        """`maxOffsetsPerTrigger`."""
        return ReadMaxRows(ALL_ROWS if self._options.max_rows is None else self._options.max_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The next plan, or `start` itself where there is nothing to read. Waits a moment for
        something to read, so that an idle query costs little. Raises `ConsumerError`.
        """
        member, done = self._membership(), self._parsed(start)
        max_rows = (
            limit.max_rows if isinstance(limit, ReadMaxRows) and limit.max_rows < ALL_ROWS else None
        )
        if isinstance(limit, ReadAllAvailable) and member.planner.targets is None:
            self._aim_once(member)
        deadline = time.monotonic() + (
            IDLE_WAIT_S if member.planner.targets is None else self._patience_s
        )
        while True:
            member.session.check()
            member.drain.follow()
            if member.commit_written(done):
                self._lines.stored(done, member.assignment)
                if member.drain.asked:
                    member.drain.drained.set()
                    return start
                planned = member.planner.next_plan(done.number + 1, max_rows)
                if planned is not None:
                    self._lines.planned(planned)
                    return planned.to_dict()
            left = deadline - time.monotonic()
            if arrived(member, left) or left <= 0:
                return start
            member.session.wait(min(left, IDLE_WAIT_S))

    def _parsed(self, start: dict[str, Any]) -> Plan:
        """Spark asks with the same offset again and again while there is nothing to read."""
        if self._asked[0] != start:
            self._asked = (start, self._own(parse_plan(start)))
        return self._asked[1]

    def _own(self, logged: Plan) -> Plan:
        """A plan of this group; raises `ConsumerOptionError` for another's."""
        if logged.group not in ("", self._options.group):
            raise ConsumerOptionError(
                f"the checkpoint is one of group {logged.group!r}, and groupId is"
                f" {self._options.group!r}: use a new checkpointLocation, the positions of both"
                " groups are in ZooKeeper"
            )
        return logged

    def prepareForTriggerAvailableNow(self) -> None:
        """Notes the ends of now, and waits until the group has shared out its partitions. Raises
        `ConsumerError`.
        """
        aim(self._membership(), self._patience_s)

    def _aim_once(self, member: QueryMember) -> None:
        """Trigger.Once: one batch, of what is there now, once the group has shared that out. Raises
        `ConsumerError`.
        """
        aim(member, self._patience_s)
        with member.assignment.lock:
            owned = len(member.assignment.owned)
        if owned > PARTITIONS_PER_PLAN_MAX:
            log.warning(
                "this query owns %d partitions, and a batch has %d at most: Trigger.Once reads no"
                " others, Trigger.AvailableNow reads all",
                owned,
                PARTITIONS_PER_PLAN_MAX,
            )

    def reportLatestOffset(self) -> dict[str, Any]:
        """For the progress of the query: member, generation, lag."""
        return report(self._membership())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of a plan as tasks: of the plan that was just made, or, after a crash or a
        lost session, of what of it is still this query's to read. Raises `ConsumerError`.
        """
        member, logged = self._membership(), self._own(parse_plan(end))
        if start == end:
            return []
        running = member.planner.confirmed(logged)
        if running is None:
            running = replay(member, logged, self._patience_s)
            self._lines.planned(running)
        brokers = (
            ",".join(member.brokers) if not isinstance(member.brokers, str) else member.brokers
        )
        return [ReadTask(task, brokers) for task in pack(running.ranges, self._options.read.tasks)]

    def read(self, partition: ReadTask) -> Iterator[pa.RecordBatch]:  # type: ignore[override]  # of ours alone
        """The records of a task, as Arrow."""
        return read_task(self._options.read, self._columns, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark says this too late, and of the last batch never: `latestOffset` is the barrier."""

    def stop(self) -> None:
        """Leave the group. More than once is fine."""
        member, self._member = self._member, None
        if member is not None:
            if (
                signal.getsignal(signal.SIGTERM) is _leave
                and threading.current_thread() is threading.main_thread()
            ):
                signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Spark's may come while this leaves
            with member.assignment.lock:
                lost = () if member.session.leased() else tuple(member.assignment.owned)
            self._lines.closing(lost)
            warn_of_unsettled(member)
            member.close()


def leave_on_sigterm() -> None:
    """Spark ends this process by closing its socket and by SIGTERM, whichever comes first: make
    both run `stop`.
    """
    if (
        signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        and threading.current_thread() is threading.main_thread()
    ):
        signal.signal(signal.SIGTERM, _leave)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(0)
