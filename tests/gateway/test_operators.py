"""Operators' actions and clients of a gateway: librdkafka, as it is, on a real broker."""

from __future__ import annotations

import json

import pytest

from tests.gateway.clients import PATIENCE_S, GatewayProcess, Librdkafka, shared
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from zkcoord.cli.main import main
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

PARTITIONS = 4
EACH = 50


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    """A topic with records."""
    name = unique("asked")
    create_topic(kafka_broker.address, name, PARTITIONS)
    produce_numbered(kafka_broker.address, name, PARTITIONS, EACH)
    return name


def everything(taken: list[tuple[int, int]], each: int) -> bool:
    """Whether each record was taken."""
    return set(taken) == {(n, offset) for n in range(PARTITIONS) for offset in range(each)}


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_clients_of_a_paused_group_wait_and_one_that_is_evicted_comes_back(
    gateway: GatewayProcess,
    topic: str,
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    capsys: pytest.CaptureFixture[str],
    strategy: str,
) -> None:
    """Each record once over the pause: both stay members, have nothing and take nothing of what is
    produced meanwhile; then they go on from what they had committed.
    """
    group = unique("g")
    at = ("--zookeeper", kafka_zk_hosts)

    def groups(*words: str) -> str:
        status = main(["groups", *words, *at])
        captured = capsys.readouterr()
        assert status == 0, captured.err
        return captured.out

    def members() -> list[str]:
        found = json.loads(groups("describe", group, "--json"))["members"]
        return sorted(one["consumer_id"] for one in found)

    more = {"partition.assignment.strategy": strategy}
    clients = [Librdkafka(gateway.address, group, topic, **more) for _ in range(2)]
    taken = [one.taken for one in clients]
    try:
        shared(clients, PARTITIONS)
        wait_until(lambda: everything(taken[0] + taken[1], EACH), PATIENCE_S, "all records")
        before = members()
        assert "2 members, nobody owns anything" in groups("pause", group, "--execute")
        wait_until(lambda: not (clients[0].owned or clients[1].owned), PATIENCE_S, "empty hands")
        produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH, EACH)
        assert members() == before and everything(taken[0] + taken[1], EACH)
        groups("resume", group, "--execute")
        shared(clients, PARTITIONS)
        wait_until(lambda: everything(taken[0] + taken[1], 2 * EACH), PATIENCE_S, "all records")
        assert len(taken[0]) + len(taken[1]) == 2 * PARTITIONS * EACH, "each record once"
        assert "joins again by itself" in groups("evict", group, before[0], "--execute")
        wait_until(
            lambda: len(members()) == 2 and before[0] not in members(), PATIENCE_S, "its return"
        )
        shared(clients, PARTITIONS)
    finally:
        for one in clients:
            one.close()
    assert not clients[0].errors and not clients[1].errors
