"""A group goes back from the gateway to Kafka's own coordinator, and comes again, by the commands
of docs/gateway.md, word for word; a librdkafka client is in it all the time.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.gateway.clients import PATIENCE_S, GatewayProcess, Librdkafka, shared
from tests.harness.command import run
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.paths import Layout

PAGE = Path(__file__).parents[2] / "docs" / "gateway.md"
THERE, AGAIN, BOLT = "way back: there", "way back: again", "way back: bolt"
PARTITIONS, EACH = 4, 25


def commands(part: str) -> list[list[str]]:
    """The commands of one block of the page, as words without `zkcoord`."""
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {part} -->\n```\n(.*?)\n```", page, re.DOTALL)
    assert found is not None, f"docs/gateway.md has no block {part}"
    lines = [line for line in found[1].splitlines() if not line.startswith("#")]
    words = [shlex.split(line, comments=True) for line in lines]
    assert words and all(line[0] == "zkcoord" for line in words), lines
    return [line[1:] for line in words]


class Operator:
    """Runs them, for a group on a stack of this test."""

    def __init__(self, home: Path, zookeeper: str, group: str) -> None:
        self._home = home
        self._said = {"zk1:2181/kafka": zookeeper, "billing": group}

    def does(self, words: Sequence[str]) -> str:
        """One; it must succeed. What it says."""
        ended = run(self._home, *(self._said.get(word, word) for word in words))
        assert ended.returncode == 0, (words, ended.stdout, ended.stderr)
        return ended.stdout + ended.stderr


@pytest.mark.kafka
def test_a_group_goes_back_to_kafka_and_comes_again(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    """No record is lost, and none comes twice."""
    topic = create_topic(kafka_broker.address, unique("back"), PARTITIONS)
    group = unique("g")
    operator = Operator(tmp_path, kafka_zk_hosts, group)
    taken: list[tuple[int, int]] = []

    def reads_on(address: str) -> None:
        """What is new, there and nowhere else."""
        produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
        client = Librdkafka(address, group, topic)
        wait_until(lambda: len(client.taken) >= PARTITIONS * EACH, PATIENCE_S, "what is new")
        client.close()
        assert len(client.taken) == PARTITIONS * EACH
        taken.extend(client.taken)

    with (
        coordinator(kafka_zk_hosts, layout=Layout.DRAFT),
        GatewayProcess(tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address) as gateway,
    ):
        reads_on(gateway.address)
        for words in commands(THERE):
            operator.does(words)
        reads_on(kafka_broker.address)
        for words in commands(AGAIN):
            operator.does(words)
        reads_on(gateway.address)
    assert sorted(taken) == [(p, offset) for p in range(PARTITIONS) for offset in range(3 * EACH)]


@pytest.mark.kafka
def test_a_group_that_went_back_is_left_to_kafka_by_a_gateway_that_leaves_it_out(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    """So clients need no other address."""
    topic = create_topic(kafka_broker.address, unique("back"), PARTITIONS)
    group = unique("g")
    operator = Operator(tmp_path, kafka_zk_hosts, group)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    with coordinator(kafka_zk_hosts):
        with GatewayProcess(tmp_path / "before", kafka_zk_hosts, kafka_broker.address) as gateway:
            client = Librdkafka(gateway.address, group, topic)
            wait_until(lambda: len(client.taken) == PARTITIONS * EACH, PATIENCE_S, "all records")
            client.close()
            assert gateway.stop() == 0
        for words in commands(THERE):
            operator.does(words)
        produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
        with GatewayProcess(
            tmp_path / "after",
            kafka_zk_hosts,
            kafka_broker.address,
            "--coordinated-groups",
            "others-.*",
        ) as gateway:
            client = Librdkafka(gateway.address, group, topic)
            wait_until(lambda: len(client.taken) >= PARTITIONS * EACH, PATIENCE_S, "what is new")
            client.close()
    assert sorted(client.taken) == [
        (p, offset) for p in range(PARTITIONS) for offset in range(EACH, 2 * EACH)
    ]


@pytest.mark.kafka
def test_a_client_that_was_forgotten_at_the_gateway_is_kept_out_by_the_mode(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    topic = create_topic(kafka_broker.address, unique("back"), PARTITIONS)
    group = unique("g")
    operator = Operator(tmp_path, kafka_zk_hosts, group)
    isolated = ("--layout", "isolated")
    with (
        coordinator(kafka_zk_hosts, layout=Layout.ISOLATED),
        GatewayProcess(
            tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address, *isolated
        ) as gateway,
    ):
        client = Librdkafka(gateway.address, group, topic)
        shared([client], PARTITIONS)
        for words in commands(BOLT):
            operator.does(words)
        wait_until(lambda: not client.owned, PATIENCE_S, "that it has nothing any more")
        produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
        at_broker = Librdkafka(kafka_broker.address, group, topic)
        wait_until(lambda: len(at_broker.taken) == PARTITIONS * EACH, PATIENCE_S, "all records")
        print(gateway.log())
        assert not client.taken and not client.owned
        at_broker.close()
        operator.does(
            ["groups", "mode", group, "coordinated", *isolated, "--zookeeper", kafka_zk_hosts]
        )
        shared([client], PARTITIONS)
        client.close()
