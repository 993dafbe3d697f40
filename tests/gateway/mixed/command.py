"""The command line of `python -m tests.gateway.mixed`.

Exit status: 0 a clean verdict, 1 not clean or it could not be run, 2 options that cannot be used, 4
a clean verdict over a group in which a kind of client was missing (the last lines say which, and
why), 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.gateway.foreign import CLIENTS, ToolchainMissingError
from tests.gateway.mixed.again import again
from tests.gateway.mixed.cast import TOLD, MixedClients
from tests.gateway.mixed.plan import FLOOR, GROUP, KINDS, LIBRDKAFKA, SPARK, drawn, first
from tests.gateway.mixed.scenario import VICTIM, MixedScenario
from zkcoord.demo.gateway.command import missing_for_spark
from zkcoord.demo.live import PlainView
from zkcoord.demo.options import Break, DemoOptions, Pace
from zkcoord.demo.run import run
from zkcoord.errors import ZkcoordError
from zkcoord.stack import jars
from zkcoord.stack.java import find_java
from zkcoord.verdict.engine import Unreadable, facts_in

NAME = "mixed"
PARTITIONS, RATE, RECORDS_BETWEEN_STEPS = 24, 2_000, 2_000
STEP_TIMEOUT_S = 300.0
CLOCK_NS = 50_000_000
"""How far the machine's clock may go away from its monotonic one during a run."""
EXIT_FAILED, EXIT_USAGE, EXIT_MISSING, EXIT_INTERRUPTED = 1, 2, 4, 130


@dataclass
class Group:
    """Who can be in it. `foreign`: library -> the first words of its client's command; `missing`:
    what is left out, and why.
    """

    counts: dict[str, int]
    foreign: dict[str, list[str]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def group_of(letters: str) -> Group:
    """The kinds that are wanted, without those that are not to be had here."""
    found = Group(dict(sorted(Counter(letters).items(), key=lambda one: list(KINDS).index(one[0]))))
    why: dict[str, str] = {}
    for kind, library in TOLD.items():
        if kind in found.counts:
            try:
                found.foreign[library] = CLIENTS[library]()
            except ToolchainMissingError as error:
                why[kind] = str(error)
    if spark := missing_for_spark():
        why[SPARK] = f"{' and '.join(spark)} is not installed"
    if importlib.util.find_spec("confluent_kafka") is None:
        why[LIBRDKAFKA] = "confluent-kafka is not installed"
    for kind in [kind for kind in found.counts if kind in why]:
        del found.counts[kind]
        found.missing.append(f"{KINDS[kind]} was left out: {why[kind]}")
    return found


def letters(text: str) -> str:
    """The value of --group. Raises `ValueError`."""
    if any(count > GROUP.get(kind, 0) for kind, count in Counter(text).items()) or len(text) < 2:
        raise ValueError(text)
    return text


def parser() -> argparse.ArgumentParser:
    """The command line."""
    kinds = ", ".join(f"{kind} {name}" for kind, name in KINDS.items())
    whole = "".join(kind * count for kind, count in GROUP.items())
    p = argparse.ArgumentParser(
        prog="python -m tests.gateway.mixed",
        description=f"One group of clients of six kinds, through random joins, leaves (SIGTERM) and"
        f" kills (kill -9), between {FLOOR} and all of them, on a topic of {PARTITIONS} partitions"
        f" with {RATE:,} records/s; then a verdict: was anything lost, duplicated or owned twice?",
        epilog="exit status: 0 clean, 1 not, 2 options, 4 clean, but a kind is missing here",
        allow_abbrev=False,
    )
    p.add_argument("--seed", type=int, help="of the steps (default: one that is drawn and printed)")
    p.add_argument("--steps", type=int, default=60, help="how many (default: 60)")
    p.add_argument("--group", type=letters, default=whole, help=f"({whole}): {kinds}")
    p.add_argument(
        "--break",
        dest="fault",
        choices=[fault.value for fault in Break],
        help=f"inject a fault for real, of {VICTIM}; the verdict must find it",
    )
    p.add_argument("--dir", type=Path, metavar="FOLDER", help="keep everything here")
    p.add_argument("--reports", type=Path, default=Path("build/reports"), metavar="FOLDER")
    return p


def play(options: DemoOptions, group: Group, steps: int, view: PlainView) -> int:
    """One run; the exit status."""
    tools = jars.tools_classpath(find_java(), view.say)
    plan = drawn(options.seed, steps, group.counts)
    began_ns = time.time_ns() - time.monotonic_ns()

    status = run(
        options,
        view,
        lambda cast: MixedScenario(
            MixedClients(cast, tools, group.foreign), first(group.counts), plan
        ).run(),
    )
    found = again(facts_in(options.folder / "run", Unreadable()))
    acts = Counter(step.act.value for step in plan)
    print(f"Seed {options.seed}, {steps} steps: {', '.join(f'{n} {a}' for a, n in acts.items())}")
    print("\n".join(found.lines()))
    if found.others:
        status = EXIT_FAILED
    if abs(time.time_ns() - time.monotonic_ns() - began_ns) > CLOCK_NS:
        print("The machine's clock was set meanwhile, so times of this run say nothing.")
        status = EXIT_FAILED
    for sentence in group.missing:
        print(sentence)
    return status or (EXIT_MISSING if group.missing else 0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    p = parser()
    args = p.parse_args(argv)
    if args.fault and VICTIM[0] not in args.group:
        p.error(f"--break is done to {VICTIM}, who is not in --group {args.group}")
    if args.dir is not None and args.dir.exists() and any(args.dir.iterdir()):
        p.error(f"the folder {args.dir} is not empty, and a run begins with an empty topic")
    logging.basicConfig(level=logging.CRITICAL)
    seed = random.randrange(10**6) if args.seed is None else args.seed
    kept = args.dir is not None
    folder = args.dir.absolute() if kept else Path(tempfile.mkdtemp(prefix="zkcoord-mixed-"))
    view = PlainView()
    view.say(f"Seed {seed}: {args.steps} steps of a group {args.group}.")
    status = EXIT_FAILED
    try:
        options = DemoOptions(
            folder,
            args.reports,
            Pace(PARTITIONS, PARTITIONS, RATE, RECORDS_BETWEEN_STEPS),
            None if args.fault is None else Break(args.fault),
            seed,
            keep_folder=kept,
            name=NAME,
            step_timeout_s=STEP_TIMEOUT_S,
            assignor="roundrobin",
        )
        status = play(options, group_of(args.group), args.steps, view)
    except KeyboardInterrupt:
        print("Interrupted: everything that was started is stopped.", file=sys.stderr)
        status = EXIT_INTERRUPTED
    except ZkcoordError as error:
        print(error, file=sys.stderr)
    if not kept:
        shutil.rmtree(folder, ignore_errors=True)
    return status
