"""`python -m tests.sim`: run seeds of fault mixes, print what happened, write
build/reports/sim-<mix>.json, end with 1 if anything was violated or a floor was missed.

    python -m tests.sim --seeds 2000 --fresh          2,000 seeds of the default mix that nobody has
                                                      run before
    python -m tests.sim --mix all --seeds 2000        of every mix (--list-mixes)
    python -m tests.sim --seeds 500 --variant NAME    does a weakened system get caught?
                                                      (--list-variants)
    python -m tests.sim --replay --seeds 100 --fresh  every run's journals are replayed, not only a
                                                      sample's
    python -m tests.sim --trace 4711                  what happens in one seed, to read
    python -m tests.sim --digest --seeds 20           one hash per seed: equal everywhere, whatever
                                                      PYTHONHASHSEED is
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import secrets
import statistics
import sys
import time
from collections import Counter
from itertools import zip_longest
from pathlib import Path

from tests.sim import coverage
from tests.sim.mixes import DEFAULT, MIXES
from tests.sim.runner import Totals, digest, run_many, run_seed
from tests.sim.variants import VARIANTS

REPORTS = Path("build/reports")
SEEDS_FILE = Path(__file__).parent / "seeds.txt"
FRESH_SEEDS_MAX = 2**40
VIOLATING_SEEDS_SHOWN_MAX = 20
INTERRUPTED_STATUS = 130


def _three(values: list[int]) -> dict[str, float]:
    return {
        "n": len(values),
        "min": min(values, default=0),
        "median": statistics.median(values) if values else 0,
        "max": max(values, default=0),
    }


def _print_table(totals: Totals) -> None:
    steps, took = _three(totals.steps), _three(totals.seed_ms)
    print(
        f"seeds {totals.seeds}, steps min/median/max"
        f" {steps['min']}/{steps['median']:.0f}/{steps['max']}, ms of processor time a seed"
        f" {took['min']}/{took['median']:.0f}/{took['max']}"
    )
    print(
        f"simulated {totals.simulated_ms / 3_600_000:.1f} h, {totals.transactions} transactions,"
        f" {totals.commands} commands, {totals.evictions} evictions"
    )
    _print_counts("faults fired", totals.faults)
    _print_counts("what the journals told", totals.happened)
    for table, rows in coverage.tables().items():
        hit = sum(1 for row in rows if totals.covered[row])
        if (table == coverage.LED) != (totals.mix == coverage.LED_MIX):
            continue
        print(
            f"transitions of {table}: {hit} of {len(rows)} covered"
            + (
                ""
                if hit == len(rows)
                else f"; never taken: {', '.join(r for r in rows if not totals.covered[r])}"
            )
        )
    print(
        f"{totals.replayed_alike} of {totals.replayed_seeds} journals replay to identical commands"
        f" ({totals.replayed.terms} terms, {totals.replayed.inputs} inputs,"
        f" {totals.replayed.writes} writes of coordinators)"
    )
    print(f"violating seeds: {len(totals.violations)}")
    for seed, what in sorted(totals.violations.items())[:VIOLATING_SEEDS_SHOWN_MAX]:
        print(f"  {totals.mix} {seed}: {what[0]}")


def _print_counts(title: str, counts: Counter[str]) -> None:
    print(f"{title}:")
    items = [f"{name:<44}{count:>9}" for name, count in sorted(counts.items())]
    for left, right in zip_longest(items[::2], items[1::2], fillvalue=""):
        print(f"  {left}   {right}".rstrip())


def _report_path(mix: str) -> Path:
    return REPORTS / f"sim-{mix}.json"


def _write_report(totals: Totals, arguments: argparse.Namespace, took_s: float) -> None:
    REPORTS.mkdir(parents=True, exist_ok=True)
    rows = {
        table: {row: totals.covered[row] for row in rows}
        for table, rows in coverage.tables().items()
    }
    document = {
        "mix": totals.mix,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "system": platform.platform(),
        "variant": arguments.variant,
        "seconds": round(took_s, 1),
        "seeds": totals.seeds,
        "simulated_ms": totals.simulated_ms,
        "transactions": totals.transactions,
        "commands": totals.commands,
        "evictions": totals.evictions,
        "faults": dict(totals.faults),
        "happened": dict(totals.happened),
        "floors": totals.floors(),
        "floors_missed": totals.missed(),
        "steps": _three(totals.steps),
        "seed_ms": _three(totals.seed_ms),
        "covered": rows,
        "replayed": {
            "journals": totals.replayed_seeds,
            "identical": totals.replayed_alike,
            "terms": totals.replayed.terms,
            "inputs": totals.replayed.inputs,
            "writes": totals.replayed.writes,
        },
        "violations": {str(seed): what for seed, what in totals.violations.items()},
    }
    _report_path(totals.mix).write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


def _trace(seed: int, variant: str, mix: str) -> int:
    result = run_seed(seed, variant, tracing=True, mix=mix)
    print("\n".join(result.lines))
    for violation in result.violations:
        print(f"VIOLATION {violation}")
    return 1 if result.violations else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.sim",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--mix", default=DEFAULT, choices=[*MIXES, "all"], help="which faults")
    parser.add_argument("--list-mixes", action="store_true")
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--fresh", action="store_true", help="start at a random seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--variant", default="", choices=["", *VARIANTS], help="run a weakened system"
    )
    parser.add_argument("--list-variants", action="store_true")
    parser.add_argument("--stop-at-first", action="store_true", help="end at the first violation")
    parser.add_argument(
        "--replay",
        action="store_true",
        help="replay the journals of every run and compare the commands",
    )
    parser.add_argument("--digest", action="store_true", help="print a hash of each seed's trace")
    parser.add_argument("--trace", type=int, metavar="SEED", help="print what happens in one seed")
    return parser.parse_args()


def _run(mix: str, start: int, arguments: argparse.Namespace) -> bool:
    """Run the seeds of one mix; True when nothing was violated and no floor missed."""
    print(
        f"mix {mix}, seeds {start}..{start + arguments.seeds - 1}"
        + (f", variant {arguments.variant}" if arguments.variant else ""),
        flush=True,
    )
    totals, began = Totals(mix), time.perf_counter()
    for result, took_ms, covered in run_many(
        list(range(start, start + arguments.seeds)),
        arguments.variant,
        arguments.jobs,
        mix,
        arguments.replay,
    ):
        totals.add(result, took_ms, covered)
        if sys.stderr.isatty():
            print(
                f"\r{totals.seeds}/{arguments.seeds} seeds, {len(totals.violations)} violating",
                end="",
                file=sys.stderr,
                flush=True,
            )
        if arguments.stop_at_first and totals.violations:
            break
    took_s = time.perf_counter() - began
    _print_table(totals)
    missed = [] if arguments.variant else totals.missed()
    for line in missed:
        print(f"floor missed: {line}")
    _write_report(totals, arguments, took_s)
    print(f"{took_s:.1f} s; report in {_report_path(mix)}", flush=True)
    return not totals.violations and not missed


def main() -> int:
    """The command."""
    arguments = _arguments()
    if arguments.list_variants:
        for variant in VARIANTS.values():
            print(f"{variant.name:<28}{variant.mix:<14}{variant.removes}")
        return 0
    if arguments.list_mixes:
        for mix in MIXES.values():
            print(f"{mix.name:<14}{mix.about}")
        return 0
    mixes = list(MIXES) if arguments.mix == "all" else [arguments.mix]
    if arguments.trace is not None:
        return _trace(arguments.trace, arguments.variant, mixes[0])
    start = secrets.randbelow(FRESH_SEEDS_MAX) if arguments.fresh else arguments.start
    if arguments.digest:
        for seed in range(start, start + arguments.seeds):
            print(seed, digest(seed, mixes[0]))
        return 0
    well = [_run(mix, start, arguments) for mix in mixes]
    return 0 if all(well) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("Interrupted: no report is written.", file=sys.stderr)
        sys.exit(INTERRUPTED_STATUS)
