"""A broker with one topic, and groups in both stores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from migrations.running import Where, Worker
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.migrations.groups import PARTITIONS, RECORDS, BothStores
from zkcoord.cli.main import main
from zkcoord.stack.servers import KafkaBroker
from zkcoord.zk.options import ZkOptions

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def topic(kafka_broker: KafkaBroker) -> str:
    """Some partitions with some records."""
    name = create_topic(kafka_broker.address, unique("orders"), PARTITIONS)
    produce_numbered(kafka_broker.address, name, PARTITIONS, RECORDS)
    return name


@pytest.fixture
def stores(kafka_broker: KafkaBroker, kafka_zk_hosts: str, topic: str) -> Iterator[BothStores]:
    """Nothing in ZooKeeper yet, and groups of names that Kafka has not heard of."""
    found = BothStores(kafka_broker.address, kafka_zk_hosts, topic)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def run(
    kafka_zk_hosts: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """`zkcoord migrate ARGUMENTS --zookeeper HERE` in this process, with the runs in the test's
    folder: status, standard output, standard error.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("ZKCOORD_")]:
        monkeypatch.delenv(name)

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main(
            [
                "migrate",
                *arguments,
                *(() if arguments[0] == "list" else ("--zookeeper", kafka_zk_hosts)),
            ]
        )
        out, err = capsys.readouterr()
        return status, out, err

    return call


@pytest.fixture
def worker(kafka_broker: KafkaBroker, kafka_zk_hosts: str, stores: BothStores) -> Iterator[Worker]:
    """What one of a migration's workers works with."""
    with Worker(Where(ZkOptions(kafka_zk_hosts), (kafka_broker.address,))) as made:
        yield made
