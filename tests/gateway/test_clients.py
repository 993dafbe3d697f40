"""Unmodified clients of four libraries as members of coordinated groups, on a real broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kafka import KafkaConsumer as KafkaPythonConsumer
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.gateway.clients import (
    GROUPS,
    PATIENCE_S,
    V3,
    V4,
    GatewayProcess,
    Librdkafka,
    console_consumer,
    java_tool,
    shared,
)
from tests.harness.command import run
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import consumer as shim
from tests.kafka.groups import coordinator, take
from zkcoord.stack.java import Java
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

PARTITIONS = 6
EACH = 50


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    """A topic with records."""
    name = unique("wire")
    create_topic(kafka_broker.address, name, PARTITIONS)
    produce_numbered(kafka_broker.address, name, PARTITIONS, EACH)
    return name


def everything() -> set[tuple[int, int]]:
    """Each record of `topic`."""
    return {(n, offset) for n in range(PARTITIONS) for offset in range(EACH)}


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range", "roundrobin"])
def test_librdkafka_joins_and_leaves(gateway: GatewayProcess, topic: str, strategy: str) -> None:
    group = unique("g")
    more = {"partition.assignment.strategy": strategy}
    first = Librdkafka(gateway.address, group, topic, **more)
    shared([first], PARTITIONS)
    second = Librdkafka(gateway.address, group, topic, **more)
    shared([first, second], PARTITIONS)
    wait_until(
        lambda: set(first.taken) | set(second.taken) == everything(), PATIENCE_S, "all records"
    )
    first.close()
    shared([second], PARTITIONS)
    second.close()
    assert len(first.taken) + len(second.taken) == PARTITIONS * EACH, "each record once"
    assert not first.errors and not second.errors
    assert "lost" not in {kind for one in (first, second) for kind, _ in one.calls}


@pytest.mark.parametrize("version", [V3, pytest.param(V4, marks=pytest.mark.nightly)])
def test_a_java_client_shares_a_group_with_a_shim_and_librdkafka(
    gateway: GatewayProcess, topic: str, kafka_zk_hosts: str, java: Java, version: str
) -> None:
    group = unique("g")
    ours = shim(kafka_zk_hosts, group, topic, partition_assignment_strategy=["range"])
    taken: dict[tuple[str, int], list[int]] = {}
    with console_consumer(version, java, gateway.address, topic, group) as lines:
        theirs = Librdkafka(
            gateway.address, group, topic, **{"partition.assignment.strategy": "range"}
        )

        def settled() -> bool:
            take(ours, taken, 20)
            return len(ours.assignment()) == len(theirs.owned) == PARTITIONS // 3

        wait_until(settled, PATIENCE_S, "two partitions each")

        def complete() -> bool:
            take(ours, taken, 20)
            return sum(map(len, taken.values())) + len(theirs.taken) + len(lines) >= (
                PARTITIONS * EACH
            )

        wait_until(complete, PATIENCE_S, "all records")
        theirs.close()
    ours.close()


def test_kafka_python_commits_with_metadata_and_goes_on_there(
    gateway: GatewayProcess, topic: str
) -> None:
    group = unique("g")
    first, tp = TopicPartition(topic, 0), [TopicPartition(topic, n) for n in range(PARTITIONS)]
    one = KafkaPythonConsumer(
        topic,
        bootstrap_servers=gateway.address,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    wait_until(lambda: one.poll(200) or one.assignment(), PATIENCE_S, "an assignment")
    one.commit({first: OffsetAndMetadata(7, "why", -1)})
    assert one.committed(first, metadata=True) == OffsetAndMetadata(7, "why", -1)
    one.close()
    two = KafkaPythonConsumer(
        topic, bootstrap_servers=gateway.address, group_id=group, enable_auto_commit=False
    )
    found: list[int] = []

    def begun() -> bool:
        for part in two.poll(200).get(first, []):
            found.append(part.offset)
        return bool(found)

    wait_until(begun, PATIENCE_S, "the first records")
    two.close()
    assert found[0] == 7
    assert len(tp) == PARTITIONS


def test_a_static_member_that_begins_again_has_its_place(
    gateway: GatewayProcess, topic: str
) -> None:
    group = unique("g")
    other = Librdkafka(gateway.address, group, topic)
    static = Librdkafka(gateway.address, group, topic, **{"group.instance.id": "i-1"})
    shared([other, static], PARTITIONS)
    before, calls = set(static.owned), list(other.calls)
    static.close()
    again = Librdkafka(gateway.address, group, topic, **{"group.instance.id": "i-1"})
    wait_until(lambda: again.owned == before, PATIENCE_S, "the same partitions")
    assert other.calls == calls, "nobody else noticed"
    again.close()
    other.close()


def test_kafkas_own_tools(
    gateway: GatewayProcess, topic: str, java: Java, tmp_path: Path, kafka_zk_hosts: str
) -> None:
    """kafka-consumer-groups.sh lists, describes, resets and deletes."""
    group = unique("g")

    def tool(*arguments: str) -> str:
        done = java_tool(V3, java, GROUPS, "--bootstrap-server", gateway.address, *arguments)
        return done.stdout

    client = Librdkafka(gateway.address, group, topic, **{"client.id": "who"})
    wait_until(lambda: len(client.taken) == PARTITIONS * EACH, PATIENCE_S, "all records")
    assert group in tool("--list").split()
    wait_until(
        lambda: (
            [row[3] for row in rows(tool("--describe", "--group", group), group)]
            == [str(EACH)] * PARTITIONS
        ),
        PATIENCE_S,
        "its commits",
    )
    described = rows(tool("--describe", "--group", group), group)
    assert {row[5] for row in described} == {"0"} and {row[8] for row in described} == {"who"}
    members = rows(tool("--describe", "--group", group, "--members", "--verbose"), group)
    assert [(row[3], row[4]) for row in members] == [("who", str(PARTITIONS))]
    assert "Stable" in tool("--describe", "--group", group, "--state")
    seen = json.loads(
        run(tmp_path, "groups", "describe", group, "--json", "--zookeeper", kafka_zk_hosts).stdout
    )
    assert "who" in json.dumps(seen)
    alive = tool(
        "--group", group, "--topic", topic, "--reset-offsets", "--to-earliest", "--execute"
    )
    assert "Assignments can only be reset if the group" in alive
    client.close()
    wait_until(
        lambda: "Empty" in tool("--describe", "--group", group, "--state"), PATIENCE_S, "its end"
    )
    tool(
        "--group",
        group,
        "--topic",
        f"{topic}:0",
        "--reset-offsets",
        "--to-offset",
        "5",
        "--execute",
    )
    stood = {row[2]: row[3] for row in rows(tool("--describe", "--group", group), group)}
    assert stood == {"0": "5", **{str(n): str(EACH) for n in range(1, PARTITIONS)}}
    tool("--group", group, "--topic", f"{topic}:1", "--delete-offsets")
    stood = {row[2]: row[3] for row in rows(tool("--describe", "--group", group), group)}
    assert stood["0"] == "5" and "1" not in stood
    assert "was successful" in tool("--delete", "--group", group)
    assert group not in tool("--list").split()


def rows(text: str, group: str) -> list[list[str]]:
    """The rows of a table that begin with the group's name."""
    return [line.split() for line in text.splitlines() if line.startswith(f"{group} ")]


def test_groups_that_are_not_coordinated_go_to_kafka_itself(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path, topic: str
) -> None:
    with (
        coordinator(kafka_zk_hosts),
        GatewayProcess(
            tmp_path / "gateway",
            kafka_zk_hosts,
            kafka_broker.address,
            "--coordinated-groups",
            "ours-.* this",
        ) as gateway,
    ):
        ours, theirs = unique("ours-"), unique("theirs-")
        first = Librdkafka(gateway.address, ours, topic)
        second = Librdkafka(gateway.address, theirs, topic)
        shared([first], PARTITIONS)
        shared([second], PARTITIONS)
        described = run(tmp_path, "groups", "list", "--json", "--zookeeper", kafka_zk_hosts).stdout
        assert ours in described and theirs not in described
        first.close()
        second.close()


def test_who_asks_for_a_group_of_kafkas_own_asks_in_a_version_that_its_broker_has(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path, topic: str
) -> None:
    """DescribeGroups 6 is answered here, and is not known to brokers before Kafka 4."""
    with (
        coordinator(kafka_zk_hosts),
        GatewayProcess(
            tmp_path / "gateway",
            kafka_zk_hosts,
            kafka_broker.address,
            "--coordinated-groups",
            "ours-.*",
        ) as gateway,
    ):
        theirs = unique("theirs-")
        client = Librdkafka(gateway.address, theirs, topic)
        shared([client], PARTITIONS)
        admin = KafkaAdminClient(bootstrap_servers=gateway.address)
        described = admin.describe_groups([theirs])[theirs]
        assert described["group_state"] == "Stable" and len(described["members"]) == 1
        assert theirs in [group["group_id"] for group in admin.list_groups()]
        admin.close()
        client.close()


def test_what_a_group_has_committed_in_kafka_is_where_it_begins(
    gateway: GatewayProcess, kafka_broker: KafkaBroker, topic: str
) -> None:
    group = unique("g")
    before = Librdkafka(kafka_broker.address, group, topic)
    wait_until(lambda: len(before.taken) == PARTITIONS * EACH, PATIENCE_S, "all records")
    before.close()
    produce_numbered(kafka_broker.address, topic, PARTITIONS, 1)
    after = Librdkafka(gateway.address, group, topic)
    wait_until(lambda: len(after.taken) >= PARTITIONS, PATIENCE_S, "what is new")
    after.close()
    assert sorted(after.taken) == [(n, EACH) for n in range(PARTITIONS)]


def test_sigterm_ends_it_and_its_sessions(gateway: GatewayProcess, topic: str) -> None:
    client = Librdkafka(gateway.address, unique("g"), topic)
    shared([client], PARTITIONS)
    assert gateway.stop() == 0
    client.close()


def test_a_client_that_dies_is_replaced_after_the_grace(
    gateway: GatewayProcess, topic: str, java: Java
) -> None:
    group = unique("g")
    with console_consumer(V3, java, gateway.address, topic, group) as lines:
        wait_until(lambda: lines, PATIENCE_S, "its first records")
        ours = Librdkafka(
            gateway.address, group, topic, **{"partition.assignment.strategy": "range"}
        )
        wait_until(lambda: len(ours.owned) == PARTITIONS // 2, PATIENCE_S, "half of it")
    shared([ours], PARTITIONS)
    ours.close()


def test_offsets_within_a_transaction_are_refused_and_the_transaction_is_aborted(
    gateway: GatewayProcess, topic: str
) -> None:
    """Stored in Kafka they would be nowhere: the group's offsets are in ZooKeeper."""
    from confluent_kafka import Consumer, KafkaException, Producer
    from confluent_kafka import TopicPartition as Theirs

    client = Consumer({"bootstrap.servers": gateway.address, "group.id": unique("g")})
    client.subscribe([topic])
    wait_until(lambda: client.poll(0.1) or client.assignment(), PATIENCE_S, "an assignment")
    producer = Producer({"bootstrap.servers": gateway.address, "transactional.id": unique("x")})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"one")
    with pytest.raises(KafkaException) as refused:
        producer.send_offsets_to_transaction(
            [Theirs(topic, 0, 1)], client.consumer_group_metadata(), PATIENCE_S
        )
    error = refused.value.args[0]
    assert error.name() == "GROUP_AUTHORIZATION_FAILED" and error.txn_requires_abort()
    producer.abort_transaction(PATIENCE_S)
    client.close()
    assert "within a transaction" in gateway.log()
