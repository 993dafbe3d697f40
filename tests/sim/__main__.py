"""`python -m tests.sim`: run seeds, print what happened, write build/reports/sim.json, end with 1 if anything was violated.

    python -m tests.sim --seeds 2000 --fresh          2,000 seeds that nobody has run before
    python -m tests.sim --seeds 500 --variant NAME    does a weakened system get caught?  (--list-variants)
    python -m tests.sim --trace 4711                  what happens in one seed, to read
    python -m tests.sim --digest --seeds 20           one hash per seed: equal everywhere, whatever PYTHONHASHSEED is
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
from pathlib import Path

from tests.sim import coverage
from tests.sim.runner import Totals, digest, run_many, run_seed
from tests.sim.variants import VARIANTS

REPORT = Path("build/reports/sim.json")
SEEDS_FILE = Path(__file__).parent / "seeds.txt"
FRESH_SEEDS_MAX = 2**40
VIOLATING_SEEDS_SHOWN_MAX = 20
INTERRUPTED_STATUS = 130


def _three(values: list[int]) -> dict[str, float]:
    return {"n": len(values), "min": min(values, default=0), "median": statistics.median(values) if values else 0, "max": max(values, default=0)}


def _print_table(totals: Totals) -> None:
    steps, took = _three(totals.steps), _three(totals.seed_ms)
    print(f"seeds {totals.seeds}, steps min/median/max {steps['min']}/{steps['median']:.0f}/{steps['max']}, ms a seed {took['min']}/{took['median']:.0f}/{took['max']}")
    print(f"simulated {totals.simulated_ms / 3_600_000:.1f} h, {totals.transactions} transactions, {totals.commands} commands, {totals.evictions} evictions")
    print("faults fired:")
    for name, count in sorted(totals.faults.items()):
        print(f"  {name:<22}{count:>9}")
    for table, rows in coverage.tables().items():
        hit = sum(1 for row in rows if totals.covered[row])
        print(f"transitions of {table}: {hit} of {len(rows)} covered" + ("" if hit == len(rows) else f"; never taken: {', '.join(r for r in rows if not totals.covered[r])}"))
    print(f"violating seeds: {len(totals.violations)}")
    for seed, what in sorted(totals.violations.items())[:VIOLATING_SEEDS_SHOWN_MAX]:
        print(f"  seed {seed}: {what[0]}")


def _write_report(totals: Totals, arguments: argparse.Namespace, took_s: float) -> None:
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    rows = {table: {row: totals.covered[row] for row in rows} for table, rows in coverage.tables().items()}
    document = {
        "python": platform.python_version(), "machine": platform.machine(), "cpus": os.cpu_count(), "system": platform.platform(), "variant": arguments.variant,
        "seconds": round(took_s, 1), "seeds": totals.seeds, "simulated_ms": totals.simulated_ms, "transactions": totals.transactions, "commands": totals.commands,
        "evictions": totals.evictions, "faults": dict(totals.faults), "steps": _three(totals.steps), "seed_ms": _three(totals.seed_ms), "covered": rows,
        "violations": {str(seed): what for seed, what in totals.violations.items()},
    }
    REPORT.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


def _trace(seed: int, variant: str) -> int:
    result = run_seed(seed, variant, tracing=True)
    print("\n".join(result.lines))
    for violation in result.violations:
        print(f"VIOLATION {violation}")
    return 1 if result.violations else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--fresh", action="store_true", help="start at a random seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--variant", default="", choices=["", *VARIANTS], help="run a weakened system")
    parser.add_argument("--list-variants", action="store_true")
    parser.add_argument("--stop-at-first", action="store_true", help="end at the first violation")
    parser.add_argument("--digest", action="store_true", help="print a hash of each seed's trace")
    parser.add_argument("--trace", type=int, metavar="SEED", help="print what happens in one seed")
    return parser.parse_args()


def main() -> int:
    """The command."""
    arguments = _arguments()
    if arguments.list_variants:
        for variant in VARIANTS.values():
            print(f"{variant.name:<28}{variant.removes}")
        return 0
    if arguments.trace is not None:
        return _trace(arguments.trace, arguments.variant)
    start = secrets.randbelow(FRESH_SEEDS_MAX) if arguments.fresh else arguments.start
    if arguments.digest:
        for seed in range(start, start + arguments.seeds):
            print(seed, digest(seed))
        return 0
    print(f"seeds {start}..{start + arguments.seeds - 1}" + (f", variant {arguments.variant}" if arguments.variant else ""), flush=True)
    totals, began = Totals(), time.perf_counter()
    for result, took_ms, covered in run_many(list(range(start, start + arguments.seeds)), arguments.variant, arguments.jobs):
        totals.add(result, took_ms, covered)
        if sys.stderr.isatty():
            print(f"\r{totals.seeds}/{arguments.seeds} seeds, {len(totals.violations)} violating", end="", file=sys.stderr, flush=True)
        if arguments.stop_at_first and totals.violations:
            break
    took_s = time.perf_counter() - began
    _print_table(totals)
    _write_report(totals, arguments, took_s)
    print(f"{took_s:.1f} s; report in {REPORT}")
    return 1 if totals.violations else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("Interrupted: no report is written.", file=sys.stderr)
        sys.exit(INTERRUPTED_STATUS)
