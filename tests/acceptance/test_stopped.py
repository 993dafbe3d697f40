"""Consumers that are stopped for three session timeouts, in the middle of their work: nothing is
handed out after the lease, no stored offset goes back, and twice comes only what was not committed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.consumer_stopped import COMMITS, pauses
from tests.kafka.groups import coordinator
from zkcoord.stack.servers import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


# a member that nobody stops shall keep its session, also on a machine that pauses now and then
SESSION_MS = 6_000


@pytest.mark.parametrize(
    ("rounds", "groups"), [(1, 2), pytest.param(5, len(COMMITS), marks=pytest.mark.nightly)]
)
def test_stopped_consumers(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path, rounds: int, groups: int
) -> None:
    with coordinator(kafka_zk_hosts):
        found = pauses(
            kafka_zk_hosts, kafka_broker.address, tmp_path, rounds, 0, print, groups, SESSION_MS
        )
    assert found.disturbed == 0, (
        "a process that nobody had stopped lost its session: the machine is too busy for this test"
    )
    assert found.stops == rounds * groups and len(found.taken_over_ms) == found.stops
    assert [verdict.reasons for verdict in found.verdicts] == [
        []
    ] * groups and not found.went_back, found.sentences
    assert found.samples > 0
