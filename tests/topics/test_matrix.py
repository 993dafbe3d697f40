"""A few cells of the matrix (`tests.topics.matrix`) in each run: what `tests/kafka/test_kraft.py`
does not show of a broker without ZooKeeper underneath.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import PATIENCE_S
from tests.legacy.broker_checks import Against
from tests.spark.engine import Checkpoint, Query, Sink
from tests.topics.matrix.__main__ import KINDS, main
from tests.topics.matrix.cell import PARTS, played
from zkcoord.stack import jars
from zkcoord.stack.java import Java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import CONTROLLER, KRaftNode

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 25


@pytest.fixture(scope="module")
def node(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KRaftNode]:
    """A broker without ZooKeeper."""
    home = tmp_path_factory.mktemp("matrix")
    found = KRaftNode(home, free_port(), java, CONTROLLER, free_port(), artifact=jars.KAFKA)
    found.start()
    yield found
    found.kill()


@pytest.fixture
def at(node: KRaftNode, zk_hosts: str, tmp_path: Path) -> Against:
    """It, and a ZooKeeper of zkcoord's own."""
    return Against(jars.KAFKA.version, node.address, node.home / "data", zk_hosts, tmp_path)


@pytest.mark.parametrize("part", ["gateway-librdkafka", "check"])
def test_a_part_works(part: str, at: Against) -> None:
    PARTS[part][1](at)


@pytest.fixture
def sigterm() -> Iterator[None]:
    """A query takes SIGTERM: afterwards it is as it was."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("sigterm")
def test_the_spark_source_reads_it(at: Against) -> None:
    topic = create_topic(at.address, unique("spark"), 2)
    produce_numbered(at.address, topic, 2, RECORDS)
    options = {"zookeeperConnect": at.hosts, "groupId": topic, "subscribe": topic}
    sink = Sink()
    with at.coordinator():
        query = Query({**options, "startingOffsets": "earliest"}, Checkpoint(), sink)
        try:
            wait_until(
                lambda: query.trigger() is not None and len(sink) == 2 * RECORDS,
                PATIENCE_S,
                "all records",
            )
        finally:
            query.reader.stop()
    assert set(sink.values()) == {1}


def test_a_cell_that_cannot_be_played_is_a_line(at: Against, tmp_path: Path) -> None:
    """Its broker is of no release, say."""
    broken = Against("none", at.address, at.logs, at.hosts, tmp_path)
    row = played("gateway-java", broken, print)
    assert row.missed and "KeyError" in row.note, row


def test_the_help_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert all(name in said for name in (*KINDS, *PARTS))
