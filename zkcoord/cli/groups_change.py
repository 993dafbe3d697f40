"""`zkcoord groups delete|rebalance`: what changes groups."""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from zkcoord.admin.common import Progress, some, whoami
from zkcoord.admin.coordinator_request import CoordinatorRequest, RequestPatience
from zkcoord.admin.delete_group import Deleted, Deletion
from zkcoord.admin.delete_led import LedPart
from zkcoord.admin.rebalance_group import Rebalance, RebalanceResult, rebalance_request
from zkcoord.cli.dry_run import add_dry_run_flags, refuse_both
from zkcoord.cli.groups_text import MISSING
from zkcoord.config.option_spec import Use
from zkcoord.config.options import BROKER_OPTIONS
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import Settings, add_flags
from zkcoord.errors import ConfigurationError, RefusedError, UnknownGroupError
from zkcoord.terminal import out
from zkcoord.text_table import table
from zkcoord.words import counted
from zkcoord.zk.acl.inherited import AclsThere
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.names import validate_group
from zkcoord.znodes.paths import layout_named

TIMEOUT_MS = 60_000
COMMANDS_WAIT_MS = 5_000
LOOK_MS = 50
DELETE_COLUMNS = (("GROUP", 15), ("WHAT", 15), ("NODES", 0))
MOVED_COLUMNS = (("GROUP", 15), ("TOPIC", 15), ("PARTITION", 10), ("FROM", 15), ("TO", 0))

EPILOG_DELETE = """\
examples:
  zkcoord groups delete billing --zookeeper zk1:2181/kafka                     what would be deleted
  zkcoord groups delete billing audit --zookeeper zk1:2181/kafka --execute
  zkcoord groups delete billing --zookeeper zk1:2181/kafka --keep-offsets --execute

Refused while members live. It may be interrupted and repeated; what a member makes in between is
left alone.
"""
EPILOG_REBALANCE = """\
examples:
  # assign anew at once, also out of quarantine
  zkcoord groups rebalance billing --zookeeper zk1:2181/kafka
  # as if nobody owned anything
  zkcoord groups rebalance billing --zookeeper zk1:2181/kafka --fresh
"""


def add_parsers(commands: Any) -> None:
    """Add `delete` and `rebalance`."""
    delete = commands.add_parser(
        "delete",
        help="delete groups without members",
        description="Delete groups that have no members. A dry run, unless --execute is given.",
        epilog=EPILOG_DELETE,
    )
    delete.add_argument("groups", metavar="GROUP", nargs="+")
    add_dry_run_flags(delete, "delete", "deleted")
    delete.add_argument(
        "--keep-offsets", action="store_true", help="leave the stored offsets where they are"
    )
    delete.add_argument(
        "--unreadable",
        action="store_true",
        help="also batches of sinks that nobody can read, and so nobody can make visible",
    )
    rebalance = commands.add_parser(
        "rebalance",
        help="have the coordinator assign a group anew",
        description="Have the coordinator assign a group anew, and show what moved.",
        epilog=EPILOG_REBALANCE,
    )
    rebalance.add_argument("group", metavar="GROUP")
    rebalance.add_argument("--fresh", action="store_true", help="forget who owns what now")
    rebalance.add_argument(
        "--timeout-ms",
        type=int,
        default=TIMEOUT_MS,
        metavar="MS",
        help=f"how long to wait until the group is balanced (default: {TIMEOUT_MS})",
    )
    for command in (delete, rebalance):
        command.add_argument("--json", action="store_true", help="JSON instead of a table")
        add_flags(command, Use.GROUPS, BROKER_OPTIONS)


def delete_groups(args: argparse.Namespace, settings: Settings) -> int:
    """0; what cannot be done is raised (`ZkcoordError`)."""
    groups = list(dict.fromkeys(map(validate_group, args.groups)))
    refuse_both(args)
    layout = layout_named(settings.text("layout"))
    progress = Progress("zkcoord groups")
    options = zk_options(settings)
    with SyncClient(options) as client:
        acl = AclsThere(client, options)
        until_ms = boot_ms() + COMMANDS_WAIT_MS

        def left_ms() -> int:
            return until_ms - boot_ms()

        rest = partial(threading.Event().wait, LOOK_MS / 1000)
        deletions = [
            Deletion(
                client,
                layout,
                group,
                args.keep_offsets,
                left_ms,
                rest,
                progress,
                args.unreadable,
                led=LedPart(client, layout, group, acl, left_ms, rest, progress),
            )
            for group in groups
        ]
        planned, unknown = _planned(deletions)
        refused = next((found.refusal for found in planned if found.refusal), "")
        for one in planned:
            if one.nobodys and not refused:
                progress.note(
                    f"persistent registrations of {one.group}, which are no members, go with it:"
                    f" {some(one.nobodys)}"
                )
        if not args.execute:
            _print_deleted(planned, executed=False, as_json=args.json)
            against = [sentence for sentence in (refused, *unknown) if sentence]
            if against:
                for sentence in against[1:]:
                    progress.note(sentence)
                raise RefusedError(f"{against[0]} (nothing was deleted)")
            if not args.json:
                progress.note("nothing was deleted; add --execute")
            return 0
        if refused:
            raise RefusedError(f"{refused} (nothing was deleted)")
        try:
            known = {found.group for found in planned}
            done = [deletion.execute() for deletion in deletions if deletion.group in known]
        except KeyboardInterrupt:
            progress.note(
                f"interrupted: {sum(sum(deletion.deleted.values()) for deletion in deletions)}"
                " nodes are deleted; repeat the command for the rest"
            )
            raise
        _print_deleted(done, executed=True, as_json=args.json)
    refused = next(filter(None, (*(found.refusal for found in done), *unknown)), "")
    if refused:
        raise RefusedError(f"{refused} ({_nodes_deleted(done)})")
    return 0


def _planned(deletions: Sequence[Deletion]) -> tuple[list[Deleted], list[str]]:
    """What would be deleted of each group that there is, and a sentence for each that there is not:
    of several, some may have been deleted before. Raises `UnknownGroupError` where all are such.
    """
    planned: list[Deleted] = []
    unknown: list[UnknownGroupError] = []
    for deletion in deletions:
        try:
            planned.append(deletion.plan())
        except UnknownGroupError as error:
            unknown.append(error)
    if not planned:
        raise unknown[0]
    return planned, [str(error) for error in unknown]


def _print_deleted(found: Sequence[Deleted], executed: bool, as_json: bool) -> None:
    if as_json:
        groups = [
            {
                "group": one.group,
                "nodes": dict(sorted(one.counts.items())),
                "refusal": one.refusal or None,
            }
            for one in found
        ]
        text = json.dumps({"executed": executed, "groups": groups}, indent=1) + "\n"
    elif not any(one.counts for one in found):
        return
    else:
        text = table(
            DELETE_COLUMNS,
            [
                [one.group, what, str(nodes)]
                for one in found
                for what, nodes in sorted(one.counts.items())
            ],
        )
    out(text, done=_nodes_deleted(found) if executed else "")


def _nodes_deleted(found: Sequence[Deleted]) -> str:
    nodes = sum(sum(one.counts.values()) for one in found)
    return f"{counted(nodes, 'node', 'was')} deleted"


def rebalance_group(args: argparse.Namespace, settings: Settings) -> int:
    """0; what cannot be done is raised (`ZkcoordError`)."""
    validate_group(args.group)
    if args.timeout_ms < 1:
        raise ConfigurationError(f"--timeout-ms is {args.timeout_ms}: write 1 or more")
    layout = layout_named(settings.text("layout"))
    options = zk_options(settings)
    progress = Progress("zkcoord groups")
    with SyncClient(options) as client:
        rest = partial(threading.Event().wait, LOOK_MS / 1000)
        asked = CoordinatorRequest(
            client,
            layout,
            args.group,
            AclsThere(client, options),
            RequestPatience(boot_ms, args.timeout_ms, rest, progress),
        )
        try:
            done = Rebalance(asked, rebalance_request(args.fresh, whoami())).run()
        except KeyboardInterrupt:
            progress.note(
                "interrupted: the coordinator takes the request up all the same"
                if asked.node
                else "interrupted: nothing was asked for"
            )
            raise
    said = (
        f"{counted(len(done.moved), 'partition')} moved; {args.group} is {done.group.state.value},"
        f" generation {done.group.metadata.generation}, after {done.took_ms} ms"
    )
    _print_rebalanced(args.group, done, args.json, said)
    if not args.json:
        progress.note(said)
    return 0


def _print_rebalanced(group: str, done: RebalanceResult, as_json: bool, said: str) -> None:
    if as_json:
        moved = [
            {
                "topic": m.tp.topic,
                "partition": m.tp.partition,
                "from": m.before or None,
                "to": m.after or None,
            }
            for m in done.moved
        ]
        document = {
            "group": group,
            "state": done.group.state.value,
            "generation": done.group.metadata.generation,
            "took_ms": done.took_ms,
            "moved": moved,
        }
        out(json.dumps(document, indent=1) + "\n", done=said)
    elif done.moved:
        rows = [
            [group, m.tp.topic, str(m.tp.partition), m.before or MISSING, m.after or MISSING]
            for m in done.moved
        ]
        out(table(MOVED_COLUMNS, rows), done=said)
