"""`zkcoord offsets show|reset|delete|accept`: the offsets of a group, and other values for them,
with the options of kafka-consumer-groups.sh. Nothing is written without --execute.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

from zkcoord.admin.common import Progress, some
from zkcoord.admin.offsets.accept import Accept
from zkcoord.admin.offsets.log_offsets import LogOffsets
from zkcoord.admin.offsets.reset_plan import Aim, ResetKind, parse_topics
from zkcoord.admin.offsets.stored import read_stored
from zkcoord.cli import offsets_delete, offsets_reset
from zkcoord.cli import offsets_text as view
from zkcoord.cli.brokers import brokers
from zkcoord.cli.dry_run import add_dry_run_flags, refuse_both
from zkcoord.cli.offsets_reset import chosen_partitions
from zkcoord.config.option_spec import Use
from zkcoord.config.options import ACL_OPTIONS, BROKER_OPTIONS
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import Settings, add_flags, resolve
from zkcoord.core.model import TopicPartition
from zkcoord.errors import ConfigurationError, RefusedError
from zkcoord.terminal import out
from zkcoord.words import counted
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.group_snapshot import describe_group
from zkcoord.znodes.names import validate_group
from zkcoord.znodes.paths import layout_named

EPILOG = """\
examples:
  zkcoord offsets show --help
  zkcoord offsets reset --help
  zkcoord offsets delete --help
  zkcoord offsets accept --help
"""
EPILOG_SHOW = """\
examples:
  zkcoord offsets show billing --zookeeper zk1:2181/kafka
  zkcoord offsets show billing --zookeeper zk1:2181/kafka --topic orders:0,1 --json

INCARNATION says which topic of that name the offset belongs to: the ZooKeeper transaction that made
the topic and, where brokers give one, its id. A topic that was deleted and made again is another.
"""
ALL_TOPICS = (
    "all topics that the group has offsets of or subscribes to",
    "all topics that the group has offsets of, owns or subscribes to (the default)",
)
EPILOG_ACCEPT = """\
examples:
  # what would count again
  zkcoord offsets accept billing --zookeeper zk1:2181/kafka --all-topics
  zkcoord offsets accept billing --zookeeper zk1:2181/kafka --topic orders --execute

For an ensemble that was moved or restored: its topics look made again, though they are the old
ones. Where a topic was really made again, reset its offsets instead.
"""


def add_parser(subparsers: Any) -> None:
    """Add `offsets` with its commands."""
    parser = subparsers.add_parser(
        "offsets",
        help="show, reset and delete the offsets of a group",
        description="Show, reset and delete the stored offsets of a group.",
        epilog=EPILOG,
    )
    commands = parser.add_subparsers(
        dest="offsets_command", metavar="show|reset|delete|accept", required=True
    )
    show = commands.add_parser(
        "show",
        help="stored offsets, logs, lags, owners",
        description=(
            "Stored offsets, the ends of their logs, lags, owners, and the topics that they"
            " belong to."
        ),
        epilog=EPILOG_SHOW,
    )
    reset = commands.add_parser(
        "reset",
        help="store other offsets",
        description="Store other offsets. A dry run, unless --execute is given.",
        epilog=offsets_reset.EPILOG,
    )
    delete, accept = _add_delete_and_accept(commands)
    for command in (show, reset, delete, accept):
        command.add_argument("group", metavar="GROUP", nargs="?")
        command.add_argument(
            "--group",
            dest="group_flag",
            metavar="GROUP",
            help="the group, as in kafka-consumer-groups.sh",
        )
        command.add_argument(
            "--topic",
            action="append",
            metavar="TOPIC" if command is accept else "TOPIC[:0,1,2]",
            help=f"a topic{'' if command is accept else ', or some of its partitions'}; may be"
            " repeated",
        )
        command.add_argument(
            "--all-topics",
            action="store_true",
            # taken by `delete` only to say what to write instead
            help=argparse.SUPPRESS if command is delete else ALL_TOPICS[command is show],
        )
        command.add_argument("--json", action="store_true", help="JSON instead of a table")
    offsets_reset.add_arguments(reset)
    for command in (reset, delete, accept):
        add_dry_run_flags(command, "write", "written")
    add_flags(show, Use.GROUPS, ACL_OPTIONS)
    add_flags(reset, Use.GROUPS)
    add_flags(delete, Use.GROUPS, (*ACL_OPTIONS, *BROKER_OPTIONS))
    add_flags(accept, Use.GROUPS, ACL_OPTIONS)


def _add_delete_and_accept(
    commands: Any,
) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    accept = commands.add_parser(
        "accept",
        help="have stored offsets count for topics that look made again",
        description=(
            "Have stored offsets count for topics that look made again. A dry run, unless --execute"
            " is given."
        ),
        epilog=EPILOG_ACCEPT,
    )
    delete = commands.add_parser(
        "delete",
        help="delete the offsets of topics or partitions",
        description="Delete stored offsets. A dry run, unless --execute is given.",
        epilog=offsets_delete.EPILOG,
    )
    return delete, accept


def run(args: argparse.Namespace) -> int:
    """0; what cannot be done is raised (`ZkcoordError`)."""
    settings = resolve(Use.GROUPS, vars(args), os.environ)
    group = _group(args)
    return COMMANDS[args.offsets_command](args, settings, group)


def _group(args: argparse.Namespace) -> str:
    given = [name for name in (args.group, args.group_flag) if name is not None]
    if len(given) != 1:
        raise ConfigurationError("name one group: write it after the command, or with --group")
    return validate_group(given[0])


def _show(args: argparse.Namespace, settings: Settings, group: str) -> int:
    chosen = parse_topics(args.topic or ())
    if chosen and args.all_topics:
        raise ConfigurationError("--topic and --all-topics are both given: leave one of them out")
    layout = layout_named(settings.text("layout"))
    with SyncClient(zk_options(settings)) as reader:
        found = describe_group(reader, layout, group)
        tps = [
            tp
            for tp in found.partitions
            if not chosen
            or (
                tp.topic in chosen
                and (chosen[tp.topic] is None or tp.partition in (chosen[tp.topic] or ()))
            )
        ]
        _all_there(group, chosen, tps)
        stored = read_stored(reader, layout, group, tps)
        asked = brokers(settings, reader, layout)
        with LogOffsets(asked.servers, asked.security) as ends:
            known = [
                tp
                for tp in tps
                if tp.topic in found.topics and tp.partition in found.topics[tp.topic].partitions
            ]
            logs = (ends.starts_of(known), ends.of(known))
        out(
            json.dumps(view.show_json(found, stored, *logs), indent=1) + "\n"
            if args.json
            else view.show_table(found, stored, *logs)
        )
        unreadable = [
            tp for tp, one in stored.items() if one.offset is None and one.version is not None
        ]
        for note in (
            [f"what is stored for {some(unreadable)} is no offset: reset it"] if unreadable else []
        ) + ([ends.warning] if ends.warning else []):
            Progress("zkcoord offsets").note(note)
    return 0


def _all_there(
    group: str, chosen: Mapping[str, tuple[int, ...] | None], tps: Collection[TopicPartition]
) -> None:
    """Raises `RefusedError` where a topic, or a partition, was named that the group has not."""
    vain = [
        topic if numbers is None else f"{topic}:{number}"
        for topic, numbers in chosen.items()
        for number in (numbers if numbers is not None else (0,))
        if not any(tp.topic == topic and (numbers is None or tp.partition == number) for tp in tps)
    ]
    if vain:
        raise RefusedError(
            f"the group {group} has no offsets of {some(vain)}, owns nothing of it and does not"
            " subscribe to it: correct --topic"
        )


def _accept(args: argparse.Namespace, settings: Settings, group: str) -> int:
    refuse_both(args)
    chosen = parse_topics(args.topic or ())
    if bool(chosen) + args.all_topics != 1 or any(
        numbers is not None for numbers in chosen.values()
    ):
        raise ConfigurationError(
            "which topics? write --topic TOPIC, as often as needed, or --all-topics; whole topics,"
            " one of the two"
        )
    layout = layout_named(settings.text("layout"))
    progress = Progress("zkcoord offsets")
    with SyncClient(zk_options(settings)) as client:
        found = describe_group(client, layout, group)
        topics, tps = chosen_partitions(
            client, layout, Aim(ResetKind.CURRENT), chosen, found, progress
        )
        accept = Accept(client, layout, group, topics, tps, progress)
        planned = accept.plan()
        stored = {tp.topic for tp, one in accept.stored.items() if one.version is not None}
        vain = [topic for topic in chosen if topic not in stored]
        asked = brokers(settings, client, layout)
        with LogOffsets(asked.servers, asked.security) as ends:
            gains = [tp for one in planned for tp in one.gains]
            for warning in view.outside(accept.stored, ends.starts_of(gains), ends.of(gains)):
                progress.note(warning)
        done, refusal = accept.execute() if args.execute else (planned, accept.refusal())
    out(
        json.dumps(view.accept_json(group, done, args.execute), indent=1) + "\n"
        if args.json
        else view.accept_table(group, done),
        done=f"{counted(len(done), 'topic', 'was')} accepted" if args.execute else "",
    )
    said = "nothing was written"
    if args.execute:
        said = f"{len(done)} of {counted(len(planned), 'topic', 'was')} accepted"
    if refusal:
        raise RefusedError(f"{refusal} ({said})")
    if vain:
        raise RefusedError(
            f"the group {group} has no offsets of {some(vain)}: correct --topic ({said})"
        )
    if not args.json:
        if not planned:
            progress.note("all stored offsets count already")
        elif args.execute:
            progress.note(f"{counted(len(done), 'topic', 'was')} accepted")
        else:
            progress.note("nothing was written; add --execute")
    return 0


COMMANDS: dict[str, Callable[[argparse.Namespace, Settings, str], int]] = {
    "show": _show,
    "reset": offsets_reset.run,
    "delete": offsets_delete.run,
    "accept": _accept,
}
