"""Groups in known trouble, made on a real broker: each has a topic of its own, into which records
flow, and offsets that a thread stores as a group in that trouble would.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition

from tests.admin.world import World, world
from tests.harness.kafka import create_topic, unique
from zkcoord.admin.kafka_groups import KafkaGroups
from zkcoord.core.model import TopicPartition
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes import codec

TICK_S = 0.25
RECORDS_PER_TICK = 20
BEFORE = 200

Next = Callable[[int, int, int], int | None]
"""(tick, end, what is stored) -> what to store, None for no commit."""


def slow_by(seconds: float) -> Next:
    """Always so far behind."""
    behind = int(seconds / TICK_S) * RECORDS_PER_TICK
    return lambda tick, end, stored: max(stored, end - behind)


def back_at(tick_back: int) -> Next:
    """Up to date until then, back at the beginning, and from there on slowly."""

    def following(tick: int, end: int, stored: int) -> int | None:
        if tick < tick_back:
            return end
        if tick == tick_back:
            return 0
        return stored + RECORDS_PER_TICK // 2 if tick % 8 == 0 else None

    return following


SITUATIONS: dict[str, Next] = {
    "healthy": lambda tick, end, stored: end,
    "delayed": slow_by(4.0),
    "stopped": lambda tick, end, stored: None,
    "stalled": lambda tick, end, stored: stored,
    "rewound": back_at(20),
    "behind": lambda tick, end, stored: stored + 1,
}


@dataclass
class Made:
    """A group in a situation."""

    group: str
    tp: TopicPartition
    following: Next
    end: int = 0
    stored: int = BEFORE // 2
    store: Callable[[int], None] = field(default=lambda offset: None)


class Situations:
    """Records and commits of all of them, on one thread."""

    def __init__(self, broker: KafkaBroker, made: dict[str, Made]) -> None:
        self.broker = broker
        self.made = made
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._producer = KafkaProducer(bootstrap_servers=broker.address, acks="all", linger_ms=0)
        self._add(BEFORE)
        for one in made.values():
            one.store(one.stored)

    def __enter__(self) -> Situations:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30)
        self._producer.close()

    def _add(self, count: int) -> None:
        sent = [
            self._producer.send(one.tp.topic, b"x", partition=one.tp.partition)
            for one in self.made.values()
            for _ in range(count)
        ]
        self._producer.flush(30)
        for future in sent:
            future.get(30)
        for one in self.made.values():
            one.end += count

    def _run(self) -> None:
        tick = 0
        while not self._over.wait(TICK_S):
            tick += 1
            self._add(RECORDS_PER_TICK)
            for one in self.made.values():
                offset = one.following(tick, one.end, one.stored)
                if offset is not None:
                    one.stored = offset
                    one.store(offset)

    def record_ms(self, tp: TopicPartition, offset: int) -> int:
        """The time that this record carries."""
        consumer = KafkaConsumer(bootstrap_servers=self.broker.address, group_id=None)
        try:
            partition = KafkaTopicPartition(*tp)
            consumer.assign([partition])
            consumer.seek(partition, offset)
            while True:
                for records in consumer.poll(1_000).values():
                    return int(records[0].timestamp)
        finally:
            consumer.close()


def _in_zookeeper(here: World, one: Made) -> Callable[[int], None]:
    path = here.layout.offset(one.group, one.tp)
    here.put(path, b"0")

    def store(offset: int) -> None:
        here.client.set(path, codec.encode_offset(offset))

    return store


def _in_kafka(groups: KafkaGroups, one: Made) -> Callable[[int], None]:
    return lambda offset: groups.commit(one.group, {one.tp: offset})


@contextmanager
def situations(
    broker: KafkaBroker, hosts: str, names: tuple[str, ...], in_kafka: bool = False
) -> Iterator[Situations]:
    """These situations, by name, while the block runs."""
    made = {}
    with world(hosts) as here, KafkaGroups((broker.address,)) as groups:
        here.client.ensure_path(here.layout.groups_root)
        for name in names:
            topic = create_topic(broker.address, unique(name), 1)
            one = Made(unique(name), TopicPartition(topic, 0), SITUATIONS[name])
            one.store = _in_kafka(groups, one) if in_kafka else _in_zookeeper(here, one)
            made[name] = one
        with Situations(broker, made) as running:
            yield running
