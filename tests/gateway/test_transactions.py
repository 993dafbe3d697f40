"""Transactions that store offsets of groups, through a gateway: a real broker, real clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.clients import PATIENCE_S, GatewayProcess
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

PARTITIONS = 4
EACH = 25
IN_KAFKA = ("--offsets-in-kafka", "etl-.*")


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    """A topic with records."""
    name = unique("in")
    create_topic(kafka_broker.address, name, PARTITIONS)
    produce_numbered(kafka_broker.address, name, PARTITIONS, EACH)
    return name


@pytest.fixture
def gateway(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> Iterator[GatewayProcess]:
    """One beside a coordinator."""
    with (
        coordinator(kafka_zk_hosts),
        GatewayProcess(
            tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address, *IN_KAFKA
        ) as one,
    ):
        yield one


def test_first(gateway: GatewayProcess, topic: str, kafka_broker: KafkaBroker) -> None:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka import TopicPartition as Theirs

    group = unique("etl")
    client = Consumer(
        {
            "bootstrap.servers": gateway.address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    client.subscribe([topic])
    taken: list[Any] = []

    def took() -> bool:
        message = client.poll(0.1)
        if message is not None:
            assert message.error() is None, message.error()
            taken.append(message)
        return len(taken) == PARTITIONS * EACH

    wait_until(took, PATIENCE_S, "all records")
    out = create_topic(kafka_broker.address, unique("out"), 1)
    producer = Producer({"bootstrap.servers": gateway.address, "transactional.id": unique("x")})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(out, b"one")
    producer.send_offsets_to_transaction(
        client.position(client.assignment()), client.consumer_group_metadata(), PATIENCE_S
    )
    producer.commit_transaction(PATIENCE_S)
    committed = client.committed([Theirs(topic, n) for n in range(PARTITIONS)], PATIENCE_S)
    assert [one.offset for one in committed] == [EACH] * PARTITIONS
    client.commit(asynchronous=False)
    client.close()
