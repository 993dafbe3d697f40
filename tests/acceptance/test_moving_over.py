"""A group moves from kafka-python to zkcoord and back while its topic is written to: nothing is
lost, and nothing comes twice that had been committed.
"""

from __future__ import annotations

import signal
import threading

import kafka
import pytest
from kafka.errors import (
    CommitFailedError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.core.messages import Notice, NoticeKind
from consumer.errors import ConsumerOptionError, KafkaGroupActiveError, NoStoredOffsetError
from consumer.observer import Observer
from tests.acceptance.moving import Count, Journey, count, load
from tests.harness.kafka import (
    add_partitions,
    admin,
    create_topic,
    group_member,
    produce_numbered,
    unique,
)
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import PATIENCE_S, Taken, consumer, coordinator, drain, take
from zkcoord.stack.servers import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 4


class Starts(Observer):
    """Releases `seen` for each command that the member hears of."""

    def __init__(self, seen: threading.Semaphore) -> None:
        self.seen = seen

    def on_notice(self, notice: Notice, now_ns: int) -> None:
        if notice.kind is NoticeKind.COMMAND:
            self.seen.release()


def test_the_count() -> None:
    """Offset 1 comes again before it was committed, 3 after; 4 never comes."""

    def records(t: int, first: int, last: int) -> dict[str, object]:
        return {"event": "records", "t": t, "ranges": {"t-0": [[first, last, last - first + 1, 0]]}}

    lines = [
        records(1, 0, 1),
        records(5, 3, 3),
        records(2, 1, 2),
        records(3, 3, 3),
        {"event": "committed", "t": 4, "offsets": {"t-0": 4}},
    ]
    assert count(lines, {"t-0": 5}) == Count(written=5, lost=1, again=2, again_committed=1)


def journey(broker: KafkaBroker, hosts: str) -> Journey:
    return Journey(
        broker.address,
        hosts,
        create_topic(broker.address, unique("moving"), PARTITIONS),
        PARTITIONS,
    )


def commit_in_kafka(broker: KafkaBroker, group: str, offsets: dict[TopicPartition, int]) -> None:
    """As kafka-python's consumers of the group left it."""
    with admin(broker.address) as client:

        def committed() -> bool:
            try:
                client.alter_group_offsets(
                    group, {tp: OffsetAndMetadata(offset, "", -1) for tp, offset in offsets.items()}
                )
            # the first group of a broker
            except (
                CoordinatorNotAvailableError,
                CoordinatorLoadInProgressError,
                NotCoordinatorError,
            ):
                return False
            return True

        wait_until(committed, PATIENCE_S, "offsets in Kafka")


def committed_in_kafka(broker: KafkaBroker, group: str) -> dict[TopicPartition, int]:
    """What Kafka's tools see."""
    with admin(broker.address) as client:
        return {tp: known.offset for tp, known in client.list_group_offsets([group])[group].items()}


def test_there_and_back(kafka_broker: KafkaBroker, kafka_zk_hosts: str) -> None:
    """kafka-python, ours with a mirror in Kafka, ours with its offsets in Kafka alone,
    kafka-python.
    """
    group = journey(kafka_broker, kafka_zk_hosts)
    with load(group.broker, group.topic, PARTITIONS) as stop, coordinator(kafka_zk_hosts):
        group.leg(group.kafka_python(), 1, group.share(300))
        group.forgotten_by_kafka()
        group.leg(group.zkcoord("--offsets-storage", "dual"), 2, group.share(300))
        group.leg(group.zkcoord("--offsets-storage", "kafka"), 1, group.share(300))
        stop()
        group.leg(group.kafka_python(), 1, group.drained)
    found = group.count()
    assert found.written >= 900 and (found.lost, found.again) == (0, 0), found


@pytest.mark.nightly
def test_there_and_back_with_members_killed(kafka_broker: KafkaBroker, kafka_zk_hosts: str) -> None:
    """Two members each way, there and back and there again. What was committed before a kill never
    comes again, but on the way back what was not mirrored yet: the offsets that Kafka has are where
    its consumers begin.
    """
    group = journey(kafka_broker, kafka_zk_hosts)
    with load(group.broker, group.topic, PARTITIONS) as stop, coordinator(kafka_zk_hosts):
        group.leg(group.kafka_python(), 2, group.share(300), signal.SIGKILL)
        group.forgotten_by_kafka()
        group.leg(group.zkcoord("--offsets-storage", "dual"), 2, group.share(300), signal.SIGKILL)
        group.leg(group.zkcoord("--offsets-storage", "dual"), 2, group.share(300))
        there = group.count()
        assert there.again_committed == 0, there
        group.leg(group.kafka_python(), 2, group.share(300), signal.SIGKILL)
        group.forgotten_by_kafka()
        group.leg(group.zkcoord("--offsets-storage", "kafka"), 2, group.share(300), signal.SIGKILL)
        group.leg(group.zkcoord("--offsets-storage", "kafka"), 2, group.share(300))
        there = group.count()
        assert there.again_committed == 0, there
        group.forget_in_zookeeper()
        group.leg(group.zkcoord("--offsets-storage", "dual"), 2, group.share(300), signal.SIGKILL)
        begun = committed_in_kafka(kafka_broker, group.topic)
        known = len(group.lines)
        stop()
        group.leg(group.kafka_python(), 1, group.drained)
    found = group.count()
    assert found.lost == 0, found
    back: dict[str, int] = {}
    for line in (line for line in group.lines[known:] if line["event"] == "records"):
        for partition, ranges in line["ranges"].items():
            back.setdefault(partition, ranges[0][0])
    assert (
        back.items()
        <= {f"{tp.topic}-{tp.partition}": offset for tp, offset in begun.items()}.items()
    ), found


@pytest.mark.parametrize("client", ["kafka-python", "librdkafka"])
def test_each_partition_begins_where_it_shall(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, client: str
) -> None:
    """Committed; committed beyond what exists; never committed; and a new one, which nobody can
    have committed. Then ZooKeeper decides, whatever Kafka says, and the mirror says what ZooKeeper
    says.
    """
    topic = create_topic(kafka_broker.address, unique("begins"), 3)
    produce_numbered(kafka_broker.address, topic, 3, 20)
    commit_in_kafka(
        kafka_broker, topic, {TopicPartition(topic, 0): 15, TopicPartition(topic, 1): 10_000}
    )
    with coordinator(kafka_zk_hosts):
        taken: Taken = {}
        with consumer(
            kafka_zk_hosts, topic, topic, offsets_storage="dual", data_client=client
        ) as one:
            drain([one], taken, 5 + 20 + 20)
            add_partitions(kafka_broker.address, topic, 4)
            produce_numbered(kafka_broker.address, topic, 4, 2, 20)
            drain([one], taken, 45 + 8)
            figures = one.metrics()["zkcoord"]
            assert figures["mirror-failures"] == 0
        assert taken == {
            (topic, 0): list(range(15, 22)),
            (topic, 1): list(range(22)),
            (topic, 2): list(range(22)),
            (topic, 3): [0, 1],
        }
        assert committed_in_kafka(kafka_broker, topic) == {
            TopicPartition(topic, n): 22 if n < 3 else 2 for n in range(4)
        }
        commit_in_kafka(kafka_broker, topic, {TopicPartition(topic, 0): 0})
        produce_numbered(kafka_broker.address, topic, 1, 1, 22)
        with consumer(kafka_zk_hosts, topic, topic, data_client=client) as two:
            drain([two], again := {}, 1)
            assert again == {(topic, 0): [22]} and "mirror-failures" not in two.metrics()["zkcoord"]


def test_offsets_in_kafka_alone(kafka_broker: KafkaBroker, kafka_zk_hosts: str) -> None:
    """A group that kept its offsets in ZooKeeper goes on from there; from then on Kafka decides,
    and what is in ZooKeeper stays as it was.
    """
    topic = create_topic(kafka_broker.address, unique("in-kafka"), 2)
    produce_numbered(kafka_broker.address, topic, 2, 20)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with coordinator(kafka_zk_hosts):
        with consumer(kafka_zk_hosts, topic, topic) as before:
            drain([before], {}, 40)
        produce_numbered(kafka_broker.address, topic, 2, 10, 20)
        with consumer(
            kafka_zk_hosts, topic, topic, offsets_storage="kafka", enable_auto_commit=False
        ) as one:
            drain([one], taken := {}, 20)
            assert taken == {(topic, n): list(range(20, 30)) for n in range(2)}
            assert one.committed(first) is None, "nothing is stored before the first commit"
            one.commit({first: 25})
            assert one.committed(first) == 25
            with pytest.raises(CommitFailedError, match="not own"):
                one.commit({TopicPartition(topic, 7): 1})
        assert committed_in_kafka(kafka_broker, topic) == {first: 25}
        with consumer(kafka_zk_hosts, topic, topic, offsets_storage="kafka") as two:
            drain([two], taken := {}, 5 + 10)
            assert taken == {(topic, 0): list(range(25, 30)), (topic, 1): list(range(20, 30))}
        assert committed_in_kafka(kafka_broker, topic) == {first: 30, second: 30}
    zookeeper = connect(kafka_zk_hosts)
    try:
        assert [
            int(zookeeper.get(f"/consumers/{topic}/offsets/{topic}/{n}")[0]) for n in range(2)
        ] == [20, 20]
    finally:
        disconnect(zookeeper)


def member_of_kafka(broker: KafkaBroker, topic: str) -> kafka.KafkaConsumer:
    """A consumer of kafka-python in its group."""
    theirs = group_member(
        broker.address,
        topic,
        topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        client_id="old-one",
    )
    wait_until(
        lambda: theirs.poll(200, max_records=1, update_offsets=False) or theirs.assignment(),
        PATIENCE_S,
        "an assignment",
    )
    return theirs


def test_a_group_that_is_in_use_in_kafka_is_refused_and_taken_over_once_it_is_not(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("in-use"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 20)
    theirs = member_of_kafka(kafka_broker, topic)
    wait_until(lambda: theirs.poll(200, max_records=7), PATIENCE_S, "the first records")
    theirs.commit()
    with coordinator(kafka_zk_hosts):
        with (
            consumer(kafka_zk_hosts, topic, topic) as ours,
            pytest.raises(KafkaGroupActiveError, match=r"old-one on 127\.0\.0\.1"),
        ):
            wait_until(lambda: take(ours, {}), PATIENCE_S, "a refusal")
        theirs.close()
        with consumer(
            kafka_zk_hosts, topic, topic, offsets_storage="dual", enable_auto_commit=False
        ) as ours:
            drain([ours], taken := {}, 13)
            ours.commit()
            # too late to be refused: it gets what these get, and may commit what it likes
            theirs = member_of_kafka(kafka_broker, topic)

            def refused() -> bool:
                take(ours, taken)
                ours.commit({TopicPartition(topic, 0): 19})
                ours.commit({TopicPartition(topic, 0): 20})
                return bool(ours.metrics()["zkcoord"]["mirror-failures"])

            wait_until(refused, PATIENCE_S, "a mirror that is refused")
            theirs.close()
        assert taken == {(topic, 0): list(range(7, 20))} and committed_in_kafka(
            kafka_broker, topic
        ) == {TopicPartition(topic, 0): 20}


def test_reset_and_refuse(kafka_broker: KafkaBroker, kafka_zk_hosts: str) -> None:
    topic = create_topic(kafka_broker.address, unique("refuse"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 20)
    commit_in_kafka(kafka_broker, topic, {TopicPartition(topic, 0): 15})
    with coordinator(kafka_zk_hosts):
        with (
            consumer(kafka_zk_hosts, topic, topic, initial_offsets="refuse") as ours,
            pytest.raises(NoStoredOffsetError, match=f"{topic}-0"),
        ):
            wait_until(lambda: take(ours, {}), PATIENCE_S, "a refusal")
        with consumer(kafka_zk_hosts, topic, topic, initial_offsets="reset") as ours:
            drain([ours], taken := {}, 20)
        assert taken == {(topic, 0): list(range(20))}


def test_brokers_without_groups_keep_no_offsets_of_them(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    """As a broker from before 0.9 is spoken to: nothing can be adopted, or mirrored."""
    topic = create_topic(kafka_broker.address, unique("old"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 20)
    commit_in_kafka(kafka_broker, topic, {TopicPartition(topic, 0): 15})
    with pytest.raises(ConsumerOptionError, match="before 0.9"):
        consumer(kafka_zk_hosts, topic, topic, offsets_storage="dual", api_version=(0, 8, 2))
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, api_version=(0, 8, 2)) as ours,
    ):
        drain([ours], taken := {}, 20)
    assert taken == {(topic, 0): list(range(20))}


def test_offsets_that_a_transaction_is_about_to_commit_are_waited_for(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    """The offset before it would deliver again what the transaction has made of the records."""
    topic = create_topic(kafka_broker.address, unique("exactly-once"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 20)
    first = TopicPartition(topic, 0)
    commit_in_kafka(kafka_broker, topic, {first: 4})
    producer = kafka.KafkaProducer(bootstrap_servers=kafka_broker.address, transactional_id=topic)
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({first: OffsetAndMetadata(9, "", -1)}, topic)
        asked = threading.Semaphore(0)
        with (
            coordinator(kafka_zk_hosts),
            consumer(kafka_zk_hosts, topic, topic, observer=Starts(asked)) as ours,
        ):
            wait_until(
                lambda: take(ours, {}) or asked.acquire(blocking=False), PATIENCE_S, "a start"
            )
            for _ in range(20):
                assert not take(ours, {}) and not ours.assignment()
            producer.commit_transaction()
            drain([ours], taken := {}, 11)
        assert taken == {(topic, 0): list(range(9, 20))}
    finally:
        producer.close(timeout=PATIENCE_S)
