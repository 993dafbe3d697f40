"""One of two brokers dies, the one of the lowest id: who is a member keeps its place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka.protocol.consumer import HeartbeatRequest, HeartbeatResponse, OffsetCommitResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from tests.gateway.clients import PATIENCE_S, GatewayProcess, Librdkafka, shared
from tests.gateway.raw_client import RawClient
from tests.gateway.test_order import commit
from tests.harness.kafka import KEPT_FOR_EVER, admin, await_partitions, produce, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import fresh_chroot
from tests.kafka.groups import coordinator
from zkcoord.stack.java import Java
from zkcoord.stack.ports import HOST, free_port
from zkcoord.stack.servers import KafkaBroker, ZooKeeperServer

pytestmark = pytest.mark.kafka

PARTITIONS = 6
EACH = 20


@pytest.fixture
def brokers(zk_server: ZooKeeperServer, java: Java, tmp_path: Path) -> Iterator[list[KafkaBroker]]:
    """Two of a cluster of their own."""
    zookeeper = fresh_chroot(zk_server.address)
    found = [
        KafkaBroker(
            tmp_path / f"kafka{n}", free_port(), zookeeper, java, True, n, config=KEPT_FOR_EVER
        )
        for n in (0, 1)
    ]
    with ExitStack() as ends:
        for broker in found:
            ends.callback(broker.kill)
            broker.start()
        for broker in found:
            with admin(broker.address) as client:
                wait_until(
                    lambda client=client: len(client.describe_cluster()["brokers"]) == 2,
                    PATIENCE_S,
                    "brokers that know each other",
                )
        yield found


def test_members_keep_their_places(brokers: list[KafkaBroker], tmp_path: Path) -> None:
    dies, lives = brokers
    topic = unique("wire")
    kept = range(0, PARTITIONS, 2)
    led = {n: [lives.broker_id if n in kept else dies.broker_id] for n in range(PARTITIONS)}
    with admin(lives.address) as client:
        client.create_topics({topic: {"assignments": led}})
    await_partitions(lives.address, topic, PARTITIONS)
    produce(lives.address, topic, {n: [b"before"] * EACH for n in range(PARTITIONS)})
    ports = f"0={free_port()},1={free_port()}"
    with (
        coordinator(lives.zookeeper),
        GatewayProcess(
            tmp_path / "gateway",
            lives.zookeeper,
            dies.address,
            "--broker-ports",
            ports,
            named=True,
        ) as gateway,
    ):
        group, everything = unique("g"), PARTITIONS * EACH
        clients = [Librdkafka(gateway.address, group, topic) for _ in range(2)]
        shared(clients, PARTITIONS)
        wait_until(lambda: taken(clients) == everything, PATIENCE_S, "all records")
        before = [list(one.calls) for one in clients]
        dies.kill()
        produce(lives.address, topic, {n: [b"after"] * EACH for n in kept})
        everything += len(kept) * EACH
        wait_until(
            lambda: taken(clients) == everything, PATIENCE_S, "records of the broker that lives"
        )
        assert [one.calls for one in clients] == before, "no callback"
        clients.append(Librdkafka(gateway.address, group, topic))
        shared(clients, PARTITIONS)
        assert "it is gone" not in gateway.log()
        for one in clients:
            one.close()


def once_open(port: int) -> RawClient:
    """A client of a broker's own port, which the gateway opens when it has heard of the broker."""

    def connected() -> RawClient | None:
        try:
            return RawClient(f"{HOST}:{port}")
        except ConnectionRefusedError:
            return None

    return wait_until(connected, PATIENCE_S, "a broker's port")


def test_a_connection_that_waits_for_no_broker_stays(
    brokers: list[KafkaBroker], tmp_path: Path
) -> None:
    """Clients begin at the gateway, and it is their coordinator: any broker will do behind that.
    Who has come to a broker's own port is closed with it.
    """
    dies, lives = brokers
    topic = unique("wire")
    with admin(lives.address) as client:
        client.create_topics({topic: {"assignments": {0: [lives.broker_id]}}})
    await_partitions(lives.address, topic, 1)
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    ports = {broker.broker_id: free_port() for broker in brokers}
    text = ",".join(f"{broker}={port}" for broker, port in ports.items())
    with (
        coordinator(lives.zookeeper),
        GatewayProcess(
            tmp_path / "gateway", lives.zookeeper, dies.address, "--broker-ports", text, named=True
        ) as gateway,
        RawClient(gateway.address) as member,
        once_open(ports[dies.broker_id]) as of_broker,
    ):
        group = unique("g")
        name, generation = member.join(group, topic)
        assert of_broker.ask(request, 4, MetadataResponse).brokers
        dies.kill()
        with pytest.raises(ConnectionError):
            of_broker.receive(MetadataResponse, 4)
        beat = HeartbeatRequest(group_id=group, generation_id=generation, member_id=name)
        assert member.ask(commit(group, topic, name, generation, 1), 7, OffsetCommitResponse)
        assert member.ask(request, 4, MetadataResponse).brokers, "another broker's answer"
        member.send(beat, 3)
        member.send(request, 4)
        assert member.receive(HeartbeatResponse, 3).error_code == 0
        assert member.receive(MetadataResponse, 4).brokers


def taken(clients: list[Librdkafka]) -> int:
    """How many different records they got."""
    return len({record for one in clients for record in one.taken})
