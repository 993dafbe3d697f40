"""What a Spark session does once before its query joins the group, so that partitions do not wait
for it.

A partition belongs to a query from its claim on, and is read when the query's first batch is. In a
new JVM that batch takes seconds: classes are loaded and plans compiled, Python workers start and
import. `warm_up` runs a stream of no records through the same path, from a Python source over the
application's own transformations to a writer, and only then does the application start its query.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from consumer.spark import source  # noqa: F401  # with it comes what a query needs
from consumer.spark.decode.engines import choose
from consumer.spark.schema import arrow_schema, columns_of, full_schema
from consumer.spark.sink.files import files_at

FORMAT = "zkcoord-warm-up"
FOLDER_BYTES = 4

Build = Callable[[DataFrame], DataFrame]


class WarmUpReader(DataSourceStreamReader):
    """One batch without records, read by one task with the engine that the query will use."""

    def __init__(self, columns: tuple[str, ...], engine: str) -> None:
        self._columns = columns
        self._engine = engine

    def initialOffset(self) -> dict[str, Any]:
        """Before the batch."""
        return {"batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        """There is one batch."""
        return ReadAllAvailable()

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Behind the batch."""
        return {"batch": 1}

    def partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> Sequence[InputPartition]:
        """One task."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """No records, after the engine was imported."""
        choose(self._engine)
        schema = arrow_schema(self._columns)
        yield pa.RecordBatch.from_arrays(
            [pa.array([], field.type) for field in schema], schema=schema
        )

    def commit(self, end: Mapping[str, Any]) -> None:
        """Nothing is kept."""


class WarmUpSource(DataSource):
    """A stream with the columns of `format("zkcoord")`, and no records; a worker that reads it has
    imported what the other needs.
    """

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return FORMAT

    def schema(self) -> StructType:
        """All columns; the headers, which are more work, among them."""
        return full_schema(headers=True)

    def streamReader(self, schema: StructType) -> WarmUpReader:
        """A stream's reader."""
        return WarmUpReader(columns_of(schema), self.options.get("engine", "auto"))


def warm_up(
    spark: SparkSession, build: Build = lambda rows: rows, directory: str = "", engine: str = "auto"
) -> None:
    """Run a batch without records through this session; to be called before the query starts. It
    takes what the first batch would have taken: seconds.

    `build`: what the application makes of the source's rows, so that its plans are compiled, too.
    `directory`: where `fenced_parquet` will write; then Parquet is written, into a folder there
    that no reader sees, and removed; otherwise rows go nowhere. `engine`: the source's option.
    Raises what Spark raises.
    """
    spark.dataSource.register(WarmUpSource)
    files = files_at(directory, spark) if directory else None
    folder = f".warm-up-{secrets.token_hex(FOLDER_BYTES)}"

    def write(df: DataFrame, _batch: int) -> None:
        if files is None:
            df.write.format("noop").mode("overwrite").save()
        else:
            df.write.mode("overwrite").parquet(f"{files.uri}/{folder}")

    with TemporaryDirectory(prefix="zkcoord-warm-up-", ignore_cleanup_errors=True) as checkpoint:
        query = (
            build(spark.readStream.format(FORMAT).option("engine", engine).load())
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", f"file://{checkpoint}")
            .start()
        )
        try:
            query.processAllAvailable()
        finally:
            query.stop()
            if files is not None:
                files.remove(folder)
