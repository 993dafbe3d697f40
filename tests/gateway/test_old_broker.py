"""A gateway before a broker of 1.1.1, which has fewer versions of everything than the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.clients import GatewayProcess, Librdkafka, shared
from tests.harness.kafka import CHROOT, create_topic, produce_numbered, unique
from tests.kafka.groups import coordinator
from tests.legacy.jars import RELEASES, V1_1
from zkcoord.stack.java import Java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import KafkaBroker, ZooKeeperServer

pytestmark = pytest.mark.kafka

PARTITIONS, RECORDS = 2, 5


@pytest.fixture
def old_broker(zk_server: ZooKeeperServer, java: Java, tmp_path: Path) -> Iterator[KafkaBroker]:
    """One that is gone after the test."""
    broker = KafkaBroker(
        tmp_path / "broker",
        free_port(),
        f"{zk_server.address}{CHROOT}-old",
        java,
        owned=True,
        artifact=RELEASES[V1_1],
    )
    broker.start()
    yield broker
    broker.kill()


def test_members_of_coordinated_groups_and_of_kafkas_own(
    old_broker: KafkaBroker, tmp_path: Path
) -> None:
    """A client takes the highest version that it is offered and knows, for both."""
    topic = create_topic(old_broker.address, unique("old"), PARTITIONS)
    produce_numbered(old_broker.address, topic, PARTITIONS, RECORDS)
    with (
        coordinator(old_broker.zookeeper),
        GatewayProcess(
            tmp_path / "gateway",
            old_broker.zookeeper,
            old_broker.address,
            "--coordinated-groups",
            "ours-.*",
        ) as gateway,
    ):
        for group in (unique("ours-"), unique("theirs-")):
            client = Librdkafka(gateway.address, group, topic)
            shared([client], PARTITIONS)
            client.close()
