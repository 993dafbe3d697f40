"""`zkcoord migrate list|plan|apply|verify|rollback|restore`.

Exit status: 0 done (or nothing to do), 1 some groups were refused or are not as they should be, 2
the command line is wrong, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from migrations import view
from migrations.journal import (
    REPORT,
    JournalTold,
    RunJournal,
    damage,
    read_journal,
    unsaid,
)
from migrations.model import Choices
from migrations.restoring import BOTH, restorer
from migrations.running import (
    Fleet,
    GroupOutcome,
    Planner,
    Where,
    Worker,
    known_to_somebody,
)
from migrations.runs import new_run, runs_folder, runs_in, unfinished
from migrations.steps import STEPS, step_named
from zkcoord.admin.common import Progress, some
from zkcoord.check.reader import group_names
from zkcoord.cli.brokers import brokers
from zkcoord.config.option_spec import Use
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import Settings, add_flags, resolve
from zkcoord.errors import ConfigurationError, RefusedError, UnavailableError
from zkcoord.terminal import out
from zkcoord.zk.clock import wall_ms
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.names import is_plain_group, shown
from zkcoord.znodes.paths import Layout

JOBS, JOBS_MAX = 4, 64
PROG = "zkcoord migrate"

EPILOG = """\
examples:
  # the steps, and the runs so far
  zkcoord migrate list
  # what step 1 would write, for every group; writes nothing
  zkcoord migrate plan 1 --zookeeper zk1:2181/kafka
  # offsets of these groups to Kafka, after a backup
  zkcoord migrate apply 2 --zookeeper zk1:2181/kafka --only 'billing*'
  # whether both stores say the same
  zkcoord migrate verify 2 --zookeeper zk1:2181/kafka
  # offsets back from Kafka to ZooKeeper, with what was consumed meanwhile
  zkcoord migrate rollback 2 --zookeeper zk1:2181/kafka
  # both stores as that run found them
  zkcoord migrate restore RUN --zookeeper zk1:2181/kafka --dry-run

A command that was interrupted is run again, and goes on. docs/migration.md has the whole journey.
"""


def add_parser(subparsers: Any) -> None:
    """Add `migrate` with its commands."""
    parser = subparsers.add_parser(
        "migrate",
        help="offsets from old consumers to coordinated groups, to Kafka, and back",
        description="Move offsets between stores, step by step, and back.",
        epilog=EPILOG,
    )
    commands = parser.add_subparsers(
        dest="migrate_command", metavar="|".join(COMMANDS), required=True
    )
    listing = commands.add_parser("list", help="the steps, and the runs so far")
    listing.add_argument(
        "--dir",
        metavar="DIR",
        help=(
            "where runs keep their backups and journals (default: zkcoord/migrations in the user's"
            " state folder)"
        ),
    )
    for name, about in (
        ("plan", "what a step would write"),
        ("apply", "take a step"),
        ("verify", "whether a step is complete"),
        ("rollback", "take a step back"),
        ("restore", "put back what a run found"),
    ):
        command = commands.add_parser(
            name, help=about, description=f"{about[0].upper()}{about[1:]}.", epilog=EPILOG
        )
        command.add_argument(
            "what",
            metavar="RUN" if name == "restore" else "STEP",
            help="a run's folder, or its name" if name == "restore" else "a step's number or name",
        )
        command.add_argument(
            "--only",
            action="append",
            metavar="GROUP",
            help="groups of this name, or pattern with * and ?; may be repeated",
        )
        command.add_argument(
            "--jobs",
            type=int,
            default=JOBS,
            metavar="N",
            help=f"groups are worked on by N workers (default: {JOBS})",
        )
        command.add_argument("--json", action="store_true", help="JSON instead of a table")
        command.add_argument("--verbose", action="store_true", help="every offset")
        command.add_argument("--report", metavar="PATH", help="write the JSON there as well")
        command.add_argument(
            "--dir",
            metavar="DIR",
            help=(
                "where runs keep their backups and journals (default: zkcoord/migrations in the"
                " user's state folder)"
            ),
        )
        _add_choices(command, name)
        add_flags(command, Use.GROUPS, ("layout",))


def _add_choices(command: argparse.ArgumentParser, name: str) -> None:
    if name in ("plan", "verify"):
        command.add_argument("--rollback", action="store_true", help="of the way back")
    if name in ("plan", "apply", "rollback"):
        command.add_argument(
            "--take",
            choices=["highest"],
            help="where Kafka has later offsets than ZooKeeper, store those (step 1)",
        )
        command.add_argument(
            "--allow-rewind",
            action="store_true",
            help="the other store may go back; its records are consumed again",
        )
        command.add_argument(
            "--off-by-one",
            choices=["correct", "keep"],
            default="",
            help="what to do where offsets look like last processed ones",
        )
    if name in ("apply", "rollback"):
        command.add_argument(
            "--new-run", action="store_true", help="do not go on with a run that was interrupted"
        )
    if name == "restore":
        command.add_argument(
            "--dry-run", action="store_true", help="only show what would be written"
        )
        command.add_argument(
            "--store",
            choices=BOTH,
            help="only this store; refused where that leaves the other one ahead",
        )


def run(args: argparse.Namespace) -> int:
    """0 or 1; what cannot be done is raised (`ZkcoordError`)."""
    return COMMANDS[args.migrate_command](args)


def _list(args: argparse.Namespace) -> int:
    runs = runs_in(runs_folder(args.dir, os.environ))
    out(view.listing(STEPS, runs))
    return 0


def _plan(args: argparse.Namespace) -> int:
    planner = step_named(args.what).plan(args.rollback)
    return _over(
        args, lambda unknown: partial(_dry, known_to_somebody(planner, unknown), _choices(args))
    )


def _verify(args: argparse.Namespace) -> int:
    planner = step_named(args.what).plan(args.rollback)

    def without_live(now: Any, choices: Choices) -> Any:
        return replace(planner(now, choices), live=())

    return _over(
        args,
        lambda unknown: partial(_dry, known_to_somebody(without_live, unknown), Choices()),
        ("to do", "refused"),
    )


def _apply(args: argparse.Namespace) -> int:
    rollback = args.migrate_command == "rollback"
    step = step_named(args.what)
    what = {"migration": f"{step.number:04d}", "way": "back" if rollback else "forward"}
    return _writing(
        args,
        what,
        lambda unknown: known_to_somebody(step.plan(rollback), unknown),
        _choices(args),
        args.new_run,
    )


def _restore(args: argparse.Namespace) -> int:
    folder = Path(args.what)
    if not folder.is_dir():
        folder = runs_folder(args.dir, os.environ) / args.what
    told = read_journal(folder)
    stores = (args.store,) if args.store else BOTH
    damaged = damage(folder, told)
    if damaged and not args.only:
        raise RefusedError(damaged)
    args.only = chosen(args.only, sorted(told.first), f"in the run {folder.name}")
    if args.dry_run:
        return _over(args, lambda _unknown: partial(_dry, restorer(told, stores), Choices()))
    return _writing(
        args,
        {"migration": f"restore-{folder.name}", "way": "+".join(stores)},
        lambda _unknown: restorer(told, stores),
        Choices(),
        new=False,
    )


def _choices(args: argparse.Namespace) -> Choices:
    return Choices(
        highest=args.take == "highest", allow_rewind=args.allow_rewind, off_by_one=args.off_by_one
    )


Act = Callable[[Worker, Sequence[str]], list[GroupOutcome]]


def _dry(
    planner: Planner, choices: Choices, worker: Worker, groups: Sequence[str]
) -> list[GroupOutcome]:
    return worker.plan(groups, planner, choices)


def _writing(
    args: argparse.Namespace,
    what: Mapping[str, str],
    planner: Callable[[frozenset[str]], Planner],
    choices: Choices,
    new: bool,
) -> int:
    """Apply, roll back, restore: in a run's folder, the one that was interrupted or a new one."""
    base = runs_folder(args.dir, os.environ)
    settings = _settings(args)
    purpose = {**what, "zookeeper": zk_options(settings).address}
    before = None if new else unfinished(base, purpose)
    damaged = unsaid(before.folder, before.told) if before is not None else ""
    if damaged:
        raise RefusedError(f"{damaged}; begin anew with --new-run")
    folder = before.folder if before is not None else new_run(base, purpose, wall_ms())
    with RunJournal(folder) as journal:
        told = before.told if before is not None else JournalTold()
        progress = Progress(PROG)
        if before is None:
            journal.begin({**purpose, "choices": vars(choices), "time_ms": wall_ms()})
        progress.note(
            f"{'going on in' if before is not None else 'backup and journal are in'} {folder}"
        )

        def acting(unknown: frozenset[str]) -> Act:
            wanted = planner(unknown)

            def act(worker: Worker, groups: Sequence[str]) -> list[GroupOutcome]:
                return worker.apply(groups, wanted, choices, journal, told)

            return act

        return _over(args, acting, ended=journal)


def _settings(args: argparse.Namespace) -> Settings:
    if not 1 <= args.jobs <= JOBS_MAX:
        raise ConfigurationError(f"--jobs is {args.jobs}: write a number from 1 to {JOBS_MAX}")
    settings = resolve(Use.GROUPS, vars(args), os.environ)
    if args.report:
        _try_report(Path(args.report))
    return settings


def _over(
    args: argparse.Namespace,
    acting: Callable[[frozenset[str]], Act],
    wrong: Sequence[str] = ("refused",),
    ended: RunJournal | None = None,
) -> int:
    """Have all chosen groups' turn, and report."""
    settings = _settings(args)
    options = zk_options(settings)
    with SyncClient(options) as reader:
        reader.sync()
        known = group_names(reader)
        named = set(filter(is_plain_group, args.only or ()))
        groups = chosen(args.only, known, "on this ensemble", named)
        asked = brokers(settings, reader, Layout.DRAFT)
        where = Where(options, asked.servers, asked.security)
    outcomes: dict[str, GroupOutcome] = {}
    with _bar(len(groups)) as advance:

        def seen(some_outcomes: list[GroupOutcome]) -> None:
            outcomes.update({outcome.plan.group: outcome for outcome in some_outcomes})
            advance(len(some_outcomes))

        try:
            Fleet(where, args.jobs, acting(frozenset(groups) - set(known)), seen).run(groups)
        except (KeyboardInterrupt, UnavailableError):
            Progress(PROG).note(
                f"ended after {len(outcomes)} of {len(groups)} groups: run the command again, and"
                " it goes on"
            )
            raise
    listed = [outcomes[group] for group in groups]
    report = view.report(args.migrate_command, args.what, listed)
    bad = [outcome for outcome in listed if outcome.state in wrong]
    if ended is not None:  # before anything is printed: what was done is done
        _write_report(ended.folder / REPORT, report)
        if not bad:
            ended.ended(report["figures"])
    if args.report:
        _write_report(Path(args.report), report)
    out(
        json.dumps(report, indent=1) + "\n" if args.json else view.table_of(listed, args.verbose),
        done=f"{len(listed) - len(bad)} of {len(listed)} groups are done, the report is in"
        f" {ended.folder / REPORT}"
        if ended is not None
        else "",
    )
    if bad:
        what = "are not as this step leaves them" if len(wrong) > 1 else "are refused"
        raise RefusedError(
            f"{len(bad)} of {len(listed)} groups {what}"
            f" ({some([outcome.plan.group for outcome in bad])}): the table says why"
        )
    return 0


def chosen(
    only: Sequence[str] | None, known: Sequence[str], where: str, more: Collection[str] = ()
) -> list[str]:
    """Those that match, and of `more` (names that ZooKeeper need not know) those that are given.
    Raises `RefusedError` where one of `only` matches nothing.
    """
    if not only:
        return list(known)
    found = {name for name in more if name in only}
    vain = []
    for pattern in only:
        matching = {n for n in known if n == pattern or fnmatch.fnmatchcase(n, pattern)}
        found |= matching
        if not matching and pattern not in found:
            vain.append(pattern)
    if vain:
        raise RefusedError(
            f"no group {where} matches {some(vain)}: correct --only, or the chroot at the end of"
            " --zookeeper; zkcoord groups list shows those that there are"
        )
    return sorted(found)


def _try_report(path: Path) -> None:
    """Before anything is done: whether the report can be written. Raises `ConfigurationError`."""
    try:
        is_new = not path.exists()
        if is_new or path.is_file() or path.is_dir():  # whoever reads a pipe waits for its one end
            path.open("a", encoding="utf-8").close()
        if is_new:
            path.unlink()
    except (OSError, ValueError) as error:
        raise _no_report(path, error) from error


def _write_report(path: Path, report: Mapping[str, Any]) -> None:
    try:
        path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise _no_report(path, error) from error


def _no_report(path: Path, error: OSError | ValueError) -> ConfigurationError:
    why = error.strerror if isinstance(error, OSError) else error
    return ConfigurationError(
        f"the report {shown(str(path))} cannot be written ({why}): correct --report"
    )


def _bar(total: int) -> AbstractContextManager[Callable[[int], None]]:
    """A progress bar on a terminal where rich is installed (the extra `cli`), else a line a second
    at most.
    """
    if sys.stderr.isatty():
        try:
            return view.Bar(total)
        except ModuleNotFoundError:
            pass
    progress, done = Progress(PROG), [0]

    def advance(count: int) -> None:
        done[0] += count
        progress.say(f"{done[0]} of {total} groups")

    return nullcontext(advance)


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "plan": _plan,
    "apply": _apply,
    "verify": _verify,
    "rollback": _apply,
    "restore": _restore,
}
