"""Two Spark applications of one group in front of real servers: a zombie that comes to the fence,
and a JVM that dies between the multi and the move. The rest of the chaos run is `make chaos-spark`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos_spark.rig import Rig
from tests.chaos_spark.scenarios import killed, zombie
from tests.harness.kafka import unique
from zkcoord.stack.servers import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]


def test_a_zombie_and_a_batch_that_counts_and_is_not_visible(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, kafka_zk_hosts, kafka_broker.address, unique("chaos"), "fenced")
    try:
        first, second = rig.begin(2)
        assert zombie(rig, first, 0).fenced is True
        killed(rig, second, "committed", again=False)
        assert (rig.lost(), rig.duplicates()) == (0, 0)
    finally:
        rig.close()
