"""`zkcoord groups`: what ZooKeeper holds of the groups, in the shape of kafka-consumer-groups.sh.
`list` and `describe` write nothing anywhere; `health` is in `groups_health`, `delete` and
`rebalance` are in `groups_change`.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from zkcoord.admin.common import argument, some
from zkcoord.admin.group_machine import machine_waits
from zkcoord.admin.group_problems import LEFT_ALONE, judged
from zkcoord.admin.offsets.log_offsets import LogOffsets
from zkcoord.cli import groups_change as change
from zkcoord.cli import groups_evict as evict
from zkcoord.cli import groups_health as health
from zkcoord.cli import groups_list_text as listed
from zkcoord.cli import groups_machine as machine
from zkcoord.cli import groups_mode as mode
from zkcoord.cli import groups_pause as pause
from zkcoord.cli import groups_text as view
from zkcoord.cli.brokers import Brokers, brokers
from zkcoord.cli.drawing import INTERVAL_MS_MAX, INTERVAL_MS_MIN, draw_again
from zkcoord.cli.groups_led_text import led_lines
from zkcoord.config.option_spec import Use
from zkcoord.config.options import ACL_OPTIONS
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import Settings, add_flags, resolve
from zkcoord.core.model import GroupState, Malformed, TopicPartition
from zkcoord.errors import ConfigurationError
from zkcoord.terminal import err, out, printable
from zkcoord.words import counted
from zkcoord.zk.clock import wall_ms
from zkcoord.zk.port import Children, GetChildren
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.group_snapshot import (
    GroupSnapshot,
    coordinator_seen,
)
from zkcoord.zk.sync.led_groups import (
    DOUBTED_LED,
    STATE,
    all_pins,
    describe_any_group,
    list_all_groups,
)
from zkcoord.zk.sync.listed_names import unusable_groups
from zkcoord.zk.sync.read_pins import DOUBTED
from zkcoord.znodes.classic.pin import Machine
from zkcoord.znodes.names import shown, validate_group
from zkcoord.znodes.paths import BROKERS, layout_named

INTERVAL_MS = 1_000
NO_BROKER = "no broker is known, so no member finds one by itself: zkcoord check says what helps"
NEVER_LISTED = "a group is Dead when it was deleted, and then it has no nodes and is not listed"

EPILOG = """\
examples:
  zkcoord groups list --help
  zkcoord groups describe --help
  zkcoord groups health --help
  zkcoord groups rebalance --help
  zkcoord groups evict --help
  zkcoord groups pause --help
  zkcoord groups delete --help
  zkcoord groups mode --help
  zkcoord groups machine --help
"""
EPILOG_LIST = """\
examples:
  zkcoord groups list --zookeeper zk1:2181/kafka
  # names and states
  zkcoord groups list --zookeeper zk1:2181/kafka --state
  # only these
  zkcoord groups list --zookeeper zk1:2181/kafka --state Stable,Empty
  # also: who runs each, and what was said of that
  zkcoord groups list --zookeeper zk1:2181/kafka --verbose
  # also: the groups of each topic
  zkcoord groups list --zookeeper zk1:2181/kafka --json
"""
EPILOG_DESCRIBE = """\
examples:
  # partitions, offsets, lags, owners
  zkcoord groups describe billing --zookeeper zk1:2181/kafka
  # who owns what
  zkcoord groups describe billing --zookeeper zk1:2181/kafka --members --verbose
  # drawn again every second
  zkcoord groups describe billing --zookeeper zk1:2181/kafka --state --watch
  # everything
  zkcoord groups describe billing --zookeeper zk1:2181/kafka --json
"""


def add_parser(subparsers: Any) -> None:
    """Add `groups` with its commands."""
    parser = subparsers.add_parser(
        "groups",
        help="list, describe, judge, rebalance and delete consumer groups",
        description="List, describe, judge, rebalance and delete consumer groups.",
        epilog=EPILOG,
    )
    commands = parser.add_subparsers(
        dest="groups_command",
        metavar="list|describe|health|rebalance|evict|pause|resume|delete|mode|machine",
        required=True,
    )
    for command in (_list_parser(commands), _describe_parser(commands)):
        command.add_argument("--json", action="store_true", help="JSON instead of a table")
        add_flags(command, Use.GROUPS, ACL_OPTIONS)
    health.add_parser(commands)
    change.add_parsers(commands)
    evict.add_parser(commands)
    pause.add_parsers(commands)
    mode.add_parser(commands)
    machine.add_parser(commands)


def _list_parser(commands: Any) -> argparse.ArgumentParser:
    listing: argparse.ArgumentParser = commands.add_parser(
        "list",
        help="names of the groups",
        description="Names of the groups, one per line.",
        epilog=EPILOG_LIST,
    )
    listing.add_argument(
        "--state",
        nargs="?",
        const="",
        metavar="STATE,...",
        help="with states; with a value, only groups in one of these (never Dead: a group that was"
        " deleted has no nodes)",
    )
    listing.add_argument(
        "--verbose",
        action="store_true",
        help="states, who runs each group (a client or the coordinator), and who is to (groups"
        " machine), of groups that nobody knows yet, too",
    )
    return listing


def _describe_parser(commands: Any) -> argparse.ArgumentParser:
    describe: argparse.ArgumentParser = commands.add_parser(
        "describe",
        help="one group",
        description="One group: partitions (the default), members or state.",
        epilog=EPILOG_DESCRIBE,
    )
    describe.add_argument("group", metavar="GROUP")
    what = describe.add_mutually_exclusive_group()
    what.add_argument(
        "--offsets",
        dest="what",
        action="store_const",
        const="offsets",
        help="a row per partition (the default)",
    )
    what.add_argument(
        "--members", dest="what", action="store_const", const="members", help="a row per member"
    )
    what.add_argument("--state", dest="what", action="store_const", const="state", help="one row")
    describe.add_argument(
        "--verbose",
        action="store_true",
        help="more columns: what members own; generation, epoch and cause",
    )
    describe.add_argument("--watch", action="store_true", help="draw again and again, until Ctrl-C")
    describe.add_argument(
        "--interval-ms",
        type=int,
        default=INTERVAL_MS,
        metavar="MS",
        help=f"how often --watch draws (default: {INTERVAL_MS})",
    )
    describe.add_argument(
        "--times", type=int, default=0, metavar="N", help="draw N times with --watch, then end"
    )
    return describe


def run(args: argparse.Namespace) -> int:
    """0, or of `health` 3; what cannot be done is raised (`ZkcoordError`)."""
    settings = resolve(Use.GROUPS, vars(args), os.environ)
    return COMMANDS[args.groups_command](args, settings)


def _list(args: argparse.Namespace, settings: Settings) -> int:
    wanted = _states(args.state) if args.state else frozenset(GroupState)
    if args.state and wanted == {GroupState.DEAD}:
        err(f"zkcoord groups: {NEVER_LISTED}\n")
    layout = layout_named(settings.text("layout"))
    with SyncClient(zk_options(settings)) as reader:
        found = list_all_groups(reader, layout)
        groups = [g for g in found if g.state in wanted and not (args.state and g.unknown)]
        said = all_pins(reader, layout) if args.verbose or args.json else {}
        unusable = unusable_groups(reader, layout)
        coordinator = coordinator_seen(reader, layout)
        (known,) = reader.read([GetChildren(BROKERS)])
    if groups and not (isinstance(known, Children) and known.names):
        err(f"zkcoord groups: {NO_BROKER}\n")
    pins = [bad for bad in said.values() if isinstance(bad, Malformed)]
    _say_doubted("the pin", [bad for bad in pins if bad.what == DOUBTED])
    bad_ones = [bad for group in groups for bad in group.malformed]
    _say_doubted("the leading client", [bad for bad in bad_ones if bad.what == DOUBTED_LED])
    if unusable:
        err(
            f"zkcoord groups: {counted(len(unusable), 'name')} in {layout.groups_root} can be no"
            f" group's, not listed: {some(map(shown, unusable))}; see zkcoord check\n"
        )
    # of these there is no state that could be wanted
    unknown = [] if args.state else sorted(said.keys() - {group.name for group in found})
    if args.json:
        _print_json(listed.list_json(groups, coordinator, said, unknown))
    else:
        out(
            listed.machines_text(groups, said, unknown)
            if args.verbose
            else listed.list_text(groups, with_state=args.state is not None)
        )
        if not groups:
            which = f" in {args.state}" if args.state else ""
            err(
                f"zkcoord groups: there is no group{which} on this ensemble (layout {layout.name};"
                " another layout or chroot may have others; zkcoord check has those of old"
                " consumers alone)\n"
            )
    return 0


def _say_doubted(what: str, doubted: list[Malformed]) -> None:
    if doubted:
        names = some(bad.name for bad in doubted)
        err(f"zkcoord groups: {what} of {names} is not believed: {printable(doubted[0].reason)}\n")


def _states(text: str) -> frozenset[GroupState]:
    by_name = {state.value.lower(): state for state in GroupState}
    given = [word.strip() for word in text.split(",")]
    bad = next((word for word in given if word.lower() not in by_name), None)
    if bad is not None:
        raise ConfigurationError(
            f"{shown(bad)} is no state of a group: write one or more of"
            f" {', '.join(state.value for state in GroupState if state is not GroupState.DEAD)}"
        )
    return frozenset(by_name[word.lower()] for word in given)


def _describe(args: argparse.Namespace, settings: Settings) -> int:
    validate_group(args.group)
    if not INTERVAL_MS_MIN <= args.interval_ms <= INTERVAL_MS_MAX:
        raise ConfigurationError(
            f"--interval-ms is {args.interval_ms}: write {INTERVAL_MS_MIN} to {INTERVAL_MS_MAX}"
        )
    if args.times < 0 or (args.times and not args.watch):
        raise ConfigurationError(
            "--times is for --watch, and counts from 1: add --watch, or leave it out"
        )
    layout = layout_named(settings.text("layout"))
    with SyncClient(zk_options(settings)) as reader:
        asked = brokers(settings, reader, layout) if _needs_ends(args) else Brokers()
        with LogOffsets(asked.servers, asked.security) as ends:

            def draw() -> str:
                return _text(
                    args, judged(reader, describe_any_group(reader, layout, args.group)), ends
                )

            if args.watch:
                draw_again(draw, args.interval_ms / 1000, args.times, json_lines=args.json)
            else:
                out(draw())
        if ends.warning and _needs_ends(args):
            err(f"zkcoord groups: {ends.warning}\n")
    return 0


def _needs_ends(args: argparse.Namespace) -> bool:
    return bool(args.json) or args.what in (None, "offsets")


def _text(args: argparse.Namespace, group: GroupSnapshot, ends: LogOffsets) -> str:
    found = (
        ends.of(
            tp
            for tp in group.partitions
            if tp.topic in group.topics and tp.partition in group.topics[tp.topic].partitions
        )
        if _needs_ends(args)
        else {}
    )
    if args.json:
        return json.dumps(view.group_json(group, found), indent=None if args.watch else 1) + "\n"
    note = _note(group)
    if not args.watch:
        err(note)
        note = ""
    return note + _table(args, group, found)


def _note(group: GroupSnapshot) -> str:
    """What must not be overlooked, in lines."""
    return _pinned(group) + _doubted(group) + _alone(group) + _about(group)


def _doubted(group: GroupSnapshot) -> str:
    """Words that the coordinator passes over, too, or cannot read."""
    return "".join(
        f"Of the group '{group.group}' this counts for nothing ({bad.what}): {bad.reason}.\n"
        for bad in group.malformed
        if bad.what in ("mode", DOUBTED_LED, STATE)
    )


def _alone(group: GroupSnapshot) -> str:
    """What is shown of it then is what was, and stays so."""
    said = LEFT_ALONE.format(group.left_alone)
    return f"Consumer group '{group.group}': {said}.\n" if group.left_alone else ""


def _pinned(group: GroupSnapshot) -> str:
    """Who is to run it, where somebody has said that."""
    doubted = [bad.reason for bad in group.malformed if bad.what == DOUBTED]
    if doubted:
        return f"What was said of who runs '{group.group}' is not believed: {doubted[0]}.\n"
    if not group.pinned:
        return ""
    waits = machine_waits(group, Machine(group.pinned))
    return (
        f"Consumer group '{group.group}' is pinned {group.pinned}{': ' if waits else ''}{waits}.\n"
    )


def _about(group: GroupSnapshot) -> str:
    if group.led is not None and group.led.members:
        return "".join(f"{line}\n" for line in led_lines(group.group, group.led, wall_ms()))
    if group.paused:
        return view.paused_line(group)
    if group.unknown:
        return f"Consumer group '{group.group}': its members are not known.\n"
    if not group.members:
        return f"Consumer group '{group.group}' has no active members.\n"
    if group.state is GroupState.QUARANTINED:
        why = group.metadata.failure or "zkcoord journal has the reason"
        retry = f"zkcoord groups rebalance {argument(group.group)}"
        return (
            f"Consumer group '{group.group}' is quarantined, and everybody keeps what it has:"
            f" {why}; `{retry}` has it tried again at once.\n"
        )
    return "".join(f"{line}\n" for line in view.mode_lines(group)) if view.is_shared(group) else ""


def _table(
    args: argparse.Namespace, group: GroupSnapshot, found: Mapping[TopicPartition, int]
) -> str:
    if args.what == "members":
        return view.members_table(group, args.verbose)
    return (
        view.state_table(group, args.verbose)
        if args.what == "state"
        else view.offsets_table(group, found)
    )


def _print_json(value: Any) -> None:
    out(json.dumps(value, indent=1) + "\n")


COMMANDS: dict[str, Callable[[argparse.Namespace, Settings], int]] = {
    "list": _list,
    "describe": _describe,
    "health": health.run,
    "rebalance": change.rebalance_group,
    "evict": evict.run,
    "pause": pause.pause,
    "resume": pause.resume,
    "delete": change.delete_groups,
    "mode": mode.run,
    "machine": machine.run,
}
