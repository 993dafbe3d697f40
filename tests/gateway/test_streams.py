"""Kafka Streams with `exactly_once_v2` through gateways, while its instances, the gateways and the
coordinator are killed.

ZKCOORD_STREAMS_RECORDS says how many records (100,000).
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Theirs

from tests.gateway.clients import PATIENCE_S, GatewayProcess
from tests.gateway.streams_app import StreamsInstance
from tests.gateway.test_failover import named
from tests.harness.command import Running
from tests.harness.kafka import create_topic, unique
from tests.harness.wait import wait_until
from zkcoord.stack.java import Java
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

RECORDS = int(os.environ.get("ZKCOORD_STREAMS_RECORDS", "100000"))
PARTITIONS = 4
KEYS = 40
KILLS = 10
RECOVERY_S = 180.0
PER_SECOND = 1_000
SETTLES_S = 5.0


class Output:
    """Counts what a topic has, of committed transactions alone, on a thread of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.values: Counter[str] = Counter()
        self.counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": unique("count"),
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._consumer.assign([Theirs(topic, n, 0) for n in range(PARTITIONS)])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(500, 0.1):
                assert message.error() is None, message.error()
                value, number = message.value().decode().split(" ")
                self.values[value] += 1
                self.counts[message.key().decode()][int(number)] += 1
        self._consumer.close()

    def close(self) -> None:
        """Count no more."""
        self._stop.set()
        self._thread.join(PATIENCE_S)


class Input:
    """Records that come at a steady pace, written to the broker directly."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.count = 0
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        begun = time.monotonic()
        while self.count < RECORDS:
            due = min(RECORDS, int((time.monotonic() - begun) * PER_SECOND))
            for number in range(self.count, due):
                self._producer.produce(self._topic, f"v{number}", f"k{number % KEYS}")
            self.count = due
            self._producer.poll(0.05)
        assert self._producer.flush(PATIENCE_S) == 0

    def wait(self) -> None:
        """Until all are written."""
        self._thread.join(PATIENCE_S + RECORDS / PER_SECOND)
        assert not self._thread.is_alive()


class Coordinators:
    """One after the other."""

    def __init__(self, home: Path, zookeeper: str, stack: ExitStack) -> None:
        self._home, self._zookeeper, self._stack = home, zookeeper, stack
        self._count = 0
        self._now = self._begin()

    def _begin(self) -> Running:
        self._count += 1
        home = self._home / str(self._count)
        one = self._stack.enter_context(Running(home, "--zookeeper", self._zookeeper))
        one.ready("leading")
        return one

    def restart(self) -> None:
        """Kill it (-9), and begin another one."""
        self._now.process.kill()
        self._now.process.wait()
        self._now = self._begin()


@contextmanager
def closing(*what: StreamsInstance | Output) -> Iterator[None]:
    """None of them stays."""
    try:
        yield
    finally:
        for one in what:
            one.kill() if isinstance(one, StreamsInstance) else one.close()


@pytest.mark.nightly
def test_every_record_is_counted_exactly_once_whatever_is_killed(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, java: Java, tmp_path: Path
) -> None:
    source = create_topic(kafka_broker.address, unique("in"), PARTITIONS)
    target = create_topic(kafka_broker.address, unique("out"), PARTITIONS)
    application = unique("streams")
    asks = kafka_zk_hosts, kafka_broker.address, "--offsets-in-kafka", "streams-.*"
    with ExitStack() as stack:
        coordinators = Coordinators(tmp_path / "coordinator", kafka_zk_hosts, stack)
        gateways = [
            stack.enter_context(GatewayProcess(tmp_path / name, *asks)) for name in ("a", "b")
        ]
        for gateway in gateways:
            wait_until(lambda: named(gateway) == 3, PATIENCE_S, "gateways that know each other")
        bootstrap = ",".join(gateway.address for gateway in gateways)
        instances = [
            StreamsInstance(tmp_path / str(n), java, bootstrap, application, source, target)
            for n in range(2)
        ]
        output = Output(kafka_broker.address, target)
        stack.enter_context(closing(*instances, output))
        given = Input(kafka_broker.address, source)

        def goes_on(more: int = 1) -> None:
            """Until something more was counted."""
            wanted = min(RECORDS, output.values.total() + more)
            wait_until(lambda: output.values.total() >= wanted, RECOVERY_S, f"{wanted} counted")

        goes_on()
        victims = [instances[0], gateways[0], coordinators, instances[1], gateways[1]]
        for number in range(KILLS):
            victims[number % len(victims)].restart()
            goes_on(PER_SECOND)
            time.sleep(SETTLES_S)  # what follows is to hit a group at work, as well as one at rest
            goes_on()
        given.wait()
        expected = {f"v{number}" for number in range(RECORDS)}
        wait_until(lambda: len(output.values) == RECORDS, RECOVERY_S, "all records counted")
        for instance in instances:
            instance.close()
        goes_on(0)
        assert output.values.keys() == expected
        assert set(output.values.values()) == {1}, "some are there more than once"
        each = RECORDS // KEYS
        assert all(sorted(seen) == list(range(1, each + 1)) for seen in output.counts.values())
        assert all(set(seen.values()) == {1} for seen in output.counts.values())
