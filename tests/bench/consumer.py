"""The consumer beside kafka-python's own group consumer, on the same broker in the same run.

    python -m tests.bench.consumer [--quick] [--rounds N] [--only NAME] [--seed N]

    python -m tests.bench.consumer                              everything: about fifteen minutes
    python -m tests.bench.consumer --quick                      few rounds of everything: about five
                                                                minutes
    python -m tests.bench.consumer --only start --rounds 20     one part; the report is
                                                                bench-consumer-start.json

Real servers, `zkcoord coordinator` processes with their shipped defaults, consumers in processes of
their own. Prints a table with the bars beside the figures and writes
build/reports/bench-consumer.json. The exit status is 0 when every bar is reached, 1 when one is
missed or something could not be measured.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from tests.bench import (
    consumer_idle,
    consumer_moving,
    consumer_slow,
    consumer_start,
    consumer_static,
    consumer_stopped,
    consumer_throughput,
)
from tests.bench.rig import Rig
from tests.bench.running import Part, conclude, measured_in_a_folder, on_a_stack, report_named
from zkcoord.stack.java import find_java

ROUNDS = {
    "throughput": 7,
    "idle": 5,
    "slow": 3,
    "static": 3,
    "stopped": 20,
    "start": 10,
    "moving": 2,
}
ROUNDS_QUICK = {
    "throughput": 1,
    "idle": 2,
    "slow": 1,
    "static": 1,
    "stopped": 4,
    "start": 3,
    "moving": 1,
}
NAMES = tuple(ROUNDS)


@dataclass(frozen=True)
class Plan:
    """What to do: which parts, how many rounds of each, and of the throughput how many records by
    their size in bytes.
    """

    only: tuple[str, ...] = NAMES
    rounds: Mapping[str, int] = field(default_factory=lambda: ROUNDS)
    sizes: Mapping[int, int] = field(default_factory=lambda: consumer_throughput.SIZES)
    seed: int = 0


def parts(plan: Plan, rig: Rig) -> dict[str, Part]:
    """What can be asked for."""
    measures = {
        "throughput": partial(consumer_throughput.run, sizes=plan.sizes),
        "idle": consumer_idle.run,
        "slow": consumer_slow.run,
        "static": consumer_static.run,
        "stopped": consumer_stopped.run,
        "start": consumer_start.run,
        "moving": consumer_moving.run,
    }
    return {
        name: partial(measure, rig, rounds=plan.rounds[name]) for name, measure in measures.items()
    }


def progress(text: str) -> None:
    """For who waits: not part of the result."""
    print(text, file=sys.stderr, flush=True)


def run(plan: Plan, folder: Path, report: Path) -> int:
    """Measure, print, write; 0 when every bar is reached."""
    with bytecode_in(folder / "bytecode"):
        sections = on_a_stack(folder, plan.seed, partial(parts, plan), plan.only, progress)
    return conclude(sections, asdict(plan), str(find_java().major), report, "bench-consumer")


@contextmanager
def bytecode_in(folder: Path) -> Iterator[None]:
    """Processes that are started inside the block keep Python's bytecode, as installed packages
    have it, whatever the environment says; in a place of its own.
    """
    before = dict(os.environ)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def plan_of(args: argparse.Namespace) -> Plan:
    """From the command line."""
    rounds = ROUNDS_QUICK if args.quick else ROUNDS
    only = tuple(name for name in NAMES if not args.only or name in args.only)
    return Plan(
        only, {name: args.rounds or usual for name, usual in rounds.items()}, seed=args.seed
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.consumer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="few rounds of everything")
    parser.add_argument(
        "--rounds",
        type=int,
        help=(
            "of everything (default:"
            f" {', '.join(f'{name} {count}' for name, count in ROUNDS.items())})"
        ),
    )
    parser.add_argument("--only", action="append", choices=NAMES, help="may be given several times")
    parser.add_argument(
        "--seed",
        type=int,
        default=random.SystemRandom().randrange(1 << 30),
        help="of the pauses between events",
    )
    plan = plan_of(parser.parse_args(argv))
    return measured_in_a_folder(
        lambda folder: run(plan, folder, report_named("bench-consumer", plan.only, NAMES))
    )


if __name__ == "__main__":
    raise SystemExit(main())
