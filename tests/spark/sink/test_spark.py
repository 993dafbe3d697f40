"""The sink's functions called by a real query, in one JVM: what readers of the directory see, and
file systems as the sink asks them.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from consumer.spark import register
from consumer.spark.plan import PlannedRange
from consumer.spark.sink import (
    FencedBatchError,
    SinkRefusedError,
    fenced,
    fenced_parquet,
    fenced_ranges,
)
from consumer.spark.sink.files import Files, HadoopFiles, LocalFiles, files_at
from consumer.spark.sink.foreach import FencedFunction
from consumer.spark.sink.publication import MoveEnded
from tests.harness.kafka import produce_numbered
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.spark.conftest import PARTITIONS
from zkcoord.core.model import TopicPartition
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.paths import Layout

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
PATIENCE_S = 240.0
EACH = 25
SLOW_WORKER = "connect back"


class Running:
    """A query that is started again when its Python worker took too long to start (ten seconds,
    which Spark does not let be changed, and which a busy machine can need).
    """

    def __init__(self, start: Callable[[], StreamingQuery]) -> None:
        self._start = start
        self.query = start()

    @property
    def failure(self) -> StreamingQueryException | None:
        """Why it has ended, if it has."""
        found = self.query.exception()
        if found is not None and SLOW_WORKER in str(found):
            self.query = self._start()
            return None
        return found  # type: ignore[return-value]


Begin = Callable[[FencedFunction], Running]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """Another suite's, where one runs in this process already."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    active = SparkSession.getActiveSession()
    if active is not None:
        register(active)
        yield active
        return
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.python.authenticate.socketTimeout", "300s")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    register(session)
    yield session
    session.stop()


@pytest.fixture
def begin(
    spark: SparkSession,
    group: str,
    topic: str,
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    tmp_path: Path,
) -> Iterator[Begin]:
    """begin(sink): a query of the group with this sink; a checkpoint for each test."""
    running: list[Running] = []
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)

    def start(sink: FencedFunction) -> Running:
        source = (
            spark.readStream.format("zkcoord")
            .option("zookeeperConnect", kafka_zk_hosts)
            .option("groupId", group)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "40")
        )
        rows = source.load().selectExpr(
            "topic", "partition", "offset", "cast(value as string) as text"
        )
        running.append(
            Running(
                lambda: (
                    rows.writeStream.foreachBatch(sink)
                    .option("checkpointLocation", str(tmp_path / "checkpoint"))
                    .start()
                )
            )
        )
        return running[-1]

    yield start
    for found in running:
        found.query.stop()


def counts(running: Running, enough: Callable[[], object], what: str) -> None:
    """Until it is so, while the query runs."""
    wait_until(lambda: running.failure is not None or enough(), PATIENCE_S, what)
    assert running.failure is None, running.failure


def test_a_plain_reader_sees_each_record_once(
    begin: Begin, spark: SparkSession, tmp_path: Path, kafka_broker: KafkaBroker, topic: str
) -> None:
    out = tmp_path / "out put"
    sink = fenced_parquet(str(out), partition_by=["partition"], compression="zstd")

    def seen() -> int:
        return (
            spark.read.parquet(str(out)).count()
            if out.exists() and LocalFiles(out).written("")
            else 0
        )

    running = begin(sink)
    counts(running, lambda: seen() >= PARTITIONS * EACH, "the records")
    rows = spark.read.parquet(str(out))
    assert rows.count() == rows.distinct().count() == PARTITIONS * EACH
    assert sorted((row.partition, row.offset, row.text) for row in rows.collect()) == [
        (p, n, f"{p}:{n}") for p in range(PARTITIONS) for n in range(EACH)
    ]
    assert {path.split("/")[0] for path in LocalFiles(out).written("")} == {
        f"partition={p}" for p in range(PARTITIONS)
    }
    produce_numbered(kafka_broker.address, topic, PARTITIONS, 1, EACH)
    counts(running, lambda: seen() == PARTITIONS * (EACH + 1), "what came later")
    sink.close()


def test_the_general_form_and_the_one_for_databases(begin: Begin, topic: str) -> None:
    written: list[tuple[int, int]] = []
    ranges: list[PlannedRange] = []

    def write(df: DataFrame, batch_id: int, planned: tuple[PlannedRange, ...]) -> None:
        found = [(row.partition, row.offset) for row in df.collect()]
        ranges.extend(planned)  # first: the test goes on when the records are there
        written.extend(found)

    counts(begin(fenced_ranges(write)), lambda: len(written) >= PARTITIONS * EACH, "the records")
    assert sorted(written) == [(p, n) for p in range(PARTITIONS) for n in range(EACH)]
    assert sum(r.rows for r in ranges) == PARTITIONS * EACH and all(
        r.owner > 0 and r.topic == topic for r in ranges
    )


def test_a_batch_that_is_fenced_ends_the_query_and_started_again_it_goes_on(
    begin: Begin, kafka_zk_hosts: str, group: str, topic: str
) -> None:
    """Somebody writes an offset while a batch is under way, as a successor's claim or an operator
    would. The batch is repeated with the fence of then.
    """
    written: list[tuple[int, int]] = []
    path = Layout.DRAFT.offset(group, TopicPartition(topic, 0))
    client = connect(kafka_zk_hosts)

    def interfere(df: DataFrame, batch_id: int) -> None:
        value, _ = client.get(path)
        client.set(path, value)

    running = begin(fenced(interfere))
    wait_until(lambda: running.failure is not None, PATIENCE_S, "the end of the query")
    assert FencedBatchError.__name__ in str(running.failure)
    assert client.get(path)[0] == b"0"
    disconnect(client)
    again = begin(
        fenced(
            lambda df, batch_id: written.extend((row.partition, row.offset) for row in df.collect())
        )
    )
    counts(again, lambda: len(written) >= PARTITIONS * EACH, "the records")
    assert sorted(written) == [(p, n) for p in range(PARTITIONS) for n in range(EACH)]


def test_what_it_cannot_do_is_said(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SinkRefusedError, match="not called by a streaming query"):
        fenced_parquet(str(tmp_path))(spark.range(1), 0)
    with pytest.raises(SinkRefusedError, match="s3a has no atomic rename"):
        files_at("s3a://bucket/orders", spark)
    with pytest.raises(SinkRefusedError, match="neither a path nor a URI"):
        files_at("hdfs://[nn/orders", spark)
    rates = (
        spark.readStream.format("rate")
        .load()
        .writeStream.foreachBatch(fenced_parquet(str(tmp_path)))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    wait_until(lambda: rates.exception() is not None, PATIENCE_S, "the refusal")
    assert "one zkcoord source" in str(rates.exception())


@pytest.fixture(params=["local", "hadoop"])
def files(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Files:
    """Both kinds on one folder: Hadoop's own local file system stands for HDFS."""
    folder = tmp_path / f"a folder {uuid.uuid4().hex[:4]}"
    return (
        LocalFiles(folder) if request.param == "local" else HadoopFiles(f"file://{folder}", spark)
    )


def test_file_systems_do_what_publishing_asks_of_them(files: Files, spark: SparkSession) -> None:
    assert (
        files.uri.startswith("file:")
        and files.fetch("a/b") is None
        and files.folders("a") == ()
        and files.written("a") == ()
    )
    files.put("s/1/day=1/part-0.parquet", b"one")
    files.put("s/1/_SUCCESS", b"")
    files.put("s/1/_x=2/part-1.parquet", b"two")
    files.put("s/1/part-2.parquet", b"\x00\xff" * 1000)
    files.put("s/1/part-2.parquet", b"\x00\xfe" * 1000)
    assert files.fetch("s/1/part-2.parquet") == b"\x00\xfe" * 1000
    assert files.written("s/1") == ("_x=2/part-1.parquet", "day=1/part-0.parquet", "part-2.parquet")
    assert files.folders("s") == ("1",)
    assert files.move("s/1/day=1/part-0.parquet", "day=1/x-part-0.parquet") is MoveEnded.NOW
    assert files.move("s/1/day=1/part-0.parquet", "day=1/x-part-0.parquet") is MoveEnded.BEFORE
    assert files.move("s/1/nothing", "day=1/nothing") is MoveEnded.NEITHER
    assert files.fetch("day=1/x-part-0.parquet") == b"one"
    files.remove("s/1")
    files.remove("s/1")
    assert files.folders("s") == ()
    assert files.written("") == ("day=1/x-part-0.parquet",)
