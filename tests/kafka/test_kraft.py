"""A cluster that has no ZooKeeper underneath: the coordinator asks its brokers, and everybody else
reads what it has written down. Nobody but the coordinator is told of a broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka.structs import TopicPartition

from consumer.api.kafka_consumer import KafkaConsumer
from tests.harness.command import Running, run
from tests.harness.kafka import (
    add_partitions,
    create_topic,
    delete_topic,
    produce,
    produce_numbered,
    unique,
)
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import PATIENCE_S, Taken, drain, take
from zkcoord.stack import jars
from zkcoord.stack.java import Java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import CONTROLLER, KRaftNode

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RELEASES = [
    jars.KAFKA,
    pytest.param(jars.KAFKA_4, marks=pytest.mark.nightly),  # its jars are 66 MB more
]


@pytest.fixture(scope="module", params=RELEASES, ids=lambda artifact: artifact.version)
def kraft(
    request: pytest.FixtureRequest, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KRaftNode]:
    """A broker without ZooKeeper."""
    home = tmp_path_factory.mktemp("kraft")
    node = KRaftNode(home, free_port(), java, CONTROLLER, free_port(), artifact=request.param)
    node.start()
    yield node
    node.kill()


@pytest.fixture
def coordinator(kraft: KRaftNode, zk_hosts: str, tmp_path: Path) -> Iterator[Running]:
    """One that is told where a broker is, and finds out the rest."""
    options = ("--zookeeper", zk_hosts, "--bootstrap-servers", kraft.address)
    with Running(tmp_path / "coordinator", *options) as process:
        process.logs("from Kafka")
        yield process


def member(hosts: str, group: str, *topics: str, **more: str) -> KafkaConsumer:
    """A consumer that knows ZooKeeper only."""
    return KafkaConsumer(
        *topics, zookeeper_connect=hosts, group_id=group, auto_offset_reset="earliest", **more
    )


def given(members: list[KafkaConsumer], taken: Taken) -> int:
    """How many partitions they have after another poll."""
    for one in members:
        take(one, taken)
    return sum(len(one.assignment()) for one in members)


@pytest.mark.parametrize("engine", ["kafka-python", "librdkafka"])
def test_a_group_lives_without_kafkas_nodes(
    kraft: KRaftNode, coordinator: Running, zk_hosts: str, engine: str, tmp_path: Path
) -> None:
    address, topic, group = kraft.address, unique("kraft"), unique("group")
    create_topic(address, topic, 4)
    produce_numbered(address, topic, 4, 25)
    with ExitStack() as ends:
        members = [member(zk_hosts, group, topic, data_client=engine) for _ in range(2)]
        for one in members:
            ends.callback(one.close)
        taken: Taken = {}
        drain(members, taken, 100)
        add_partitions(address, topic, 6)
        wait_until(lambda: given(members, taken) == 6, PATIENCE_S, "the partitions that are new")
        produce(address, topic, {5: [b"of a new one"]})
        drain(members, taken, 101)
        delete_topic(address, topic)
        wait_until(lambda: given(members, taken) == 0, PATIENCE_S, "that the topic is gone")
        create_topic(address, topic, 2)
        produce_numbered(address, topic, 2, 10)
        again: Taken = {}
        drain(members, again, 20)
        assert {tp: offsets[0] for tp, offsets in again.items()} == {(topic, 0): 0, (topic, 1): 0}
        described = run(tmp_path, "groups", "describe", group, "--zookeeper", zk_hosts)
        assert described.returncode == 0 and topic in described.stdout, described
    assert [one["event"] for one in coordinator.records("topics")] == [
        "ZooKeeper has no brokers",
        "from Kafka",
    ]


def test_the_next_coordinator_needs_not_be_told(
    kraft: KRaftNode, coordinator: Running, zk_hosts: str, tmp_path: Path
) -> None:
    family = unique("family")
    create_topic(kraft.address, f"{family}-a", 1)
    produce_numbered(kraft.address, f"{family}-a", 1, 10)
    with ExitStack() as ends:
        one = member(zk_hosts, unique("group"))
        ends.callback(one.close)
        one.subscribe(pattern=f"{family}-.*")
        taken: Taken = {}
        drain([one], taken, 10)
        coordinator.process.kill()
        ends.enter_context(Running(tmp_path / "next", "--zookeeper", zk_hosts))
        create_topic(kraft.address, f"{family}-b", 1)
        produce_numbered(kraft.address, f"{family}-b", 1, 10)
        drain([one], taken, 20)
        assert one.assignment() == {TopicPartition(f"{family}-{n}", 0) for n in "ab"}


def test_a_coordinator_of_another_cluster_does_not_begin(
    kraft: KRaftNode, zk_hosts: str, tmp_path: Path
) -> None:
    client = connect(zk_hosts)
    client.create("/cluster/id", b'{"version":"1","id":"of-another"}', makepath=True)
    disconnect(client)
    options = ("--zookeeper", zk_hosts, "--bootstrap-servers", kraft.address)
    ended = run(tmp_path, "coordinator", *options, "--no-http", "--no-journal")
    assert ended.returncode == 1, ended
    assert f"the brokers at {kraft.address} are of cluster" in ended.stderr
    assert "of-another (/cluster/id)" in ended.stderr and "Traceback" not in ended.stderr


def test_a_coordinator_lives_beside_a_broker_that_kafkas_nodes_do_not_name(
    kraft: KRaftNode, zk_hosts: str, tmp_path: Path
) -> None:
    """Whether it is there is known only once the coordinator leads."""
    options = ("--zookeeper", zk_hosts, "--bootstrap-servers", kraft.address)
    with Running(tmp_path / "beside", *options, "--broker-id", str(CONTROLLER)) as process:
        process.metric_becomes("zkcoord_broker_up", 1)
        wait_until(lambda: process.records("broker"), PATIENCE_S, "it in the journal")
        assert [one["event"] for one in process.records("broker")] == ["registered"]
