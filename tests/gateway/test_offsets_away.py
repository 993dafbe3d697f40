"""A client that is to begin while its gateway has lost ZooKeeper: it asks where, and must not give
up asking.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError

from tests.gateway.clients import PATIENCE_S, GatewayProcess
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.proxy import Proxy
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

PARTITIONS = 2
EACH = 10
AWAY_S = 12.0  # longer than a gateway waits before it says that it cannot be read


def test_who_asks_where_to_begin_while_that_cannot_be_read_asks_again(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    """librdkafka asks again where a coordinator loads, and where none is available it looks for
    another one and leaves what it was assigned as it is: owned, and never read.
    """
    topic, group = unique("away"), unique("g")
    create_topic(kafka_broker.address, topic, PARTITIONS)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    host, _, chroot = kafka_zk_hosts.partition("/")
    taken: set[tuple[int, int]] = set()
    errors: list[KafkaError] = []
    with (
        coordinator(kafka_zk_hosts),
        Proxy(int(host.rpartition(":")[2])) as proxy,
        GatewayProcess(tmp_path, f"{proxy.address}/{chroot}", kafka_broker.address) as gateway,
    ):
        consumer = Consumer(
            {
                "bootstrap.servers": gateway.address,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": "cooperative-sticky",
            }
        )
        back = threading.Timer(AWAY_S, proxy.heal)
        is_first = iter([True])

        def assigned(consumer: Consumer, parts: object) -> None:
            """What it asks next finds nobody."""
            if next(is_first, False):
                proxy.refuse()
                proxy.cut()
                back.start()

        def took() -> bool:
            message = consumer.poll(0.1)
            if message is not None and message.error():
                errors.append(message.error())
            elif message is not None:
                taken.add((message.partition() or 0, message.offset() or 0))
            return taken == {(n, offset) for n in range(PARTITIONS) for offset in range(EACH)}

        consumer.subscribe([topic], on_assign=assigned)
        wait_until(took, PATIENCE_S, "all records")
        consumer.close()
        back.join()
    assert errors == []
