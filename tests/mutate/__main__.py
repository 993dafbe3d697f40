"""How much the fast tests and the simulator notice: one small change at a time in the two cores and
in what parses and writes znodes.

    python -m tests.mutate                          every mutant (an hour)
    python -m tests.mutate --changed 7              files that the last 7 days have changed
    python -m tests.mutate zkcoord/core/target.py   one file, or a folder
    python -m tests.mutate --list zkcoord/znodes    what there would be

A mutant that nothing notices is a missing test, or no fault: then a file of `survivors/` has it
with the reason. Exit status 1: something survives without a reason, or a reason is for what does
not survive any more.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import tomllib

from tests.mutate.mutations import Mutant, mutants
from tests.mutate.running import Trials, Verdict, asks_for_a_server, in_child, survey

ROOT = Path(__file__).parents[2]
FOLDERS = ("zkcoord/core", "consumer/core", "zkcoord/znodes")
# whose tests are fast, and run what is mutated
TESTS = (
    "tests/core",
    "tests/znodes",
    "tests/assignors",
    "tests/consumer/core",
    "tests/consumer/member",
    "tests/coordinator",
    "tests/sim/test_groups.py",
    "tests/sim/test_invariants.py",
    "tests/sim/test_leases.py",
)
REASONS = Path(__file__).with_name("survivors")  # a file of each part
SURVIVED = (Verdict.SURVIVED, Verdict.UNTESTED)


class Collected:
    """A plugin that keeps what was collected, and runs nothing."""

    def __init__(self) -> None:
        self.session: pytest.Session | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of running them."""
        self.session = session
        run(session, self.options)
        return True

    options: argparse.Namespace


def changed_files(days: float, root: Path = ROOT) -> set[str]:
    """Files that commits of the last days have changed, and what is not committed. The moment is
    said in full: of "168.0 hours ago" git makes a moment of its own.
    """
    since = datetime.now(timezone.utc) - timedelta(days=days)
    commands = (
        [
            "git",
            "log",
            f"--since={since.isoformat(timespec='seconds')}",
            "--name-only",
            "--format=",
        ],
        ["git", "diff", "--name-only", "HEAD"],
    )
    found = set()
    for command in commands:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"git cannot say what has changed: {done.stderr.strip()}")
        found.update(done.stdout.split())
    return found


def chosen(options: argparse.Namespace) -> list[Mutant]:
    """The mutants asked for."""
    files = sorted(
        str(path.relative_to(ROOT))
        for folder in options.paths or FOLDERS
        for path in (
            [ROOT / folder] if (ROOT / folder).is_file() else (ROOT / folder).rglob("*.py")
        )
    )
    if not files:
        sys.exit(f"no Python file is below {', '.join(options.paths)}: name a file or a folder")
    if options.changed:
        kept = changed_files(options.changed)
        files = [path for path in files if path in kept]
    found = [mutant for path in files for mutant in mutants(path, ROOT)]
    if options.keys_from:
        named = set(Path(options.keys_from).read_text(encoding="utf-8").splitlines())
        found = [mutant for mutant in found if mutant.key in named]
    if options.key:
        found = [mutant for mutant in found if options.key in mutant.key]
    if options.sample and options.sample < len(found):
        found = random.Random(options.seed).sample(found, options.sample)
    return found


def reasons() -> dict[str, str]:
    """Key of a survivor -> why it is none."""
    return {
        entry["key"]: entry["reason"]
        for path in sorted(REASONS.glob("*.toml"))
        for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("survivor", ())
    }


def simulate(mutant: Mutant, seeds: int) -> bool:
    """Whether some mix of the simulator objects to what is loaded now."""
    from tests.sim.mixes import MIXES
    from tests.sim.runner import run_seed

    if not mutant.path.startswith(("zkcoord/core", "consumer/core")):
        return False
    for mix in MIXES:
        for seed in range(seeds):
            try:
                if run_seed(seed, mix=mix).violations:
                    return True
            except Exception:
                return True
    return False


def results(
    trials: Trials, wanted: Sequence[Mutant], jobs: int, seeds: int
) -> Iterator[tuple[Mutant, Verdict]]:
    """Of each mutant, as they come: `jobs` at a time, each judged by a fork of its own."""
    from concurrent.futures import ThreadPoolExecutor, as_completed

    def judge(mutant: Mutant) -> Verdict:
        answer = in_child(
            lambda: pickle.dumps(trials.judge(mutant, lambda: simulate(mutant, seeds))), 900
        )
        return Verdict.STUCK if answer is None else pickle.loads(answer)

    with ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(judge, mutant): mutant for mutant in wanted}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def run(session: pytest.Session, options: argparse.Namespace) -> None:
    """Survey the tests, try the mutants, say what came of them."""
    import tests.sim.mixes
    import tests.sim.runner  # noqa: F401  # loaded before the forks

    known = reasons()
    items = [item for item in session.items if not asks_for_a_server(item)]
    wanted = chosen(options)
    say(f"{len(wanted)} mutants, {len(items)} tests. Which test runs which line ...")
    paths = {str(ROOT / m.path): m.path for m in wanted}
    seen = survey(items, paths)
    say(f"{len(seen)} tests pass here, in {sum(s.seconds for s in seen.values()):.0f} s")
    trials, counts, survivors, began = (
        Trials(items, seen, ROOT),
        Counter[Verdict](),
        [],
        time.time(),
    )
    for number, (mutant, verdict) in enumerate(
        results(trials, wanted, options.jobs, options.seeds)
    ):
        counts[verdict] += 1
        if verdict in SURVIVED:
            survivors.append((mutant, verdict))
            if mutant.key not in known:
                say(f"  {mutant.path}:{mutant.line} {verdict.value}: {mutant.key}")
        if number % 20 == 19 or number + 1 == len(wanted):
            say(
                f"{number + 1} of {len(wanted)}, {time.time() - began:.0f} s: "
                f"{len(survivors)} survive"
            )
    options.status = tell(wanted, counts, survivors)


def tell(
    wanted: Sequence[Mutant], counts: Counter[Verdict], survivors: list[tuple[Mutant, Verdict]]
) -> int:
    """The result, on standard output; the exit status."""
    known = reasons()
    explained = [m for m, _ in survivors if m.key in known]
    for mutant, verdict in sorted(survivors, key=lambda found: (found[0].path, found[0].line)):
        if mutant.key not in known:
            print(f"{verdict.value}: {mutant.path}:{mutant.line}\n    {mutant.key}")
    alive = {m.key for m, _ in survivors}
    stale = [m.key for m in wanted if m.key in known and m.key not in alive]
    for key in stale:
        print(f"caught now, take its reason away: {key}")
    total, caught = len(wanted), len(wanted) - len(survivors)
    print(", ".join(f"{counts[v]} {v.value}" for v in Verdict if counts[v]))
    print(
        f"score: {caught} of {total} mutants are noticed ({100 * caught / max(1, total):.1f} %);"
        f" {len(survivors)} survive, {len(explained)} of them explained"
    )
    return 1 if len(survivors) > len(explained) or stale else 0


def say(text: str) -> None:
    """A line of progress."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="*", help=f"files or folders (default: {' '.join(FOLDERS)})")
    parser.add_argument("--changed", type=float, metavar="DAYS", help="only files changed since")
    parser.add_argument("--key", help="only mutants whose key has this text")
    parser.add_argument("--keys-from", metavar="FILE", help="only mutants with these keys, by line")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="test files or folders")
    parser.add_argument("--sample", type=int, metavar="N", help="so many of them, drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the drawing")
    parser.add_argument(
        "--seeds", type=int, default=1, help="of each mix of the simulator (0: without it)"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="say the keys, and try nothing")
    options = parser.parse_args(arguments)
    if options.list:
        for mutant in chosen(options):
            print(f"{mutant.path}:{mutant.line} {mutant.key}")
        return 0
    if not chosen(options):
        print("nothing that is mutated has changed")
        return 0
    plugin = Collected()
    options.status = 3
    plugin.options = options
    gone = pytest.main(
        ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not nightly", *options.tests],
        [plugin],
    )
    return options.status if gone in (0, 5) else 3


if __name__ == "__main__":
    sys.exit(main())
