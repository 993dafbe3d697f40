"""What the tests on a real broker share: a coordinator in this process, and small helpers around
consumers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from kafka.structs import TopicPartition

from consumer.api.kafka_consumer import KafkaConsumer
from tests.harness.wait import wait_until
from zkcoord.coordinator.driver import CoordinatorDriver
from zkcoord.core.options import CoordinatorOptions
from zkcoord.zk.clock import boot_ms, wall_ms
from zkcoord.zk.kazoo_port.session import KazooEnsemble
from zkcoord.zk.loop import Loop
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.paths import Layout

PATIENCE_S = 90.0
Taken = dict[tuple[str, int], list[int]]


@contextmanager
def coordinator(
    hosts: str, options: CoordinatorOptions | None = None, layout: Layout = Layout.DRAFT
) -> Iterator[CoordinatorDriver]:
    """A coordinator on a thread of this process."""
    loop = Loop("coordinator")
    ensemble = KazooEnsemble(ZkOptions(hosts, session_timeout_ms=6_000), loop.post)
    driver = CoordinatorDriver(
        ensemble, layout, options or CoordinatorOptions(), boot_ms, wall_ms, lambda record: None
    )
    loop.attach(driver)
    loop.post(driver.start)
    loop.start()
    try:
        yield driver
    finally:
        loop.post(driver.stop)
        wait_until(
            lambda: driver.finished or loop.failure is not None, PATIENCE_S, "the coordinator's end"
        )
        loop.stop()
        loop.join(PATIENCE_S)
        assert loop.failure is None


def take(consumer: KafkaConsumer, taken: Taken, timeout_ms: float = 50) -> int:
    """One poll; its offsets go into `taken`."""
    batch = consumer.poll(timeout_ms)
    for tp, records in batch.items():
        taken.setdefault(tuple(tp), []).extend(r.offset for r in records)
    return sum(map(len, batch.values()))


def drain(consumers: Iterable[KafkaConsumer], taken: Taken, total: int) -> None:
    """Poll all until `total` records are there."""
    listed = list(consumers)

    def enough() -> bool:
        for consumer in listed:
            take(consumer, taken)
        return sum(map(len, taken.values())) >= total

    wait_until(enough, PATIENCE_S, f"{total} records")


def iterated(consumer: KafkaConsumer, total: int) -> list[Any]:
    """Iterate, again after each `consumer_timeout_ms`, until there are `total` records (or
    more).
    """
    found: list[Any] = []
    wait_until(
        lambda: found.extend(consumer) or len(found) >= total, PATIENCE_S, f"{total} records"
    )
    return found


def following(consumer: KafkaConsumer) -> Any:
    """The next record of iteration, however often it ends by `consumer_timeout_ms` before."""
    return wait_until(lambda: next(consumer, None), PATIENCE_S, "the next record")


def settled(
    consumers: Iterable[KafkaConsumer],
    topic: str,
    partitions: int,
    taken: Taken | None = None,
    timeout_s: float = PATIENCE_S,
) -> None:
    """Poll all until they share the topic's partitions, each owned once and evenly."""
    listed = list(consumers)
    wanted = {TopicPartition(topic, n) for n in range(partitions)}
    into: Taken = {} if taken is None else taken

    def shared() -> bool:
        for consumer in listed:
            take(consumer, into, 20)
        owned = [consumer.assignment() for consumer in listed]
        sizes = sorted(map(len, owned))
        return (
            set().union(*owned) == wanted and sum(sizes) == partitions and sizes[-1] - sizes[0] <= 1
        )

    wait_until(
        shared, timeout_s, f"{partitions} partitions of {topic} shared by {len(listed)} consumers"
    )


def consumer(hosts: str, group: str, *topics: str, **configs: Any) -> KafkaConsumer:
    """A consumer of the group that begins at the first record."""
    return KafkaConsumer(
        *topics,
        **{
            "zookeeper_connect": hosts,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "zookeeper_session_timeout_ms": 6_000,
            **configs,
        },
    )


def whole(taken: Taken, partitions: int, per_partition: int, topic: str) -> None:
    """Every record exactly once and in order."""
    assert {k: v for k, v in taken.items()} == {
        (topic, n): list(range(per_partition)) for n in range(partitions)
    }
