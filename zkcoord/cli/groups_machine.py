"""`zkcoord groups machine`: whether a group's leader, a client, or the coordinator runs it."""

from __future__ import annotations

import argparse
import json
from typing import Any

from zkcoord.admin.common import argument, whoami
from zkcoord.admin.group_machine import (
    lists_of_clients,
    machine_refusal,
    machine_waits,
    no_leader_for,
    set_machine,
    unreadable_pin,
)
from zkcoord.config.option_spec import Use
from zkcoord.config.options import ACL_OPTIONS
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import Settings, add_flags
from zkcoord.core.model import GroupMetadata
from zkcoord.errors import ConfigurationError, RefusedError, UnknownGroupError
from zkcoord.terminal import err, out, printable
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.group_snapshot import GroupSnapshot, coordinator_seen
from zkcoord.zk.sync.led_groups import describe_any_group, pinned
from zkcoord.znodes.classic.pin import AUTO, Machine, Pin
from zkcoord.znodes.names import validate_group
from zkcoord.znodes.paths import Layout, layout_named

MACHINES = (AUTO, *(machine.value for machine in Machine))

EPILOG = """\
examples:
  # who runs it, and what was said
  zkcoord groups machine billing --zookeeper zk1:2181/kafka
  # its clients lead it, whatever they list
  zkcoord groups machine billing client-led --zookeeper zk1:2181/kafka
  # the coordinator runs it: who lists no assignor that it knows is refused
  zkcoord groups machine billing coordinated --zookeeper zk1:2181/kafka
  # what the first that joins wants
  zkcoord groups machine billing auto --zookeeper zk1:2181/kafka

Members that are clients of gateways go over while they run, and the command names those that have
not; others (shims, Spark, clients of assignors that nobody here knows) have to stop first.
docs/gateway.md has more.
"""


def add_parser(commands: Any) -> None:
    """Add `machine`."""
    parser = commands.add_parser(
        "machine",
        help="who runs a group: its leader, a client, or the coordinator",
        description="Show or say who runs a group: its leader, a client, or the coordinator.",
        epilog=EPILOG,
    )
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument(
        "machine",
        metavar="|".join(MACHINES),
        nargs="?",
        help="who is to run it; without it what was said is shown",
    )
    parser.add_argument("--json", action="store_true", help="JSON instead of text")
    add_flags(parser, Use.GROUPS, ACL_OPTIONS)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """0; what cannot be done is raised (`ZkcoordError`)."""
    validate_group(args.group)
    if args.machine is not None and args.machine not in MACHINES:
        raise ConfigurationError(
            f"there is no machine {args.machine}: write {', '.join(MACHINES[:-1])} or"
            f" {MACHINES[-1]}"
        )
    layout, options = layout_named(settings.text("layout")), zk_options(settings)
    with SyncClient(options) as client:
        found, unknown = _seen(client, layout, args.group)
        if args.machine is not None:
            machine = None if args.machine == AUTO else Machine(args.machine)
            refusal = machine_refusal(found, machine)
            if not refusal and machine is Machine.CLIENT_LED and found.members:
                refusal = no_leader_for(lists_of_clients(client, layout, args.group))
            if refusal:
                raise RefusedError(refusal)
            before = pinned(client, layout, args.group)
            set_machine(client, layout, args.group, _pin(machine), options.acl)
            found, unknown = _seen(client, layout, args.group)
            refusal = machine_refusal(found, machine)
            if refusal:  # somebody came just then
                set_machine(client, layout, args.group, _pin(before), options.acl)
                raise RefusedError(refusal)
        said = pinned(client, layout, args.group)
        problem = unreadable_pin(client, layout, args.group)
    waits = machine_waits(found, said)
    runs = _runs(found)
    if args.json:
        document = {
            "group": args.group,
            "machine": AUTO if said is None else said.value,
            "runs": runs,
            "waits": waits or None,
            "known": not unknown,
        }
        out(json.dumps(document, indent=1) + "\n")
    else:
        now = f"{runs} runs it now" if runs else "it has no members now"
        out(printable(f"{args.group}: {AUTO if said is None else said.value}; {now}") + "\n")
        if waits:
            err(f"zkcoord groups: {printable(waits)}\n")
    if unknown:
        err(f"zkcoord groups: {printable(unknown)}\n")
        if said is not None:
            err(
                "zkcoord groups: the pin holds for when the first member comes; zkcoord groups"
                f" machine {printable(argument(args.group))} {AUTO} takes it back\n"
            )
    if problem:
        err(f"zkcoord groups: {printable(problem)}\n")
    return 0


def _pin(machine: Machine | None) -> Pin | None:
    return None if machine is None else Pin(machine, whoami())


def _seen(client: SyncClient, layout: Layout, group: str) -> tuple[GroupSnapshot, str]:
    """It may be said of a group of which there is nothing yet: then also that nobody knows it, with
    the names that were probably meant.
    """
    try:
        return describe_any_group(client, layout, group), ""
    except UnknownGroupError as error:
        seen = coordinator_seen(client, layout)
        nothing = GroupSnapshot(group, layout, seen, GroupMetadata(), {}, {}, {}, {}, {}, {})
        return nothing, str(error)


def _runs(group: GroupSnapshot) -> str:
    if group.led is not None and group.led.members:
        return "its leader, a client,"
    return "the coordinator" if group.members else ""
