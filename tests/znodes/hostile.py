"""`python -m tests.znodes.hostile --inputs 100000`: hostile znodes through every decoder, and
through whole coordinators and members whose ZooKeeper answers with them.

Prints a table and writes build/reports/hostile.json: inputs, the slowest one in ms of processor
time, the growth of the peak memory in MiB, exceptions. Ends with 1 if anything raised, if one input
took longer than `INPUT_MS_MAX`, or if the memory grew by more than `GROWTH_MIB_MAX`. The same seed
gives the same inputs.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import resource
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.znodes.hostile_world import HostileCoordinator, HostileMember
from tests.znodes.mutants import mutant, name
from tests.znodes.seeds import DECODERS
from zkcoord.core.model import Malformed
from zkcoord.znodes.paths import Layout

REPORT = Path("build/reports/hostile.json")
INPUT_MS_MAX = 1_000.0
GROWTH_MIB_MAX = 64.0
EXAMPLE_CHARS_MAX = 300
NS_PER_MS = 1e6

Feed = Callable[[random.Random], tuple[int, str]]
"""Takes a source, feeds it at least one input, and says how many, and one of them."""


@dataclass
class Row:
    """What one receiver of inputs did with them."""

    receiver: str
    inputs: int = 0
    slowest_ms: float = 0.0
    slowest: str = ""
    refused: int = 0
    exceptions: int = 0
    example: str = ""


def decoder(kind: str, row: Row) -> Feed:
    """One decoder; a refusal must be printable and short."""
    decode, seeds = DECODERS[kind]

    def feed(rng: random.Random) -> tuple[int, str]:
        data = mutant(rng, seeds)
        found = decode(data, name(rng)) if rng.random() < 0.1 else decode(data)
        if isinstance(found, Malformed):
            row.refused += 1
            assert found.reason and found.reason.isprintable() and len(found.reason) < 1_000, found
        return 1, repr(data[:EXAMPLE_CHARS_MAX])

    return feed


def places(row: Row) -> Feed:
    """Paths: what a watch event may name."""

    def feed(rng: random.Random) -> tuple[int, str]:
        layout = rng.choice((Layout.DRAFT, Layout.ISOLATED))
        root = rng.choice((layout.groups_root, layout.home, layout.topics_root, "/", ""))
        path = "/".join([root, *(name(rng) for _ in range(rng.randrange(6)))])
        layout.locate(path)
        return 1, path[:EXAMPLE_CHARS_MAX]

    return feed


def receivers() -> dict[str, tuple[float, Callable[[Row], Feed]]]:
    """Everything that takes what ZooKeeper holds, with its share of the inputs."""
    share = 0.6 / (len(DECODERS) + 1)
    found: dict[str, tuple[float, Callable[[Row], Feed]]] = {
        kind: (share, lambda row, kind=kind: decoder(kind, row)) for kind in DECODERS
    }  # type: ignore[misc]
    found["paths"] = (share, places)
    for layout in (Layout.DRAFT, Layout.ISOLATED):
        found[f"coordinator, {layout.name}"] = (
            0.1,
            lambda row, layout=layout: HostileCoordinator(layout).feed,
        )  # type: ignore[misc]
        found[f"member, {layout.name}"] = (
            0.1,
            lambda row, layout=layout: HostileMember(layout).feed,
        )  # type: ignore[misc]
    return found


def run(inputs: int, seed: int) -> tuple[list[Row], float]:
    """Feed everything; a row for each receiver, and the growth of the peak memory in MiB after a
    hundredth of it (by then everything is imported and cached).
    """
    rows = [Row(receiver) for receiver in receivers()]
    feeds = [(row, share, make(row)) for row, (share, make) in zip(rows, receivers().values())]
    warm = 0.0
    for part, of in ((1, 100), (99, 100)):
        for row, share, feed in feeds:
            _feed(
                row,
                feed,
                row.inputs + max(1, round(inputs * share * part / of)),
                random.Random(f"{seed}-{row.receiver}-{part}"),
            )
        warm = warm or _peak_mib()
    return rows, _peak_mib() - warm


def _feed(row: Row, feed: Feed, until: int, rng: random.Random) -> None:
    while row.inputs < until:
        began = time.thread_time_ns()
        try:
            count, example = feed(rng)
        except Exception:  # whatever it is, it is a finding
            row.exceptions += 1
            row.example = row.example or traceback.format_exc()[-2_000:]
            count, example = 1, ""
        spent_ms = (time.thread_time_ns() - began) / NS_PER_MS
        row.inputs += count
        if spent_ms > row.slowest_ms:
            row.slowest_ms, row.slowest = spent_ms, example


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def verdict(rows: list[Row], growth_mib: float) -> list[str]:
    """What is wrong; nothing, if nothing is."""
    wrong = [
        f"{row.receiver}: {row.exceptions} inputs raised, for example:\n{row.example}"
        for row in rows
        if row.exceptions
    ]
    wrong += [
        f"{row.receiver}: one input took {row.slowest_ms:.0f} ms, more than {INPUT_MS_MAX:.0f}:"
        f" {row.slowest}"
        for row in rows
        if row.slowest_ms > INPUT_MS_MAX
    ]
    return wrong + (
        [f"the peak memory grew by {growth_mib:.0f} MiB, more than {GROWTH_MIB_MAX:.0f}"]
        if growth_mib > GROWTH_MIB_MAX
        else []
    )


def main(argv: list[str]) -> int:
    """Feed, print, write."""
    parser = argparse.ArgumentParser(
        description=(
            "Hostile znodes through every decoder and through whole coordinators and members."
        )
    )
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    logging.disable(logging.CRITICAL)
    began = time.monotonic()
    rows, growth_mib = run(options.inputs, options.seed)
    wrong = verdict(rows, growth_mib)
    print(f"{'receiver':<24}{'inputs':>8}{'refused':>9}{'slowest ms':>12}{'exceptions':>12}")
    for row in rows:
        print(
            f"{row.receiver:<24}{row.inputs:>8}{row.refused:>9}{row.slowest_ms:>12.1f}{row.exceptions:>12}"
        )
    total = sum(row.inputs for row in rows)
    print(
        f"{total} inputs in {time.monotonic() - began:.0f} s, slowest"
        f" {max(row.slowest_ms for row in rows):.1f} ms, peak memory +{growth_mib:.1f} MiB,"
        f" {sum(row.exceptions for row in rows)} exceptions"
    )
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "inputs": total,
        "seed": options.seed,
        "slowest_ms": max(row.slowest_ms for row in rows),
        "memory_growth_mib": growth_mib,
        "exceptions": sum(row.exceptions for row in rows),
        "receivers": [asdict(row) for row in rows],
        "wrong": wrong,
    }
    REPORT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
