"""`zkcoord groups machine`: whether a group's leader, a client, or the coordinator runs it."""

from __future__ import annotations

import argparse
import json
import threading
from typing import Any

from zkcoord.admin.common import argument, refuse_doubted_led, whoami
from zkcoord.admin.group_machine import (
    MOVE,
    in_kafka,
    lists_of_clients,
    machine_refusal,
    machine_waits,
    no_leader_for,
    set_machine,
    unreadable_pin,
)
from zkcoord.config.option_spec import Use
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import Settings, add_flags
from zkcoord.core.model import GroupMetadata
from zkcoord.errors import ConfigurationError, RefusedError, UnknownGroupError
from zkcoord.terminal import err, out, printable
from zkcoord.zk.acl.inherited import AclOf, AclsThere
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.group_snapshot import GroupSnapshot, coordinator_seen
from zkcoord.zk.sync.in_kafka import kept_in_kafka
from zkcoord.zk.sync.led_groups import describe_any_group, pinned
from zkcoord.zk.sync.led_seen import NOT_KNOWN
from zkcoord.zk.sync.open_joins import open_joins
from zkcoord.znodes.classic.pin import AUTO, Machine, Pin
from zkcoord.znodes.names import validate_group
from zkcoord.znodes.paths import Layout, layout_named

SETTLES_MS = 500
LOOK_MS = 50
JOINING = "its members join just now"
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
    add_flags(parser, Use.GROUPS)


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
        looking = _MachineSight(client, layout, args.group)
        if args.machine is not None:
            machine = None if args.machine == AUTO else Machine(args.machine)
            _say(looking, machine, AclsThere(client, options))
        found = looking.settled()
        said = pinned(client, layout, args.group)
        problem = unreadable_pin(client, layout, args.group)
    waits = JOINING if looking.joining else machine_waits(found, said)
    runs = _runs(found)
    if args.json:
        document = {
            "group": args.group,
            "machine": AUTO if said is None else said.value,
            "runs": runs,
            "waits": waits or None,
            "known": not looking.unknown,
        }
        out(json.dumps(document, indent=1) + "\n")
    else:
        now = f"{runs} runs it now" if runs else "it has no members now"
        now = "its members are not known" if found.unknown else now
        now = JOINING if looking.joining else now
        out(printable(f"{args.group}: {AUTO if said is None else said.value}; {now}") + "\n")
        if waits and not looking.joining:
            err(f"zkcoord groups: {printable(waits)}\n")
    if looking.unknown:
        err(f"zkcoord groups: {printable(looking.unknown)}\n")
        if said is not None:
            err(
                "zkcoord groups: the pin holds for when the first member comes; zkcoord groups"
                f" machine {printable(argument(args.group))} {AUTO} takes it back\n"
            )
    if problem:
        err(f"zkcoord groups: {printable(problem)}\n")
    return 0


def _say(looking: _MachineSight, machine: Machine | None, acl: AclOf) -> None:
    """Have it said, where nothing stands against it. Raises `RefusedError`."""
    client, layout, group = looking.at
    refuse_doubted_led(client, layout, group)
    found = looking.look()
    refusal = machine_refusal(found, machine)
    if not refusal and machine is Machine.CLIENT_LED and found.members:
        refusal = no_leader_for(lists_of_clients(client, layout, group))
    at = kept_in_kafka(*looking.at) if machine is Machine.COORDINATED else ""
    if at:
        refusal = f"{in_kafka(group, at)}: {MOVE} first"
    if refusal:
        raise RefusedError(refusal)
    before = pinned(client, layout, group)
    set_machine(client, layout, group, _pin(machine), acl)
    refusal = machine_refusal(looking.look(), machine)
    if refusal:  # somebody came just then
        set_machine(client, layout, group, _pin(before), acl)
        raise RefusedError(refusal)


def _pin(machine: Machine | None) -> Pin | None:
    return None if machine is None else Pin(machine, whoami())


class _MachineSight:
    """Looks at a group, of which there may be nothing yet: `unknown` says so then, with the names
    that were probably meant. `joining`: it has no members for a moment, since all have left the
    one machine and not joined the other yet.
    """

    def __init__(self, client: SyncClient, layout: Layout, group: str) -> None:
        self.at = client, layout, group
        self.unknown = ""
        self.joining = False
        self._had_members = False

    def look(self) -> GroupSnapshot:
        """What there is now."""
        client, layout, group = self.at
        self.unknown = ""
        try:
            found = describe_any_group(*self.at)
        except UnknownGroupError as error:
            self.unknown = str(error)
            seen = coordinator_seen(client, layout)
            found = GroupSnapshot(group, layout, seen, GroupMetadata(), {}, {}, {}, {}, {}, {})
        self._had_members |= bool(found.names)
        return found

    def settled(self) -> GroupSnapshot:
        """The same, but of a group that may go over just now. Its two kinds of members are read one
        after the other, and some are of neither: it is looked again before it is said that there
        are none.
        """
        until_ms = boot_ms() + SETTLES_MS
        while True:
            found = self.look()
            if found.names or not (self._had_members or (found.pinned and not self.unknown)):
                return found
            self.joining = bool(open_joins(*self.at))
            if self.joining or boot_ms() >= until_ms:
                self.joining |= self._had_members
                return found
            threading.Event().wait(LOOK_MS / 1000)


def _runs(group: GroupSnapshot) -> str:
    if group.unknown:
        return NOT_KNOWN
    if group.led is not None and group.led.members:
        return "its leader, a client,"
    return "the coordinator" if group.members else ""
