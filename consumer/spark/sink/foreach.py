"""Sinks for `writeStream.foreachBatch(...)` that write only while the fence holds.

* `fenced_parquet(directory)`: exactly once. Spark writes each batch into a staging folder; one
  transaction in ZooKeeper advances the offsets and names the files; then they are moved to where
  readers see them.
* `fenced_ranges(write)`: exactly once, where `write(df, batch_id, ranges)` keeps the ranges' fence
  (`PlannedRange.owner`) and ends in its own transaction, as docs/examples/spark_sql_sink.py does.
* `fenced(write)`: for any `write(df, batch_id)`. It is not called for a batch that is fenced
  already, and its offsets are advanced right after it. What can be written twice is a batch whose
  writer died, or was fenced, between the two: at most one planned batch per partition and crash.

All run in the driver of a classic Spark session. Each raises `FencedBatchError` for a batch that
must not be written any more: the query ends, and started again it goes on where the group stands.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from consumer.spark.plan import PlannedRange
from consumer.spark.sink import publication
from consumer.spark.sink.effects import Keeper, perform
from consumer.spark.sink.fence import Batch
from consumer.spark.sink.files import Files, files_at
from consumer.spark.sink.recovery import SinkWatch
from consumer.spark.sink.running_batch import RunningBatch, current, planned
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.paths import layout_named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NONCE_BYTES = 4

Write = Callable[["DataFrame", int], None]
WriteRanges = Callable[["DataFrame", int, tuple[PlannedRange, ...]], None]


class BatchWriter(Protocol):
    """How a batch is written while the fence holds."""

    def write(
        self, df: DataFrame, keeper: Keeper, batch: Batch, is_active: Callable[[], bool]
    ) -> None:
        """Write one batch. `is_active`: whether the query runs, by what its latest batch said."""

    def close(self) -> None:
        """Nothing more is written."""


class FencedFunction:
    """What `foreachBatch` calls."""

    def __init__(self, writer: BatchWriter, zk: ZkOptions | None = None) -> None:
        self._writer = writer
        # How ZooKeeper is reached where more than the source's connect string is needed (TLS,
        # credentials).
        self._zk = zk
        # The session with ZooKeeper; None before the first batch and after `close`.
        self._keeper: Keeper | None = None
        # Whether the query runs, by what its latest batch said. Called on the sink's watch, too.
        self._active: Callable[[], bool] = lambda: False
        # Guards `_keeper`; held while a batch is written.
        self._lock = threading.Lock()

    def _is_active(self) -> bool:
        return self._active()

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """One batch. Raises `FencedBatchError`, `SinkRefusedError`, `DamagedSinkError`,
        `UnavailableError`.
        """
        found = planned(df)
        if not found.plan.group:
            return  # Spark's first batch, before anything was planned: there are no rows
        with self._lock:
            self._active = found.active
            if self._keeper is None:
                self._keeper = Keeper(self._zk or ZkOptions(found.plan.zookeeper))
            plan = current(found.plan, self._keeper) if found.plan.ranges else found.plan
            batch = batch_of(replace(found, plan=plan), batch_id)
            self._writer.write(df, self._keeper, batch, self._is_active)

    def close(self) -> None:
        """End the session with ZooKeeper; another call opens another."""
        self._writer.close()
        with self._lock:
            keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.close()


class ParquetWriter:
    """See `fenced_parquet`."""

    def __init__(
        self, directory: str, partition_by: Sequence[str], options: dict[str, Any]
    ) -> None:
        self._directory = directory
        self._partition_by = tuple(partition_by)
        # Those of Spark's Parquet writer.
        self._options = options
        # None before the first batch.
        self._files: Files | None = None
        # Claims (topic, partition, owner) whose former owners' leavings were recovered.
        self._recovered: set[tuple[str, int, int]] = set()
        # None before the first batch and after `close`.
        self._watch: SinkWatch | None = None

    def write(
        self, df: DataFrame, keeper: Keeper, batch: Batch, is_active: Callable[[], bool]
    ) -> None:
        """Recover what departed owners of newly claimed partitions have left, then publish."""
        if self._files is None:
            self._files = files_at(self._directory, df.sparkSession)
        files, place = (
            self._files,
            publication.SinkPlace(batch.layout, batch.group, self._files.uri, keeper.options.acl),
        )
        if self._watch is None or not self._watch.is_alive():
            self._watch = SinkWatch(place, Keeper(keeper.options), files, is_active)
            self._watch.start()
        claims = {(r.topic, r.partition, r.owner) for r in batch.ranges}
        if not claims <= self._recovered:
            perform(publication.recover(place, batch.incarnation), keeper, files)
            self._recovered = claims | {
                claim
                for claim in self._recovered
                if claim[:2] not in {known[:2] for known in claims}
            }
        if batch.ranges:
            self._publish(df, keeper, place, batch, files)
        else:
            rows = df.persist()
            try:
                if not rows.isEmpty():
                    self._publish(rows, keeper, place, batch, files)
            finally:
                rows.unpersist()

    def close(self) -> None:
        """The watch ends."""
        if self._watch is not None:
            self._watch.end()
            self._watch = None

    def _publish(
        self,
        df: DataFrame,
        keeper: Keeper,
        place: publication.SinkPlace,
        batch: Batch,
        files: Files,
    ) -> None:
        def stage(folder: str) -> tuple[str, ...]:
            writer = df.write.mode("error").options(**self._options)
            (writer.partitionBy(*self._partition_by) if self._partition_by else writer).parquet(
                f"{files.uri}/{folder}"
            )
            return files.written(folder)

        perform(
            publication.publish(place, batch, secrets.token_hex(NONCE_BYTES)), keeper, files, stage
        )


class CheckedWriter:
    """See `fenced` and `fenced_ranges`."""

    def __init__(self, write: WriteRanges) -> None:
        self._write = write

    def write(
        self, df: DataFrame, keeper: Keeper, batch: Batch, is_active: Callable[[], bool]
    ) -> None:
        """Prove, write, advance the offsets."""
        if batch.ranges and not perform(publication.check(batch), keeper):
            return
        self._write(df, batch.number, batch.ranges)
        if batch.ranges:
            perform(
                publication.commit(
                    publication.SinkPlace(batch.layout, batch.group, "", keeper.options.acl), batch
                ),
                keeper,
            )

    def close(self) -> None:
        """Nothing is open."""


def fenced_parquet(
    directory: str, partition_by: Sequence[str] = (), zk: ZkOptions | None = None, **options: Any
) -> FencedFunction:
    """A function for `foreachBatch` that writes Parquet files into `directory`, each record exactly
    once. `options` are those of Spark's Parquet writer (`compression`, ...). All applications of a
    group that write to one directory share it; it is HDFS or a file system that all see, since it
    rests on atomic rename.
    """
    return FencedFunction(ParquetWriter(directory, partition_by, options), zk)


def fenced(write: Write, zk: ZkOptions | None = None) -> FencedFunction:
    """`write`, called only for a batch that may still be written; its offsets are advanced right
    after it.
    """
    return FencedFunction(CheckedWriter(lambda df, batch_id, _ranges: write(df, batch_id)), zk)


def fenced_ranges(write: WriteRanges, zk: ZkOptions | None = None) -> FencedFunction:
    """The same for a `write` that keeps the fence in one transaction with its rows: it is given the
    ranges of the batch, each with its fence (`owner`, which rises with each claim of the
    partition).
    """
    return FencedFunction(CheckedWriter(write), zk)


def batch_of(found: RunningBatch, batch_id: int) -> Batch:
    """The sink's view of a plan."""
    plan = found.plan
    ranges = tuple(sorted(r for r in plan.ranges if r.rows))
    return Batch(
        layout_named(plan.layout),
        plan.group,
        plan.member,
        plan.incarnation,
        batch_id,
        ranges,
        found.query,
    )
