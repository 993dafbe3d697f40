"""`zkcoord groups health`: whether groups keep up, and by how many seconds they do not. It watches
their commits for a while, since one look cannot tell, and writes nothing. And what is wrong with
them for longer than a moment, why, and what to do.

Exit status: 0 all is well, 3 a verdict is not OK or there is some trouble, and 1, 2 and 130 as
every command.
"""

from __future__ import annotations

import argparse
import gc
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zkcoord.admin.common import Progress, some
from zkcoord.admin.kafka_groups import KafkaGroups
from zkcoord.admin.offsets.log_offsets import LogOffsets
from zkcoord.cli import groups_health_text as view
from zkcoord.cli.brokers import brokers
from zkcoord.cli.drawing import INTERVAL_MS_MAX, INTERVAL_MS_MIN, draw_again
from zkcoord.cli.groups_health_troubles import Found, TroubleFinder, trouble_lines
from zkcoord.config.kafka_security import PROTOCOL
from zkcoord.config.option_spec import Use
from zkcoord.config.options import ACL_OPTIONS
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import Settings, add_flags
from zkcoord.coordinator.gc_policy import collect_seldom
from zkcoord.errors import ConfigurationError, UnavailableError
from zkcoord.health.history import LogHistory
from zkcoord.health.log_ends import LogEnds
from zkcoord.health.monitor import HealthMonitor
from zkcoord.health.owners import with_owners
from zkcoord.health.rules import WATCHED_MS, GroupHealth, HealthLimits, HealthVerdict
from zkcoord.health.sampler import Sampler, Storage
from zkcoord.health.stored_offsets import StoredOffsets
from zkcoord.terminal import err, out, printable
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.listeners import PLAINTEXT, none_live
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.led_groups import list_all_groups
from zkcoord.znodes.names import validate_group
from zkcoord.znodes.paths import Layout, layout_named

FOUND, INTERRUPTED = 3, 130
SAMPLES = 30
INTERVAL_MS = 2_000
SAMPLES_MAX = 100_000
WATCHED_MS_MIN = 5_000
KAFKA_DEADLINE_S = 10.0

EPILOG = """\
examples:
  # all groups; up to a minute, less where all have no lag
  zkcoord groups health --zookeeper zk1:2181/kafka
  # two groups, with a row per partition
  zkcoord groups health billing audit --zookeeper zk1:2181/kafka --partitions
  # for consumers that commit once a minute: watch them for ten
  zkcoord groups health billing --zookeeper zk1:2181/kafka --samples 60 --interval-ms 10000
  # again and again, until Ctrl-C
  zkcoord groups health --zookeeper zk1:2181/kafka --watch
  # for a monitor: exit status 3 where a verdict is not OK, or a group is in some trouble
  zkcoord groups health --zookeeper zk1:2181/kafka --json
  # groups that keep their offsets in Kafka
  zkcoord groups health --zookeeper zk1:2181/kafka --storage kafka

OK       it keeps up, or catches up; or it is paused, and nobody is to consume
WARN     the lag grows all the time while records are consumed
ERROR    a partition has STOP (no commits), STALL (always the same commit), REWIND (an offset went
         back), or an offset that is none or beyond its log
UNKNOWN  it could not be seen, or not for long enough
NOTFOUND there is no such group

Below the table is what is wrong for longer than a moment (members that come and go, storms, slow
handlers, a record of which members die, ...), the evidence, and what to do. What has to do with the
past hour is in the coordinator's journal: run this where that is, or name it with --journal-dir.

LAG-SECONDS is how long ago the log ended where the group is now: as it was seen, and before that by
the times of the records; >58: that is not known, but longer than it was watched.
"""


def add_parser(commands: Any) -> None:
    """Add `health`."""
    health = commands.add_parser(
        "health",
        help="verdicts and lag in seconds",
        description="Whether groups keep up: verdicts without thresholds, and lag in seconds.",
        epilog=EPILOG,
    )
    health.add_argument("groups", metavar="GROUP", nargs="*", help="without one: all groups")
    health.add_argument(
        "--samples",
        type=int,
        metavar="N",
        help=f"how often to look (default: until all is judged, {SAMPLES} times at most)",
    )
    health.add_argument(
        "--interval-ms",
        type=int,
        default=INTERVAL_MS,
        metavar="MS",
        help=f"from one look to the next (default: {INTERVAL_MS})",
    )
    health.add_argument(
        "--watch", action="store_true", help="draw after each look, until Ctrl-C or --samples"
    )
    health.add_argument(
        "--partitions", action="store_true", help="a row per partition; in JSON those that are well"
    )
    health.add_argument(
        "--storage",
        choices=[storage.value for storage in Storage],
        default=Storage.AUTO.value,
        help="where offsets are looked for (default: auto: in ZooKeeper, and in Kafka where nothing"
        " is there); kafka, without a GROUP: all groups that brokers know",
    )
    health.add_argument("--json", action="store_true", help="JSON instead of a table")
    health.add_argument(
        "--journal-dir",
        dest="journals",
        action="append",
        metavar="DIR",
        help="a coordinator's journal; may be repeated (default: where a coordinator of this user"
        " keeps it)",
    )
    add_flags(health, Use.GROUPS, ACL_OPTIONS)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """0, 3 or 130; what cannot be done is raised (`ZkcoordError`)."""
    _judge_arguments(args)
    before = gc.get_threshold()
    collect_seldom()  # windows of 100,000 partitions are two million objects, and no circles
    try:
        return _run(args, settings)
    finally:
        gc.set_threshold(*before)


def _run(args: argparse.Namespace, settings: Settings) -> int:
    layout = layout_named(settings.text("layout"))
    storage = Storage(args.storage)
    with SyncClient(zk_options(settings)) as reader:
        asked = brokers(settings, reader, layout)
        if not asked.servers:
            raise UnavailableError(
                f"{none_live(asked.security.get(PROTOCOL, PLAINTEXT))}, and without the ends of"
                " the logs there is no verdict: name brokers with --bootstrap-servers"
            )
        with (
            KafkaGroups(asked.servers, KAFKA_DEADLINE_S, asked.security) as kafka,
            LogOffsets(asked.servers, asked.security) as usual,
            LogOffsets(asked.servers, asked.security) as doubtful,
        ):
            names = sorted(set(args.groups)) or (
                kafka.names()
                if storage is Storage.KAFKA
                else [group.name for group in list_all_groups(reader, layout)]
            )
            if not names:
                err(f"zkcoord groups health: there is no group (layout {layout.name})\n")
            sampler = Sampler(
                StoredOffsets(reader, layout, judges=True), kafka, LogEnds(usual, doubtful), storage
            )
            looking = _Looking(args, reader, layout, sampler, names, usual)
            return looking.again_and_again() if args.watch else looking.until_judged()


def _judge_arguments(args: argparse.Namespace) -> None:
    for group in args.groups:
        validate_group(group)
    if not INTERVAL_MS_MIN <= args.interval_ms <= INTERVAL_MS_MAX:
        raise ConfigurationError(
            f"--interval-ms is {args.interval_ms}: write {INTERVAL_MS_MIN} to {INTERVAL_MS_MAX}"
        )
    if args.samples is not None and not 1 <= args.samples <= SAMPLES_MAX:
        raise ConfigurationError(f"--samples is {args.samples}: write 1 to {SAMPLES_MAX}")


def watched_ms(samples: int, interval_ms: int) -> int:
    """How long a partition is watched before a window that is not full is judged: nearly as long as
    the command looks.
    """
    planned = (samples - 1) * interval_ms
    return max(WATCHED_MS_MIN, min(WATCHED_MS, planned * 9 // 10))


@dataclass(frozen=True)
class _Schedule:
    """How often to look; `exactly`: also where all is judged before."""

    times: int
    exactly: bool
    interval_s: float


class _Looking:
    """The looks of one run of the command."""

    def __init__(
        self,
        args: argparse.Namespace,
        reader: SyncClient,
        layout: Layout,
        sampler: Sampler,
        names: Sequence[str],
        ends: LogOffsets,
    ) -> None:
        self._args = args
        self._sampler = sampler
        self._names = names
        self._ends = ends
        self._history = LogHistory(ends)
        self._reader = reader
        self._layout = layout
        self._progress = Progress("zkcoord groups health")
        samples = args.samples or SAMPLES
        self._schedule = _Schedule(samples, args.samples is not None, args.interval_ms / 1000)
        # what is watched without end need not be judged early
        limit = WATCHED_MS if args.watch else watched_ms(samples, args.interval_ms)
        self._monitor = HealthMonitor(HealthLimits(watched_ms=limit))
        self._found: Found = {}
        self._finder = TroubleFinder(reader, layout, args.journals)
        self._looks = 0

    def until_judged(self) -> int:
        """Look as often as it takes, then print."""
        interrupted = False
        try:
            self._look_often()
        except KeyboardInterrupt:
            if not self._looks:
                raise
            interrupted = True
        except UnavailableError as error:
            if not self._looks:
                raise
            self._progress.note(f"{error}; what follows is of the {self._looks} looks before")
        self._progress.end()
        groups = self._groups()
        found = self._finder.of(groups)
        out(self._text(groups, found))
        self._note_problems(groups)
        return INTERRUPTED if interrupted else _status(groups, found)

    def again_and_again(self) -> int:
        """Look and print, until Ctrl-C."""

        def draw() -> str:
            try:
                self._look()
            except UnavailableError as error:
                if not self._looks:
                    raise
                groups = self._groups()
                return f"{error}; this is of an earlier look\n" + self._text(groups, self._found)
            groups = self._groups()
            self._found = self._finder.of(groups)
            return self._text(groups, self._found)

        draw_again(draw, self._schedule.interval_s, self._args.samples or 0, self._args.json)
        groups = self._monitor.groups()
        self._note_problems(groups)
        return _status(groups, self._found) if self._args.samples else 0

    def _look_often(self) -> None:
        """Looks that take longer than the interval are fewer, and end at the same time."""
        schedule = self._schedule
        due_ms = boot_ms()
        over_ms = due_ms + (schedule.times - 1) * self._args.interval_ms
        while True:
            self._look()
            unsettled = self._monitor.unsettled()
            if self._looks >= schedule.times:
                return
            if not schedule.exactly and (not unsettled or boot_ms() >= over_ms):
                return
            self._progress.update(
                f"look {self._looks} of {'' if schedule.exactly else 'at most '}{schedule.times},"
                f" groups: {len(self._names)}, partitions to be judged still: {unsettled}"
            )
            due_ms = max(due_ms + self._args.interval_ms, boot_ms())
            threading.Event().wait((due_ms - boot_ms()) / 1000)

    def _look(self) -> None:
        look = self._sampler.look(self._names)
        if not self._looks and look.no_ends and not look.ends and self._ends.warning:
            what = self._ends.warning.partition(": log ends")[0]
            raise UnavailableError(f"{what}: without the ends of the logs there is no verdict")
        self._monitor.take(look)
        self._looks += 1
        self._history.complete(self._monitor)

    def _groups(self) -> list[GroupHealth]:
        """The verdicts now."""
        groups = self._monitor.groups()
        try:
            return with_owners(self._reader, self._layout, groups)
        except UnavailableError:
            return groups

    def _text(self, groups: Sequence[GroupHealth], troubles: Found) -> str:
        if self._args.json:
            found = view.health_json(groups, self._looks, self._args.partitions, troubles)
            return json.dumps(found, indent=None if self._args.watch else 1) + "\n"
        shown = view.partitions_table if self._args.partitions else view.health_table
        lines = "".join(f"{printable(line)}\n" for line in trouble_lines(troubles))
        return shown(groups) + (f"\n{lines}" if lines else "")

    def _note_problems(self, groups: Sequence[GroupHealth]) -> None:
        lines = [*view.problem_lines(groups), *self._finder.notes]
        if lines:
            self._progress.note(some(lines))


def _status(groups: Sequence[GroupHealth], troubles: Found) -> int:
    is_well = all(group.verdict is HealthVerdict.OK for group in groups)
    return 0 if is_well and not troubles else FOUND
