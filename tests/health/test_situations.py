"""Verdicts and lag in seconds of groups in known trouble, on a real ZooKeeper and a real broker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.health.situations import SITUATIONS, Situations, situations
from zkcoord.cli.main import main
from zkcoord.stack.servers import KafkaBroker
from zkcoord.zk.clock import wall_ms

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
LOOKS = ("--samples", "40", "--interval-ms", "400")
VERDICTS = {
    "healthy": ("OK", "OK"),
    "delayed": ("OK", "OK"),
    "stopped": ("ERROR", "STOP"),
    "stalled": ("ERROR", "STALL"),
    "rewound": ("ERROR", "REWIND"),
    "behind": ("WARN", "WARN"),
}
EXACT_S, EXACT_PART = 2.0, 0.1


def judged(
    running: Situations, hosts: str, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[int, dict[str, Any], int]:
    """Status, verdicts by situation, and when that was."""
    groups = [one.group for one in running.made.values()]
    status = main(
        ["groups", "health", *groups, "--zookeeper", hosts, *LOOKS, "--json", "--partitions", *more]
    )
    now = wall_ms()
    found = {group["group"]: group for group in json.loads(capsys.readouterr().out)["groups"]}
    return status, {name: found[one.group] for name, one in running.made.items()}, now


def right(running: Situations, name: str, found: dict[str, Any], now: int) -> None:
    """Whether the lag in seconds is that of the records' own time; what is at least so much may be
    more.
    """
    (partition,) = found["partitions"]
    said, at_least = partition["lag_seconds"], partition["lag_seconds_at_least"]
    if partition["lag"] == 0:
        assert said == 0
        return
    truth = (now - running.record_ms(running.made[name].tp, partition["current_offset"])) / 1000
    print(f"{name}: lag in seconds {said:.2f}{'+' * at_least}, by the record {truth:.2f}")
    allowed = max(EXACT_S, truth * EXACT_PART)
    assert said <= truth + allowed and (at_least or said >= truth - allowed), (name, said, truth)


@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
def test_each_is_judged_right(
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    capsys: pytest.CaptureFixture[str],
    storage: str,
) -> None:
    in_kafka = storage == "kafka"
    with situations(kafka_broker, kafka_zk_hosts, SITUATIONS, in_kafka) as running:
        status, found, now = judged(running, kafka_zk_hosts, capsys)
        assert status == 3
        for name, (verdict, of_partition) in VERDICTS.items():
            one = found[name]
            # Kafka does not tell that the same was committed again
            worst = "STOP" if in_kafka and name == "stalled" else of_partition
            assert (one["verdict"], one["partitions"][0]["verdict"], one["storage"]) == (
                verdict,
                worst,
                storage,
            ), one
            right(running, name, one, now)
        delayed = found["delayed"]
        assert abs(delayed["lag_seconds"] - 4) < EXACT_S and not delayed["lag_seconds_at_least"]
        # what was before the first look, the records' times tell
        assert not any(one["lag_seconds_at_least"] for one in found.values())
