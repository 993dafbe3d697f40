"""A group of real members with a coordinator: well while both consume, and when one hangs the
partitions that it owns are named, with it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from consumer.api.kafka_consumer import KafkaConsumer
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.kafka.groups import PATIENCE_S, Taken, consumer, coordinator, settled
from zkcoord.cli.main import main
from zkcoord.stack.servers import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
PARTITIONS = 4
OFTEN = {"enable_auto_commit": True, "auto_commit_interval_ms": 200}


@contextmanager
def polling(one: KafkaConsumer, hangs: threading.Event) -> Iterator[None]:
    """Poll on a thread, until the block is left or the consumer hangs."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set() and not hangs.is_set():
            one.poll(100)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(PATIENCE_S)


@contextmanager
def records(broker: KafkaBroker, topic: str) -> Iterator[None]:
    """Some, all the time."""
    over = threading.Event()

    def run() -> None:
        start = 0
        while not over.wait(0.2):
            produce_numbered(broker.address, topic, PARTITIONS, 5, start)
            start += 5

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(PATIENCE_S)


def test_a_group_of_two_of_whom_one_hangs(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = create_topic(kafka_broker.address, unique("hangs"), PARTITIONS)
    hangs, never = threading.Event(), threading.Event()
    taken: Taken = {}

    def judged() -> tuple[int, dict[str, Any]]:
        looks = ("--samples", "25", "--interval-ms", "400", "--json", "--partitions")
        status = main(["groups", "health", topic, "--zookeeper", kafka_zk_hosts, *looks])
        (group,) = json.loads(capsys.readouterr().out)["groups"]
        return status, group

    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, **OFTEN) as one,
        consumer(kafka_zk_hosts, topic, topic, **OFTEN) as two,
    ):
        settled([one, two], topic, PARTITIONS, taken)
        with records(kafka_broker, topic), polling(one, hangs), polling(two, never):
            status, group = judged()
            assert (status, group["verdict"], group["state"]) == (0, "OK", "Stable"), group
            assert group["lag_seconds"] < 5
            hangs.set()
            status, group = judged()
            owned = {tp.partition for tp in one.assignment()}
    assert (status, group["verdict"]) == (3, "ERROR"), group
    assert owned and len(owned) < PARTITIONS
    for part in group["partitions"]:
        if part["partition"] in owned:
            assert part["verdict"] in ("STOP", "STALL") and part["owner"].startswith(topic), part
        else:
            assert part["verdict"] == "OK", part
