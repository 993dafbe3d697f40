"""Processes with message streams, several threads each, under load: they join, leave, and are
killed with -9. The demo's judge over all that they wrote.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack

import pytest

from tests.acceptance.judging import delivered_all, judged, writing
from tests.harness.kafka import create_topic, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from tests.kafka.test_processes import PATIENCE_S, Process, process
from zkcoord.stack.servers import KafkaBroker
from zkcoord.verdict.rules import Rule

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 8
MORE = 40


def streams_of(one: Process) -> dict[str, set[int]]:
    """The streams that got records of a partition."""
    found: dict[str, set[int]] = {}
    for line in one.of("records"):
        for partition in line["ranges"]:
            found.setdefault(partition, set()).add(line["stream"])
    return found


def test_processes_with_threads_come_go_and_die_under_load(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("crowd"), PARTITIONS)
    everybody: dict[str, Process] = {}
    killed: dict[str, int] = {}
    with ExitStack() as running:

        def member(streams: int) -> Process:
            command = (
                "-m",
                "tests.acceptance.streams_app",
                kafka_zk_hosts,
                topic,
                topic,
                str(streams),
                "1",
            )
            started = running.enter_context(process(command=command))
            everybody[f"p{len(everybody)}"] = started
            return started

        def progress(what: str, *members: Process) -> None:
            """Some records more for each of these."""
            before = [len(m.of("records")) for m in members]
            wait_until(
                lambda: all(len(m.of("records")) >= b + MORE for m, b in zip(members, before)),
                PATIENCE_S,
                f"{what}: {before}; {[m.errors for m in members]}",
            )

        running.enter_context(coordinator(kafka_zk_hosts))
        writer = running.enter_context(writing(kafka_broker.address, {topic: PARTITIONS}))
        one = member(3)
        progress("the first alone", one)
        wait_until(
            lambda: len({stream for found in streams_of(one).values() for stream in found}) == 3,
            PATIENCE_S,
            "records for all three threads",
        )
        two, three = member(1), member(4)
        progress("three processes", one, two, three)
        name, t_ns = next(n for n, p in everybody.items() if p is three), time.time_ns()
        os.kill(three.child.pid, signal.SIGKILL)
        killed[name] = t_ns
        three.end()
        progress("after kill -9", one, two)
        one.child.send_signal(signal.SIGTERM)
        assert one.end() == 0, one.errors
        four = member(2)
        progress("one left, one came", two, four)
        writer.stop()
        wait_until(lambda: delivered_all(everybody, writer.ends), PATIENCE_S, "every record")
        for each in (two, four):
            each.child.send_signal(signal.SIGTERM)
            assert each.end() == 0, each.errors
    verdict = judged(everybody, writer.ends, killed)
    assert verdict.clean, (verdict.sentence, verdict.findings)
    assert {rule: verdict.amount(rule) for rule in Rule} == dict.fromkeys(Rule, 0)
