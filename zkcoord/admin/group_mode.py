"""Whose a group is: its old consumers', both, or the coordinator's. The mode is a node below the
group that the coordinator and all members watch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from zkcoord.admin.common import Progress, some
from zkcoord.admin.offsets.reset import make
from zkcoord.core.model import GroupMode, GroupState, Mode
from zkcoord.errors import RefusedError
from zkcoord.zk.port import AclEntry, Committed, Create, GetData, Node, SetData, Unanswered
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.group_snapshot import GroupSnapshot, coordinator_seen, describe_group
from zkcoord.znodes.codec import LeaderData, encode_mode
from zkcoord.znodes.paths import Layout, parents

TRIES_MAX = 3


@dataclass(frozen=True, slots=True)
class ModeSet:
    """What came of it: the group as it is then, and whether the coordinator has said so (nobody may
    lead).
    """

    group: GroupSnapshot
    taken_up: bool


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
        acl: tuple[AclEntry, ...],
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

    def run(self) -> ModeSet:
        """Write it, and wait until the coordinator says it. Raises `UnknownGroupError`,
        `RefusedError`.
        """
        self._allowed(describe_group(self.client, self.layout, self.group))
        self._write()
        leads = isinstance(coordinator_seen(self.client, self.layout).leader, LeaderData)
        began_ms = self.clock()
        while True:
            found = describe_group(self.client, self.layout, self.group)
            said = found.metadata.mode == self.mode.kind.value
            if (
                said and found.metadata.state in (GroupState.STABLE, GroupState.EMPTY)
            ) or not leads:
                return ModeSet(found, said)
            if self.clock() - began_ms >= self.timeout_ms:
                if said:
                    return ModeSet(found, True)
                raise RefusedError(
                    "the mode is written, but the coordinator did not take it up within"
                    f" {self.timeout_ms} ms: look at its log"
                )
            self.progress.say(
                f"the group is {found.state.value}"
                if said
                else "waiting for the coordinator to take the mode up"
            )
            self.pause()

    def _allowed(self, found: GroupSnapshot) -> None:
        """What stands against it."""
        kind = self.mode.kind
        old = [name for name, member in found.members.items() if member.legacy]
        if self.layout != Layout.ISOLATED and kind is not GroupMode.COORDINATED:
            raise RefusedError(
                "a group can be shared with old consumers only in the layout"
                f" {Layout.ISOLATED.name}, where both have their registrations in one place: run"
                f" coordinator and consumers with it (--layout {Layout.ISOLATED.name})"
            )
        if kind is GroupMode.COORDINATED and old:
            raise RefusedError(
                f"old consumers are in the group {self.group} ({some(sorted(old))}), and the"
                " coordinator's word means nothing to them: stop them first"
            )

    def _write(self) -> None:
        path = self.layout.mode(self.group)
        for above in parents(path):
            make(self.client, Create(above, b"", acl=self.acl))
        data = encode_mode(self.mode)
        for _ in range(TRIES_MAX):
            self.client.sync()
            (node,) = self.client.read([GetData(path)])
            if isinstance(node, Node) and node.data == data:
                return
            result = self.client.multi(
                [
                    (
                        SetData(path, data, node.stat.version)
                        if isinstance(node, Node)
                        else Create(path, data, acl=self.acl)
                    )
                ]
            )
            if isinstance(result, Committed):
                return
            if not isinstance(result, Unanswered) and result.error.value not in (
                "NodeExists",
                "BadVersion",
                "NoNode",
            ):
                raise RefusedError(
                    f"ZooKeeper refused to write {path} ({result.error.value}): give credentials"
                    " that may (--zookeeper-user)"
                )
        raise RefusedError(
            f"somebody else changes {path} again and again, or ZooKeeper does not answer: look who"
            " uses it, then try again"
        )


def mode_of(kind: str, strategy: str, by: str) -> Mode:
    """The mode of this command."""
    return replace(Mode(GroupMode(kind)), strategy=strategy, by=by)
