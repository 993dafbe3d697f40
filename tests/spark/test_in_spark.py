"""What a user of Structured Streaming sees, in a real session: what `load()` says, the triggers
that end by themselves, and the progress of a query.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from consumer.spark import register
from tests.harness.kafka import produce_numbered
from tests.harness.wait import wait_until
from tests.spark.app import TOO_SLOW, session
from tests.spark.conftest import PARTITIONS
from zkcoord.stack.servers import KafkaBroker
from zkcoord.stack.spark_java import spark_java_home

# Spark gives a Python process ten seconds to start, which a machine that many suites share does not
# keep
pytestmark = [pytest.mark.kafka, pytest.mark.nightly]
EACH = 25
WAIT_S = 240


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the JVM and the processes that it starts say on standard error."""
    return tmp_path_factory.mktemp("log") / "stderr.txt"


@pytest.fixture(scope="module")
def spark(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    before = dict(os.environ)
    os.environ.update(
        PYSPARK_PYTHON=sys.executable,
        JAVA_HOME=str(spark_java_home()),
        SPARK_LOCAL_IP="127.0.0.1",
        PYTHONPATH=str(Path(__file__).parents[2]),
    )
    own = os.dup(2)
    with log.open("wb") as stderr:
        os.dup2(stderr.fileno(), 2)
        try:
            found = session(2, tmp_path_factory.mktemp("spark"))
        finally:
            os.dup2(own, 2)
            os.close(own)
    register(found)
    yield found
    found.stop()
    os.environ.clear()
    os.environ.update(before)


def ended(stream: DataFrame, folder: Path, **trigger: Any) -> dict[str, Any]:
    """A query that ends by itself, its rows counted: {"rows", "progress"}."""
    rows = []
    while True:  # until the machine is fast enough for Spark's ten seconds
        query = (
            stream.writeStream.foreachBatch(lambda df, _: rows.append(df.count()))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(**trigger)
            .start()
        )
        try:
            assert query.awaitTermination(WAIT_S), "the query does not end"
        except StreamingQueryException as e:
            if TOO_SLOW not in str(e):
                raise
            continue
        return {"rows": sum(rows), "progress": query.recentProgress}


def stream_of(spark: SparkSession, hosts: str, group: str, topic: str) -> DataFrame:
    return (
        spark.readStream.format("zkcoord")
        .option("zookeeperConnect", hosts)
        .option("groupId", group)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )


def test_load_says_all_that_is_refused_in_sparks_names(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException) as raised:
        (
            spark.readStream.format("zkcoord")
            .option("zookeeperConnect", "zk:2181")
            .option("groupId", "a b")
            .option("subscribe", "orders")
            .option("rebalanceTimeoutMs", "0")
            .option("kafka.fetch.max.wait.ms", "5")
            .load()
        )
    said = str(raised.value)
    for part in (
        "3 things are wrong",
        "the group name 'a b' is refused",
        "rebalanceTimeoutMs is '0'",
        "use kafka.fetch.wait.max.ms",
    ):
        assert part in said


def test_once_reads_a_new_group_and_its_progress_is_that_of_what_it_has_read(
    spark: SparkSession,
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    group: str,
    topic: str,
    tmp_path: Path,
) -> None:
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    found = ended(stream_of(spark, kafka_zk_hosts, group, topic), tmp_path, once=True)
    assert found["rows"] == PARTITIONS * EACH
    source = found["progress"][-1]["sources"][0]
    said = source["latestOffset"]
    said = json.loads(said) if isinstance(said, str) else said
    assert (said["lag"], said["lagUnknown"]) == (0, 0)
    assert said["description"] == f"zkcoord[group {group}: {topic}]"
    assert said["metrics"]["maxOffsetsBehindLatest"] == 0


def test_available_now_reads_everything_and_an_unknown_topic_ends_in_an_error(
    spark: SparkSession,
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    group: str,
    topic: str,
    tmp_path: Path,
) -> None:
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    found = ended(
        stream_of(spark, kafka_zk_hosts, group, topic), tmp_path / "known", availableNow=True
    )
    assert found["rows"] == PARTITIONS * EACH
    with pytest.raises(StreamingQueryException, match="there is no topic no-topic-of-that-name"):
        ended(
            stream_of(spark, kafka_zk_hosts, group, "no-topic-of-that-name"),
            tmp_path / "unknown",
            availableNow=True,
        )


def test_two_queries_on_one_dataframe_are_told_that_they_share(
    spark: SparkSession,
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    group: str,
    topic: str,
    tmp_path: Path,
    log: Path,
) -> None:
    """By a line with its time and level, as all of the source's are."""
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    stream = stream_of(spark, kafka_zk_hosts, group, topic)
    rows: list[int] = []
    queries = [
        stream.writeStream.foreachBatch(lambda df, _: rows.append(df.count()))
        .option("checkpointLocation", str(tmp_path / name))
        .start()
        for name in ("one", "two")
    ]
    said = f"another query or source of this application is a member of group {group}"
    try:
        wait_until(
            lambda: said in log.read_text(encoding="utf-8", errors="replace"), WAIT_S, "the warning"
        )
        wait_until(lambda: sum(rows) == PARTITIONS * EACH, WAIT_S, "all records, once")
    finally:
        for query in queries:
            query.stop()
    (line,) = [line for line in log.read_text(errors="replace").splitlines() if said in line]
    assert re.search(r"\d\d:\d\d:\d\d,\d{3} WARNING consumer\.spark\.same_application: ", line)
