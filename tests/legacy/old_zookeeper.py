"""The suites of the edge to ZooKeeper, of the protocol and of the core, all on a server of an older
release: what must be the same there is the same, and what cannot be is left out by name.

    python -m tests.legacy.old_zookeeper [--release 3.4.14] [--jobs 2] [--only protocol]

Prints a table and writes build/reports/old-zookeeper.json; exit status 1 when a test failed. What
only newer servers can do is marked in the tests (`tests.harness.zookeeper.since_3_6`), and each
reason is a line of the report.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from tests.bench.figures import Bar, Row, Section
from tests.bench.running import Part, conclude, measure_all, measured_in_a_folder, report_named
from tests.harness.zookeeper import OLDEST, RELEASE_VARIABLE, RELEASES
from zkcoord.stack import jars
from zkcoord.stack.java import find_java

ROOT = Path(__file__).parents[2]
SUITES = {
    "zk": "tests/zk",
    "protocol": "tests/protocol",
    "core": "tests/core",
    "znodes": "tests/znodes",
}
WHOLE = Bar("min", 100, at_least=True)
FAILURES_NAMED_MAX = 10


def play(release: str, suite: str, jobs: int, folder: Path, into: list[Section]) -> None:
    """Run one suite there."""
    section = Section(suite, f"{SUITES[suite]} on ZooKeeper {release}")
    into.append(section)
    results = folder / f"{suite}.xml"
    began = time.monotonic()
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        str(jobs),
        "-p",
        "no:cacheprovider",
        f"--junitxml={results}",
        SUITES[suite],
    ]
    subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, RELEASE_VARIABLE: release},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    if not results.exists():
        section.failure = "pytest ended before any test ran"
        return
    cases = list(ElementTree.parse(results).iter("testcase"))
    left_out = Counter(
        str(skipped.get("message"))
        for case in cases
        if (skipped := case.find("skipped")) is not None
    )
    failed = [
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    ran = len(cases) - sum(left_out.values())
    section.rows += [
        Row(
            "tests that pass",
            f"of {ran}",
            [100.0 * (ran - len(failed)) / ran if ran else 0.0],
            (WHOLE,),
            unit="%",
            note="; ".join(failed[:FAILURES_NAMED_MAX]),
        ),
        Row("tests", "pytest", [float(ran)], unit=""),
        Row("seconds", "wall clock", [time.monotonic() - began], unit="s"),
    ]
    section.notes += [f"left out, {count}: {reason}" for reason, count in sorted(left_out.items())]


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.legacy.old_zookeeper",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--release", choices=sorted(RELEASES), default=OLDEST)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--only", action="append", choices=SUITES, help="may be given several times"
    )
    parser.add_argument(
        "--fetch", action="store_true", help="fetch the release's jars and do nothing else"
    )
    args = parser.parse_args(argv)
    if args.fetch:
        jars.resolve(RELEASES[args.release], find_java(), print)
        return 0

    def measure(folder: Path) -> int:
        chosen = args.only or list(SUITES)
        parts: dict[str, Part] = {
            suite: partial(play, args.release, suite, args.jobs, folder) for suite in SUITES
        }
        sections = measure_all(parts, chosen)
        return conclude(
            sections,
            {"release": args.release, "parts": chosen},
            str(find_java().major),
            report_named("old-zookeeper", chosen, list(SUITES)),
            "old-zookeeper",
        )

    return measured_in_a_folder(measure)


if __name__ == "__main__":
    raise SystemExit(main())
