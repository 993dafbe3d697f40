"""The decode path behind Spark without any group: a streaming source of fixed partitions from their
first record on, `format("zkcoord-plain")`.

Shows what the reader and Spark's Python path can do, with the coordination taken out; the same
ranges, packed in the same way. Options: kafka.* as the source's, topic, partitions,
maxOffsetsPerTrigger, numTasks, engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from consumer.spark.decode import open_reader
from consumer.spark.plan import PlannedRange, pack
from consumer.spark.schema import columns_of, full_schema

BOUNDS_S = 30.0


@dataclass
class Task(InputPartition):
    """Ranges of one task."""

    ranges: tuple[PlannedRange, ...]

    def __init__(self, ranges: tuple[PlannedRange, ...]) -> None:
        super().__init__(0)
        self.ranges = ranges


class PlainReader(DataSourceStreamReader):
    """Offsets are {partition: next offset}."""

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self._columns = columns_of(schema)
        self._kafka = {
            name.removeprefix("kafka."): value
            for name, value in options.items()
            if name.startswith("kafka.")
        }
        self._topic = options["topic"]
        self._partitions = int(options["partitions"])
        self._max = int(options.get("maxoffsetspertrigger", 1 << 60))
        self._tasks = int(options.get("numtasks", 2))
        self._engine = options.get("engine", "auto")
        self._ends: dict[str, int] = {}

    def initialOffset(self) -> dict[str, Any]:
        """The beginning."""
        return {str(partition): 0 for partition in range(self._partitions)}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Everything; the limit is applied here."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """As far as the limit goes; the topic does not grow."""
        if not self._ends:
            asker = Consumer(
                {"bootstrap.servers": self._kafka["bootstrap.servers"], "group.id": "zkcoord-plain"}
            )
            self._ends = {
                name: int(
                    asker.get_watermark_offsets(TopicPartition(self._topic, int(name)), BOUNDS_S)[1]
                )
                for name in start
            }
            asker.close()
        return {
            name: min(self._ends[name], at + self._max // self._partitions)
            for name, at in start.items()
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Packed."""
        return [
            Task(ranges)
            for ranges in pack(
                [PlannedRange(self._topic, int(name), at, end[name]) for name, at in start.items()],
                self._tasks,
            )
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batches of a task."""
        assert isinstance(partition, Task)
        return open_reader(self._kafka, self._engine).read(partition.ranges, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept."""


class PlainSource(DataSource):
    """`format("zkcoord-plain")`."""

    @classmethod
    def name(cls) -> str:
        """Of the format."""
        return "zkcoord-plain"

    def schema(self) -> StructType:
        """Without headers."""
        return full_schema(headers=False)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Of these columns."""
        return PlainReader(schema, dict(self.options))
