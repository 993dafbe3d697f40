"""How fast records are handed out to a handler that does nothing, and what one costs in processor
time: zkcoord's consumer and kafka-python's group consumer in turn.

Each sample is a new process with a new group that reads a topic from its first record; the clocks
(monotonic, and the process's own processor time, all threads) begin after the first `WARM_SHARE` of
the records. The samples of a pair follow each other, in the opposite order each time, and a pair
gives a quotient: what else the machine does falls on both. librdkafka reads ahead in threads of its
own, as much as its queue holds, so its samples are `RDKAFKA_TIMES` longer.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka import KafkaProducer

from tests.bench.consumer_apps import (
    OURS,
    THEIRS,
    Apps,
    alternating,
    configs,
    installed,
    running_apps,
)
from tests.bench.figures import Bar, Row, Section
from tests.bench.rig import Rig

PARTITIONS = 8
SIZES = {100: 500_000, 1_000: 200_000}  # seconds, not tenths, with checksums computed natively
RDKAFKA_TIMES = {100: 4, 1_000: 3}
WAYS = ("poll", "iterate")
RDKAFKA = "librdkafka"
WARM_SHARE = 0.1
RATE_BAR, RDKAFKA_BAR, CPU_BAR = 0.97, 3.0, 1.05
FLUSH_S = 60.0
BATCH_BYTES = 64 * 1024
QUEUED_MAX = 50_000
MICRO = 1e6


@dataclass
class Samples:
    """Of one side: records per second, and microseconds of processor time per record."""

    per_s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)


def has_librdkafka() -> bool:
    """Can `data_client="librdkafka"` be measured?"""
    return installed(["data_client"]) and importlib.util.find_spec("confluent_kafka") is not None


def fill(kafka: str, topic: str, size: int, count: int) -> None:
    """So many records of so many bytes, evenly; by librdkafka where it is there, since a million
    takes minutes without.
    """
    value = b"x" * size
    if importlib.util.find_spec("confluent_kafka") is None:
        slow = KafkaProducer(bootstrap_servers=kafka, acks=1, linger_ms=50, batch_size=BATCH_BYTES)
        for number in range(count):
            slow.send(topic, value=value, partition=number % PARTITIONS)
        slow.flush(timeout=FLUSH_S)
        slow.close(timeout=FLUSH_S)
        return
    fast = importlib.import_module("confluent_kafka").Producer(
        {
            "bootstrap.servers": kafka,
            "acks": 1,
            "linger.ms": 50,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.messages": QUEUED_MAX,
        }
    )
    for number in range(count):
        fast.produce(topic, value, partition=number % PARTITIONS)
        if number % QUEUED_MAX == QUEUED_MAX - 1:
            fast.flush(FLUSH_S)
    assert fast.flush(FLUSH_S) == 0, "the broker does not take the records"


def sample(
    rig: Rig, apps: Apps, side: str, topic: str, size: int, way: str, count: int, into: Samples
) -> None:
    """One process, to its end."""
    total = count * RDKAFKA_TIMES.get(size, 1) if side == RDKAFKA else count
    app = apps.app(
        rig.unique(f"{side}-"),
        kind=THEIRS if side == THEIRS else OURS,
        topic=topic,
        way=way,
        warm=int(total * WARM_SHARE),
        total=total,
        configs=configs(side, rig.zookeeper, rig.kafka, rig.unique("throughput-")),
    )
    apps.wait_line(app, "closed")
    apps.wait_ended(app)
    done = app.of("done")[0]
    into.per_s.append(done["records"] / done["seconds"])
    into.cpu_us.append(done["cpu_s"] / done["records"] * MICRO)


def setting(
    rig: Rig,
    apps: Apps,
    section: Section,
    topic: str,
    size: int,
    way: str,
    total: int,
    pairs: int,
    sides: tuple[str, ...],
) -> None:
    """One size of records and one way to ask for them."""
    found = {side: Samples() for side in sides}
    for number, side in alternating(sides, pairs):
        sample(rig, apps, side, topic, size, way, total, found[side])
        if side == (sides[-1] if number % 2 == 0 else sides[0]):
            rig.say(
                f"  throughput, {size} bytes, {way}: round {number + 1} of {pairs}: "
                + ", ".join(
                    f"{name} {of.per_s[-1]:,.0f}/s {of.cpu_us[-1]:.1f} us"
                    for name, of in found.items()
                )
            )
    theirs = found[THEIRS]
    label = f"{size} bytes, {way}"
    for side in sides:
        if side == THEIRS:
            continue
        mine = found[side]
        name = label if side == OURS else f"{label}, {side}"
        section.rows.append(
            Row(
                f"throughput by kafka-python's, {name}",
                "pairs",
                [a / b for a, b in zip(mine.per_s, theirs.per_s)],
                (Bar("median", RATE_BAR if side == OURS else RDKAFKA_BAR, True),),
                "x",
            )
        )
        section.rows.append(
            Row(
                f"throughput, {name}",
                "after the warm-up",
                mine.per_s,
                unit="records/s",
                peer=theirs.per_s,
            )
        )
        section.rows.append(
            Row(
                f"processor time per record by kafka-python's, {name}",
                "pairs",
                [a / b for a, b in zip(mine.cpu_us, theirs.cpu_us)],
                (Bar("median", CPU_BAR),) if side == OURS else (),
                "x",
            )
        )
        section.rows.append(
            Row(
                f"processor time per record, {name}",
                "of the whole process",
                mine.cpu_us,
                unit="us",
                peer=theirs.cpu_us,
            )
        )


def run(rig: Rig, sections: list[Section], rounds: int, sizes: Mapping[int, int]) -> None:
    """The section."""
    section = Section(
        "throughput",
        f"Throughput of one consumer, {PARTITIONS} partitions, shipped defaults, a handler that"
        " does nothing",
    )
    sections.append(section)
    both = (OURS, THEIRS)
    third = has_librdkafka()
    if not third:
        section.notes.append(
            'data_client="librdkafka": not measured, confluent-kafka is not installed'
        )
    with rig.coordinators(), running_apps(rig.folder / "throughput") as apps:
        for size, total in sizes.items():
            topic = rig.topic(PARTITIONS)
            fill(rig.kafka, topic, size, total * (RDKAFKA_TIMES.get(size, 1) if third else 1))
            for way in WAYS:
                section.attempt(
                    f"{size} bytes, {way}",
                    lambda: setting(
                        rig,
                        apps,
                        section,
                        topic,
                        size,
                        way,
                        total,
                        rounds,
                        (*both, RDKAFKA) if third else both,
                    ),
                )
