"""The demo's producer where the broker takes records more slowly than they are due."""

from __future__ import annotations

import argparse
import threading
import time
from typing import Any

from zkcoord.demo import producer
from zkcoord.demo.producer import Producer


class SlowKafka:
    """Takes its time for each record; asks for the end after a few."""

    def __init__(self, owner: Producer, records: int) -> None:
        self.owner, self.left = owner, records

    def send(self, topic: str, value: bytes, partition: int) -> SlowKafka:
        time.sleep(0.002)
        self.left -= 1
        if self.left == 0:
            self.owner.stop(15, None)
        return self

    def add_callback(self, callback: Any) -> None:
        self.owner.acknowledged[callback.args[0]] += 1

    def add_errback(self, errback: Any) -> None: ...
    def flush(self, timeout: float) -> None: ...
    def close(self, timeout: float) -> None: ...

    def partitions_for(self, topic: str) -> set[int]:
        return {0, 1, 2}


def slow(records: int) -> Producer:
    made = Producer.__new__(Producer)
    made.args = argparse.Namespace(
        topic="t", partitions=2, rate=1_000_000, value_bytes=10, orders=False
    )
    made.stopping, made.failure, made.lock = False, None, threading.Lock()
    made.sent, made.acknowledged = [0, 0], [0, 0]
    made.kafka = SlowKafka(made, records)
    return made


def test_a_producer_that_is_behind_ends_when_it_is_told(capsys: Any) -> None:
    made = slow(20)
    assert made.run() == 0 and sum(made.sent) == 20, "nothing more was sent after the signal"


def test_a_producer_that_is_behind_goes_on_telling_and_finds_new_partitions(
    capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(producer, "REPORT_S", 0.02)
    monkeypatch.setattr(producer, "GROWTH_CHECK_S", 0.02)
    made = slow(200)
    assert made.run() == 0 and len(made.sent) == 3
    assert capsys.readouterr().out.count('"produced"') > 3
