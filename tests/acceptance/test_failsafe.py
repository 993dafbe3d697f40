"""Failsafe mode on a real ensemble of three and a real broker: records go on while nobody is
served, and end with the lease where only this member is cut off.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer

from consumer.api.kafka_consumer import KafkaConsumer
from consumer.errors import CommitUnavailableError, ConsumerOptionError
from tests.consumer.fakes import Recorder
from tests.harness.kafka import create_topic, new_broker, produce_numbered, unique
from tests.harness.proxy import Proxy
from tests.harness.wait import wait_until
from tests.harness.zookeeper import Ensemble
from tests.kafka.groups import PATIENCE_S, Taken, consumer, coordinator, drain, settled, take
from zkcoord.core.options import CoordinatorOptions
from zkcoord.stack.java import Java
from zkcoord.stack.servers import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SESSION_MS, LEASE_MS = 6_000, 4_000
CHROOT = "/failsafe"


@pytest.fixture
def broker(ensemble: Ensemble, java: Java, tmp_path: Path) -> Iterator[KafkaBroker]:
    server = new_broker(tmp_path / "broker", ensemble.hosts + CHROOT, java)
    server.start()
    yield server
    server.stop()


def lease_left(member: KafkaConsumer) -> int:
    return int(member.metrics()["zkcoord"]["lease-left-ms"])


def test_nobody_is_served_for_longer_than_a_session(
    ensemble: Ensemble, broker: KafkaBroker
) -> None:
    topic = create_topic(broker.address, unique("failsafe"), 4)
    group, heard = unique("group"), Recorder()
    with (
        coordinator(ensemble.hosts + CHROOT),
        consumer(
            ensemble.hosts + CHROOT,
            group,
            zookeeper_session_timeout_ms=SESSION_MS,
            failsafe=True,
            bootstrap_servers=broker.address,
            enable_auto_commit=False,
            commit_timeout_ms=500,
        ) as safe,
        consumer(
            ensemble.hosts + CHROOT,
            group,
            zookeeper_session_timeout_ms=SESSION_MS,
            bootstrap_servers=broker.address,
            enable_auto_commit=False,
            commit_timeout_ms=500,
        ) as plain,
    ):
        safe.subscribe([topic], listener=heard)
        plain.subscribe([topic])
        settled([safe, plain], topic, 4)
        # an idempotent one needs the controller
        producer = KafkaProducer(bootstrap_servers=broker.address, enable_idempotence=False)
        calls = list(heard.calls)
        ensemble.kill(1)
        ensemble.kill(2)
        gone = time.monotonic()
        wait_until(
            lambda: (
                take(plain, {}) >= 0
                and take(safe, {}) >= 0
                and time.monotonic() > gone + 2 * SESSION_MS / 1000
            ),
            PATIENCE_S,
            "twice the session without ZooKeeper",
        )
        sent = [
            producer.send(topic, value=b"%d" % number, partition=partition)
            for partition in range(4)
            for number in range(10)
        ]
        assert {future.get(PATIENCE_S).offset for future in sent} == set(range(10))
        producer.close()
        taken: Taken = {}
        drain([safe], taken, 20)
        assert lease_left(safe) > 0 and lease_left(plain) == 0 and take(plain, {}) == 0
        with pytest.raises(CommitUnavailableError):
            safe.commit()
        ensemble.restart(1, wait=False)
        ensemble.restart(2)
        drain([safe, plain], taken, 40)
        wait_until(lambda: lease_left(plain) > 0, PATIENCE_S, "ZooKeeper for the other")
        safe.commit(timeout_ms=PATIENCE_S * 1000)
        assert heard.calls == calls, "nothing moved"
        assert {safe.committed(tp, timeout_ms=PATIENCE_S * 1000) for tp in safe.assignment()} == {
            10
        }
        assert all(offsets == list(range(10)) for offsets in taken.values()) and len(taken) == 4


def test_a_member_that_is_cut_off_alone_stops_with_its_lease(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("failsafe"), 1)
    server, chroot = kafka_zk_hosts.split("/", 1)
    with (
        coordinator(kafka_zk_hosts, CoordinatorOptions(lease_max_ms=1_000)),
        Proxy(int(server.rsplit(":", 1)[1])) as proxy,
        consumer(
            f"{proxy.address}/{chroot}",
            topic,
            topic,
            zookeeper_session_timeout_ms=60_000,
            failsafe=True,
            guardian=False,
            bootstrap_servers=kafka_broker.address,
        ) as member,
    ):
        settled([member], topic, 1)
        proxy.black_hole()
        proxy.cut()
        wait_until(lambda: lease_left(member) == 0, PATIENCE_S, "the end of the lease")
        produce_numbered(kafka_broker.address, topic, 1, 5)
        assert [member.poll(20) for _ in range(20)] == [{}] * 20
        proxy.heal()
        drain([member], {}, 5)


def test_it_is_true_or_false() -> None:
    with pytest.raises(ConsumerOptionError, match="failsafe is 'perhaps': write True"):
        KafkaConsumer("t", zookeeper_connect="127.0.0.1:1", group_id="g", failsafe="perhaps")
