"""The fixture of every comparison: each test runs once per side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.both import SIDES, ZKCOORD, Side, side_of
from tests.harness.kafka import clean_groups
from tests.kafka.groups import coordinator
from zkcoord.stack.servers import KafkaBroker

ABOUT_RECORDS = {
    "test_join_leave_and_close",
    "test_assigned_comes_before_any_record_and_may_seek",
    "test_seek_to_the_beginning_inside_assigned",
    "test_pause_stays_over_a_rebalance_for_what_stays",
    "test_metrics",
    "test_what_the_brokers_know",
}


@pytest.fixture(scope="module")
def coordinated(kafka_broker: KafkaBroker) -> Iterator[str]:
    """The connect string of the broker's ZooKeeper, with a coordinator at work there for the whole
    module (tests use groups of their own).
    """
    clean_groups(kafka_broker.zookeeper)
    with coordinator(kafka_broker.zookeeper):
        yield kafka_broker.zookeeper
    clean_groups(kafka_broker.zookeeper)


@pytest.fixture(params=SIDES)
def side(
    request: pytest.FixtureRequest, kafka_broker: KafkaBroker, coordinated: str
) -> Iterator[Side]:
    """One of the consumers."""
    with side_of(request.param, kafka_broker.address, coordinated, request.node.name) as found:
        yield found


@pytest.fixture
def ours(
    request: pytest.FixtureRequest, kafka_broker: KafkaBroker, coordinated: str
) -> Iterator[Side]:
    """Our consumer only, for what the other one does not have."""
    with side_of(ZKCOORD, kafka_broker.address, coordinated, request.node.name) as found:
        yield found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """kafka-python's side changes with its releases only, and librdkafka only brings records: what
    takes long, or does not concern that, is part of `make compat` and of the nightly run.
    """
    for item in items:
        if item.path.parent == Path(__file__).parent and (
            "[kafka-python" in item.name
            or ("[librdkafka" in item.name and not _is_about_records(item))
        ):
            item.add_marker(pytest.mark.nightly)


def _is_about_records(item: pytest.Item) -> bool:
    return item.path.name == "test_records.py" or item.name.partition("[")[0] in ABOUT_RECORDS
