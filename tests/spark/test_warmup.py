"""The batch without records that warms a session."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from consumer.errors import ConsumerOptionError
from consumer.spark.schema import columns_of, full_schema
from consumer.spark.warmup import WarmUpReader, WarmUpSource, warm_up
from zkcoord.stack.spark_java import spark_java_home


def test_the_reader_has_one_batch_without_records() -> None:
    reader = WarmUpSource({"engine": "kafka-python", "includeHeaders": "true"}).streamReader(
        full_schema(headers=True)
    )
    first = reader.initialOffset()
    last = reader.latestOffset(first, reader.getDefaultReadLimit())
    assert last != first and reader.latestOffset(last, reader.getDefaultReadLimit()) == last
    (task,) = reader.partitions(first, last)
    (batch,) = reader.read(task)
    assert batch.num_rows == 0 and tuple(batch.schema.names) == columns_of(
        full_schema(headers=True)
    )


def test_an_engine_that_does_not_exist_is_refused() -> None:
    reader = WarmUpReader(("value",), "rdkafka")
    with pytest.raises(ConsumerOptionError, match="engine is 'rdkafka'"):
        list(reader.read(reader.partitions({}, {})[0]))


@pytest.mark.nightly
def test_in_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parquet is written where no reader sees it and removed, the application's own columns are
    made, and what Spark refuses is raised.
    """
    for name, value in {
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(spark_java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    seen: list[list[str]] = []

    def build(rows: DataFrame) -> DataFrame:
        found = rows.select("topic", F.col("value").cast("string").alias("text"), "headers")
        seen.append(found.columns)
        return found

    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.local.dir": str(tmp_path / "local"),
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        (tmp_path / "out").mkdir()
        warm_up(spark, build, str(tmp_path / "out"))
        warm_up(spark)
        assert (
            seen == [["topic", "text", "headers"]]
            and not os.listdir(tmp_path / "out")
            and not spark.streams.active
        )
        with pytest.raises(PySparkException):
            warm_up(spark, lambda rows: rows.select("colour"))
    finally:
        spark.stop()
