"""zkcoord beside kafka-python, librdkafka, Kafka 4's new protocol and the old consumer: join,
leave, crash, a slow member, the coordinator's death; one run, one machine, the same measuring code.

    python -m tests.bench.side [--quick] [--members 4 24 96] [--rounds N] [--systems NAME ...]
        [--events NAME ...] [--seed N]

    python -m tests.bench.side
        everything: about three hours
    python -m tests.bench.side --members 24
        one size, all systems beside each other
    python -m tests.bench.side --quick
        groups of 4, few rounds: about half an hour
    python -m tests.bench.side --members 4 --systems zkcoord old --events join leave --rounds 5

Prints a table with what zkcoord has to reach and writes build/reports/bench.json (with --systems,
--events, --rounds or --quick build/reports/bench-part.json), and as soon as all systems were
measured at one size build/reports/bench-members-SIZE.json, too: `python -m tests.bench.tables`
makes page and picture of these, whichever run each is from. The exit status is 1 when zkcoord is
not first (10 % is a tie) or something could not be measured.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import confluent_kafka

from tests.bench import figures
from tests.bench.consumer import bytecode_in
from tests.bench.figures import Busy
from tests.bench.running import conclude, measured_in_a_folder, say
from tests.bench.side.events import Found, Rounds, attempt, beat_ms
from tests.bench.side.ground import Ground, ground
from tests.bench.side.report import sections
from tests.bench.side.rig import SideRig
from tests.bench.side.systems import EVENTS, SYSTEMS, System, named
from tests.legacy.jars import V1_1, harness_classpath
from zkcoord.demo.run import uninterrupted
from zkcoord.stack import jars
from zkcoord.stack.java import Java, find_java
from zkcoord.stack.stack import terminable

SIZES = (4, 24, 96)
QUICK = Rounds(joins=3, crashes=1, slow=1, coordinators=1)
REPORT = figures.REPORT.with_name("bench.json")
PART = figures.REPORT.with_name("bench-part.json")


def size_report(size: int) -> Path:
    """Where the figures of one size go."""
    return figures.REPORT.with_name(f"bench-members-{size}.json")


@dataclass(frozen=True)
class Plan:
    """What to do."""

    sizes: tuple[int, ...] = SIZES
    systems: tuple[System, ...] = SYSTEMS
    events: tuple[str, ...] = EVENTS
    rounds: Rounds = Rounds()
    seed: int = 0

    @property
    def whole(self) -> bool:
        """Is everything in it that stands beside each other, as often as it should?"""
        return self.systems == SYSTEMS and self.events == EVENTS and self.rounds == Rounds()


def one(plan: Plan, at: Ground, java: Java, folder: Path, found: Found) -> None:
    """One system at one size, in a folder of its own."""
    busy = Busy()
    beside_kafka_4 = found.system.modern and found.system.asks_zookeeper
    rig = SideRig(folder, at, java, plan.seed, say, beside_kafka_4)
    try:
        attempt(rig, found, plan.events, plan.rounds.at(found.size))
    finally:
        with uninterrupted():
            rig.close()
    say(f"  ({busy.seconds:.0f} s, busy {busy.percent:.0f} %)")


def run(plan: Plan, folder: Path, report: Path) -> int:
    """Measure, print, write; the exit status."""
    java = find_java()
    if any(system.kind == "old" for system in plan.systems):
        harness_classpath(V1_1, java, say)
    made: list[figures.Section] = []
    with (
        bytecode_in(folder / "bytecode"),
        terminable(),
        ground(folder / "servers", java, say, any(system.modern for system in plan.systems)) as at,
    ):
        for size in plan.sizes:
            founds: list[Found] = []
            for system in plan.systems:
                if not set(system.events).isdisjoint(plan.events):
                    say(f"{system.label}, {size} members ...")
                    founds.append(Found(system, size))
                    one(plan, at, java, folder / f"{system.name}-{size}", founds[-1])
            of_size = sections(founds, size)
            for section in of_size:
                say("\n".join(figures.lines_of(section)) + "\n")
            if plan.whole:
                figures.write(
                    of_size, options_of(plan, (size,)), str(java.major), size_report(size), "bench"
                )
            made += of_size
    return conclude(made, options_of(plan, plan.sizes), str(java.major), report, "bench")


def options_of(plan: Plan, sizes: Sequence[int]) -> dict[str, Any]:
    """What a report says of how it was made."""
    return {
        "sizes": sizes,
        "systems": [system.name for system in plan.systems],
        "events": plan.events,
        "rounds": asdict(plan.rounds),
        "seed": plan.seed,
        "beats_ms": {size: beat_ms(size) for size in sizes},
        "kafka_4": jars.KAFKA_4.version,
        "kafka_3": jars.KAFKA.version,
        "old_consumer": V1_1,
        "librdkafka": confluent_kafka.libversion()[0],
    }


def plan_of(args: argparse.Namespace) -> Plan:
    """From the command line."""
    rounds = QUICK if args.quick else Rounds()
    if args.rounds:
        rounds = replace(
            rounds,
            joins=args.rounds,
            crashes=args.rounds,
            slow=args.rounds,
            coordinators=args.rounds,
        )
    sizes = tuple(args.members or (SIZES[:1] if args.quick else SIZES))
    return Plan(
        sizes,
        named(tuple(args.systems or ())),
        tuple(event for event in EVENTS if not args.events or event in args.events),
        rounds,
        args.seed,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.side",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="groups of 4, few rounds")
    parser.add_argument(
        "--members",
        type=int,
        nargs="+",
        help=f"sizes of groups, 2 to 96 (default: {' '.join(map(str, SIZES))})",
    )
    parser.add_argument("--rounds", type=int, help=f"of everything (default: {asdict(Rounds())})")
    parser.add_argument(
        "--systems",
        nargs="+",
        choices=[system.name for system in SYSTEMS],
        metavar="NAME",
        help=f"of {', '.join(system.name for system in SYSTEMS)}",
    )
    parser.add_argument(
        "--events", nargs="+", choices=EVENTS, metavar="NAME", help=f"of {', '.join(EVENTS)}"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=random.SystemRandom().randrange(1 << 30),
        help="of the pauses between events",
    )
    plan = plan_of(parser.parse_args(argv))
    return measured_in_a_folder(lambda folder: run(plan, folder, REPORT if plan.whole else PART))


if __name__ == "__main__":
    raise SystemExit(main())
