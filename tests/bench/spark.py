"""zkcoord's Spark source beside Spark's own Kafka source, on the same broker in the same run.

    python -m tests.bench.spark [--quick] [--rounds N] [--only NAME] [--seed N]

    python -m tests.bench.spark                              everything: about fifteen minutes
    python -m tests.bench.spark --quick                      one round of everything: about six
                                                             minutes
    python -m tests.bench.spark --only throughput --rounds 3 one part; the report is
        bench-spark-throughput.json

Real servers, two `zkcoord coordinator` processes with their shipped defaults, each source in a
Spark session (local[2]) of its own. Spark's connector is fetched once (11 MB). Prints a table with
the bars beside the figures and writes build/reports/bench-spark.json. The exit status is 0 when
every bar is reached, 1 when one is missed or something could not be measured.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from tests.bench import spark_latency, spark_throughput
from tests.bench.consumer import bytecode_in, progress
from tests.bench.rig import Rig
from tests.bench.running import Part, conclude, measured_in_a_folder, on_a_stack, report_named
from zkcoord.stack.java import Java, find_java

ROUNDS = {"throughput": 5, "latency": 5, "idle": 2}
ROUNDS_QUICK = {"throughput": 1, "latency": 1, "idle": 1}
NAMES = tuple(ROUNDS)


@dataclass(frozen=True)
class Plan:
    """What to do: which parts, how many rounds of each; `plain`: the throughput of the reader
    without a group; `settings`: of the throughput; `seconds`: how long latencies are taken.
    """

    only: tuple[str, ...] = NAMES
    rounds: Mapping[str, int] = field(default_factory=lambda: ROUNDS)
    seed: int = 0
    plain: bool = False
    settings: Sequence[spark_throughput.Setting] = spark_throughput.SETTINGS
    seconds: float = spark_latency.SECONDS


def parts(plan: Plan, rig: Rig, java: Java) -> dict[str, Part]:
    """What can be asked for."""
    measures = {
        "throughput": partial(spark_throughput.run, plain=plan.plain, settings=plan.settings),
        "latency": partial(spark_latency.latency, seconds=plan.seconds),
        "idle": spark_latency.idle,
    }
    return {
        name: partial(measure, rig, rounds=plan.rounds[name], java=java)
        for name, measure in measures.items()
    }


def run(plan: Plan, folder: Path, report: Path) -> int:
    """Measure, print, write; 0 when every bar is reached."""
    java = find_java()
    with bytecode_in(folder / "bytecode"):
        sections = on_a_stack(
            folder, plan.seed, lambda rig: parts(plan, rig, java), plan.only, progress
        )
    return conclude(sections, asdict(plan), str(java.major), report, "bench-spark")


def plan_of(args: argparse.Namespace) -> Plan:
    """From the command line."""
    rounds = ROUNDS_QUICK if args.quick else ROUNDS
    only = tuple(name for name in NAMES if not args.only or name in args.only)
    return Plan(
        only, {name: args.rounds or usual for name, usual in rounds.items()}, args.seed, args.plain
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.spark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="one round of everything")
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
        "--seed", type=int, default=random.SystemRandom().randrange(1 << 30), help="of the run"
    )
    parser.add_argument(
        "--plain",
        action="store_true",
        help="throughput of zkcoord's reader without any group, to see what the coordination costs",
    )
    plan = plan_of(parser.parse_args(argv))
    return measured_in_a_folder(
        lambda folder: run(plan, folder, report_named("bench-spark", plan.only, NAMES))
    )


if __name__ == "__main__":
    raise SystemExit(main())
