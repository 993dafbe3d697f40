"""Commits: how many a second and how long each takes, beside Kafka's own; and how many members can
commit before joins notice.

    python -m tests.bench.commit [--quick] [--rounds N] [--only commit|join] [--seed N]

    python -m tests.bench.commit                              everything: about fifty minutes
    python -m tests.bench.commit --quick                      the smallest settings, few rounds:
                                                              about six minutes
    python -m tests.bench.commit --only join --rounds 20      one part; the report is
                                                              bench-commit-join.json

Real servers, `zkcoord coordinator` processes with their shipped defaults, consumers in processes of
their own or, where there are thousands, the consumer's own driver. Prints a table and writes
build/reports/bench-commit.json. The exit status is 0, and 1 when something could not be measured:
these figures have no bar but the count that they end in.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from tests.bench import commit_joins, commit_rates
from tests.bench.rig import Rig
from tests.bench.running import Part, conclude, measured_in_a_folder, on_a_stack, report_named
from zkcoord.stack.java import find_java
from zkcoord.stack.servers import ZooKeeperOptions

NAMES = ("commit", "join")
HEAP_MB = 1_000
"""Of the ZooKeeper server: what its own scripts give it (`bin/zkEnv.sh`). It has hundreds of
thousands of nodes here, with which the small one of the tests spends its time on collecting
garbage.
"""
SAMPLES, JOINS = 3, 10
SAMPLES_QUICK, JOINS_QUICK = 1, 3
SETTINGS_QUICK, MANY_QUICK = ((1, 10), (4, 10)), ((100, 10),)
STEPS_QUICK = {10: (500, 1_000)}


@dataclass(frozen=True)
class Plan:
    """What to do. `samples` of `seconds` for each of the `settings` (members, partitions of each)
    and `drivers`; `joins` at each of the `steps` (partitions of a member -> how many members) and
    each rate of `old` writers.
    """

    only: tuple[str, ...] = NAMES
    samples: int = SAMPLES
    seconds: float = commit_rates.SAMPLE_S
    settings: Sequence[tuple[int, int]] = commit_rates.SETTINGS
    drivers: Sequence[tuple[int, int]] = commit_rates.MANY
    joins: int = JOINS
    steps: Mapping[int, Sequence[int]] = field(default_factory=lambda: commit_joins.STEPS)
    old: Sequence[int] = commit_joins.OLD_STEPS
    seed: int = 0


def parts(plan: Plan, rig: Rig) -> dict[str, Part]:
    """What can be asked for."""
    return {
        "commit": partial(
            commit_rates.run,
            rig,
            samples=plan.samples,
            seconds=plan.seconds,
            settings=plan.settings,
            drivers=plan.drivers,
        ),
        "join": partial(commit_joins.run, rig, rounds=plan.joins, steps=plan.steps, old=plan.old),
    }


def run(plan: Plan, folder: Path, report: Path) -> int:
    """Measure, print, write; the exit status."""
    sections = on_a_stack(
        folder,
        plan.seed,
        partial(parts, plan),
        plan.only,
        zookeeper_options=ZooKeeperOptions(heap_mb=HEAP_MB),
    )
    return conclude(sections, asdict(plan), str(find_java().major), report, "bench-commit")


def plan_of(args: argparse.Namespace) -> Plan:
    """From the command line."""
    only = tuple(name for name in NAMES if not args.only or name in args.only)
    if args.quick:
        return Plan(
            only,
            args.rounds or SAMPLES_QUICK,
            settings=SETTINGS_QUICK,
            drivers=MANY_QUICK,
            joins=args.rounds or JOINS_QUICK,
            steps=STEPS_QUICK,
            old=commit_joins.OLD_STEPS[:1],
            seed=args.seed,
        )
    return Plan(only, args.rounds or SAMPLES, joins=args.rounds or JOINS, seed=args.seed)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.commit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="the smallest settings, few rounds")
    parser.add_argument(
        "--rounds",
        type=int,
        help=f"samples of each setting, and joins at each step (default: {SAMPLES} and {JOINS})",
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
        lambda folder: run(plan, folder, report_named("bench-commit", plan.only, NAMES))
    )


if __name__ == "__main__":
    raise SystemExit(main())
