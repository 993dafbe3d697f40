"""Consumers as processes: clean ends, sudden ends, forks, bad input, and the lines that the
verifiable consumer writes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka.structs import TopicPartition

from consumer.errors import ForkedConsumerError
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import PATIENCE_S, consumer, coordinator, iterated, settled
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka


class Process:
    """A verifiable consumer and the lines it has written."""

    def __init__(
        self, *arguments: str, command: tuple[str, ...] = ("-m", "consumer.verifiable")
    ) -> None:
        self.child = subprocess.Popen(
            [sys.executable, *command, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            if line.endswith("\n"):  # else it was killed while it wrote
                self.lines.append(json.loads(line))

    def _read_errors(self) -> None:
        assert self.child.stderr is not None
        self.errors.extend(self.child.stderr)

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in list(self.lines) if line["event"] == event]

    def delivered(self) -> dict[str, list[int]]:
        """Every offset delivered, by partition, in order."""
        found: dict[str, list[int]] = {}
        for line in self.of("records"):
            for partition, ranges in line["ranges"].items():
                for first, last, count, _timestamp in ranges:
                    assert count == last - first + 1
                    found.setdefault(partition, []).extend(range(first, last + 1))
        return found

    def wait(self, what: str, count: int = 1) -> None:
        wait_until(
            lambda: len(self.of(what)) >= count or self.child.poll() is not None,
            PATIENCE_S,
            f"{count} x {what}; {self.errors}",
        )

    def end(self) -> int:
        status = self.child.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        return status


@contextmanager
def process(*arguments: str, **how: Any) -> Iterator[Process]:
    """A process that does not outlive the test."""
    running = Process(*arguments, **how)
    try:
        yield running
    finally:
        if running.child.poll() is None:
            running.child.kill()
        running.end()


def members(hosts: str, group: str) -> list[str]:
    zookeeper = connect(hosts)
    try:
        return list(zookeeper.get_children(f"/consumers/groups/{group}/ids"))
    finally:
        disconnect(zookeeper)


def test_the_verifiable_consumer_tells_what_it_does(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("verifiable"), 3)
    produce_numbered(kafka_broker.address, topic, 3, 20)
    with (
        coordinator(kafka_zk_hosts),
        process(
            "--zookeeper",
            kafka_zk_hosts,
            "--topic",
            topic,
            "--group",
            topic,
            "--commit",
            "sync",
            "--listener",
        ) as one,
    ):
        wait_until(
            lambda: sum(map(len, one.delivered().values())) == 60 and one.of("committed"),
            PATIENCE_S,
            f"all records; {one.errors}",
        )
        one.child.terminate()
        assert one.end() == 0, one.errors
    assert one.delivered() == {f"{topic}-{n}": list(range(20)) for n in range(3)}
    order = [
        line["event"]
        for line in one.lines
        if line["event"] in ("start", "registered", "assigned", "records", "closed")
    ]
    assert order[:3] == ["start", "registered", "assigned"] and order[-1] == "closed"
    assert {line["partition"] for line in one.of("first_fetch")} == {
        f"{topic}-{n}" for n in range(3)
    }
    assert [line["callback"] for line in one.of("called")] == ["assigned", "revoked"]
    assert all(isinstance(line["t"], int) for line in one.lines)


def test_sigterm_leaves_cleanly_also_with_a_long_handler(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("term"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 10)
    with (
        coordinator(kafka_zk_hosts),
        process(
            "--zookeeper",
            kafka_zk_hosts,
            "--topic",
            topic,
            "--group",
            topic,
            "--max-poll-records",
            "5",
            "--batch-delay-ms",
            "300",
        ) as one,
    ):
        one.wait("records")
        one.child.terminate()
        assert one.end() == 0
        assert members(kafka_zk_hosts, topic) == []
        handed = sum(map(len, one.delivered().values()))
        with consumer(kafka_zk_hosts, topic, topic, enable_auto_commit=False) as two:
            settled([two], topic, 1, taken := {})
            assert (
                two.committed(TopicPartition(topic, 0)) == handed
                and min(taken.get((topic, 0), [handed])) == handed
            )


@pytest.mark.parametrize("dropped", [False, True])
def test_a_process_that_ends_without_close_leaves_cleanly(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, dropped: bool
) -> None:
    """The interpreter's exit closes what the application forgot, also where nothing refers to the
    consumer any more: the registration is gone when the process is.
    """
    topic = create_topic(kafka_broker.address, unique("forgot"), 1)
    script = (
        f"from consumer import KafkaConsumer\nc = KafkaConsumer({topic!r},"
        f" zookeeper_connect={kafka_zk_hosts!r}, group_id={topic!r}, guardian=False)\nwhile not"
        ' c.assignment(): c.poll(50)\nprint(\'{"event": "owning"}\', flush=True)\n'
    )
    if dropped:
        script += "del c\nimport gc\ngc.collect()\n"
    with coordinator(kafka_zk_hosts), process(command=("-c", script)) as one:
        one.wait("owning")
        assert one.end() == 0, one.errors
        assert members(kafka_zk_hosts, topic) == []


def test_kill_9_costs_at_most_what_was_not_committed(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("kill"), 2)
    produce_numbered(kafka_broker.address, topic, 2, 30)
    arguments = (
        "--zookeeper",
        kafka_zk_hosts,
        "--topic",
        topic,
        "--group",
        topic,
        "--commit",
        "sync",
        "--max-poll-records",
        "10",
        "--session-timeout-ms",
        "6000",
    )
    with coordinator(kafka_zk_hosts), process(*arguments, "--batch-delay-ms", "50") as one:
        one.wait("committed", 3)
        one.child.kill()
        one.end()
        # so that the second has something to do with each partition, whatever the first could still
        # do
        produce_numbered(kafka_broker.address, topic, 2, 1, 30)
        with process(*arguments) as two:
            wait_until(
                lambda: (
                    [two.delivered().get(f"{topic}-{n}", [])[-1:] for n in range(2)] == [[30], [30]]
                ),
                PATIENCE_S,
                f"every record; {two.errors}",
            )
            two.child.terminate()
            assert two.end() == 0
    committed: dict[str, int] = {}
    for line in one.of("committed"):
        committed.update(line["offsets"])
    for partition, offsets in two.delivered().items():
        assert offsets == list(range(offsets[0], 31)) and offsets[0] >= committed.get(partition, 0)
        assert {*one.delivered().get(partition, []), *offsets} == set(range(31)), "every record"


def test_a_forked_child_is_refused_and_does_no_harm(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("fork"), 1)
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, consumer_timeout_ms=100) as one,
    ):
        settled([one], topic, 1)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                one.poll(0)
            except ForkedConsumerError:
                one.close()
                status = 0
            finally:
                os._exit(status)
        _, ended = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(ended) == 0
        produce_numbered(kafka_broker.address, topic, 1, 3)
        assert [r.offset for r in iterated(one, 3)] == [0, 1, 2] and len(
            members(kafka_zk_hosts, topic)
        ) == 1


@pytest.mark.parametrize(
    ("arguments", "says", "status"),
    [
        (("--group", "a/b"), "group name", 2),
        (("--group", "g", "--assignor", "be st"), "a custom assignor's name", 2),
        (("--group", "ids"), "refused", 2),
        (
            ("--group", "g", "--zookeeper", "127.0.0.1:1", "--connection-timeout-ms", "300"),
            "no ZooKeeper server answers",
            1,
        ),
        (("--group", "g", "--pattern", "a("), "RE2", 2),
    ],
)
def test_bad_input_is_one_sentence_and_a_status(
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    arguments: tuple[str, ...],
    says: str,
    status: int,
) -> None:
    rest = ("--zookeeper", kafka_zk_hosts) if "--zookeeper" not in arguments else ()
    more = ("--topic", "t") if "--pattern" not in arguments else ()
    with process(*arguments, *rest, *more) as one:
        assert one.end() == status, one.errors
    text = "".join(one.errors)
    assert says in text and "Traceback" not in text


def test_an_interrupt_is_a_clean_close(kafka_broker: KafkaBroker, kafka_zk_hosts: str) -> None:
    topic = create_topic(kafka_broker.address, unique("int"), 1)
    with (
        coordinator(kafka_zk_hosts),
        process("--zookeeper", kafka_zk_hosts, "--topic", topic, "--group", topic) as one,
    ):
        one.wait("assigned")
        one.child.send_signal(signal.SIGINT)
        assert one.end() == 0 and one.of("closed")
        assert members(kafka_zk_hosts, topic) == []
