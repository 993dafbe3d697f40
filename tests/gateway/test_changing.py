"""A group that changes from the coordinator to a leader among its clients and back, while real
clients of two gateways consume.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.clients import PATIENCE_S, GatewayProcess, Librdkafka, shared
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.cli.main import main
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

PARTITIONS = 6
EACH = 50
KNOWN = {"auto.commit.interval.ms": 200}
EAGER = {**KNOWN, "partition.assignment.strategy": "range,roundrobin"}


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    """A topic with records."""
    name = unique("change")
    create_topic(kafka_broker.address, name, PARTITIONS)
    produce_numbered(kafka_broker.address, name, PARTITIONS, EACH)
    return name


@pytest.fixture
def gateways(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> Iterator[list[GatewayProcess]]:
    """Two beside a coordinator."""
    with (
        coordinator(kafka_zk_hosts),
        GatewayProcess(tmp_path / "one", kafka_zk_hosts, kafka_broker.address) as one,
        GatewayProcess(tmp_path / "two", kafka_zk_hosts, kafka_broker.address) as two,
    ):
        yield [one, two]


def runs(
    group: str, machine: str, hosts: str, capsys: pytest.CaptureFixture[str]
) -> dict[str, str | None]:
    """What `groups machine` says."""
    capsys.readouterr()
    arguments = ["groups", "machine", group, *filter(None, [machine])]
    assert main([*arguments, "--zookeeper", hosts, "--json"]) == 0
    said: dict[str, str | None] = json.loads(capsys.readouterr().out)
    return said


@pytest.mark.parametrize("habits", [KNOWN, EAGER], ids=["cooperative", "eager"])
def test_a_group_changes_while_its_members_run(
    gateways: list[GatewayProcess],
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    topic: str,
    capsys: pytest.CaptureFixture[str],
    habits: dict[str, object],
) -> None:
    group = unique("g")
    clients = [
        Librdkafka(gateways[number % 2].address, group, topic, **habits) for number in range(3)
    ]
    clients += [
        Librdkafka(gateways[0].address, group, topic, **{**habits, "group.instance.id": "static"})
    ]
    shared(clients, PARTITIONS)
    records = EACH
    for machine, leads in [
        ("client-led", "its leader, a client,"),
        ("coordinated", "the coordinator"),
    ]:
        runs(group, machine, kafka_zk_hosts, capsys)
        wait_until(
            lambda: runs(group, "", kafka_zk_hosts, capsys)["runs"] == leads,
            PATIENCE_S,
            f"{leads} to run it",
        )
        shared(clients, PARTITIONS)
        assert not runs(group, "", kafka_zk_hosts, capsys)["waits"]
        produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
        records += EACH
        every = {(n, offset) for n in range(PARTITIONS) for offset in range(records)}
        wait_until(
            lambda: {one for c in clients for one in c.taken} == every, PATIENCE_S, "all records"
        )
    for one in clients:
        assert not any(what == "lost" for what, _ in one.calls), one.calls
        assert one.errors == []
        one.close()
    taken = [record for one in clients for record in one.taken]
    assert len(taken) == len(set(taken)), "nothing was read twice"
