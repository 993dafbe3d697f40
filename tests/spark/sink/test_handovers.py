"""Crash handovers with the fenced sink, of each kind, many times: source, decoder, coordinator,
broker, ZooKeeper and the sink's steps are what ships; Spark's side of a query is
`tests.spark.engine`, and a file is a text file. With JVMs: test_chaos.py, `make chaos-spark`.
"""

from __future__ import annotations

import enum
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from consumer.spark.plan import parse_plan
from consumer.spark.sink import manifest as docs
from consumer.spark.sink import publication
from consumer.spark.sink.effects import Keeper, carry_out, perform
from consumer.spark.sink.errors import FencedBatchError
from consumer.spark.sink.files import LocalFiles
from consumer.spark.sink.foreach import batch_of
from consumer.spark.sink.recovery import recover
from consumer.spark.sink.running_batch import RunningBatch, current
from consumer.spark.source import ZkcoordStreamReader
from tests.harness.kafka import produce_numbered
from tests.harness.wait import wait_until
from tests.spark.conftest import PARTITIONS, SESSION_MS
from tests.spark.engine import PATIENCE_S, Checkpoint, Crash, Query, Sink, settled
from zkcoord.core.model import TopicPartition
from zkcoord.stack.servers import KafkaBroker
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.paths import Layout

pytestmark = pytest.mark.kafka
SHORT, LONG = 2, 20
EACH = 8


class Point(enum.Enum):
    """Where a query with this sink can die, beside those of any sink."""

    BETWEEN = "the batch counts, none of its files is moved"


class FencedQuery(Query):
    """One run of a query whose rows go through the sink."""

    def __init__(
        self, options: Mapping[str, str], checkpoint: Checkpoint, keeper: Keeper, files: LocalFiles
    ) -> None:
        super().__init__(options, checkpoint, Sink())
        self.keeper = keeper
        self.files = files
        self.claims: set[tuple[str, int, int]] = set()
        self.planned = 0

    def run(self, before: dict[str, Any], end: dict[str, Any]) -> Iterator[Any]:
        """From the log of the offsets to that of the commit, step by step."""
        tasks = [
            cloudpickle.loads(cloudpickle.dumps(task))
            for task in self.reader.partitions(before, end)
        ]
        executor: ZkcoordStreamReader = cloudpickle.loads(cloudpickle.dumps(self.reader))
        rows = [
            f"{row['partition']}:{row['offset']}"
            for task in tasks
            for batch in executor.read(task)
            for row in batch.select(["partition", "offset"]).to_pylist()
        ]
        self.written += len(rows)
        yield Crash.READ
        plan = current(parse_plan(json.dumps(end)), self.keeper)
        batch = batch_of(
            RunningBatch("query", plan, lambda: True), len(self.checkpoint.offsets) - 1
        )
        self.planned = sum(r.rows for r in batch.ranges)
        assert len(rows) == self.planned, "what is read is what is fenced"
        place = publication.SinkPlace(batch.layout, batch.group, self.files.uri)
        claims = {(r.topic, r.partition, r.owner) for r in batch.ranges}
        if not claims <= self.claims:
            perform(publication.recover(place, batch.incarnation), self.keeper, self.files)
            self.claims = claims
        if batch.ranges:
            yield from self.publish(place, batch, rows)
        yield Crash.WRITTEN
        self.checkpoint.commits = len(self.checkpoint.offsets)
        yield Crash.COMMITTED

    def publish(self, place: publication.SinkPlace, batch: Any, rows: list[str]) -> Iterator[Any]:
        """Step by step, with a point between the multi and the first move."""

        def stage(folder: str) -> Sequence[str]:
            path = self.files.root / folder / "part-0.parquet"
            path.parent.mkdir(parents=True)
            path.write_text("\n".join(rows))
            return self.files.written(folder)

        work, answer, moves = publication.publish(place, batch, f"{id(self):x}"), None, 0
        while True:
            try:
                effect = work.send(answer)
            except StopIteration:
                return
            moves += isinstance(effect, publication.Move)
            if moves == 1:
                yield Point.BETWEEN
            answer = carry_out(effect, self.keeper, self.files, stage)


class World:
    """Queries that write into one directory."""

    def __init__(self, options: Mapping[str, str], broker: str, folder: Path) -> None:
        self.options = options
        self.broker = broker
        self.files = LocalFiles(folder)
        self.keeper = Keeper(ZkOptions(options["zookeeperConnect"]))
        self.queries: list[FencedQuery] = []
        self.each = 0

    def start(self, checkpoint: Checkpoint) -> FencedQuery:
        self.queries.append(FencedQuery(self.options, checkpoint, self.keeper, self.files))
        return self.queries[-1]

    def produce(self) -> None:
        produce_numbered(self.broker, self.options["subscribe"], PARTITIONS, EACH, self.each)
        self.each += EACH

    def visible(self) -> Counter[str]:
        return Counter(
            line
            for path in self.files.written("")
            for line in (self.files.root / path).read_text().split("\n")
        )

    def expected(self) -> Counter[str]:
        return Counter(
            f"{partition}:{offset}"
            for partition in range(PARTITIONS)
            for offset in range(self.each)
        )

    def all_there(self, *queries: FencedQuery) -> None:
        """Trigger these until everything that was produced counts and is visible, once."""

        place = publication.SinkPlace(Layout.DRAFT, self.options["groupId"], self.files.uri)

        def whole() -> bool:
            for query in queries:
                query.trigger()
            # as the watch of each application does: a successor that has nothing to read does not
            recover(place, self.keeper, self.files)
            return len(self.visible()) == PARTITIONS * self.each

        wait_until(whole, PATIENCE_S, f"{PARTITIONS * self.each} records")
        assert self.visible() == self.expected()

    def to_point(self, query: FencedQuery, point: Any) -> Iterator[Any]:
        """A query in a batch with records, up to this point; what is left of the batch."""
        while True:
            self.produce()
            batch = query.steps()
            for step in batch:
                if step is point:
                    return batch


@pytest.fixture
def world(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, group: str, topic: str, tmp_path: Path
) -> Iterator[World]:
    options = {
        "zookeeperConnect": kafka_zk_hosts,
        "groupId": group,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "zookeeperSessionTimeoutMs": str(SESSION_MS),
        "maxOffsetsPerTrigger": "20",
    }
    found = World(options, kafka_broker.address, tmp_path / "out")
    yield found
    for query in found.queries:
        query.stop()
    found.keeper.close()


def rounds(name: str) -> pytest.MarkDecorator:
    """A few in every run, the whole number at night."""
    return pytest.mark.parametrize(name, [SHORT, pytest.param(LONG, marks=pytest.mark.nightly)])


@rounds("count")
@pytest.mark.parametrize(
    "point", [Crash.LOGGED, Crash.READ, Point.BETWEEN, Crash.WRITTEN, Crash.COMMITTED]
)
def test_a_query_that_dies_anywhere_loses_and_doubles_nothing(
    world: World, point: Any, count: int
) -> None:
    """The other takes over; then it comes back with its checkpoint, whose last batch is run again
    where it was not committed.
    """
    pair = [world.start(Checkpoint()), world.start(Checkpoint())]
    world.produce()
    settled(pair, PARTITIONS)  # type: ignore[arg-type]
    for number in range(count):
        victim, other = pair[number % 2], pair[1 - number % 2]
        world.to_point(victim, point)
        victim.die()
        world.all_there(other)
        pair[number % 2] = world.start(victim.checkpoint)
        settled(pair, PARTITIONS)  # type: ignore[arg-type]
        world.all_there(*pair)


@rounds("count")
def test_a_zombie_comes_to_the_fence_every_time(world: World, count: int) -> None:
    """Its session is over, others have claimed and written everything, and then its batch goes
    on.
    """
    pair = [world.start(Checkpoint()), world.start(Checkpoint())]
    world.produce()
    settled(pair, PARTITIONS)  # type: ignore[arg-type]
    for number in range(count):
        victim, other = pair[number % 2], pair[1 - number % 2]
        batch = world.to_point(victim, Crash.READ)
        victim.die()
        world.all_there(other)
        with pytest.raises(FencedBatchError):
            for _ in batch:
                pass
        assert world.visible() == world.expected()
        pair[number % 2] = world.start(victim.checkpoint)
        settled(pair, PARTITIONS)  # type: ignore[arg-type]
        world.all_there(*pair)
    assert len(world.files.folders(docs.staging(world.options["groupId"]))) <= 3, (
        "what zombies have staged is removed"
    )


@rounds("count")
def test_graceful_moves_double_nothing(world: World, count: int) -> None:
    """Each join and each drained leave moves half of the partitions."""
    first = world.start(Checkpoint())
    world.produce()
    settled([first], PARTITIONS)
    for _ in range(count):
        second = world.start(Checkpoint())
        world.produce()
        settled([first, second], PARTITIONS)
        second.drained()
        second.stop()
        world.produce()
        settled([first], PARTITIONS)
        world.all_there(first)


def test_offsets_are_the_sinks_and_the_source_stores_nothing_of_its_own(world: World) -> None:
    """The version of an offset moves by one with each batch: the source takes the sink's writes for
    its own, and does not write again.
    """
    query = world.start(Checkpoint())
    world.produce()
    settled([query], PARTITIONS)
    world.all_there(query)
    query.drained()
    tp = TopicPartition(world.options["subscribe"], 0)
    (before,) = world.keeper.look(
        [publication.GetData(Layout.DRAFT.offset(world.options["groupId"], tp))]
    )
    batches = len(query.checkpoint.offsets)
    for _ in range(3):
        world.produce()
        world.all_there(query)
    query.drained()
    (after,) = world.keeper.look(
        [publication.GetData(Layout.DRAFT.offset(world.options["groupId"], tp))]
    )
    of_partition = sum(
        any(r.partition == 0 and r.rows for r in parse_plan(text).ranges)
        for text in query.checkpoint.offsets[batches:]
    )
    assert isinstance(before, publication.Node) and isinstance(after, publication.Node)
    assert after.stat.version - before.stat.version == of_partition
