"""`zkcoord groups pause|resume`: nothing is handed out to anybody, for as long as that is said."""

from __future__ import annotations

import argparse
import json
import threading
from functools import partial
from typing import Any

from zkcoord.admin.common import Progress, argument, some, whoami
from zkcoord.admin.coordinator_request import RequestPatience
from zkcoord.admin.pause_group import PauseGroup, PausePlan, PauseResult
from zkcoord.cli.dry_run import add_dry_run_flags, refuse_both
from zkcoord.config.option_spec import Use
from zkcoord.config.options import BROKER_OPTIONS
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import Settings, add_flags
from zkcoord.errors import ConfigurationError
from zkcoord.terminal import out, printable
from zkcoord.words import counted
from zkcoord.zk.acl.inherited import AclsThere
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.names import validate_group
from zkcoord.znodes.paths import layout_named

TIMEOUT_MS = 60_000
LOOK_MS = 50
PAUSE, RESUME = "pause", "resume"

EPILOG_PAUSE = """\
examples:
  # what would be done
  zkcoord groups pause billing --zookeeper zk1:2181/kafka
  # do it, and wait until nobody owns anything
  zkcoord groups pause billing --zookeeper zk1:2181/kafka --execute
  # all is handed out again, from the committed offsets
  zkcoord groups resume billing --zookeeper zk1:2181/kafka --execute

Members stay registered and connected. Each gives up what it has as in any rebalance (its callback,
its commits), and has an empty assignment; who joins or leaves meanwhile changes nothing. It holds
until the group is resumed, also when coordinators change; one of an earlier release knows no pauses
and assigns as ever. Refused for groups that are shared with old consumers, and for those whose
leader is a client. A group without a mode is in mode coordinated from then on (zkcoord groups
mode).
"""
EPILOG_RESUME = """\
examples:
  # what would be done
  zkcoord groups resume billing --zookeeper zk1:2181/kafka
  # do it, and wait until everything is owned
  zkcoord groups resume billing --zookeeper zk1:2181/kafka --execute
"""


def add_parsers(commands: Any) -> None:
    """Add `pause` and `resume`."""
    for name, words, epilog in (
        (PAUSE, "have nobody consume, and everybody stay", EPILOG_PAUSE),
        (RESUME, "end a pause", EPILOG_RESUME),
    ):
        parser = commands.add_parser(
            name,
            help=words,
            description="Hand out nothing of a group to anybody."
            if name == PAUSE
            else "Hand out everything of a paused group again.",
            epilog=epilog,
        )
        parser.description += " A dry run, unless --execute is given."
        parser.add_argument("group", metavar="GROUP")
        add_dry_run_flags(parser, f"{name} it", "done")
        parser.add_argument(
            "--timeout-ms",
            type=int,
            default=TIMEOUT_MS,
            metavar="MS",
            help=f"how long to wait until the group is at rest (default: {TIMEOUT_MS})",
        )
        parser.add_argument("--json", action="store_true", help="JSON instead of text")
        add_flags(parser, Use.GROUPS, BROKER_OPTIONS)


def pause(args: argparse.Namespace, settings: Settings) -> int:
    """0; what cannot be done, or is not done in time, is raised (`ZkcoordError`)."""
    return _run(args, settings, True)


def resume(args: argparse.Namespace, settings: Settings) -> int:
    """As `pause`."""
    return _run(args, settings, False)


def _run(args: argparse.Namespace, settings: Settings, paused: bool) -> int:
    validate_group(args.group)
    refuse_both(args)
    if args.timeout_ms < 1:
        raise ConfigurationError(f"--timeout-ms is {args.timeout_ms}: write 1 or more")
    layout, options = layout_named(settings.text("layout")), zk_options(settings)
    progress = Progress("zkcoord groups")
    with SyncClient(options) as client:
        rest = partial(threading.Event().wait, LOOK_MS / 1000)
        change = PauseGroup(
            client,
            layout,
            args.group,
            paused,
            whoami(),
            AclsThere(client, options),
            RequestPatience(boot_ms, args.timeout_ms, rest, progress),
        )
        if not args.execute:
            plan = change.plan()
            _print_plan(args.json, plan)
            if not args.json:
                more = "there is nothing to do" if plan.already else "add --execute"
                progress.note(f"nothing was done; {more}")
            return 0
        try:
            done = change.execute()
        except KeyboardInterrupt:
            progress.note(_interrupted(change))
            raise
        finally:
            progress.end()
    _print_done(args.json, done)
    if not done.taken_up and not args.json:
        progress.note("nobody leads: it is taken up as soon as a coordinator does")
    return 0


def _interrupted(change: PauseGroup) -> str:
    if not change.is_written:
        return "interrupted: nothing was written"
    what, back = (PAUSE, RESUME) if change.paused else (RESUME, PAUSE)
    return (
        f"interrupted: it is written that {change.group} is {what}d, and the coordinator goes on"
        f" with that; zkcoord groups {back} {argument(change.group)} --execute takes it back"
    )


def _print_plan(as_json: bool, plan: PausePlan) -> None:
    group = plan.group
    if as_json:
        document = {
            "executed": False,
            "group": group.group,
            "paused": group.paused or None,
            "already": plan.already,
            "members": len(group.members),
            "owned": len(group.holders),
        }
        out(json.dumps(document, indent=1) + "\n")
        return
    if plan.already:
        text = (
            f"{group.group} is paused already (by {group.paused})"
            if plan.paused
            else f"{group.group} is not paused"
        )
    elif plan.paused:
        text = (
            f"{group.group} would be paused: its members ({len(group.members)}) stay, and give up"
            f" what they own ({some(sorted(group.holders)) or 'nothing'})"
        )
        if group.mode is None:
            text += "; it has no mode, and would be in mode coordinated"
    else:
        text = (
            f"{group.group} would be resumed: it is paused by {group.paused}, and"
            f" {len(group.partitions)} partitions would be handed out to its members"
            f" ({len(group.members)})"
        )
    out(printable(text) + "\n")


def _print_done(as_json: bool, done: PauseResult) -> None:
    group = done.group
    what = "paused" if done.paused else "resumed"
    said = f"{group.group} is {what}"
    if as_json:
        document = {
            "executed": True,
            "group": group.group,
            "paused": group.paused or None,
            "taken_up": done.taken_up,
            "state": group.state.value,
            "generation": group.metadata.generation,
            "members": len(group.members),
            "owned": len(group.holders),
            "took_ms": done.took_ms,
        }
        out(json.dumps(document, indent=1) + "\n", done=said)
        return
    owned = (
        f"{len(group.holders)} partitions are owned" if group.holders else "nobody owns anything"
    )
    text = (
        f"{said}: {counted(len(group.members), 'member')}, {owned}; {group.state.value}, generation"
        f" {group.metadata.generation}, after {done.took_ms} ms"
    )
    out(printable(text) + "\n", done=said)
