"""Clients that the project does not install (`tests.gateway.foreign`) as members of a coordinated
group, on a real broker.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.gateway_clients import KINDS, Client, command_of, options_of, running, strategies
from tests.gateway.clients import PATIENCE_S, V4, GatewayProcess, Librdkafka
from tests.gateway.foreign import CLIENTS, ToolchainMissingError
from tests.gateway.test_clients import EACH, PARTITIONS
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import Taken, coordinator, take
from tests.kafka.groups import consumer as shim
from zkcoord.stack.java import Java
from zkcoord.stack.servers import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]

JAVA_4 = f"java {V4}"
KAFKAJS_S = 12.0
LATE_S = 1.0
HEARTBEAT_S = 3.0


@pytest.fixture
def gateway(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> Iterator[GatewayProcess]:
    """A gateway beside a coordinator."""
    with (
        coordinator(kafka_zk_hosts),
        GatewayProcess(tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address) as process,
    ):
        yield process


def client_of(
    kind: str, java: Java, folder: Path, gateway: GatewayProcess, group: str, topic: str
) -> Client:
    """One that is connected and has not joined; a test is left out where it cannot be built."""
    strategy = "roundrobin" if "roundrobin" in strategies(kind) else "range"
    options = options_of(kind, strategy, gateway.address, group)
    options |= {"auto.offset.reset": "earliest", "auto.commit.interval.ms": "500"}
    try:
        command = command_of(kind, java, topic, options)
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    client = Client(unique("client"), command, folder)
    wait_until(client.is_ready, PATIENCE_S, f"{kind} is ready")
    return client


@pytest.mark.parametrize("kind", [*CLIENTS, JAVA_4])
def test_it_shares_a_group_with_a_shim_and_librdkafka(
    kind: str,
    gateway: GatewayProcess,
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    java: Java,
    tmp_path: Path,
) -> None:
    """It joins, has its share, commits and leaves; all records are read once."""
    assert kind in KINDS
    group, topic = unique("g"), create_topic(kafka_broker.address, unique("wire"), PARTITIONS)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    ours = shim(kafka_zk_hosts, group, topic, partition_assignment_strategy=["roundrobin"])
    librdkafka = Librdkafka(
        gateway.address, group, topic, **{"partition.assignment.strategy": "roundrobin"}
    )
    taken: Taken = {}
    with running() as clients:
        client = client_of(kind, java, tmp_path, gateway, group, topic)
        clients.append(client)

        def records() -> Counter[tuple[int, int]]:
            take(ours, taken, 20)
            mine = [(n, offset) for (_, n), offsets in taken.items() for offset in offsets]
            return Counter([*mine, *librdkafka.taken, *client.took()])

        def shares(*wanted: int) -> bool:
            take(ours, taken, 20)
            owned = client.owned(time.monotonic())
            return (len(ours.assignment()), len(librdkafka.owned), len(owned)) == wanted

        def all_of(each: int) -> Counter[tuple[int, int]]:
            return Counter((n, offset) for n in range(PARTITIONS) for offset in range(each))

        third, half = PARTITIONS // 3, PARTITIONS // 2
        wait_until(lambda: shares(half, half, 0), PATIENCE_S, "half of it for each of the two")
        client.say("join")
        wait_until(lambda: shares(third, third, third), PATIENCE_S, "a third of it for each")
        produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
        wait_until(lambda: records().total() >= 2 * EACH * PARTITIONS, PATIENCE_S, "all records")
        assert {n for n, _ in client.took()} >= client.owned(time.monotonic()), "it gets its share"
        client.say("commit")
        wait_until(
            lambda: client.said("committed") or client.said("commit failed"), PATIENCE_S, "a commit"
        )
        assert client.said("commit failed") is None
        client.say("close")
        wait_until(lambda: client.said("closed"), PATIENCE_S, "its end")
        wait_until(lambda: shares(half, half, 0), PATIENCE_S, "half of it for each of the two")
        produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
        wait_until(lambda: records().total() >= 3 * EACH * PARTITIONS, PATIENCE_S, "all records")
        assert records() == all_of(3 * EACH), "each record once"
        assert not [event for event in client.events if event.kind == "lost"]
    librdkafka.close()
    ours.close()


def test_a_client_that_waits_for_each_answer_is_not_kept_from_fetching(
    gateway: GatewayProcess, kafka_broker: KafkaBroker, java: Java, tmp_path: Path
) -> None:
    """kafkajs fetches again only when its heartbeat is answered: a parked one would keep records
    from it, for the whole of its interval.
    """
    topic = create_topic(kafka_broker.address, unique("wire"), 1)
    with running() as clients:
        client = client_of("kafkajs", java, tmp_path, gateway, unique("g"), topic)
        clients.append(client)
        client.say("join")
        wait_until(lambda: client.owned(time.monotonic()), PATIENCE_S, "its partition")
        late, count = [], 0
        began = time.monotonic()
        while time.monotonic() < began + KAFKAJS_S:
            count += 1
            since = time.monotonic()
            produce_numbered(kafka_broker.address, topic, 1, 1)
            wait_until(lambda: len(client.took()) == count, PATIENCE_S, "the record")
            late.append(time.monotonic() - since)
        assert max(late) < LATE_S


def test_a_client_that_asks_one_thing_at_a_time_has_its_partitions_at_once(
    gateway: GatewayProcess, kafka_broker: KafkaBroker, java: Java, tmp_path: Path
) -> None:
    """sarama sends a heartbeat as soon as it is assigned something, and asks for offsets only when
    that is answered.
    """
    topic = create_topic(kafka_broker.address, unique("wire"), 1)
    with running() as clients:
        client = client_of("sarama", java, tmp_path, gateway, unique("g"), topic)
        clients.append(client)
        since = client.say("join")
        wait_until(lambda: client.owned(time.monotonic()), PATIENCE_S, "its partition")
        assigned = client.said("assigned")
        assert assigned is not None and assigned - since < HEARTBEAT_S
