"""How long joins, leaves and crashes take, beside kafka-python's own group consumer on the same
broker in the same run.

    python -m tests.bench.rebalance [--quick] [--rounds N] [--only
        join|coordinator|consumer|requests|background] [--no-kafka] [--seed N]
        [--kafka 3.9|3.9-kraft|4]

Real servers, `zkcoord coordinator` processes with their shipped defaults, consumers in processes of
their own. Prints a table with the bars beside the figures and writes
build/reports/bench-rebalance.json; with --only the report is bench-rebalance-NAME.json, so that a
part does not take the place of the whole. The exit status is 0 when every bar is reached, 1 when
one is missed or something could not be measured. `--quick`: three rounds of everything and the
smallest settings.
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tests.bench import background, crashes, figures, joins, requests
from tests.bench.rig import Rig
from tests.bench.running import Part, conclude, measured_in_a_folder, on_a_stack, report_named
from zkcoord.stack.java import find_java
from zkcoord.stack.stack import KafkaKind

ROUNDS_OF_JOINS = 20
ROUNDS_OF_OTHERS = 10
ROUNDS_QUICK = 3
NAMES = ("join", "coordinator", "consumer", "requests", "background")
KINDS = {
    "3.9": KafkaKind.ZOOKEEPER,
    "3.9-kraft": KafkaKind.KRAFT,
    "4": KafkaKind.KRAFT_4,
}
KEPT = figures.REPORT.parent / "bench-rebalance-logs"


@dataclass(frozen=True)
class Plan:
    """What to do. `partitions` and `loads` (records/s, 0 = idle) of the joins, `sizes` of the
    request counts.
    """

    only: tuple[str, ...] = NAMES
    rounds_of_joins: int = ROUNDS_OF_JOINS
    rounds: int = ROUNDS_OF_OTHERS
    theirs: bool = True
    seed: int = 0
    partitions: tuple[int, ...] = (24, 96)
    loads: tuple[int, ...] = (0, joins.LOAD_PER_S)
    sizes: tuple[int, ...] = requests.SIZES
    kafka: str = "3.9"


def parts(plan: Plan, rig: Rig) -> dict[str, Part]:
    """What can be asked for."""
    return {
        "join": lambda sections: joins.run(
            rig, sections, plan.rounds_of_joins, plan.theirs, plan.partitions, plan.loads
        ),
        "coordinator": lambda sections: crashes.run_coordinator(rig, sections, plan.rounds),
        "consumer": lambda sections: crashes.run_consumer(rig, sections, plan.rounds, plan.theirs),
        "requests": lambda sections: requests.run(rig, sections, plan.rounds, plan.sizes),
        "background": lambda sections: background.run(rig, sections, plan.rounds),
    }


def run(plan: Plan, folder: Path, report: Path = figures.REPORT) -> int:
    """Measure, print, write; the exit status."""
    shutil.rmtree(KEPT, ignore_errors=True)
    kind = KINDS[plan.kafka]
    sections = on_a_stack(folder, plan.seed, partial(parts, plan), plan.only, kind=kind)
    options = {
        "rounds_of_joins": plan.rounds_of_joins,
        "rounds": plan.rounds,
        "seed": plan.seed,
        "only": plan.only,
        "load_per_s": joins.LOAD_PER_S,
        "kafka": kind.value,
    }
    status = conclude(sections, options, str(find_java().major), report, "bench-rebalance")
    if any(section.failure for section in sections):
        for name in ("logs", "lines", "journals"):
            if (folder / "run" / name).is_dir():
                shutil.copytree(folder / "run" / name, KEPT / name)
        print(f"Not everything could be measured; what the processes wrote is in {KEPT}")
    return status


def plan_of(args: argparse.Namespace) -> Plan:
    """From the command line."""
    only = tuple(args.only or NAMES)
    common = {
        "only": only,
        "theirs": not args.no_kafka,
        "seed": args.seed,
        "kafka": args.kafka,
    }
    if args.quick:
        rounds = args.rounds or ROUNDS_QUICK
        return Plan(rounds_of_joins=rounds, rounds=rounds, **common)
    return Plan(
        rounds_of_joins=args.rounds or ROUNDS_OF_JOINS,
        rounds=args.rounds or ROUNDS_OF_OTHERS,
        **common,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.rebalance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help=f"{ROUNDS_QUICK} rounds of everything")
    parser.add_argument(
        "--rounds",
        type=int,
        help=(
            f"of everything (default: {ROUNDS_OF_JOINS} joins and leaves per setting,"
            f" {ROUNDS_OF_OTHERS} of the others)"
        ),
    )
    parser.add_argument("--only", action="append", choices=NAMES, help="may be given several times")
    parser.add_argument(
        "--partitions",
        type=int,
        action="append",
        help="joins with so many only; may be given several times (default: 24 and 96)",
    )
    parser.add_argument(
        "--load",
        type=int,
        action="append",
        help=(
            "joins at so many records/s only, 0 for idle; may be given several times (default: 0"
            f" and {joins.LOAD_PER_S})"
        ),
    )
    parser.add_argument(
        "--kafka",
        choices=tuple(KINDS),
        default="3.9",
        help="the broker: with ZooKeeper underneath (default), or without, where coordinators ask",
    )
    parser.add_argument("--no-kafka", action="store_true", help="leave kafka-python's groups out")
    parser.add_argument(
        "--seed",
        type=int,
        default=random.SystemRandom().randrange(1 << 30),
        help="of the pauses between events",
    )
    args = parser.parse_args(argv)
    plan = plan_of(args)
    plan = replace(
        plan,
        partitions=tuple(args.partitions or plan.partitions),
        loads=tuple(args.load or plan.loads),
    )
    name = "bench-rebalance" if plan.kafka == "3.9" else f"bench-rebalance-kafka-{plan.kafka}"
    return measured_in_a_folder(
        lambda folder: run(plan, folder, report_named(name, plan.only, NAMES))
    )


if __name__ == "__main__":
    raise SystemExit(main())
