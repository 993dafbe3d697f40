"""`zkcoord offsets reset`: which values a group's offsets are to get, and how they are stored.
Nothing is written without --execute.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from zkcoord.admin.common import Progress, argument, refuse_doubted_led, some
from zkcoord.admin.offsets import reset_live as live
from zkcoord.admin.offsets.log_offsets import NO_RECORD, LogOffsets
from zkcoord.admin.offsets.named_topics import Topics, are_written_down, named_topics
from zkcoord.admin.offsets.reset import Reset, ResetResult, ResetRow
from zkcoord.admin.offsets.reset_plan import Aim, Log, ResetKind, export, parse_file, parse_topics
from zkcoord.admin.offsets.stored import read_stored
from zkcoord.admin.offsets.time_spec import parse_datetime, parse_duration, shown_time
from zkcoord.admin.offsets.untold import Untold, refusal, untold_folder
from zkcoord.cli import offsets_text as view
from zkcoord.cli.brokers import Brokers, brokers
from zkcoord.cli.dry_run import refuse_both
from zkcoord.config.files import read_file
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import Settings
from zkcoord.core.model import TopicPartition
from zkcoord.errors import ConfigurationError, RefusedError, UnavailableError, UnknownGroupError
from zkcoord.terminal import out
from zkcoord.words import counted
from zkcoord.zk.acl.inherited import AclsThere
from zkcoord.zk.clock import boot_ms, wall_ms
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.group_snapshot import GroupSnapshot, describe_group
from zkcoord.znodes.names import shown
from zkcoord.znodes.owner_offset_epoch import OFFSET_MAX
from zkcoord.znodes.paths import Layout, layout_named

TIMEOUT_MS = 30_000
LOOK_MS = 100
FILE_BYTES_MAX = 64 * 1024 * 1024
AT = ("earliest", "latest", "current")


EPILOG = """\
examples:
  # what would be written
  zkcoord offsets reset billing --zookeeper zk1:2181/kafka --all-topics --to-earliest
  zkcoord offsets reset billing --zookeeper zk1:2181/kafka \\
    --topic orders --to-datetime 2026-01-31T10:00:00Z --execute
  # members stay, and seek
  zkcoord offsets reset billing --zookeeper zk1:2181/kafka \\
    --topic orders:0,2 --shift-by -100 --execute --live
  # a copy of what is stored
  zkcoord offsets reset billing --zookeeper zk1:2181/kafka \\
    --all-topics --to-current --export > offsets.csv
  # and back
  zkcoord offsets reset billing --zookeeper zk1:2181/kafka --from-file offsets.csv --execute

Offsets outside of a log are moved to its nearest end, with a warning. While members live a reset is
refused, unless --live is given. A --shift-by whose outcome could not be printed, or that was
interrupted, is recognised by the next one and refused, unless --again is given.
"""


def add_arguments(reset: argparse.ArgumentParser) -> None:
    """Add what only `reset` takes."""
    _add_aims(reset)
    reset.add_argument(
        "--live",
        action="store_true",
        help="also while members live: the owners seek to the new offsets",
    )
    reset.add_argument(
        "--new-group",
        action="store_true",
        help="the group need not exist: its first member begins at these offsets",
    )
    reset.add_argument(
        "--export",
        action="store_true",
        help="print topic,partition,offset lines instead of a table",
    )
    reset.add_argument(
        "--again",
        action="store_true",
        help="with --shift-by: also what an earlier command has shifted without telling its"
        " outcome",
    )
    reset.add_argument(
        "--timeout-ms",
        type=int,
        default=TIMEOUT_MS,
        metavar="MS",
        help=f"how long --live waits for the owners to go on from there (default: {TIMEOUT_MS})",
    )


def _add_aims(reset: argparse.ArgumentParser) -> None:
    what = reset.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--to-earliest", action="store_true", help="the first offset that the log holds"
    )
    what.add_argument("--to-latest", action="store_true", help="the end of the log")
    what.add_argument("--to-current", action="store_true", help="what is stored, for --export")
    what.add_argument("--to-offset", type=int, metavar="N", help="this offset")
    what.add_argument(
        "--shift-by", type=int, metavar="N", help="N further, or back where it is negative"
    )
    what.add_argument(
        "--to-datetime",
        metavar="TIME",
        help="the first record at or after YYYY-MM-DDThh:mm:ss.sss, UTC unless it ends with a zone",
    )
    what.add_argument(
        "--by-duration", metavar="PnDTnHnMnS", help="the first record that is not older than this"
    )
    what.add_argument(
        "--from-file", metavar="PATH", help="the offsets in a file of topic,partition,offset lines"
    )


def _aim(args: argparse.Namespace, group: str, progress: Progress) -> Aim:
    """What was asked for. Raises `ConfigurationError`."""
    if args.to_earliest or args.to_latest or args.to_current:
        if args.to_current:
            return Aim(ResetKind.CURRENT)
        return Aim(ResetKind.EARLIEST if args.to_earliest else ResetKind.LATEST)
    if args.to_offset is not None:
        if not 0 <= args.to_offset <= OFFSET_MAX:
            raise ConfigurationError(
                f"--to-offset is {args.to_offset}: write an offset from 0 on, or --to-earliest"
            )
        return Aim(ResetKind.OFFSET, args.to_offset)
    if args.shift_by is not None:
        if abs(args.shift_by) > OFFSET_MAX:
            raise ConfigurationError(
                f"--shift-by is {args.shift_by}: write a number from -2^63+1 to 2^63-1"
            )
        return Aim(ResetKind.SHIFT, args.shift_by)
    if args.from_file is not None:
        return Aim(
            ResetKind.FILE, offsets=parse_file(_read_file(args.from_file), group, args.from_file)
        )
    if args.to_datetime is not None:
        at_ms, zoned = parse_datetime(args.to_datetime, instead=", or --to-earliest")
        if not zoned:
            progress.note(f"{shown(args.to_datetime)} has no zone and is taken as UTC")
        return Aim(ResetKind.TIME, at_ms)
    at_ms = max(0, wall_ms() - parse_duration(args.by_duration))
    progress.note(f"{args.by_duration} ago was {shown_time(at_ms)}")
    return Aim(ResetKind.TIME, at_ms)


def _read_file(path: str) -> str:
    try:
        data = read_file(path, FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise ConfigurationError(f"{path} is larger than {FILE_BYTES_MAX} bytes: split it")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be read ({error.strerror}): correct --from-file"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{path} is not UTF-8: write topic,partition,offset on each line, as --export does"
        ) from error


def run(args: argparse.Namespace, settings: Settings, group: str) -> int:
    """Plan the reset, and with --execute write it. Raises `ZkcoordError`."""
    progress = Progress("zkcoord offsets")
    refuse_both(args)
    if args.timeout_ms < 0:
        raise ConfigurationError(f"--timeout-ms is {args.timeout_ms}: write 0 or more")
    if args.export and args.json:
        raise ConfigurationError("--export and --json are both given: leave one of them out")
    chosen = parse_topics(args.topic or ())
    if bool(chosen) + args.all_topics + (args.from_file is not None) != 1:
        raise ConfigurationError(
            "which partitions? write --topic TOPIC[:0,1,2], or --all-topics, or --from-file PATH;"
            " one of them"
        )
    aim = _aim(args, group, progress)
    layout = layout_named(settings.text("layout"))
    options = zk_options(settings)
    with SyncClient(options) as client:
        found = _look(client, layout, group, args.new_group)
        if not args.export:
            for one in (layout, layout.other_profile()):
                refuse_doubted_led(client, one, group)
        topics, tps = chosen_partitions(client, layout, aim, chosen, found, progress)
        if args.live and found is not None:
            live.may_stay(group, list(found.members.values()), found.mode)
        logs = _logs(brokers(settings, client, layout), tps, aim)
        untold = Untold(
            untold_folder(os.environ, os.path.expanduser("~")),
            f"{options.address} {layout.name} {group}",
        )
        about_to = partial(untold.write, _asked(args), wall_ms())
        reset = Reset(
            client,
            layout,
            group,
            aim,
            logs,
            topics,
            args.live,
            AclsThere(client, options),
            progress,
            about_to,
        )
        if args.execute:
            if aim.kind is ResetKind.SHIFT and not args.again:
                _refuse_twice(reset, untold)
            return _execute(args, reset, progress, untold)
        result = reset.plan()
        _print(args, reset, result)
        if args.export:
            return 0
        refused = reset.somebody_there()
        if refused:
            raise RefusedError(f"{refused} (nothing was written)")
        if aim.kind is ResetKind.SHIFT and not args.again:
            _refuse_twice(reset, untold)
        if not args.json:
            progress.note("nothing was written; add --execute")
    return 0


def _look(client: SyncClient, layout: Layout, group: str, may_be_new: bool) -> GroupSnapshot | None:
    """The group as it is; None: it is a new one."""
    try:
        return describe_group(client, layout, group)
    except UnknownGroupError as error:
        if may_be_new:
            return None
        raise UnknownGroupError(
            f"{error} (--new-group stores offsets for a group that does not exist yet)"
        ) from error


def chosen_partitions(
    client: SyncClient,
    layout: Layout,
    aim: Aim,
    chosen: Mapping[str, tuple[int, ...] | None],
    found: GroupSnapshot | None,
    progress: Progress,
) -> tuple[Topics, list[TopicPartition]]:
    """The topics and partitions that are meant. Raises `RefusedError` for what was named and Kafka
    does not have; what all topics of the group would have in addition is noted and left out.
    """
    named: set[TopicPartition] = set()
    if aim.kind is ResetKind.FILE:
        named = set(aim.offsets)
    elif found is not None and not chosen:
        named = set(found.partitions)
    is_named = bool(chosen) or aim.kind is ResetKind.FILE
    names = sorted({tp.topic for tp in named} | set(chosen))
    wanted = named | {TopicPartition(name, n) for name in chosen for n in chosen[name] or ()}

    def is_whole(topics: Topics) -> bool:
        return not is_named or (topics.keys() >= set(names) and not _unknown(wanted, topics))

    topics = named_topics(client, layout, names, is_whole, progress)
    gone = [name for name in names if name not in topics]
    if gone and is_named:
        heard = are_written_down(client)
        raise RefusedError(
            f"Kafka has no topic {some(gone)}{', as far as coordinators have heard' * heard}:"
            " correct the name, or the chroot at the end of --zookeeper"
            f"{', or try again in a minute if it is new' * heard}"
        )
    if not topics:
        raise RefusedError(
            "there is no topic to reset: the group has no offsets and subscribes to nothing that"
            " exists; name topics with --topic"
        )
    tps = [tp for tp in sorted(named) if tp.topic in topics]
    tps += [
        TopicPartition(name, n)
        for name, numbers in sorted(chosen.items())
        for n in (topics[name].partitions if numbers is None else numbers)
    ]
    unknown = _unknown(tps, topics)
    if unknown and is_named:
        raise RefusedError(f"Kafka has no partition {some(unknown)}: leave it out")
    if unknown:
        progress.note(
            f"Kafka has no partition {some(unknown)}: what is stored there stays as it is (zkcoord"
            " offsets delete removes it)"
        )
    return topics, [tp for tp in tps if tp not in set(unknown)]


def _unknown(tps: Iterable[TopicPartition], topics: Topics) -> list[TopicPartition]:
    """Which of them topics that are there do not have."""
    return [
        tp for tp in tps if tp.topic in topics and tp.partition not in topics[tp.topic].partitions
    ]


def _logs(asked: Brokers, tps: Sequence[TopicPartition], aim: Aim) -> dict[TopicPartition, Log]:
    """The logs of all of them. Raises `RefusedError`: a target that cannot be checked against its
    log is not stored.
    """
    with LogOffsets(asked.servers, asked.security) as ends:
        starts, stops = ends.starts_of(tps), ends.of(tps)
        times = ends.at_time(tps, aim.number) if aim.kind is ResetKind.TIME else {}
        missing = [
            tp
            for tp in tps
            if tp not in starts
            or tp not in stops
            or (aim.kind is ResetKind.TIME and tp not in times)
        ]
        if missing:
            raise RefusedError(
                f"the logs of {some(missing)} are not known ({ends.warning.rpartition(': ')[0]}):"
                " leave these out, start their brokers, or name others with --bootstrap-servers"
            )
    return {
        tp: Log(starts[tp], stops[tp], None if times.get(tp, NO_RECORD) == NO_RECORD else times[tp])
        for tp in tps
    }


def _asked(args: argparse.Namespace) -> str:
    """The aim as it was written."""
    for name in ("to_offset", "shift_by", "to_datetime", "by_duration", "from_file"):
        value = getattr(args, name)
        if value is not None:
            return f"--{name.replace('_', '-')} {value}"
    return next(f"--to-{at}" for at in AT if getattr(args, f"to_{at}"))


def _refuse_twice(reset: Reset, untold: Untold) -> None:
    """Raises `RefusedError` where an earlier command has shifted some of these, and may not have
    told it.
    """
    what, rows = untold.found()
    if rows:
        reset.client.sync()
        stored = read_stored(reset.client, reset.layout, reset.group, reset.logs)
        versions = {tp: one.version for tp, one in stored.items()}
        refused = refusal(reset.group, what, rows, versions)
        if refused:
            raise RefusedError(refused)


def _execute(args: argparse.Namespace, reset: Reset, progress: Progress, untold: Untold) -> int:
    until_ms = boot_ms() + args.timeout_ms
    try:
        result = reset.execute()
    except KeyboardInterrupt:
        done = sum(row.written for row in reset.rows.values())
        progress.note(
            f"interrupted: {done} of {counted(len(reset.logs), 'partition', 'is')} written; repeat"
            " the command for the rest (a --shift-by is refused for these)"
        )
        raise
    except UnavailableError as error:
        done = sum(row.written for row in reset.rows.values())
        raise UnavailableError(
            f"{error} ({done} of {counted(len(reset.logs), 'partition', 'is')} known to be"
            " written: see zkcoord"
            f" offsets show {argument(reset.group)})"
        ) from error
    written = [row for row in result.rows if row.written]
    said = _reset_of(written)
    # a table of what was not done would be taken for what was
    told = bool(result.refusal and not written and not args.json) or _print(
        args, reset, result, said
    )
    if untold.problem:
        progress.note(f"{untold.problem}: a repetition of this command would not be recognised")
    if result.refusal:
        raise RefusedError(
            f"{result.refusal} ({len(written)} of {counted(len(result.rows), 'partition', 'was')}"
            " written)"
        )
    owned = [row for row in written if row.owner]
    if owned:
        rest = partial(threading.Event().wait, LOOK_MS / 1000)
        try:
            late = live.await_taken(
                reset.client,
                reset.layout,
                reset.group,
                owned,
                lambda: until_ms - boot_ms(),
                rest,
                progress,
            )
        except KeyboardInterrupt:
            progress.note(
                f"{said}; the owners of {len(owned)} of them may not have heard yet: see zkcoord"
                f" offsets show {argument(reset.group)}"
            )
            if told:
                untold.told()
            raise
        if late:
            progress.note(
                f"stored, but the owners of {some(late)} have not committed from there yet: they"
                f" seek as soon as they look; see zkcoord offsets show {argument(reset.group)}"
            )
    if not args.json and not args.export:
        progress.note(said + (f", {len(owned)} of them under a live owner" if owned else ""))
    if told:
        untold.told()
    return 0


def _reset_of(written: Sequence[ResetRow]) -> str:
    """How many were reset, and of how many that was stored already."""
    there = sum(row.there for row in written)
    if written and there == len(written):
        return (
            f"nothing was to do: what {counted(there, 'partition', 'is')} to have is stored already"
        )
    rest = f"; of {there} that is stored already" if there else ""
    return f"{counted(len(written) - there, 'partition', 'was')} reset{rest}"


def _print(args: argparse.Namespace, reset: Reset, result: ResetResult, done: str = "") -> bool:
    """Whether it could be printed; see `out`."""
    for row in result.rows:
        if row.warning:
            reset.progress.note(row.warning)
    if args.export:
        text = export(_targets(result.rows))
    elif args.json:
        text = (
            json.dumps(
                view.reset_json(reset.group, result.rows, bool(args.execute), result.refusal),
                indent=1,
            )
            + "\n"
        )
    else:
        text = view.reset_table(reset.group, result.rows)
    return out(text, done=done)


def _targets(rows: Iterable[ResetRow]) -> Iterable[tuple[TopicPartition, int]]:
    return [(row.tp, row.new) for row in rows if row.new is not None]
