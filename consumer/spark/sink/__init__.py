"""Sinks that keep the fence: what is written counts once, whoever else wakes up late. docs/spark.md
has the guarantees of each.

    from consumer.spark.sink import fenced_parquet
    stream.writeStream.foreachBatch(fenced_parquet("hdfs:///orders")).option("checkpointLocation",
        ...).start()

`foreach` has the functions for Spark. `publication` says how a batch is published, finished by
others and cleaned away, and does nothing itself; `fence` is the fence, `manifest` the names and
documents; `effects` and `files` carry the steps out; `running_batch` finds the plan of the batch
that Spark runs.
"""

from __future__ import annotations

from consumer.spark.sink.errors import (
    DamagedSinkError,
    FencedBatchError,
    SinkError,
    SinkRefusedError,
)
from consumer.spark.sink.foreach import fenced, fenced_parquet, fenced_ranges

__all__ = [
    "DamagedSinkError",
    "FencedBatchError",
    "SinkError",
    "SinkRefusedError",
    "fenced",
    "fenced_parquet",
    "fenced_ranges",
]
