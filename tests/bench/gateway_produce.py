"""Producing through the gateway with acks=all, beside producing directly on the broker: how fast,
and how much later a single record is acknowledged.

Samples are processes, in alternating pairs as in `gateway_relay`. Throughput: librdkafka's
defaults, as fast as it goes. Latency: `PER_S` records a second, each sent at once; a pair gives the
difference of the two 99th percentiles.
"""

from __future__ import annotations

from tests.bench.consumer_apps import alternating
from tests.bench.figures import Bar, Row, Section, quantile
from tests.bench.gateway_place import DIRECT, SIDES, THROUGH, Place
from tests.bench.gateway_relay import WARM_SHARE, loads
from tests.bench.running import say
from tests.harness.kafka import create_topic, unique

PARTITIONS = 8
SIZES = {100: 2_000_000, 1_000: 600_000}
QUICK_SIZES = {100: 300_000, 1_000: 100_000}
PAIRS, QUICK_PAIRS = 5, 2
PER_S, LATENCY_S, QUICK_LATENCY_S = 200, 30, 8
LATENCY_SIZE = 1_000
RATIO, ADDED_MS = 0.9, 2.0


def throughput(place: Place, section: Section, size: int, total: int, pairs: int) -> None:
    """One size of records."""
    topic = create_topic(place.broker, unique("produce"), PARTITIONS)
    found: dict[str, list[float]] = {side: [] for side in SIDES}
    for number, side in alternating(SIDES, pairs):
        sizes = (str(size), str(int(total * WARM_SHARE)), str(total))
        (one,) = loads(("write", place.bootstrap(side), topic, *sizes))
        found[side].append(one["records"] / one["seconds"])
        if len(found[THROUGH]) == len(found[DIRECT]):
            rates = ", ".join(f"{name} {of[-1]:,.0f}/s" for name, of in found.items())
            say(f"  produce, {size} bytes: pair {number + 1} of {pairs}: {rates}")
    label = f"{size} bytes, acks=all"
    ratios = [a / b for a, b in zip(found[THROUGH], found[DIRECT])]
    section.rows += [
        Row(f"by direct, {label}", "pairs", ratios, (Bar("median", RATIO, True),), "x"),
        Row(f"throughput, {label}", THROUGH, found[THROUGH], unit="records/s"),
        Row(f"throughput, {label}", DIRECT, found[DIRECT], unit="records/s"),
    ]


def latency(place: Place, section: Section, seconds: int, pairs: int) -> None:
    """Of single records."""
    topic = create_topic(place.broker, unique("produce"), PARTITIONS)
    found: dict[str, list[list[float]]] = {side: [] for side in SIDES}
    for number, side in alternating(SIDES, pairs):
        pace = (str(LATENCY_SIZE), str(PER_S), str(seconds))
        (one,) = loads(("pace", place.bootstrap(side), topic, *pace))
        found[side].append(one["latencies"])
        if len(found[THROUGH]) == len(found[DIRECT]):
            shown = ", ".join(f"{name} {quantile(of[-1], 0.99):.1f}" for name, of in found.items())
            say(f"  produce: pair {number + 1} of {pairs}: 99th percentile in ms: {shown}")
    p99 = {side: [quantile(of, 0.99) for of in samples] for side, samples in found.items()}
    p50 = {side: [quantile(of, 0.5) for of in samples] for side, samples in found.items()}
    label = f"{PER_S} records of {LATENCY_SIZE} bytes a second"
    for name, of, bars in (("p99", p99, (Bar("median", ADDED_MS),)), ("median", p50, ())):
        added = [a - b for a, b in zip(of[THROUGH], of[DIRECT])]
        section.rows.append(Row(f"{name} of latency, added, {label}", "pairs", added, bars))
        section.rows += [
            Row(f"{name} of latency, {label}", side, of[side]) for side in (THROUGH, DIRECT)
        ]


def run(place: Place, sections: list[Section], quick: bool) -> None:
    """The section."""
    section = Section("produce", f"Producing, librdkafka, acks=all, {PARTITIONS} partitions")
    sections.append(section)
    pairs = QUICK_PAIRS if quick else PAIRS
    for size, total in (QUICK_SIZES if quick else SIZES).items():
        section.attempt(f"{size} bytes", lambda: throughput(place, section, size, total, pairs))
    seconds = QUICK_LATENCY_S if quick else LATENCY_S
    section.attempt("latency", lambda: latency(place, section, seconds, pairs))
