"""How long joins, leaves and crashes take, beside kafka-python's own group consumer on the same broker in the same run.

    python -m tests.bench.rebalance [--quick] [--rounds N] [--only join|coordinator|consumer|requests|background] [--no-kafka] [--seed N]

Real servers, `zkcoord coordinator` processes with their shipped defaults, consumers in processes of their own. Prints a table with the bars beside the figures and writes build/reports/bench-rebalance.json;
with --only the report is bench-rebalance-NAME.json, so that a part does not take the place of the whole.
A missed bar is marked and changes nothing else: the exit status is 1 only when a part could not be measured. `--quick`: three rounds of everything and the smallest settings.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench import background, crashes, figures, joins, requests
from tests.bench.figures import Busy, Section
from tests.bench.rig import Rig
from zkcoord.demo.run import uninterrupted
from zkcoord.errors import ZkcoordError
from zkcoord.stack.java import find_java
from zkcoord.stack.stack import running_stack

ROUNDS_OF_JOINS = 20
ROUNDS_OF_OTHERS = 10
ROUNDS_QUICK = 3
NAMES = ("join", "coordinator", "consumer", "requests", "background")
KEPT = figures.REPORT.parent / "bench-rebalance-logs"


@dataclass(frozen=True)
class Plan:
    """What to do. `partitions` and `loads` (records/s, 0 = idle) of the joins, `sizes` of the request counts."""

    only: tuple[str, ...] = NAMES
    rounds_of_joins: int = ROUNDS_OF_JOINS
    rounds: int = ROUNDS_OF_OTHERS
    theirs: bool = True
    seed: int = 0
    partitions: tuple[int, ...] = (24, 96)
    loads: tuple[int, ...] = (0, joins.LOAD_PER_S)
    sizes: tuple[int, ...] = requests.SIZES


def say(text: str) -> None:
    """Progress."""
    print(text, flush=True)


Part = Callable[[Rig, "list[Section]"], None]


def parts(plan: Plan) -> dict[str, Part]:
    """What can be asked for. Each adds its sections to a list before it fills them."""
    return {
        "join": lambda rig, sections: joins.run(rig, sections, plan.rounds_of_joins, plan.theirs, plan.partitions, plan.loads),
        "coordinator": lambda rig, sections: crashes.run_coordinator(rig, sections, plan.rounds),
        "consumer": lambda rig, sections: crashes.run_consumer(rig, sections, plan.rounds, plan.theirs),
        "requests": lambda rig, sections: requests.run(rig, sections, plan.rounds, plan.sizes),
        "background": lambda rig, sections: background.run(rig, sections, plan.rounds),
    }


def measured(part: Part, rig: Rig) -> list[Section]:
    """One part's sections; one that could not be finished says why."""
    busy = Busy()
    found: list[Section] = []
    whole = Section("", "")
    whole.attempt("the whole part", lambda: part(rig, found))
    for section in found:
        section.busy_percent, section.seconds = busy.percent, busy.seconds
        section.failure = "; ".join(filter(None, (section.failure, whole.failure)))
    return found


def run(plan: Plan, folder: Path, report: Path = figures.REPORT) -> int:
    """Measure, print, write; 1 when a part could not be measured."""
    sections: list[Section] = []
    shutil.rmtree(KEPT, ignore_errors=True)
    with running_stack(folder / "stack", progress=say) as stack:
        assert stack.zookeeper is not None and stack.kafka is not None, "both run inside the block"
        rig = Rig(folder / "run", stack.zookeeper.address, stack.kafka.address, plan.seed, say)
        try:
            for name, part in parts(plan).items():
                if name in plan.only:
                    say(f"{name} ...")
                    found = measured(part, rig)
                    sections += found
                    for section in found:
                        say("\n".join(figures.lines_of(section)) + "\n")
        finally:
            with uninterrupted():
                rig.close()
    options = {"rounds_of_joins": plan.rounds_of_joins, "rounds": plan.rounds, "seed": plan.seed, "only": plan.only, "load_per_s": joins.LOAD_PER_S}
    figures.write(sections, options, str(find_java().major), report)
    missed = figures.missed_of(sections)
    say("\n".join([f"{len(missed)} bars missed of {sum(len(row.bars) for section in sections for row in section.rows)}.", *(f"  {sentence}" for sentence in missed), f"Written: {report}"]))
    failed = any(section.failure for section in sections)
    if failed:
        for name in ("logs", "lines", "journals"):
            if (folder / "run" / name).is_dir():
                shutil.copytree(folder / "run" / name, KEPT / name)
        print(f"Not everything could be measured; what the processes wrote is in {KEPT}")
    return 1 if failed else 0


def report_of(plan: Plan) -> Path:
    """Where a plan's report goes."""
    return figures.REPORT if plan.only == NAMES else figures.REPORT.with_name(f"{figures.REPORT.stem}-{'-'.join(plan.only)}.json")


def plan_of(args: argparse.Namespace) -> Plan:
    """From the command line."""
    only = tuple(args.only or NAMES)
    common = {"only": only, "theirs": not args.no_kafka, "seed": args.seed}
    if args.quick:
        rounds = args.rounds or ROUNDS_QUICK
        return Plan(rounds_of_joins=rounds, rounds=rounds, **common)
    return Plan(rounds_of_joins=args.rounds or ROUNDS_OF_JOINS, rounds=args.rounds or ROUNDS_OF_OTHERS, **common)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.rebalance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{ROUNDS_QUICK} rounds of everything")
    parser.add_argument("--rounds", type=int, help=f"of everything (default: {ROUNDS_OF_JOINS} joins and leaves per setting, {ROUNDS_OF_OTHERS} of the others)")
    parser.add_argument("--only", action="append", choices=NAMES, help="may be given several times")
    parser.add_argument("--no-kafka", action="store_true", help="leave kafka-python's groups out")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30), help="of the pauses between events")
    plan = plan_of(parser.parse_args(argv))
    with tempfile.TemporaryDirectory(prefix="zkcoord-bench-") as name:
        try:
            return run(plan, Path(name), report_of(plan))
        except KeyboardInterrupt:
            print("Interrupted: everything is stopped.", file=sys.stderr)
            return 130
        except ZkcoordError as error:
            print(error, file=sys.stderr)
            return 1


if __name__ == "__main__":
    raise SystemExit(main())
