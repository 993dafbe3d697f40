"""A topic that is deleted and created again, on a real broker: the new topic is consumed from its
first record, and nothing of the old one is written over it.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest
from kafka.structs import TopicPartition

from consumer.api.kafka_consumer import KafkaConsumer
from consumer.errors import CommitUnavailableError
from tests.harness.kafka import create_topic, delete_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import PATIENCE_S, Taken, consumer, coordinator, drain, settled, take, whole
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka


def recreate(broker: KafkaBroker, hosts: str, topic: str, partitions: int) -> None:
    """Delete a topic, wait until nothing of it is left, and create it again."""
    delete_topic(broker.address, topic)
    client = connect(hosts)
    try:
        wait_until(
            lambda: (
                client.exists(f"/brokers/topics/{topic}") is None
                and not client.exists(f"/admin/delete_topics/{topic}")
            ),
            PATIENCE_S,
            "the end of the topic",
        )
    finally:
        disconnect(client)
    create_topic(broker.address, topic, partitions)


def stored(hosts: str, group: str, topic: str, partitions: int) -> list[int]:
    """What is stored in ZooKeeper."""
    client = connect(hosts)
    try:
        return [
            int(client.get(f"/consumers/{group}/offsets/{topic}/{n}")[0]) for n in range(partitions)
        ]
    finally:
        disconnect(client)


def committed(looker: KafkaConsumer, tp: TopicPartition) -> int | None:
    """What a consumer says of a partition that is not its own, once it has a session to ask
    with.
    """
    found: list[Any] = []

    def asked() -> bool:
        try:
            found.append(looker.committed(tp))
        except CommitUnavailableError:
            return False
        return True

    wait_until(asked, PATIENCE_S, "a session")
    return None if found[0] is None else int(found[0])


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_topic_made_again_while_its_group_was_away(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, reset: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The old topic had more records than the new one, so an old offset would be out of range; with
    `latest` the new records would be skipped.
    """
    topic = create_topic(kafka_broker.address, unique("again"), 2)
    produce_numbered(kafka_broker.address, topic, 2, 40)
    with coordinator(kafka_zk_hosts):
        with consumer(kafka_zk_hosts, topic, topic) as before:
            drain([before], {}, 80)
        assert stored(kafka_zk_hosts, topic, topic, 2) == [40, 40]
        recreate(kafka_broker, kafka_zk_hosts, topic, 2)
        produce_numbered(kafka_broker.address, topic, 2, 25)
        with consumer(kafka_zk_hosts, topic, unique("other")) as looker:
            assert committed(looker, TopicPartition(topic, 0)) is None
        taken: Taken = {}
        with (
            caplog.at_level(logging.WARNING, "consumer"),
            consumer(kafka_zk_hosts, topic, topic, auto_offset_reset=reset) as after,
        ):
            drain([after], taken, 50)
        whole(taken, 2, 25, topic)
        warned = [r.getMessage() for r in caplog.records if "created again" in r.getMessage()]
        assert (
            len(warned) == 1
            and f"zkcoord offsets accept {topic} " in warned[0]
            and f"{topic}-0=40" in warned[0]
        )
        assert stored(kafka_zk_hosts, topic, topic, 2) == [25, 25]
        with consumer(kafka_zk_hosts, topic, unique("other")) as looker:
            assert committed(looker, TopicPartition(topic, 0)) == 25
        produce_numbered(kafka_broker.address, topic, 2, 5, 25)
        with consumer(kafka_zk_hosts, topic, topic, auto_offset_reset=reset) as restarted:
            drain([restarted], taken, 60)
    whole(taken, 2, 30, topic)


def test_a_topic_made_again_under_its_consumers(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    """Two members go over to the new topic by themselves; every record of it is delivered, and what
    is stored at the end is the new topic's.
    """
    topic = create_topic(kafka_broker.address, unique("under"), 4)
    produce_numbered(kafka_broker.address, topic, 4, 40)
    often: dict[str, Any] = {"auto_commit_interval_ms": 100}
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, **often) as one,
        consumer(kafka_zk_hosts, topic, topic, **often) as two,
    ):
        settled([one, two], topic, 4)
        wait_until(
            lambda: (
                [take(c, {}) for c in (one, two)] == [0, 0]
                and stored(kafka_zk_hosts, topic, topic, 4) == [40] * 4
            ),
            PATIENCE_S,
            "the commits of the old topic",
        )
        recreate(kafka_broker, kafka_zk_hosts, topic, 4)
        produce_numbered(kafka_broker.address, topic, 4, 25)
        taken: Taken = {}

        def delivered(consumers: list[KafkaConsumer]) -> bool:
            for c in consumers:
                take(c, taken)
            return (
                all(set(range(25)) <= set(taken.get((topic, n), ())) for n in range(4))
                and stored(kafka_zk_hosts, topic, topic, 4) == [25] * 4
            )

        wait_until(lambda: delivered([one, two]), PATIENCE_S, "every record of the new topic")
        assert one.assignment() | two.assignment() == {TopicPartition(topic, n) for n in range(4)}
        produce_numbered(kafka_broker.address, topic, 4, 5, 25)

        def later() -> bool:
            takes = [take(c, taken) for c in (one, two)]
            return takes == [0, 0] and all(max(taken[topic, n]) == 29 for n in range(4))

        wait_until(later, PATIENCE_S, "what is written later")
