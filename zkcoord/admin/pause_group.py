"""A group is paused: its members stay, nothing is handed out to anybody, and what they had is
stopped as ever, with its offsets stored. It holds until it is resumed, whoever coordinates: it is a
word in the group's mode node.
"""

from __future__ import annotations

from dataclasses import replace

from zkcoord.admin.common import (
    argument,
    refuse_doubted_led,
    refuse_doubted_word,
    refuse_left_alone,
    some,
)
from zkcoord.admin.coordinator_request import RequestPatience
from zkcoord.admin.group_mode import write_mode
from zkcoord.core.model import GroupMode, GroupState, Malformed, Mode
from zkcoord.core.value_type import value
from zkcoord.errors import RefusedError
from zkcoord.zk.acl.inherited import AclOf
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.group_snapshot import GroupSnapshot, coordinator_seen, describe_group
from zkcoord.zk.sync.led_groups import describe_any_group
from zkcoord.znodes.classic.pin import Machine
from zkcoord.znodes.codec import LeaderData
from zkcoord.znodes.names import shown
from zkcoord.znodes.paths import Layout

RESTS = (GroupState.STABLE, GroupState.EMPTY)


@value
class PausePlan:
    """What would be done to a group as it is; `already`: it is so, and nothing would be."""

    group: GroupSnapshot
    paused: bool
    already: bool


@value
class PauseResult:
    """What came of it; `taken_up`: the coordinator has said so (nobody may lead)."""

    group: GroupSnapshot
    paused: bool
    taken_up: bool
    took_ms: int


class PauseGroup:
    """A pause (`paused`), or its end; `by` is who says so. `is_written` once it is said."""

    def __init__(
        self,
        client: SyncClient,
        layout: Layout,
        group: str,
        paused: bool,
        by: str,
        acl: AclOf,
        patience: RequestPatience,
    ) -> None:
        self.client = client
        self.layout = layout
        self.group = group
        self.paused = paused
        self.by = by
        self.acl = acl
        self.patience = patience
        self.is_written = False

    def plan(self) -> PausePlan:
        """What would be done. Raises `UnknownGroupError`; `RefusedError`, where it cannot be."""
        found = describe_any_group(self.client, self.layout, self.group)
        said = found.mode is not None and found.mode.paused
        bad = next((one for one in found.malformed if one.what == "mode"), None)
        if bad is not None:
            self._refuse_doubted()
            self._made(bad)  # nobody knows what it says: nothing is so already
        if self.paused is not said:
            self._refuse_doubted()
            refuse_doubted_led(self.client, self.layout, self.group)
        refuse_left_alone(self.client, self.layout, self.group)
        if self.paused and not said:
            self._allowed(found)
        return PausePlan(found, self.paused, said is self.paused)

    def _refuse_doubted(self) -> None:
        """A dry run says as well that it would count for nothing."""
        layout, group = self.layout, self.group
        refuse_doubted_word(self.client, layout, (layout.group(group),), layout.mode(group))

    def execute(self) -> PauseResult:
        """Say it, and wait until it is taken up and the group is at rest. Raises as `plan`."""
        plan, clock = self.plan(), self.patience.clock
        began_ms = clock()
        if not plan.already:
            write_mode(self.client, self.layout, self.group, self.acl, self._made)
            self.is_written = True
        leads = isinstance(coordinator_seen(self.client, self.layout).leader, LeaderData)
        while True:
            found = describe_group(self.client, self.layout, self.group)
            said = bool(found.metadata.paused) is self.paused
            waits = self._waits_for(found) if said else "the coordinator to take that up"
            took_ms = clock() - began_ms
            if not waits or not leads:
                return PauseResult(found, self.paused, said, took_ms)
            if took_ms >= self.patience.timeout_ms:
                raise RefusedError(self._late(said, waits))
            self.patience.progress.update(f"waiting for {waits}")
            self.patience.rest()

    def _late(self, said: bool, waits: str) -> str:
        what = "paused" if self.paused else "resumed"
        look = (
            f"zkcoord groups describe {argument(self.group)} --members"
            if said
            else "its log; one of an earlier release knows no pauses, and assigns as ever"
        )
        return (
            f"it is written that the group {self.group} is {what}, and after"
            f" {self.patience.timeout_ms} ms it still waits for {waits}: look at {look}"
        )

    def _waits_for(self, found: GroupSnapshot) -> str:
        """What is missing until the group is at rest; "": nothing."""
        asked = sorted(name for name, commands in found.commands.items() if commands)
        if asked:
            return f"{some(asked)} to answer"
        if self.paused and found.holders:
            held = sorted(found.holders)
            return f"{some(held)} to be given up"
        if found.metadata.state not in RESTS:
            return f"the rebalance to end (the group is {found.metadata.state.value})"
        return ""

    def _made(self, present: Mode | Malformed | None) -> Mode:
        """What is to be written; who resumes leaves the rest as it is."""
        if isinstance(present, Malformed):
            raise RefusedError(
                f"the mode of the group {self.group} cannot be read ({present.reason}): say it anew"
                f" with zkcoord groups mode {argument(self.group)}"
            )
        if present is not None and present.kind is not GroupMode.COORDINATED:
            raise RefusedError(self._shared(present))
        return replace(present or Mode(GroupMode.COORDINATED), paused=self.paused, by=self.by)

    def _shared(self, mode: Mode) -> str:
        return (
            f"the group {self.group} is in mode {mode.kind.value}, and nobody can stop the old"
            " consumers that it is shared with: only a coordinated group can be paused"
        )

    def _allowed(self, found: GroupSnapshot) -> None:
        """What stands against a pause."""
        led = found.led.members if found.led is not None else ()
        names = sorted(shown(member.member_id) for member in led)
        if led or found.pinned == Machine.CLIENT_LED.value:
            whose = (
                f"has members that one of them leads ({some(names)})"
                if led
                else "is pinned client-led"
            )
            raise RefusedError(
                f"the group {self.group} {whose}, so a client assigns, not the coordinator: stop"
                " its clients instead"
            )
        self._made(found.mode)
        old = sorted(name for name, member in found.members.items() if member.legacy)
        if old:
            raise RefusedError(
                f"old consumers are in the group {self.group} ({some(old)}), and nobody can stop"
                " them: stop their processes first"
            )
