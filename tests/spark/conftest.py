"""Fixtures of the Spark suites: a coordinator on the broker's ZooKeeper, and queries that are
stopped whatever happens.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from tests.harness.kafka import create_topic, unique
from tests.kafka.groups import coordinator
from tests.spark.engine import Checkpoint, Query, Sink
from zkcoord.stack.servers import KafkaBroker

PARTITIONS = 4
# a query ends its session when it ends: this long only so that no pause of the machine does
SESSION_MS = 30_000


@pytest.fixture
def group(kafka_broker: KafkaBroker, kafka_zk_hosts: str) -> Iterator[str]:
    """A group's name, with a coordinator that serves it."""
    with coordinator(kafka_zk_hosts):
        yield unique("spark")


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    """A topic with four partitions."""
    return create_topic(kafka_broker.address, unique("spark"), PARTITIONS)


Start = Callable[..., Query]


@pytest.fixture(autouse=True)
def sigterm() -> Iterator[None]:
    """As it was: a query takes SIGTERM, as the process in which Spark runs it has no other use for
    it, and what this process starts would inherit that.
    """
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def start(group: str, topic: str, kafka_zk_hosts: str) -> Iterator[Start]:
    """start(checkpoint, sink, **options): a query of the group, stopped at the end."""
    queries: list[Query] = []

    def begin(checkpoint: Checkpoint, sink: Sink, **options: str) -> Query:
        given = {
            "zookeeperConnect": kafka_zk_hosts,
            "groupId": group,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "zookeeperSessionTimeoutMs": str(SESSION_MS),
            **options,
        }
        queries.append(Query(given, checkpoint, sink))
        return queries[-1]

    yield begin
    for query in queries:
        query.reader.stop()
