"""Groups in known trouble, made on a real broker: each has a topic of its own, into which records
flow, and offsets that a thread stores as a group in that trouble would.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
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


@dataclass(frozen=True)
class Situation:
    """What a group stores in each tick, where it begins, and how many records come."""

    following: Next
    begins: int = BEFORE // 2
    per_tick: int = RECORDS_PER_TICK


def slow_by(seconds: float) -> Next:
    """Always so far behind."""
    behind = int(seconds / TICK_S) * RECORDS_PER_TICK
    return lambda tick, end, stored: max(stored, end - behind)


def back_at(tick_back: int, before: Next) -> Next:
    """As `before` until then, back at the beginning, and from there on slowly."""

    def following(tick: int, end: int, stored: int) -> int | None:
        if tick < tick_back:
            return before(tick, end, stored)
        if tick == tick_back:
            return 0
        return stored + RECORDS_PER_TICK // 2 if tick % 8 == 0 else None

    return following


def back_and_again(tick_back: int, before: Next) -> Next:
    """As `before`, but for four ticks, in which it is where it was a while ago."""

    def following(tick: int, end: int, stored: int) -> int | None:
        if tick_back <= tick < tick_back + 4:
            return max(0, stored - 1) if tick > tick_back else max(0, stored - 200)
        return before(tick, end, stored)

    return following


def up_to_date(tick: int, end: int, stored: int) -> int:
    """Always at the end."""
    return end


SITUATIONS = {
    "healthy": Situation(up_to_date),
    "delayed": Situation(slow_by(4.0)),
    "stopped": Situation(lambda tick, end, stored: None),
    "stalled": Situation(lambda tick, end, stored: stored),
    "rewound": Situation(back_at(20, up_to_date)),
    "behind": Situation(lambda tick, end, stored: stored + 1),
}


@dataclass
class Made:
    """A group in a situation."""

    group: str
    tp: TopicPartition
    situation: Situation
    stored: int
    end: int = 0
    store: Callable[[int], None] = field(default=lambda offset: None)


class Situations:
    """Records and commits of all of them, on one thread."""

    def __init__(self, broker: KafkaBroker, made: dict[str, Made]) -> None:
        self.broker = broker
        self.made = made
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._producer = KafkaProducer(bootstrap_servers=broker.address, acks="all", linger_ms=0)
        self._add(lambda situation: BEFORE)
        for one in made.values():
            one.store(one.stored)

    def __enter__(self) -> Situations:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30)
        self._producer.close()

    def _add(self, count: Callable[[Situation], int]) -> None:
        sent = [
            self._producer.send(one.tp.topic, b"x", partition=one.tp.partition)
            for one in self.made.values()
            for _ in range(count(one.situation))
        ]
        self._producer.flush(30)
        for future in sent:
            future.get(30)
        for one in self.made.values():
            one.end += count(one.situation)

    def _run(self) -> None:
        tick = 0
        while not self._over.wait(TICK_S):
            tick += 1
            self._add(lambda situation: situation.per_tick)
            for one in self.made.values():
                offset = one.situation.following(tick, one.end, one.stored)
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
    broker: KafkaBroker, hosts: str, wanted: Mapping[str, Situation], in_kafka: bool = False
) -> Iterator[Situations]:
    """Groups in these situations, while the block runs."""
    made = {}
    with world(hosts) as here, KafkaGroups((broker.address,)) as groups:
        here.client.ensure_path(here.layout.groups_root)
        for name, situation in wanted.items():
            topic = create_topic(broker.address, unique(name), 1)
            tp = TopicPartition(topic, 0)
            one = Made(unique(name), tp, situation, situation.begins)
            one.store = _in_kafka(groups, one) if in_kafka else _in_zookeeper(here, one)
            made[name] = one
        with Situations(broker, made) as running:
            yield running
