"""Transactions that store offsets of groups, through a gateway: a real broker, real clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Theirs
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.gateway.clients import PATIENCE_S, GatewayProcess, shared
from tests.gateway.own_assignor import OwnAssignor
from tests.gateway.test_failover import named
from tests.harness.kafka import clean_groups, create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import coordinator
from zkcoord.cli.main import main
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

PARTITIONS = 4
EACH = 25
IN_KAFKA = ("--offsets-in-kafka", "etl-.*")


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    """A topic with records."""
    name = create_topic(kafka_broker.address, unique("in"), PARTITIONS)
    produce_numbered(kafka_broker.address, name, PARTITIONS, EACH)
    return name


@pytest.fixture
def target(kafka_broker: KafkaBroker) -> str:
    """Another one, without any."""
    return create_topic(kafka_broker.address, unique("out"), 1)


@pytest.fixture(scope="module")
def gateway(
    kafka_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    """One beside a coordinator, for all of these tests."""
    hosts, home = kafka_broker.zookeeper, tmp_path_factory.mktemp("gateway")
    clean_groups(hosts)
    with coordinator(hosts), GatewayProcess(home, hosts, kafka_broker.address, *IN_KAFKA) as one:
        yield one
    clean_groups(hosts)


@pytest.fixture
def group() -> str:
    """One whose offsets Kafka keeps."""
    return unique("etl")


class Transforming:
    """A client that consumes, and produces within transactions."""

    def __init__(self, bootstrap: str, group: str, topic: str, **more: Any) -> None:
        self.taken = 0
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 500,
                **more,
            }
        )
        self.consumer.subscribe([topic])
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": unique("writer")}
        )
        self.producer.init_transactions(PATIENCE_S)

    def poll(self) -> None:
        """Take what comes."""
        message = self.consumer.poll(0.1)
        if message is not None:
            assert message.error() is None, message.error()
            self.taken += 1

    def take(self, records: int) -> None:
        """Until it has got so many."""

        def took() -> bool:
            self.poll()
            return self.taken >= records

        wait_until(took, PATIENCE_S, f"{records} records")

    def store(self, *offsets: Theirs, metadata: Any = None) -> None:
        """Where it stands, or these, within the transaction."""
        self.producer.send_offsets_to_transaction(
            list(offsets) or self.consumer.position(self.consumer.assignment()),
            metadata or self.consumer.consumer_group_metadata(),
            PATIENCE_S,
        )

    def refused(self, what: str, topic: str, metadata: Any = None) -> None:
        """Its offsets are, so that it has to abort."""
        with pytest.raises(KafkaException) as refusal:
            self.store(Theirs(topic, 0, 1), metadata=metadata)
        error = refusal.value.args[0]
        assert error.name() == what and error.txn_requires_abort(), error
        self.producer.abort_transaction(PATIENCE_S)


def committed(bootstrap: str, group: str) -> list[int]:
    """What tools are told that a group has stored, by partition."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    found = admin.list_group_offsets({group: None})[group]
    admin.close()
    return [found[tp].offset for tp in sorted(found)]


def read(bootstrap: str, topic: str) -> list[bytes]:
    """What a topic has of committed transactions."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": unique("reader"),
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([Theirs(topic, 0, 0)])
    found: list[bytes] = []

    def at_end() -> bool:
        message = consumer.poll(0.1)
        if message is None:
            return False
        if message.error() is None:
            found.append(message.value())
        return message.error() is not None

    wait_until(at_end, PATIENCE_S, "the end")
    consumer.close()
    return found


def test_offsets_are_stored_with_the_transaction_or_not_at_all(
    gateway: GatewayProcess, group: str, topic: str, target: str, kafka_broker: KafkaBroker
) -> None:
    client = Transforming(gateway.address, group, topic)
    client.take(PARTITIONS * EACH)
    client.producer.begin_transaction()
    client.producer.produce(target, b"aborted")
    client.store()
    client.producer.abort_transaction(PATIENCE_S)
    assert committed(gateway.address, group) == []
    client.producer.begin_transaction()
    client.producer.produce(target, b"committed")
    client.store()
    client.producer.commit_transaction(PATIENCE_S)
    assert read(kafka_broker.address, target) == [b"committed"]
    for where in (gateway.address, kafka_broker.address):
        stored = [EACH] * PARTITIONS
        wait_until(lambda: committed(where, group) == stored, PATIENCE_S, "its offsets")
    client.consumer.close()
    again = Transforming(gateway.address, group, topic)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, 1, EACH)
    again.take(PARTITIONS)
    assert again.taken == PARTITIONS, "it goes on where the transaction has left it"
    again.consumer.close()


def test_who_is_a_member_no_more_must_abort(
    gateway: GatewayProcess, group: str, topic: str, target: str, kafka_broker: KafkaBroker
) -> None:
    """Its group has another generation, and then others have its partitions."""
    zombie = Transforming(gateway.address, group, topic)
    zombie.take(PARTITIONS * EACH)
    before = zombie.consumer.consumer_group_metadata()
    other = Transforming(gateway.address, group, topic)

    def both() -> bool:
        zombie.poll()
        other.poll()
        return bool(other.consumer.assignment()) and len(zombie.consumer.assignment()) < PARTITIONS

    wait_until(both, PATIENCE_S, "two that share")
    zombie.producer.begin_transaction()
    zombie.producer.produce(target, b"of a generation that is over")
    zombie.refused("ILLEGAL_GENERATION", topic, before)
    zombie.producer.begin_transaction()
    zombie.store(Theirs(topic, 0, EACH))
    zombie.producer.produce(target, b"of a member")
    zombie.producer.commit_transaction(PATIENCE_S)
    known = zombie.consumer.consumer_group_metadata()
    stored = committed(kafka_broker.address, group)
    zombie.consumer.close()
    zombie.producer.begin_transaction()
    zombie.producer.produce(target, b"of one that has left")
    zombie.refused("UNKNOWN_MEMBER_ID", topic, known)
    assert committed(kafka_broker.address, group) == stored
    assert read(kafka_broker.address, target) == [b"of a member"]
    other.consumer.close()


def test_whose_instance_is_anothers_must_abort(
    gateway: GatewayProcess, group: str, topic: str
) -> None:
    static = {"group.instance.id": "one"}
    client = Transforming(gateway.address, group, topic, **static)
    client.take(PARTITIONS * EACH)
    metadata = client.consumer.consumer_group_metadata()
    heir = Transforming(gateway.address, group, topic, **static)
    heir.take(PARTITIONS * EACH)
    heir.producer.begin_transaction()
    heir.store()
    heir.producer.commit_transaction(PATIENCE_S)
    client.producer.begin_transaction()
    client.refused("FENCED_INSTANCE_ID", topic, metadata)
    heir.consumer.close()


def test_plain_commits_and_tools_find_the_same_offsets(
    gateway: GatewayProcess, group: str, topic: str, kafka_broker: KafkaBroker
) -> None:
    client = Transforming(gateway.address, group, topic)
    client.take(PARTITIONS * EACH)
    client.consumer.commit(asynchronous=False)
    assert committed(kafka_broker.address, group) == [EACH] * PARTITIONS
    admin = KafkaAdminClient(bootstrap_servers=gateway.address)

    def listed() -> list[tuple[str, str]]:
        named = [one for one in admin.list_groups() if one["group_id"] == group]
        return [(one["protocol_type"], one["group_state"]) for one in named]

    described = admin.describe_groups([group])[group]
    assert (described["group_state"], len(described["members"])) == ("Stable", 1)
    assert listed() == [("consumer", "Stable")]
    beginning = {TopicPartition(topic, 0): OffsetAndMetadata(3, "why", -1)}
    (refused,) = admin.alter_group_offsets(group, beginning).values()
    assert refused.__name__ == "UnknownMemberIdError"
    assert "NonEmptyGroupError" in str(admin.delete_groups([group]))
    client.consumer.close()
    wait_until(lambda: listed() == [("consumer", "Empty")], PATIENCE_S, "an empty group")
    (done,) = admin.alter_group_offsets(group, beginning).values()
    assert done.__name__ == "NoError"
    assert committed(kafka_broker.address, group) == [3, *[EACH] * (PARTITIONS - 1)]
    admin.delete_group_offsets(group, [TopicPartition(topic, 0)])
    assert committed(gateway.address, group) == [EACH] * (PARTITIONS - 1)
    zk = connect(kafka_broker.zookeeper)
    assert zk.exists(f"/consumers/{group}/offsets") is None, "nothing is stored in ZooKeeper"
    disconnect(zk)
    assert str(admin.delete_groups([group])[group]) == "OK"
    assert listed() == [] and committed(kafka_broker.address, group) == []
    admin.close()


def test_commits_pass_parked_heartbeats_of_the_same_connection(
    gateway: GatewayProcess, group: str, topic: str, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    """kafka-python has one connection to who coordinates its group; a second one changes that."""
    one, other = (OwnAssignor(tmp_path / str(n), gateway.address, group, topic) for n in range(2))
    shared([one, other], PARTITIONS)
    stored = [EACH] * PARTITIONS
    wait_until(lambda: committed(kafka_broker.address, group) == stored, PATIENCE_S, "its commits")
    one.close()
    shared([other], PARTITIONS)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, 1, EACH)
    stored = [EACH + 1] * PARTITIONS
    wait_until(lambda: committed(kafka_broker.address, group) == stored, PATIENCE_S, "its commits")
    other.close()
    assert len(one.taken) + len(other.taken) == PARTITIONS * (EACH + 1), "each record once"


def test_a_group_that_nobody_has_joined_is_what_kafka_says_of_it(
    gateway: GatewayProcess, group: str, topic: str, kafka_broker: KafkaBroker
) -> None:
    """A tool has stored its offsets, through a gateway or not."""
    offsets = {TopicPartition(topic, 1): OffsetAndMetadata(7, "", -1)}
    direct, through = (
        KafkaAdminClient(bootstrap_servers=where)
        for where in (kafka_broker.address, gateway.address)
    )
    through.alter_group_offsets(group, offsets)
    for admin in (direct, through):
        assert admin.list_group_offsets({group: None})[group][TopicPartition(topic, 1)].offset == 7
        assert admin.describe_groups([group])[group]["group_state"] == "Empty"
        assert [one["group_id"] for one in admin.list_groups()].count(group) == 1
    assert str(through.delete_groups([group])[group]) == "OK"
    assert committed(kafka_broker.address, group) == []
    for admin in (direct, through):
        admin.close()


def test_a_producer_that_names_no_member_is_not_asked_for_one(
    gateway: GatewayProcess, group: str, topic: str, target: str, kafka_broker: KafkaBroker
) -> None:
    """As from Kafka: it is fenced by its transactional id alone."""
    producer = KafkaProducer(bootstrap_servers=gateway.address, transactional_id=unique("writer"))
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(target, b"one")
    offsets = {TopicPartition(topic, 2): OffsetAndMetadata(9, "", -1)}
    producer.send_offsets_to_transaction(offsets, group)
    producer.commit_transaction()
    producer.close()
    wait_until(lambda: committed(gateway.address, group) == [9], PATIENCE_S, "its offset")
    assert read(kafka_broker.address, target) == [b"one"]


@pytest.mark.nightly
def test_when_its_gateway_is_killed_and_begins_again_a_client_goes_on(
    gateway: GatewayProcess,
    group: str,
    topic: str,
    target: str,
    kafka_broker: KafkaBroker,
    tmp_path: Path,
) -> None:
    """librdkafka knows who coordinates its transactions and its group by the broker's id alone: it
    goes back to the address that it has.
    """
    zookeeper = kafka_broker.zookeeper
    with GatewayProcess(tmp_path / "other", zookeeper, kafka_broker.address, *IN_KAFKA) as other:
        for one in (gateway, other):
            wait_until(lambda: named(one) == 3, PATIENCE_S, "gateways that know each other")
        client = Transforming(other.address, group, topic)
        client.take(PARTITIONS * EACH)
        client.producer.begin_transaction()
        client.producer.produce(target, b"one")
        client.store()
        client.producer.commit_transaction(PATIENCE_S)
        other.restart()
        client.producer.begin_transaction()
        client.producer.produce(target, b"two")

        def goes_on() -> bool:
            try:
                client.store(Theirs(topic, 0, 1))
            except KafkaException as error:
                assert error.args[0].retriable(), error
                return False
            return True

        wait_until(goes_on, PATIENCE_S, "offsets that are taken")
        client.producer.commit_transaction(PATIENCE_S)
        assert read(kafka_broker.address, target) == [b"one", b"two"]
        stored = [1, *[EACH] * (PARTITIONS - 1)]
        wait_until(lambda: committed(gateway.address, group) == stored, PATIENCE_S, "its offsets")
        produce_numbered(kafka_broker.address, topic, PARTITIONS, 1, EACH)
        client.take(PARTITIONS * (EACH + 1))
        client.consumer.close()


def test_other_groups_are_refused_and_the_log_says_once_what_to_change(
    gateway: GatewayProcess, topic: str
) -> None:
    client = Transforming(gateway.address, unique("other"), topic)
    client.take(PARTITIONS * EACH)
    for _ in range(3):
        client.producer.begin_transaction()
        client.refused("GROUP_AUTHORIZATION_FAILED", topic)
    assert gateway.log().count("--offsets-in-kafka") == 1
    client.consumer.close()


def test_a_group_whose_offsets_kafka_keeps_is_not_made_the_coordinators(
    gateway: GatewayProcess, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the gateway itself says that it was begun."""

    def says(name: str) -> tuple[int, str]:
        asked = ["groups", "machine", name, "coordinated", "--zookeeper", gateway.zookeeper]
        return main(asked), capsys.readouterr().err

    status, err = says(group)
    assert status != 0 and f"the offsets of the group {group} are in Kafka" in err
    assert f"--offsets-in-kafka of the gateway at {gateway.address}" in err
    assert says(unique("other"))[0] == 0
