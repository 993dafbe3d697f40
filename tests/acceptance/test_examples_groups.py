"""The programs in docs/examples that are about groups, and the code in docs/streams.md: run as they
stand on real servers.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest

from tests.acceptance.test_examples import PATIENCE_S, ROOT, Program, programs, start
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.stack.servers import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EXAMPLES = ROOT / "docs" / "examples"
PARTITIONS, EACH = 6, 20


def owned(pod: Program) -> set[str]:
    """What it was given and has not given up."""
    found: set[str] = set()
    for line in list(pod.lines):
        word, *numbers = line.split()
        if word == "assigned":
            found.update(numbers)
        elif word == "revoked":
            found.difference_update(numbers)
    return found


def test_who_has_no_name_is_told_what_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOSTNAME", raising=False)
    program = str(EXAMPLES / "stable_pod_name.py")
    options = ("--zookeeper", "zk:2181", "--topic", "orders", "--group", "billing")
    ended = subprocess.run(
        [sys.executable, program, *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 2 and "write HOSTNAME=billing-0 before it" in ended.stderr


def test_a_pod_that_is_made_again_gets_its_partitions_back(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after kill -9; the other pod hears of nothing."""
    topic = create_topic(kafka_broker.address, unique("pods"), PARTITIONS)
    arguments = (
        str(EXAMPLES / "stable_pod_name.py"),
        "--zookeeper",
        kafka_zk_hosts,
        "--topic",
        topic,
        "--group",
        topic,
    )
    with coordinator(kafka_zk_hosts), programs() as running:

        def pod(name: str) -> Program:
            monkeypatch.setenv("HOSTNAME", name)
            return start(running, *arguments)

        stays, again = pod("billing-0"), pod("billing-1")
        wait_until(
            lambda: len(owned(stays)) == len(owned(again)) == PARTITIONS // 2,
            PATIENCE_S,
            f"half each; {stays.errors} {again.errors}",
        )
        heard, had = len(stays.lines), owned(again)
        for number in (signal.SIGTERM, signal.SIGKILL):
            again.child.send_signal(number)
            assert again.end() == (0 if number == signal.SIGTERM else -number), again.errors
            again = pod("billing-1")
            wait_until(
                lambda: owned(again) == had,
                PATIENCE_S,
                f"what it had, {had}, not {owned(again)}; {again.errors}",
            )
        assert len(stays.lines) == heard
        produce_numbered(kafka_broker.address, topic, PARTITIONS, 1)
        wait_until(
            lambda: len(stays.said("record")) == len(again.said("record")) == PARTITIONS // 2,
            PATIENCE_S,
            "a record of each partition",
        )


def test_threads_with_message_streams(kafka_broker: KafkaBroker, kafka_zk_hosts: str) -> None:
    topic = create_topic(kafka_broker.address, unique("four"), PARTITIONS)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    arguments = (
        str(EXAMPLES / "streams_with_threads.py"),
        "--zookeeper",
        kafka_zk_hosts,
        "--topic",
        topic,
        "--group",
        topic,
        "--threads",
        "3",
    )
    with coordinator(kafka_zk_hosts), programs() as running:
        first = start(running, *arguments)
        wait_until(
            lambda: len(first.said("message")) == PARTITIONS * EACH,
            PATIENCE_S,
            f"every message; {first.lines[-3:]} {first.errors}",
        )
        first.child.send_signal(signal.SIGTERM)
        assert first.end() == 0, first.errors
        by_partition: dict[str, list[tuple[str, str, str]]] = {}
        for _, stream, partition, offset, text in (line.split() for line in first.lines):
            by_partition.setdefault(partition, []).append((stream, offset, text))
        assert {
            p: [(offset, text) for _, offset, text in found] for p, found in by_partition.items()
        } == {str(p): [(str(o), f"{p}:{o}") for o in range(EACH)] for p in range(PARTITIONS)}
        assert all(
            len({stream for stream, _, _ in found}) == 1 for found in by_partition.values()
        ), "a partition is of one stream"
        produce_numbered(kafka_broker.address, topic, PARTITIONS, 1, start=EACH)
        second = start(running, *arguments)
        wait_until(
            lambda: len(second.said("message")) >= PARTITIONS,
            PATIENCE_S,
            f"what came meanwhile; {second.lines} {second.errors}",
        )
        assert sorted(line.split()[2:4] for line in second.lines) == [
            [str(p), str(EACH)] for p in range(PARTITIONS)
        ], (first.errors, second.errors)


def test_the_code_in_the_guide_to_streams(kafka_broker: KafkaBroker, kafka_zk_hosts: str) -> None:
    """`handle` ends it after the fifth message."""
    (code,) = re.findall(
        r"^```python\n(.*?)^```",
        (ROOT / "docs" / "streams.md").read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    topic = create_topic(kafka_broker.address, unique("guide"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 5)
    here = (
        code.replace("zk1:2181,zk2:2181/kafka", kafka_zk_hosts)
        .replace('"orders"', repr(topic))
        .replace('"billing"', repr(topic))
    )
    head = (
        "def handle(message):\n    print('handled', message.offset, flush=True)\n    if"
        " message.offset == 4:\n        connector.shutdown()\n"
    )
    with coordinator(kafka_zk_hosts), programs() as running:
        program = start(running, "-c", head + here)
        assert program.end() == 0, program.errors
    assert program.said("handled") == [f"handled {n}" for n in range(5)] and program.errors == []
