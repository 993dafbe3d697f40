"""Groups whose leader is a client, through a gateway: a real broker, real clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.clients import PATIENCE_S, GatewayProcess, shared
from tests.gateway.own_assignor import OwnAssignor
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

PARTITIONS = 6
EACH = 50


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    """A topic with records."""
    name = unique("led")
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
        GatewayProcess(tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address) as one,
    ):
        yield one


def taken(clients: list[OwnAssignor]) -> set[tuple[int, int]]:
    """What they have got."""
    return {record for client in clients for record in client.taken}


def everything(each: int = EACH) -> set[tuple[int, int]]:
    """All records, with so many in each partition."""
    return {(n, offset) for n in range(PARTITIONS) for offset in range(each)}


def test_members_share_what_their_leader_assigns(
    gateway: GatewayProcess, topic: str, tmp_path: Path, kafka_broker: KafkaBroker
) -> None:
    group = unique("g")
    one, two, three = clients = [
        OwnAssignor(tmp_path / str(n), gateway.address, group, topic) for n in range(3)
    ]
    shared([one, two, three], PARTITIONS)
    wait_until(lambda: taken(clients) == everything(), PATIENCE_S, "all records")
    one.close()
    shared([two, three], PARTITIONS)
    two.kill()
    shared([three], PARTITIONS)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    wait_until(lambda: taken(clients) == everything(2 * EACH), PATIENCE_S, "all records")
    three.close()
