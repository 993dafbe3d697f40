"""Records per second through Spark into the noop sink, all columns: zkcoord's source and Spark's
own in turn, on the same broker.

Each source has a session of its own, warm, for the whole part; the other one idles meanwhile. A
sample is one query that reads a topic from its first record in batches of the same size; its figure
is the median of its batches by `addBatch`, without the first. The samples of a round follow each
other, in the opposite order each time, and give a quotient.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.bench.consumer_apps import alternating
from tests.bench.figures import Bar, Row, Section
from tests.bench.rig import Rig
from tests.bench.spark_rig import (
    CONFLUENT,
    JVM,
    C,
    InCluster,
    SparkApp,
    fill,
    medians,
    order_of,
    sessions,
)
from zkcoord.stack.java import Java

BATCHES = 4
WARM_ROUNDS = 2
ROUNDS_WITHOUT_BARS = 2


@dataclass(frozen=True)
class Setting:
    """One topic: how it is called, records of one batch, their size, the codec; and the bars of the
    sources with checksums verified.
    """

    name: str
    rows: int
    size: int
    codec: str
    bars: Mapping[str, float]


SETTINGS = (
    Setting("100 B", 800_000, 100, "none", {C: 1.25, CONFLUENT: 0.5}),
    Setting("1 KB", 160_000, 1_000, "none", {C: 1.0}),
    Setting("lz4", 800_000, 100, "lz4", {C: 1.0}),
    Setting("zstd", 800_000, 100, "zstd", {C: 1.0}),
)
VERIFIED = "checksums verified"
CHECKS = {VERIFIED: "true", "checksums ignored": "false"}


def sample(
    rig: Rig, app: SparkApp, side: str, topic: str, rows: int, check: str, plain: bool
) -> float:
    """One query."""
    told = app.order(
        "read",
        "batches",
        rows=rows * BATCHES,
        **order_of(
            rig,
            side,
            topic,
            plain,
            **{
                "maxOffsetsPerTrigger": rows,
                "startingOffsets": "earliest",
                "kafka.check.crcs": check,
            },
        ),
    )
    return statistics.median(medians(told["batches"]))


def compare(
    rig: Rig,
    apps: Mapping[str, SparkApp],
    section: Section,
    setting: Setting,
    topic: str,
    checks: str,
    rounds: int,
    plain: bool,
) -> None:
    """Rounds of one setting."""
    sides = (JVM, *setting.bars)
    found: dict[str, list[float]] = {side: [] for side in sides}
    for number, side in alternating(sides, rounds):
        found[side].append(
            sample(rig, apps[side], side, topic, setting.rows, CHECKS[checks], plain)
        )
        if all(len(values) == number + 1 for values in found.values()):
            rig.say(
                f"  throughput, {setting.name}, {checks}: round {number + 1} of {rounds}: "
                + ", ".join(f"{name} {values[-1]:,.0f}/s" for name, values in found.items())
            )
    for side, bar in setting.bars.items():
        quotients = [ours / theirs for ours, theirs in zip(found[side], found[JVM])]
        section.rows.append(
            Row(
                f"{side} by {JVM}, {setting.name}",
                checks,
                quotients,
                (Bar("median", bar, True),) if checks == VERIFIED else (),
                "x",
            )
        )
    for side in sides:
        section.rows.append(Row(f"{side}, {setting.name}", checks, found[side], unit="records/s"))


def run(
    rig: Rig,
    sections: list[Section],
    rounds: int,
    java: Java,
    plain: bool = False,
    settings: Sequence[Setting] = SETTINGS,
    where: InCluster | None = None,
) -> None:
    """The section."""
    at = "local[2]" if where is None else "2 executors of a cluster"
    section = Section(
        "throughput", f"Throughput through Spark, 8 partitions, {at}, all columns, noop sink"
    )
    sections.append(section)
    if plain:
        section.notes.append("zkcoord's reader alone, without a group")
    with rig.coordinators(), sessions(rig, java, (JVM, C, CONFLUENT), where=where) as apps:
        for setting in settings:
            topic = fill(rig, setting.rows * BATCHES, setting.size, setting.codec)
            for side in (JVM, *setting.bars):
                for _ in range(WARM_ROUNDS if setting is settings[0] else 1):
                    sample(rig, apps[side], side, topic, setting.rows, "true", plain)
            for checks in CHECKS:
                section.attempt(
                    f"{setting.name}, {checks}",
                    lambda: compare(
                        rig,
                        apps,
                        section,
                        setting,
                        topic,
                        checks,
                        rounds if checks == VERIFIED else min(rounds, ROUNDS_WITHOUT_BARS),
                        plain,
                    ),
                )
