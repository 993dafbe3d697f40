"""What the verifiable consumer says of what happened."""

from __future__ import annotations

import json
import time
from typing import Any, cast

import pytest
from kafka.structs import TopicPartition

from consumer import verifiable
from consumer.api.kafka_consumer import KafkaConsumer


class Slow:
    """A record; each look at it takes a second."""

    timestamp = 7

    def __init__(self, clock: list[int], offset: int) -> None:
        self.clock = clock
        self._offset = offset

    @property
    def offset(self) -> int:
        self.clock[0] += 10**9
        return self._offset


def test_records_are_handed_out_when_poll_returns_not_when_they_are_written_down(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0]
    monkeypatch.setattr(time, "time_ns", lambda: clock[0])

    class Polled:
        def poll(self, _timeout_ms: int) -> dict[TopicPartition, list[Any]]:
            clock[0] = 5
            return {TopicPartition("orders", 1): [Slow(clock, 3), Slow(clock, 4)]}

    work = verifiable.Verifiable(
        verifiable.parser().parse_args(["--zookeeper", "z", "--group", "g", "--commit", "none"])
    )
    work.turn(cast(KafkaConsumer, Polled()))
    assert (
        json.loads(capsys.readouterr().out)
        == {
            "event": "records",
            "t": 5,
            "count": 2,
            "ranges": {"orders-1": [[3, 4, 2, 7]]},
        }
        and clock[0] > 5
    )
