"""Two gateways before one broker: when one is killed, stopped or begins again, its clients go on at
the other one, and hear nothing of it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.gateway.clients import (
    PATIENCE_S,
    V3,
    V4,
    GatewayProcess,
    Librdkafka,
    console_consumer,
    shared,
)
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import coordinator
from zkcoord.stack.java import Java
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.gateway_nodes import RememberedClient, decode_client
from zkcoord.znodes.paths import Layout

pytestmark = pytest.mark.kafka

PARTITIONS = 6
EACH = 50
GATEWAY_IDS = 1_000_000_000


@pytest.fixture
def gateways(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> Iterator[tuple[GatewayProcess, GatewayProcess]]:
    """Two of them beside a coordinator."""
    with (
        coordinator(kafka_zk_hosts),
        GatewayProcess(tmp_path / "a", kafka_zk_hosts, kafka_broker.address) as one,
        GatewayProcess(tmp_path / "b", kafka_zk_hosts, kafka_broker.address) as other,
    ):
        for gateway in (one, other):
            wait_until(lambda: named(gateway) == 3, PATIENCE_S, "gateways that know each other")
        yield one, other


def named(gateway: GatewayProcess) -> int:
    """How many brokers a client is told of."""
    return len(AdminClient({"bootstrap.servers": gateway.address}).list_topics(timeout=10).brokers)


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    """A topic with records."""
    name = unique("wire")
    create_topic(kafka_broker.address, name, PARTITIONS)
    produce_numbered(kafka_broker.address, name, PARTITIONS, EACH)
    return name


def test_clients_know_all_gateways(gateways: tuple[GatewayProcess, GatewayProcess]) -> None:
    one, other = gateways
    brokers = AdminClient({"bootstrap.servers": one.address}).list_topics(timeout=10).brokers
    found = {(broker.id >= GATEWAY_IDS, broker.port) for broker in brokers.values()}
    gateways_found = {(True, one.port), (True, other.port)}
    # a client may have asked either by now, each of which has the broker at a port of its own
    assert found - gateways_found in ({(False, one.broker_port)}, {(False, other.broker_port)})
    assert found >= gateways_found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_when_a_gateway_goes_its_clients_go_on_at_the_other_one(
    gateways: tuple[GatewayProcess, GatewayProcess],
    topic: str,
    kafka_broker: KafkaBroker,
    number: signal.Signals,
) -> None:
    one, other = gateways
    group = unique("g")
    clients = [
        Librdkafka(one.address, group, topic, **{"partition.assignment.strategy": strategy})
        for strategy in ("range", "range", "range,roundrobin")
    ]
    shared(clients, PARTITIONS)
    everything = {(n, offset) for n in range(PARTITIONS) for offset in range(EACH)}

    def taken() -> set[tuple[int, int]]:
        return {record for client in clients for record in client.taken}

    wait_until(lambda: taken() == everything, PATIENCE_S, "all records")
    wait_until(lambda: committed(other, group, topic) == [EACH] * PARTITIONS, PATIENCE_S, "commits")
    before = [list(client.calls) for client in clients]
    # clients choose for themselves where they are members
    if "joins group" not in one.log():
        one, other = other, one
    one.process.send_signal(number)
    one.process.wait(PATIENCE_S)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    more = {(n, offset) for n in range(PARTITIONS) for offset in range(2 * EACH)}
    wait_until(lambda: taken() == more, PATIENCE_S, "all records of the time after")
    wait_until(
        lambda: committed(other, group, topic) == [2 * EACH] * PARTITIONS,
        PATIENCE_S,
        "commits through the other gateway",
    )
    assert [client.calls for client in clients] == before, "no callback"
    assert sum(len(client.taken) for client in clients) == 2 * PARTITIONS * EACH, "each once"
    assert "from another gateway" in other.log()
    clients.pop().close()
    shared(clients, PARTITIONS)
    for client in clients:
        client.close()


@pytest.mark.parametrize("version", [V3, pytest.param(V4, marks=pytest.mark.nightly)])
def test_a_java_client_goes_on_with_its_generation(
    gateways: tuple[GatewayProcess, GatewayProcess],
    topic: str,
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    java: Java,
    version: str,
) -> None:
    one, other = gateways
    group = unique("g")
    zookeeper = connect(kafka_zk_hosts)

    def told() -> list[RememberedClient]:
        """What its client has been told."""
        root = Layout.DRAFT.clients(group)
        found = [(n, zookeeper.get(f"{root}/{n}")[0]) for n in zookeeper.get_children(root)]
        clients = (decode_client(*one) for one in found)
        return [replace(c, by="") for c in clients if isinstance(c, RememberedClient)]

    with console_consumer(version, java, one.address, topic, group) as lines:
        wait_until(lambda: len(lines) == PARTITIONS * EACH, PATIENCE_S, "all records")
        before = told()
        assert len(before) == 1 and len(before[0].has) == PARTITIONS
        wait_until(
            lambda: committed(other, group, topic) == [EACH] * PARTITIONS, PATIENCE_S, "commits"
        )
        served = one if "joins group" in one.log() else other
        left = other if served is one else one
        served.process.kill()
        produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
        wait_until(
            lambda: committed(left, group, topic) == [2 * EACH] * PARTITIONS,
            PATIENCE_S,
            "commits through the other gateway",
        )
        assert told() == before, "no rebalance"
        assert len(lines) == 2 * PARTITIONS * EACH, "each record once"
        assert "from another gateway" in left.log()
    disconnect(zookeeper)


def committed(gateway: GatewayProcess, group: str, topic: str) -> list[int]:
    """The group's next offsets, by partition."""
    from kafka import KafkaConsumer
    from kafka.structs import TopicPartition

    reader = KafkaConsumer(bootstrap_servers=gateway.address, group_id=group)
    try:
        return [
            reader.committed(TopicPartition(topic, n), timeout_ms=10_000) or 0
            for n in range(PARTITIONS)
        ]
    finally:
        reader.close()
