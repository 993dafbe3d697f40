"""Our maths of the old assignors beside real owner nodes: a few telling cells of 1.1.1 in each run,
every cell at night. The releases' own process serves all of its cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.legacy.consumers import LegacyProcess
from tests.legacy.jars import RELEASES, V1_1
from tests.legacy.matrix import HEAP_MB, Cell, cells, make_topics, play
from zkcoord.stack.java import Java
from zkcoord.stack.servers import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

# Threads that sort as text, more threads than partitions, and members that are passed over.
DAILY = (
    Cell(V1_1, "range", "unequal", 12),
    Cell(V1_1, "roundrobin", "unequal", 12),
    Cell(V1_1, "roundrobin", "equal", 2),
)
NIGHTLY = [cell for version in RELEASES for cell in cells(version) if cell not in DAILY]


@pytest.fixture(scope="module")
def topics(kafka_broker: KafkaBroker) -> Mapping[str, str]:
    return make_topics(kafka_broker.address)


@pytest.fixture(scope="module")
def process_of(
    kafka_broker: KafkaBroker, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], LegacyProcess]]:
    """Release -> the process of its consumers, started when it is first asked for."""
    running: dict[str, LegacyProcess] = {}
    home: Path = tmp_path_factory.mktemp("matrix")

    def of(version: str) -> LegacyProcess:
        if version not in running:
            running[version] = LegacyProcess(
                home / version, version, kafka_broker.zookeeper, java, heap_mb=HEAP_MB
            )
            running[version].start()
        return running[version]

    yield of
    for process in running.values():
        process.kill()


@pytest.mark.parametrize(
    "cell",
    [*DAILY, *(pytest.param(cell, marks=pytest.mark.nightly) for cell in NIGHTLY)],
    ids=lambda cell: f"{cell.version}, {cell.title}",
)
def test_owners_are_as_computed(
    cell: Cell,
    process_of: Callable[[str], LegacyProcess],
    looking: KazooClient,
    topics: Mapping[str, str],
) -> None:
    outcome = play(cell, process_of(cell.version), looking, topics)
    assert outcome.agreeing == outcome.partitions, outcome.difference
