"""How fast one librdkafka consumer reads through the gateway beside itself directly on the broker,
and four at once; what a GB costs the gateway's process.

Each sample is a new process (or four, with groups of their own, begun together) that reads a topic
from its first record; its clock begins after the first `WARM_SHARE`. The samples of a pair follow
each other, in the opposite order each time, and a pair gives a quotient. Of four the rates are
added.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.consumer_apps import alternating
from tests.bench.consumer_throughput import PARTITIONS, fill
from tests.bench.figures import Bar, Row, Section
from tests.bench.gateway_place import DIRECT, SIDES, THROUGH, Place
from tests.bench.running import say
from tests.harness.kafka import create_topic, unique
from zkcoord.errors import UnavailableError

ROOT = Path(__file__).parents[2]
SIZES = {100: 4_000_000, 1_000: 1_000_000}
QUICK_SIZES = {100: 500_000, 1_000: 200_000}
PAIRS, QUICK_PAIRS = 5, 2
TOGETHER = (1, 4)
WARM_SHARE = 0.2
RATIO = 0.95
GB = 1e9
END_S = 300.0


def loads(*commands: Sequence[str]) -> list[dict[str, Any]]:
    """`gateway_load` processes that begin together, each to its end; what they found."""
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.bench.gateway_load", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for command in commands
    ]
    try:
        for process in running:
            assert process.stdin is not None and process.stdout is not None
            if process.stdout.readline().strip() != "ready":
                raise UnavailableError("a client could not connect")
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        said = [process.communicate(timeout=END_S)[0] for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    if not all(said):
        raise UnavailableError("a client ended before its time")
    return [json.loads(text) for text in said]


def rate(place: Place, side: str, topic: str, total: int, together: int) -> float:
    """Records per second of so many consumers."""
    warm = int(total * WARM_SHARE)
    found = loads(
        *(
            ("read", place.bootstrap(side), topic, unique("relay"), str(warm), str(total))
            for _ in range(together)
        )
    )
    return float(sum(one["records"] / one["seconds"] for one in found))


def setting(
    place: Place, section: Section, topic: str, size: int, total: int, together: int, pairs: int
) -> None:
    """One size of records and one number of consumers."""
    found: dict[str, list[float]] = {side: [] for side in SIDES}
    cpu: list[float] = []
    for number, side in alternating(SIDES, pairs):
        before = place.cpu_s()
        found[side].append(rate(place, side, topic, total, together))
        if side == THROUGH:
            cpu.append((place.cpu_s() - before) / (size * total * together / GB))
        if len(found[THROUGH]) == len(found[DIRECT]):
            rates = ", ".join(f"{name} {of[-1]:,.0f}/s" for name, of in found.items())
            say(f"  relay, {size} bytes, {together}: pair {number + 1} of {pairs}: {rates}")
    label = f"{size} bytes, {together} at once" if together > 1 else f"{size} bytes"
    ratios = [a / b for a, b in zip(found[THROUGH], found[DIRECT])]
    section.rows += [
        Row(f"by direct, {label}", "pairs", ratios, (Bar("median", RATIO, True),), "x"),
        Row(f"throughput, {label}", THROUGH, found[THROUGH], unit="records/s"),
        Row(f"throughput, {label}", DIRECT, found[DIRECT], unit="records/s"),
        Row(f"processor time per GB, {label}", "of the gateway", cpu, unit="s"),
    ]


def run(place: Place, sections: list[Section], quick: bool) -> None:
    """The section."""
    section = Section("relay", f"Relay throughput, librdkafka consumers, {PARTITIONS} partitions")
    sections.append(section)
    pairs = QUICK_PAIRS if quick else PAIRS
    for size, total in (QUICK_SIZES if quick else SIZES).items():
        topic = create_topic(place.broker, unique("relay"), PARTITIONS)
        say(f"  relay: {total:,} records of {size} bytes are written ...")
        fill(place.broker, topic, size, total)
        for together in TOGETHER:
            section.attempt(
                f"{size} bytes, {together}",
                lambda: setting(place, section, topic, size, total, together, pairs),
            )
