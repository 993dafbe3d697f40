"""What takes its time: an application that does not poll, and brokers that move."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka.errors import CommitFailedError
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.harness.kafka import create_topic, produce_numbered, start_broker, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import fresh_chroot
from tests.kafka.groups import PATIENCE_S, Taken, consumer, coordinator, drain, settled, take
from zkcoord.stack.java import Java
from zkcoord.stack.servers import KafkaBroker, ZooKeeperServer

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_who_does_not_poll_leaves_by_himself_and_comes_back_with_the_next_poll(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("unpolled"), 2)
    produce_numbered(kafka_broker.address, topic, 2, 5)
    taken: Taken = {}
    with (
        coordinator(kafka_zk_hosts),
        consumer(
            kafka_zk_hosts, topic, topic, max_poll_interval_ms=700, enable_auto_commit=False
        ) as idle,
    ):
        drain([idle], {}, 10)
        with consumer(kafka_zk_hosts, topic, topic) as busy:
            wait_until(
                lambda: take(busy, taken) >= 0 and len(busy.assignment()) == 2,
                PATIENCE_S,
                "all partitions, while the other does not poll",
            )
            drain([busy], taken, 10)
            with pytest.raises(CommitFailedError):
                idle.commit(
                    {TopicPartition(topic, 0): OffsetAndMetadata(5, "", -1)}, timeout_ms=5_000
                )
            settled([idle, busy], topic, 2)


def test_who_waits_in_poll_for_a_long_time_is_alive(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = unique("waiting")
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, max_poll_interval_ms=600) as c,
    ):
        name = wait_until(
            lambda: c.poll(10) == {} and c._session.member_name,
            PATIENCE_S,
            "the registration",
        )
        c.poll(3_000)
        assert c._session.member_name == name


def test_brokers_that_moved_are_followed(
    zk_server: ZooKeeperServer, java: Java, tmp_path: Path
) -> None:
    """Every broker is back under another address: the consumer finds it in ZooKeeper."""
    hosts = fresh_chroot(zk_server.address, "moving")
    first = start_broker(tmp_path / "broker", hosts, java)
    topic = create_topic(first.address, unique("moving"), 1)
    produce_numbered(first.address, topic, 1, 3)
    taken: Taken = {}
    with coordinator(hosts), consumer(hosts, topic, topic) as c:
        drain([c], taken, 3)
        first.stop()
        second = start_broker(tmp_path / "broker", hosts, java)
        assert second.address != first.address
        produce_numbered(second.address, topic, 1, 3, 3)
        drain([c], taken, 6)
    second.kill()
    assert taken == {(topic, 0): list(range(6))}
