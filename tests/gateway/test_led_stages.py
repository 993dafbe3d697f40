"""A kill -9 at each of the four stages of a rebalance of a client-led group: real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.led_stages import run
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

SEED = 1


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.nightly)])
def test_who_is_killed_at_a_stage_ends_nothing(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path, kills: int
) -> None:
    outcome = run(kafka_broker, kafka_zk_hosts, tmp_path, kills, SEED)
    assert outcome.wrong == []
    assert [len(took) for took in outcome.took_ms.values()] == [kills] * 8
