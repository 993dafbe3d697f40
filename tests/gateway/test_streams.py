"""Kafka Streams with `exactly_once_v2` through gateways, while its instances, the gateways and the
coordinator are killed.

ZKCOORD_STREAMS_RECORDS says how many records (100,000).
"""

from __future__ import annotations

import os
import threading
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
TICKS = 20


class Output:
    """Reads what a topic has, of committed transactions alone."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.count = 0
        self.values: Counter[str] = Counter()
        self.counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._ended: set[int] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": unique("count"),
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        self._consumer.assign([Theirs(topic, n, 0) for n in range(PARTITIONS)])

    def read(self, number: int) -> bool:
        """A part of it; whether there were so many by now."""
        for message in self._consumer.consume(1_000, 0.1):
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                self._ended.add(message.partition())
                continue
            self._ended.discard(message.partition())
            value, counted = message.value().decode().split(" ")
            self.count += 1
            self.values[value] += 1
            self.counts[message.key().decode()][int(counted)] += 1
        return self.count >= number

    def has_all(self) -> bool:
        """A part of it; whether all was read."""
        self.read(0)
        return len(self._ended) == PARTITIONS

    def close(self) -> None:
        """Read no more."""
        self._consumer.close()


class Input:
    """Records at a steady pace, as far as they are due, written to the broker directly."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.count = self.due = 0
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self.count < RECORDS:
            until = min(self.due, self.count + PER_SECOND // TICKS)
            for number in range(self.count, until):
                self._producer.produce(self._topic, f"v{number}", f"k{number % KEYS}")
            self.count = until
            self._producer.poll(1 / TICKS)
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
def killing(*instances: StreamsInstance) -> Iterator[None]:
    """None of them stays."""
    try:
        yield
    finally:
        for one in instances:
            one.kill()


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
        stack.enter_context(killing(*instances))
        given = Input(kafka_broker.address, source)

        def counted(number: int) -> None:
            wait_until(lambda: output.read(number), RECOVERY_S, f"{number} records counted")

        victims = [instances[0], gateways[0], coordinators, instances[1], gateways[1]]
        for number in range(KILLS):
            given.due = RECORDS * (number + 1) // KILLS
            # it dies while more is to be done
            counted(given.due - RECORDS // KILLS * 2 // 3)
            victims[number % len(victims)].restart()
            counted(given.due)
        given.wait()
        for instance in instances:
            instance.close()
        output.close()
    anew = Output(kafka_broker.address, target)
    wait_until(anew.has_all, RECOVERY_S, "all that was written")
    anew.close()
    assert anew.values == dict.fromkeys((f"v{number}" for number in range(RECORDS)), 1)
    each = dict.fromkeys(range(1, RECORDS // KEYS + 1), 1)
    assert anew.counts == {f"k{number}": each for number in range(KEYS)}
