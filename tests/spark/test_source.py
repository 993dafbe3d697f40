"""The source as Spark calls it, on real servers: barriers, moves, crashes, replays, limits. With a
JVM: test_spark.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import TopicPartition as KafkaPartition
from kafka.admin import KafkaAdminClient
from kazoo.client import KazooClient
from pyspark import cloudpickle
from pyspark.sql.streaming.datasource import ReadMaxRows

from consumer.errors import ConsumerOptionError, OtherClusterError
from consumer.spark.decode.errors import DataLossError, ReadError
from consumer.spark.errors import SessionLostError
from consumer.spark.plan import Plan, parse_plan
from consumer.spark.schema import full_schema
from consumer.spark.source import ZkcoordSource
from tests.harness.kafka import add_partitions, admin, produce, produce_numbered
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.spark.conftest import PARTITIONS, Start
from tests.spark.engine import PATIENCE_S, Checkpoint, Crash, Query, Sink, settled, until
from zkcoord.core.model import TopicPartition
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.kafka import CLUSTER_ID
from zkcoord.znodes.paths import Layout

pytestmark = pytest.mark.kafka
EACH = 200


def stored(hosts: str, group: str, topic: str) -> dict[int, int]:
    """Next offsets in ZooKeeper."""
    client = connect(hosts)
    try:
        return {
            n: int(client.get(Layout.DRAFT.offset(group, TopicPartition(topic, n)))[0])
            for n in range(PARTITIONS)
        }
    finally:
        disconnect(client)


def every(topic: str, each: int = EACH) -> Sink:
    """Each record once."""
    return Sink({(topic, n, offset): 1 for n in range(PARTITIONS) for offset in range(each)})


def again(sink: Sink) -> int:
    """How many records are there more than once."""
    return sum(times - 1 for times in sink.values())


def busy(query: Query) -> None:
    """Trigger until the query owns all partitions."""
    wait_until(
        lambda: query.trigger() >= 0 and len(query.owned) == PARTITIONS,
        PATIENCE_S,
        "all partitions",
    )


def test_a_query_reads_everything_once_and_stores_it_when_asked_for_the_next_batch(
    start: Start, kafka_broker: KafkaBroker, kafka_zk_hosts: str, group: str, topic: str
) -> None:
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    sink = Sink()
    query = start(Checkpoint(), sink, maxOffsetsPerTrigger="90")
    until([query], sink, PARTITIONS * EACH)
    assert sink == every(topic)
    assert (
        query.limit == ReadMaxRows(90) and len(query.checkpoint.offsets) >= PARTITIONS * EACH // 94
    )
    assert sum(stored(kafka_zk_hosts, group, topic).values()) < PARTITIONS * EACH, (
        "the last batch is not known to be written before Spark asks for the next"
    )
    text = json.dumps(query.start)
    for _ in range(5):
        assert json.dumps(query.reader.latestOffset(query.start, query.limit)) == text, (
            "nothing to read is the same text"
        )
    assert stored(kafka_zk_hosts, group, topic) == dict.fromkeys(range(PARTITIONS), EACH)
    said = query.reader.reportLatestOffset()
    assert (said["owned"], said["lag"], said["group"]) == (PARTITIONS, 0, group) and said[
        "generation"
    ] >= 1


def test_queries_share_a_group_join_and_leave_without_loss_or_duplicates(
    start: Start, kafka_broker: KafkaBroker, topic: str
) -> None:
    sink = Sink()
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    one, two = (start(Checkpoint(), sink, maxOffsetsPerTrigger="50") for _ in range(2))
    settled([one, two], PARTITIONS)
    three = start(Checkpoint(), sink, maxOffsetsPerTrigger="50")
    settled([one, two, three], PARTITIONS)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH, EACH)
    two.drained()
    two.stop()
    settled([one, three], PARTITIONS)
    until([one, three], sink, PARTITIONS * 2 * EACH)
    assert sink == every(topic, 2 * EACH)


def test_what_a_batch_has_is_given_up_when_it_is_written_and_the_rest_at_once(
    start: Start, kafka_broker: KafkaBroker, topic: str
) -> None:
    """With `range` the second query shall have partitions 2 and 3; a batch of the first has 0, 1
    and 2.
    """
    sink = Sink()
    one = start(Checkpoint(), sink, partitionAssignmentStrategy="range")
    busy(one)
    member = one.reader._membership()
    produce_numbered(kafka_broker.address, topic, 3, EACH)
    wait_until(
        lambda: all(
            member.ends.known().get(TopicPartition(topic, n), (0, 0))[1] == EACH for n in range(3)
        ),
        PATIENCE_S,
        "the ends",
    )
    steps = next_batch(one)
    two = start(Checkpoint(), sink, partitionAssignmentStrategy="range")
    wait_until(
        lambda: two.trigger() >= 0 and two.owned == {TopicPartition(topic, 3)},
        PATIENCE_S,
        "what the batch does not have",
    )
    wait_until(lambda: member.assignment.revokes, PATIENCE_S, "the command that asks for the other")
    assert (
        one.owned == {TopicPartition(topic, n) for n in range(3)}
        and two.trigger() == 0
        and two.owned == {TopicPartition(topic, 3)}
    ), "it is being read"
    list(steps)
    assert one.owned == {TopicPartition(topic, n) for n in range(3)}, (
        "nobody has said that it is written"
    )
    settled([one, two], PARTITIONS)
    until([one, two], sink, 3 * EACH)
    assert again(sink) == 0 and two.written == 0


@pytest.mark.parametrize("crash", list(Crash), ids=lambda crash: crash.name.lower())
def test_a_query_that_dies_and_comes_back_alone(
    start: Start, kafka_broker: KafkaBroker, topic: str, crash: Crash
) -> None:
    """Nobody else is there: what it reads again is exactly the batch that it had, and what it had
    written it knows.
    """
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    sink, checkpoint = Sink(), Checkpoint()
    query = start(checkpoint, sink, maxOffsetsPerTrigger="100")
    wait_until(lambda: len(sink) >= 200 or query.trigger() < 0, PATIENCE_S, "some batches")
    wait_until(lambda: query.trigger(crash) == 0 and query.ended, PATIENCE_S, "a crash")
    ranges, once = query.last_ranges(), Sink(sink)
    planned = sum(end - first for first, end in ranges.values())
    back = start(checkpoint, sink, maxOffsetsPerTrigger="100")
    back.begin()
    if crash in (Crash.LOGGED, Crash.READ, Crash.WRITTEN):
        expected = {
            (topic, int(name.rpartition("-")[2]), offset)
            for name, (first, end) in ranges.items()
            for offset in range(first, end)
        }
        assert {record for record in sink if sink[record] > once[record]} == expected, (
            "exactly the planned ranges"
        )
    until([back], sink, PARTITIONS * EACH)
    assert set(sink) == set(every(topic)) and again(sink) == (
        planned if crash is Crash.WRITTEN else 0
    )


@pytest.mark.parametrize("crash", list(Crash), ids=lambda crash: crash.name.lower())
def test_a_query_that_dies_while_others_are_there(
    start: Start, kafka_broker: KafkaBroker, topic: str, crash: Crash
) -> None:
    """They take over at once; nothing is lost, and at most its one batch comes again. Back again it
    does not read what they have.
    """
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    sink, checkpoint = Sink(), Checkpoint()
    one, two = (
        start(checkpoint, sink, maxOffsetsPerTrigger="40"),
        start(Checkpoint(), sink, maxOffsetsPerTrigger="40"),
    )
    settled([one, two], PARTITIONS)
    # until both had their share, all that was there may have been read
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH, EACH)
    wait_until(lambda: one.trigger(crash) == 0 and one.ended, PATIENCE_S, "a crash")
    planned = (
        sum(end - first for first, end in one.last_ranges().values())
        if crash is not Crash.PLANNED
        else 40
    )
    busy(two)
    back = start(checkpoint, sink, maxOffsetsPerTrigger="40")
    back.begin()
    settled([back, two], PARTITIONS)
    until([back, two], sink, PARTITIONS * 2 * EACH)
    assert set(sink) == set(every(topic, 2 * EACH)) and again(sink) <= planned


def next_batch(query: Query) -> Iterator[Crash]:
    """The steps of the next batch that has records, behind its plan."""

    def planned() -> Iterator[Crash] | None:
        steps = query.steps()
        return steps if next(steps, None) is Crash.PLANNED else None

    found = wait_until(planned, PATIENCE_S, "a plan")
    assert found is not None
    return found


def publish(client: KazooClient, plan: Plan) -> bool:
    """What a fenced sink does, as a plan's docstring promises it: one multi."""
    multi = client.transaction()
    multi.check(Layout.DRAFT.registration(plan.group, plan.member), 0)
    for r in plan.ranges:
        multi.set_data(Layout.DRAFT.offset(plan.group, r.tp), str(r.end).encode(), r.version)
    return not any(isinstance(result, Exception) for result in multi.commit())


def test_a_fenced_sink_stores_the_offsets_itself(
    start: Start,
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    topic: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The source takes it for its own commit. One that dies right after the multi leaves its batch
    out when it comes back; one that dies before it publishes nothing any more.
    """
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    sink, checkpoint = Sink(), Checkpoint()
    query = start(checkpoint, sink, maxOffsetsPerTrigger="100")
    busy(query)
    client = connect(kafka_zk_hosts)
    try:
        for number in range(4):
            steps = next_batch(query)
            assert [next(steps), next(steps)] == [Crash.LOGGED, Crash.READ]
            plan = parse_plan(checkpoint.offsets[-1])
            for r in plan.ranges:
                owner = client.exists(Layout.DRAFT.owner(plan.group, r.tp))
                assert owner is not None and owner.czxid == r.owner
            if number < 3:
                assert (
                    next(steps) is Crash.WRITTEN
                    and publish(client, plan)
                    and not publish(client, plan)
                )
            if number == 2:
                query.die()
                query = start(checkpoint, sink, maxOffsetsPerTrigger="100")
                query.begin()
                assert query.written == 0, "it is published"
                busy(query)
            elif number < 3:
                list(steps)
        query.die()
        assert not publish(client, plan), "its registration is gone"
        assert not [
            line
            for line in caplog.records
            if line.name.startswith("consumer.")
            and ("reset" in line.getMessage() or "somebody else" in line.getMessage())
        ]
    finally:
        disconnect(client)
    back = start(checkpoint, sink, maxOffsetsPerTrigger="100")
    until([back], sink, PARTITIONS * EACH)
    assert sink == every(topic)


def test_what_a_replay_left_out_is_never_taken_for_written(
    start: Start, kafka_broker: KafkaBroker, topic: str
) -> None:
    """A batch is logged and not read; others own its partitions when it is run again, so its replay
    leaves them out, and Spark takes it for written. Then all die, and nobody has gone on from there
    after all.
    """
    sink, checkpoint = Sink(), Checkpoint()
    one = start(checkpoint, sink)
    busy(one)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    wait_until(lambda: one.trigger(Crash.LOGGED) == 0 and one.ended, PATIENCE_S, "a crash")
    two = start(Checkpoint(), sink)
    wait_until(
        lambda: two.reader.initialOffset() is not None and len(two.owned) == PARTITIONS,
        PATIENCE_S,
        "the other, which owns all",
    )
    back = start(checkpoint, sink)
    back.begin()
    assert back.written == 0 and checkpoint.commits == len(checkpoint.offsets), (
        "nothing of it is this query's"
    )
    back.die()
    two.die()
    last = start(checkpoint, sink)
    until([last], sink, PARTITIONS * EACH)
    assert sink == every(topic)


def test_a_replay_tells_fenced_sinks_the_fence_of_now(
    start: Start, kafka_broker: KafkaBroker, kafka_zk_hosts: str, topic: str
) -> None:
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    sink, checkpoint = Sink(), Checkpoint()
    query = start(checkpoint, sink, maxOffsetsPerTrigger="100")
    busy(query)
    wait_until(lambda: query.trigger(Crash.READ) == 0 and query.ended, PATIENCE_S, "a crash")
    logged = parse_plan(checkpoint.offsets[-1])
    back = start(checkpoint, sink, maxOffsetsPerTrigger="100")
    back.begin()
    client = connect(kafka_zk_hosts)
    try:
        data, stat = client.get(
            Layout.DRAFT.replayed_plan(logged.group, logged.incarnation, logged.number)
        )
        again_ = parse_plan(data.decode())
        assert (
            stat.ephemeralOwner
            and again_.member != logged.member
            and again_.incarnation != logged.incarnation
        )
        assert [(r.tp, r.start, r.end) for r in again_.ranges] == [
            (r.tp, r.start, r.end) for r in logged.ranges
        ]
        assert all(
            client.exists(Layout.DRAFT.offset(logged.group, r.tp)).version
            == r.version
            > old.version
            for r, old in zip(again_.ranges, logged.ranges)
        )
    finally:
        disconnect(client)


@pytest.mark.parametrize("policy", ["rejoin", "fail"])
def test_a_lost_session(
    start: Start, kafka_broker: KafkaBroker, kafka_zk_hosts: str, topic: str, policy: str
) -> None:
    """With a batch in hand: written as it is, it is known to this query when it comes back, since
    nobody else was there.
    """
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    sink, checkpoint = Sink(), Checkpoint()
    query = start(checkpoint, sink, maxOffsetsPerTrigger="100", onSessionLoss=policy)
    wait_until(lambda: len(sink) >= 200 or query.trigger() < 0, PATIENCE_S, "some batches")
    name, in_hand = (
        query.reader._membership().session.thread.member_name,
        sum(end - first for first, end in query.last_ranges().values()),
    )
    client = connect(kafka_zk_hosts)
    try:
        client.delete(Layout.DRAFT.registration(query.reader._options.group, name))  # an eviction
    finally:
        disconnect(client)
    if policy == "fail":
        with pytest.raises(SessionLostError, match="start it again"):
            wait_until(lambda: query.trigger() < 0, PATIENCE_S, "the end of the query")
        query.stop()
        query = start(checkpoint, sink, maxOffsetsPerTrigger="100")
    until([query], sink, PARTITIONS * EACH)
    assert set(sink) == set(every(topic)) and again(sink) <= in_hand
    assert query.reader._membership().session.thread.member_name != name


def test_an_operators_reset_while_a_batch_is_read(
    start: Start, kafka_broker: KafkaBroker, kafka_zk_hosts: str, group: str, topic: str
) -> None:
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    sink, checkpoint = Sink(), Checkpoint()
    query = start(checkpoint, sink, maxOffsetsPerTrigger="100")
    wait_until(lambda: len(sink) >= 200 or query.trigger() < 0, PATIENCE_S, "some batches")
    steps = next_batch(query)
    client = connect(kafka_zk_hosts)
    try:
        client.set(Layout.DRAFT.offset(group, TopicPartition(topic, 1)), b"7")
    finally:
        disconnect(client)
    list(steps)
    query.drained()
    assert set(sink) == set(every(topic))
    twice = {record for record, times in sink.items() if times > 1}
    assert twice and all(partition == 1 and offset >= 7 for _, partition, offset in twice), (
        "read again from where the operator set it, and nothing else is"
    )
    assert stored(kafka_zk_hosts, group, topic)[1] == EACH


@pytest.mark.parametrize("fails", [True, False])
def test_records_that_are_gone(
    start: Start, kafka_broker: KafkaBroker, topic: str, fails: bool
) -> None:
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    sink, checkpoint = Sink(), Checkpoint()
    query = start(checkpoint, sink, maxOffsetsPerTrigger="100")
    wait_until(lambda: len(sink) >= 100 or query.trigger() < 0, PATIENCE_S, "a batch")
    query.stop()
    with admin(kafka_broker.address) as client:
        _delete_records(client, topic, 150)
    back = start(checkpoint, sink, maxOffsetsPerTrigger="100", failOnDataLoss=str(fails).lower())
    if fails:
        with pytest.raises(DataLossError, match="failOnDataLoss"):
            wait_until(lambda: back.trigger() < 0, PATIENCE_S, "an error")
    else:
        wait_until(
            lambda: (
                back.trigger() >= 0 and all((topic, n, EACH - 1) in sink for n in range(PARTITIONS))
            ),
            PATIENCE_S,
            "what is there",
        )
        assert again(sink) == 0 and all(
            (topic, n, offset) in sink for n in range(PARTITIONS) for offset in range(150, EACH)
        )


def _delete_records(client: KafkaAdminClient, topic: str, before: int) -> None:
    client.delete_records({KafkaPartition(topic, n): before for n in range(PARTITIONS)})


def test_available_now_reads_to_the_ends_of_its_start_and_no_further(
    start: Start, kafka_broker: KafkaBroker, topic: str
) -> None:
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    sink = Sink()
    query = start(Checkpoint(), sink, maxOffsetsPerTrigger="150")
    query.reader.prepareForTriggerAvailableNow()
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH, EACH)
    batches = [query.trigger()]
    while batches[-1]:
        batches.append(query.trigger())
    assert sink == every(topic) and max(batches) <= 150 + PARTITIONS


def test_the_checkpoint_of_another_group_is_refused(
    start: Start, kafka_broker: KafkaBroker, topic: str
) -> None:
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    sink, checkpoint = Sink(), Checkpoint()
    query = start(checkpoint, sink)
    until([query], sink, PARTITIONS * EACH)
    query.stop()
    with pytest.raises(ConsumerOptionError, match="use a new checkpointLocation"):
        start(checkpoint, sink, groupId="another").trigger()


def test_a_minimum_is_waited_for_and_not_for_ever(
    start: Start, kafka_broker: KafkaBroker, topic: str
) -> None:
    sink = Sink()
    query = start(Checkpoint(), sink, minOffsetsPerTrigger="100", maxTriggerDelay="10m")
    busy(query)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, 20)
    wait_until(
        lambda: query.trigger() == 0 and query.reader.reportLatestOffset()["lag"] == 80,
        PATIENCE_S,
        "records that are too few",
    )
    assert query.trigger() == 0
    produce_numbered(kafka_broker.address, topic, PARTITIONS, 20, 20)
    wait_until(query.trigger, PATIENCE_S, "enough of them")
    # not always all 160: the ends of the logs are not looked at in the same moment
    assert len(sink) >= 100
    query.drained()
    query.stop()
    produce_numbered(kafka_broker.address, topic, PARTITIONS, 20, 40)
    patient = start(query.checkpoint, sink, minOffsetsPerTrigger="1000", maxTriggerDelay="2s")
    until([patient], sink, PARTITIONS * 60)
    assert sink == every(topic, 60)


def test_the_batch_reader_reads_explicit_ranges_without_a_group(
    kafka_broker: KafkaBroker, topic: str
) -> None:
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)

    def read(**options: str) -> Sink:
        given = {
            "kafka.bootstrap.servers": kafka_broker.address,
            **({} if "assign" in options else {"subscribe": topic}),
            **options,
        }
        source = ZkcoordSource({name.lower(): value for name, value in given.items()})
        reader = source.reader(full_schema(headers=False))
        tasks = cloudpickle.loads(cloudpickle.dumps(reader.partitions()))
        return Sink(
            (row["topic"], row["partition"], row["offset"])
            for task in tasks
            for batch in cloudpickle.loads(cloudpickle.dumps(reader)).read(task)
            for row in batch.to_pylist()
        )

    assert read() == every(topic)
    assert read(
        startingOffsets=json.dumps({topic: {"0": 150, "1": -1}}),
        endingOffsets=json.dumps({topic: {"0": 160, "2": 1}}),
    ) == Sink(
        {(topic, 0, offset): 1 for offset in range(150, 160)}
        | {(topic, 2, 0): 1}
        | {(topic, 3, offset): 1 for offset in range(EACH)}
    )
    assert set(read(assign=json.dumps({topic: [3]}))) == {
        (topic, 3, offset) for offset in range(EACH)
    }
    for wrong, said in (
        ({"assign": json.dumps({topic: [9]})}, "has the partitions"),
        ({"subscribe": "nothing-of-that-name"}, "there is no topic"),
        ({"endingOffsets": json.dumps({topic: {"0": 999}})}, "failOnDataLoss"),
    ):
        with pytest.raises(ReadError, match=said):
            read(**wrong)


def test_a_query_whose_lease_has_run_out_does_not_say_that_it_held_what_it_had_until_its_end(
    start: Start,
    kafka_broker: KafkaBroker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The audit would take its last line, which may come long after a successor's first, for a
    proof that two had it.
    """
    query = start(Checkpoint(), Sink(), journal=str(tmp_path))
    busy(query)
    monkeypatch.setattr(query.reader._membership().session, "leased", lambda: False)
    query.stop()
    (file,) = tmp_path.glob("*.jsonl")
    ends = [
        line
        for line in map(json.loads, file.read_text(encoding="utf-8").splitlines())
        if line["event"] in ("lost", "closing")
    ]
    assert [line["event"] for line in ends] == ["lost", "closing"] and len(
        ends[0]["partitions"]
    ) == PARTITIONS


def test_a_partition_that_is_added_while_a_query_runs_with_latest(
    start: Start, kafka_broker: KafkaBroker, topic: str
) -> None:
    """It begins at the end of its log when the query first owns it: what comes then is read."""
    sink = Sink()
    query = start(Checkpoint(), sink, startingOffsets="latest")
    busy(query)
    add_partitions(kafka_broker.address, topic, PARTITIONS + 1)
    wait_until(
        lambda: query.trigger() >= 0 and len(query.owned) == PARTITIONS + 1,
        PATIENCE_S,
        "the new partition",
    )
    produce(kafka_broker.address, topic, {PARTITIONS: [b"v"] * 40})
    until([query], sink, 40)
    assert sink == {(topic, PARTITIONS, offset): 1 for offset in range(40)}


def test_brokers_of_another_cluster_end_the_query(
    start: Start, kafka_broker: KafkaBroker, zk_hosts: str
) -> None:
    client = connect(zk_hosts)
    client.create(CLUSTER_ID, b'{"version":"1","id":"another"}', makepath=True)
    disconnect(client)
    named = {"zookeeperConnect": zk_hosts, "kafka.bootstrap.servers": kafka_broker.address}
    query = start(Checkpoint(), Sink(), **named)
    with pytest.raises(OtherClusterError, match=r"correct kafka\.bootstrap\.servers"):
        wait_until(lambda: query.trigger() < 0, PATIENCE_S, "the end of the query")
