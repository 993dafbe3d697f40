"""Chaos on real processes: `python -m tests.chaos [--seed N | --seeds N] [--seconds S] [--weakened
RULE] [--soak MINUTES] [--kind NAME]... [--jobs N] [--deaths N] [--quorum] [--upgrade] [--keep
DIR]`.

With --deaths the coordinator dies so many times at each named step of its work instead (--only: at
one of them). Each seed gives a schedule of faults against coordinators, consumers, ZooKeeper and
the broker, and is judged from what everybody wrote down. Prints a table and writes
build/reports/chaos.json; 1 when anything is wrong.
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from tests.bench.figures import Bar, Busy, Row, Section, lines_of, write
from tests.bench.running import conclude, measured_in_a_folder, report_named, say
from tests.chaos.checker import INVARIANTS, NAMES, Found
from tests.chaos.disks import private_mounts
from tests.chaos.quorum import FAILSAFE, UNNOTICED, costs
from tests.chaos.rig import EarlierRelease, Shape
from tests.chaos.run import BOUND_MS, Outcome, play
from tests.chaos.schedule import GAP_MS, SOAK_GAP_MS, Kind, drawn, shown, titled
from tests.chaos.steps import SCENARIOS, ZOMBIES, StepsFound, play_steps
from tests.chaos.upgrade import ORDERS, play_upgrade
from tests.chaos.weakened import RULES
from tests.harness.quick_java import quick_java

SECONDS = 60.0
FRESH_MAX = 10**6
KEPT = Path("build/chaos")
OTHERS = ("I1", "I8", "I12", "log", "unreadable", "end", "scenario")


def findings(founds: Sequence[Found]) -> list[Row]:
    """Whether anything was found: all names together, and each that is among them."""
    names = (*NAMES, *INVARIANTS.values(), *OTHERS)
    among = [what for what in names if any(found.amounts[what] for found in founds)]
    total = Row(
        "findings",
        "under every name",
        [float(sum(found.amounts.values())) for found in founds],
        (Bar("max", 0),),
        "per run",
        note=f"asked: {', '.join(names)}",
    )
    return [
        total,
        *(
            Row(
                f"of them {what}",
                "found",
                [float(found.amounts[what]) for found in founds],
                (),
                "per run",
            )
            for what in among
        ),
    ]


def section_of(outcomes: Sequence[Outcome], name: str, title: str) -> Section:
    """The table of all runs."""
    section = Section(name, title)
    section.rows += findings([o.found for o in outcomes])
    section.rows.append(Row("faults", "per run", [float(o.faults) for o in outcomes], (), "faults"))
    section.rows.append(
        Row(
            "all fetched again",
            "after the last fault",
            [o.recovered_ms for o in outcomes if o.recovered_ms],
            (Bar("max", BOUND_MS),),
        )
    )
    section.rows.append(
        Row(
            "records produced",
            "per run",
            [float(o.found.produced) for o in outcomes],
            (),
            "records",
        )
    )
    section.rows.append(
        Row(
            "again after crashes",
            "per run",
            [float(o.found.excused) for o in outcomes],
            (),
            "records",
        )
    )
    section.rows.append(
        Row("terms", "per run", [float(o.found.terms) for o in outcomes], (), "terms")
    )
    section.notes += [f"seed {o.seed}: {example}" for o in outcomes for example in o.found.examples]
    return section


def section_of_steps(seen: StepsFound) -> Section:
    """The table of one way to die."""
    section = Section(seen.name, f"The coordinator dies: {seen.name}, {seen.deaths} times")
    section.rows += findings([seen.found])
    section.rows.append(
        Row(
            "commands to the balanced group",
            "per death",
            [float(n) for n in seen.commands_to_quiet],
            (Bar("max", 0),),
            "commands",
        )
    )
    section.rows.append(
        Row("death to all fetched and the change done", "this program's", seen.recovered_ms)
    )
    if seen.name in ZOMBIES:
        section.rows.append(
            Row(
                "late writes tried",
                "in all",
                [float(sum(seen.late.values()))],
                (Bar("min", seen.deaths, at_least=True),),
                "writes",
            )
        )
        section.rows.append(
            Row(
                "late writes that landed",
                "in all",
                [float(seen.late.get("OK", 0))],
                (Bar("max", 0),),
                "writes",
            )
        )
        section.notes.append(f"outcomes of late writes: {seen.late}")
    section.notes += (
        [
            (
                f"{seen.missed} times the coordinator lost its office before it came to its step,"
                " and another took its place"
            )
        ]
        if seen.missed
        else []
    )
    section.notes += seen.found.examples
    return section


def timed(section: Section, busy: Busy) -> Section:
    """With how long it took, and how busy the machine was."""
    section.busy_percent, section.seconds = busy.percent, busy.seconds
    return section


def run_steps(args: argparse.Namespace, folder: Path) -> int:
    """Deaths at named steps; the exit status."""
    java = quick_java()
    sections: list[Section] = []
    only = args.only or list(SCENARIOS)
    for name in only:
        (folder / name).mkdir(parents=True)
        busy = Busy()
        seen = play_steps(name, args.deaths, folder / name, java, say)
        sections.append(timed(section_of_steps(seen), busy))
        kept(folder / name, seen.found)
        say("\n".join(lines_of(sections[-1])) + "\n")
    return conclude(
        sections,
        {"deaths": args.deaths},
        str(java.major),
        report_named("chaos-deaths", only, SCENARIOS),
        "chaos-deaths",
    )


def run_quorum(args: argparse.Namespace, folder: Path) -> int:
    """What an ensemble's troubles cost; the exit status."""
    java, busy = quick_java(), Busy()
    (folder / "quorum").mkdir(parents=True)
    found, judged = costs(folder / "quorum", java, say)
    section = Section(
        "chaos-quorum",
        "The longest time without a record of a partition, consumers' sessions of 18 s, leases of"
        " 12 s",
    )
    for cost in found:
        section.rows += [
            Row(cost.name, "failsafe" if group == FAILSAFE else "by default", gap_ms)
            for group, gap_ms in cost.gap_ms.items()
        ]
        bars = (Bar("max", 0),) if cost.kind in UNNOTICED else ()
        section.rows += [
            Row(cost.name, "to all members", [float(cost.commands)], bars, "commands"),
            Row(cost.name, "by all members", [float(cost.lost)], bars, "partitions lost"),
        ]
    section.rows += findings([judged])
    section.notes += judged.examples
    timed(section, busy)
    kept(folder / "quorum", judged)
    say("\n".join(lines_of(section)) + "\n")
    return conclude(
        [section], {}, str(java.major), report_named("chaos-quorum", [], []), "chaos-quorum"
    )


def run_upgrade(args: argparse.Namespace, folder: Path) -> int:
    """Rolling upgrades in both orders; the exit status."""
    java, sections = quick_java(), []
    before = None if args.before is None else EarlierRelease(args.before.absolute())
    for order in ORDERS:
        (folder / order).mkdir(parents=True)
        busy = Busy()
        upgraded = play_upgrade(order, folder / order, java, say, before=before)
        section = Section(
            order, f"Every coordinator and consumer replaced by one of the next release, {order}"
        )
        section.rows += findings([upgraded.found])
        section.rows.append(
            Row(
                "one replaced, to records of every partition",
                "this program's",
                upgraded.moved_ms,
                note=(
                    f"{upgraded.found.produced} records produced, {upgraded.found.delivered}"
                    " handed out"
                ),
            )
        )
        section.notes += upgraded.found.examples
        sections.append(timed(section, busy))
        kept(folder / order, upgraded.found)
        say("\n".join(lines_of(section)) + "\n")
    return conclude(
        sections, {}, str(java.major), report_named("chaos-upgrade", [], []), "chaos-upgrade"
    )


def kept(folder: Path, found: Found) -> None:
    """What a run that is not clean wrote stays, without the servers' data."""
    if not found.clean:
        to = KEPT / folder.name
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(folder, to, ignore=shutil.ignore_patterns("data", "txn"))
        say(f"    its files: {to}")


def say_of(seed: int, text: str) -> None:
    """Progress of one of several schedules."""
    say("\n".join(f"{seed}: {line}" for line in text.splitlines()))


def ended_so_far(
    args: argparse.Namespace,
    what: str,
    first: int,
    seconds: float,
    outcomes: Sequence[Outcome],
    busy: Busy,
) -> tuple[Section, dict[str, object]]:
    """The table, and the options of its report."""
    seeds = sorted(outcome.seed for outcome in outcomes)
    title = (
        f"{args.soak:g} minutes of faults now and then, seed {first}"
        if args.soak
        else titled(seeds, seconds)
    )
    title = ", ".join(
        [title, *([f"without a rule ({args.weakened})"] if args.weakened else []), *args.kind]
    )
    return timed(section_of(outcomes, what, title), busy), {
        "seeds": seeds,
        "seconds": seconds,
        "weakened": args.weakened,
        "kinds": args.kind,
    }


def run(args: argparse.Namespace, folder: Path) -> int:
    """All seeds; the exit status."""
    first = random.randrange(FRESH_MAX) if args.seed is None else args.seed
    what, count, seconds, gap_ms = (
        ("soak", 1, args.soak * 60, SOAK_GAP_MS)
        if args.soak
        else ("chaos", args.seeds, args.seconds, GAP_MS)
    )
    what = "control" if args.weakened else what
    part = [
        *filter(None, [args.weakened]),
        *args.kind,
        *([f"from-{first}"] if args.seed is not None else []),
    ]
    seeds = range(first, first + count)
    kinds = [Kind[name] for name in args.kind] or [*Kind]
    private_mounts()
    java, busy = quick_java(), Busy()
    outcomes: list[Outcome] = []
    report = report_named(what, part, [])
    with ProcessPoolExecutor(args.jobs) as pool:
        begun = {}
        for seed in seeds:
            (folder / f"seed-{seed}").mkdir(parents=True)
            tell = partial(say_of, seed) if args.jobs > 1 else say
            begun[
                pool.submit(
                    play,
                    seed,
                    seconds,
                    folder / f"seed-{seed}",
                    java,
                    tell,
                    weakened=args.weakened,
                    kinds=kinds,
                    gap_ms=gap_ms,
                )
            ] = seed
        for ended in as_completed(begun):
            outcome = ended.result()
            outcomes.append(outcome)
            say(
                "\n".join(
                    [
                        f"{len(outcomes)} of {count}: {outcome.text}",
                        *(f"    {example}" for example in outcome.found.examples),
                    ]
                )
            )
            kept(folder / f"seed-{outcome.seed}", outcome.found)
            if not args.keep:
                shutil.rmtree(folder / f"seed-{outcome.seed}")  # two hundred of them fill a disk
            section, options = ended_so_far(args, what, first, seconds, outcomes, busy)
            # hours that are broken off are not lost
            write([section], options, str(java.major), report, what)
    say("\n".join(lines_of(section)) + "\n")
    return conclude([section], options, str(java.major), report, what)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seed", type=int, help="the first seed (default: a fresh one, which is printed)"
    )
    parser.add_argument("--seeds", type=int, default=1, help="how many (default: 1)")
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help=(
            "how many at the same time (default: 1): on two processors two are done sooner, and"
            " what they show is slower"
        ),
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        help=f"for how long there are faults (default: {SECONDS:g})",
    )
    parser.add_argument(
        "--kind",
        action="append",
        default=[],
        choices=[kind.name for kind in Kind],
        metavar="NAME",
        help="faults of this kind only; may be given several times: "
        + ", ".join(kind.name for kind in Kind),
    )
    parser.add_argument(
        "--weakened",
        default="",
        choices=["", *RULES],
        metavar="RULE",
        help=f"leave this rule out: {', '.join(RULES)}",
    )
    parser.add_argument(
        "--soak",
        type=float,
        default=0.0,
        metavar="MINUTES",
        help="one long schedule instead, with a fault now and then",
    )
    parser.add_argument(
        "--quorum",
        action="store_true",
        help="instead: what the loss of ZooKeeper's leader and of its quorum costs the application",
    )
    parser.add_argument(
        "--upgrade",
        action="store_true",
        help=(
            "instead: every coordinator and consumer is replaced by one of the next release, one at"
            " a time, in both orders"
        ),
    )
    parser.add_argument(
        "--from",
        dest="before",
        type=Path,
        metavar="VENV",
        help=(
            "with --upgrade: from the release that is installed in this virtual environment to the"
            " present one"
        ),
    )
    parser.add_argument(
        "--deaths",
        type=int,
        default=0,
        help="no schedule: the coordinator dies so many times at each named step",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=SCENARIOS,
        help="at this step only; may be given several times",
    )
    parser.add_argument("--show", action="store_true", help="print the schedule and do nothing")
    parser.add_argument("--keep", type=Path, help="keep everything that is written in this folder")
    args = parser.parse_args(argv)
    if args.show:
        say(
            "\n".join(
                shown(
                    drawn(
                        args.seed or 0,
                        args.seconds,
                        Shape().consumers,
                        [Kind[name] for name in args.kind] or Kind,
                    )
                )
            )
        )
        return 0
    carry_out = (
        run_steps
        if args.deaths
        else run_quorum
        if args.quorum
        else run_upgrade
        if args.upgrade
        else run
    )
    return measured_in_a_folder(lambda folder: carry_out(args, args.keep or folder))


if __name__ == "__main__":
    raise SystemExit(main())
