"""Whose a group is: its old consumers', both, or the coordinator's. The mode is a node below the
group that the coordinator and all members watch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zkcoord.admin.common import (
    Progress,
    argument,
    changed_again_and_again,
    is_written,
    refuse_doubted_led,
    refuse_doubted_word,
    refuse_left_alone,
    some,
)
from zkcoord.admin.offsets.reset import make_missing
from zkcoord.core.group.legacy_group import unfollowed_problem
from zkcoord.core.model import GroupMode, GroupState, Malformed, Mode
from zkcoord.errors import RefusedError
from zkcoord.zk.acl.inherited import AclOf
from zkcoord.zk.port import Create, GetData, Node, SetData
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.group_snapshot import GroupSnapshot, coordinator_seen, describe_group
from zkcoord.zk.sync.led_groups import describe_any_group
from zkcoord.znodes.classic.pin import AUTO, Machine
from zkcoord.znodes.codec import LeaderData, decode_mode, encode_mode
from zkcoord.znodes.paths import Layout, parents

TRIES_MAX = 3


class SetMode:
    """One change of mode. `clock` and `pause` are the caller's; `timeout_ms` bounds the wait for
    the coordinator.
    """

    def __init__(
        self,
        client: SyncClient,
        layout: Layout,
        group: str,
        mode: Mode,
        acl: AclOf,
        clock: Callable[[], int],
        timeout_ms: int,
        pause: Callable[[], object],
        progress: Progress,
    ) -> None:
        self.client = client
        self.layout = layout
        self.group = group
        self.mode = mode
        self.acl = acl
        self.clock = clock
        self.timeout_ms = timeout_ms
        self.pause = pause
        self.progress = progress

    def run(self) -> bool:
        """Write it, and wait until the coordinator says it and the group is at rest: whether it has
        said so (nobody may lead). Raises `UnknownGroupError`, `RefusedError`.
        """
        self._allowed(describe_any_group(self.client, self.layout, self.group))
        write_mode(self.client, self.layout, self.group, self.acl, self._made)
        leads = isinstance(coordinator_seen(self.client, self.layout).leader, LeaderData)
        began_ms = self.clock()
        while True:
            found = describe_group(self.client, self.layout, self.group)
            said = found.metadata.mode == self.mode.kind.value
            if (
                said and found.metadata.state in (GroupState.STABLE, GroupState.EMPTY)
            ) or not leads:
                return said
            waits = _waits_for(found) if said else "the coordinator to take the mode up"
            if self.clock() - began_ms >= self.timeout_ms:
                describe = f"zkcoord groups describe {argument(self.group)}"
                look = describe if said else "the coordinator's log"
                raise RefusedError(
                    f"the mode is written, and after {self.timeout_ms} ms the group still waits for"
                    f" {waits}: look at {look}"
                )
            self.progress.update(f"waiting for {waits}")
            self.pause()

    def _allowed(self, found: GroupSnapshot) -> None:
        """What stands against it."""
        kind = self.mode.kind
        if found.mode is not None:
            self._made(found.mode)
        old = [name for name, member in found.members.items() if member.legacy]
        if self.layout != Layout.ISOLATED and kind is not GroupMode.COORDINATED:
            raise RefusedError(
                "a group can be shared with old consumers only in the layout"
                f" {Layout.ISOLATED.name}, where both have their registrations in one place: run"
                f" coordinator and consumers with it (--layout {Layout.ISOLATED.name})"
            )
        refuse_doubted_led(self.client, self.layout, self.group)
        refuse_left_alone(self.client, self.layout, self.group)
        if kind is not GroupMode.COORDINATED:
            self._not_led(found)
        unfollowed = sorted(name for name in old if found.members[name].unfollowed)
        if kind is GroupMode.MIXED and unfollowed:
            raise RefusedError(
                f"the group {self.group} cannot be shared: "
                + unfollowed_problem(unfollowed[0], found.members[unfollowed[0]].unfollowed)
            )
        if kind is GroupMode.COORDINATED and old:
            raise RefusedError(
                f"old consumers are in the group {self.group} ({some(sorted(old))}), and the"
                " coordinator's word means nothing to them: stop them first"
            )

    def _not_led(self, found: GroupSnapshot) -> None:
        """Clients that lead a group assign to themselves alone."""
        led = found.led.members if found.led is not None else ()
        if led:
            raise RefusedError(
                f"the group {self.group} has members that one of them leads"
                f" ({some(sorted(one.member_id for one in led))}), which share nothing with old"
                " consumers: stop those first"
            )
        if found.pinned == Machine.CLIENT_LED.value:
            raise RefusedError(
                f"an operator has said that clients lead the group {self.group}, which share"
                " nothing with old consumers: zkcoord groups machine"
                f" {argument(self.group)} {AUTO} first"
            )

    def _made(self, present: Mode | Malformed | None) -> Mode:
        """What is to be written. Raises `RefusedError` where the group is paused."""
        if isinstance(present, Mode) and present.paused:
            raise RefusedError(
                f"the group {self.group} is paused (by {present.by}): zkcoord groups resume"
                f" {argument(self.group)} --execute first"
            )
        return self.mode


def write_mode(
    client: SyncClient,
    layout: Layout,
    group: str,
    acl: AclOf,
    made: Callable[[Mode | Malformed | None], Mode],
) -> None:
    """Write what is `made` of the mode that is there (None: none), which may raise. Raises
    `RefusedError` where it cannot be written, or would count for nothing.
    """
    path = layout.mode(group)
    refuse_doubted_word(client, layout, (layout.group(group),), path)
    make_missing(client, dict.fromkeys(parents(path), b""), acl)
    for _ in range(TRIES_MAX):
        client.sync()
        (node,) = client.see([GetData(path)])
        data = encode_mode(made(decode_mode(node.data) if isinstance(node, Node) else None))
        if isinstance(node, Node) and node.data == data:
            return
        op = (
            SetData(path, data, node.stat.version)
            if isinstance(node, Node)
            else Create(path, data, acl=acl(path))
        )
        if is_written(client, op, client.multi([op])):
            return
    raise changed_again_and_again(path)


def _waits_for(found: GroupSnapshot) -> str:
    """What a group is waiting for that is not at rest, by what is seen of it."""
    asked = sorted(name for name, commands in found.commands.items() if commands)
    if asked:
        return f"{some(asked)} to answer"
    if found.metadata.problems:
        return f"this to end: {found.metadata.problems[0]}"
    old = sorted(name for name, member in found.members.items() if member.legacy)
    holding = [name for name in old if found.held_by(name)]
    if found.mode is not None and found.mode.kind is GroupMode.COORDINATED and holding:
        return f"{some(holding)}, old consumers, to let go of what they own"
    free = [tp for tp in found.partitions if tp not in found.owners]
    return (
        f"{some(free)} to be owned"
        if free
        else f"the rebalance to end (the group is {found.state.value})"
    )


def mode_of(kind: str, strategy: str, by: str) -> Mode:
    """The mode of this command."""
    return replace(Mode(GroupMode(kind)), strategy=strategy, by=by)
