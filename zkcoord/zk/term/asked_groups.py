"""Groups that members ask for: the coordinator makes their nodes.

A member that misses nodes of its group makes a node with the group's name below the root of asks.
Of an ask only the name is believed. What is missing is made in ONE multi that begins with the fence
and ends with the deletion of the ask, each node with the ACL of its place; a group that somebody
else made, and that may be used by more than its place allows, is not completed. Where there are no
roles there is no root of asks, and members make what they need themselves.

Bounded: so many groups are made at a time, so many asks wait, and none is made beyond
`groups_max`. What does not fit is looked for again once there is room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from zkcoord.core.events import Record
from zkcoord.core.model import Malformed
from zkcoord.zk.acl.belief import Belief
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.port import (
    AclEntry,
    AclsDone,
    AclsResult,
    Change,
    Check,
    Children,
    Committed,
    Create,
    Delete,
    Denied,
    GetChildren,
    GetData,
    Missing,
    MultiResult,
    Node,
    Op,
    Port,
    ReadDone,
    ReadResult,
    Rejected,
)
from zkcoord.zk.term.told import ToldOnce
from zkcoord.znodes import names
from zkcoord.znodes.paths import CONSUMERS, Layout, parents
from zkcoord.znodes.places import AskAt

GROUPS_AT_ONCE_MAX = 16
ASKS_WAITING_MAX = 5_000
GROUPS_MAX = 50_000
TRIES_MAX = 5


class AskedGroups:
    """Serves the asks of one connection of a term. `groups` counts those that exist; `record` takes
    each that was made, and what keeps one from it. `lost` must be called when the session is
    suspended.
    """

    def __init__(
        self,
        port: Port,
        layout: Layout,
        fence: int,
        acl: tuple[AclEntry, ...],
        roles: Roles,
        groups: Callable[[], int],
        record: Callable[[Record], None],
    ) -> None:
        self.port = port
        self.layout = layout
        self.fence = Check(layout.epoch, fence)
        self.acl = acl
        self.roles = roles
        self.groups = groups
        self.record = record
        self.waiting: deque[str] = deque()
        self.queued: set[str] = set()
        self.under_way = 0
        self.strange = ToldOnce(record)
        self.left_out = False
        self.dead = False

    def begin(self) -> None:
        """Make the roots that are missing, then look at what is asked for already. The mirror
        watches it with the rest.
        """
        self._make_roots([CONSUMERS, parents(self.layout.asks)[-1], self.layout.asks])

    def lost(self) -> None:
        """The connection is gone: answers still to come mean nothing."""
        self.dead = True

    def fired(self, where: AskAt, change: Change) -> None:
        """A watch saw something below the root of asks."""
        if change is Change.CREATED and not self.dead:
            self._take(where.group)

    def _make_roots(self, paths: list[str]) -> None:
        """One by one. A refusal says that it is there, or that this term is over, which the next
        write says.
        """
        if self.dead:
            return
        if not paths:
            return self.port.read([GetData(self.layout.asks)], self._sized)
        ops: list[Op] = [self.fence, Create(paths[0], b"", acl=self.acl)]
        self.port.multi(ops, lambda result: self._make_roots(paths[1:]))

    def _sized(self, result: ReadResult) -> None:
        if self.dead or not isinstance(result, ReadDone):
            return
        node = result.answers[0]
        if isinstance(node, Node) and node.stat.num_children > ASKS_WAITING_MAX:
            return self.strange.tell(
                Malformed(
                    "asks",
                    self.layout.asks,
                    f"{node.stat.num_children} groups are asked for at once, more than the"
                    f" {ASKS_WAITING_MAX} that are listed: only those asked for from now on are"
                    " made, delete the others",
                )
            )
        if isinstance(node, Node) and node.stat.num_children:
            self.port.read([GetChildren(self.layout.asks)], self._listed)

    def _listed(self, result: ReadResult) -> None:
        if not self.dead and isinstance(result, ReadDone):
            found = result.answers[0]
            if isinstance(found, Denied):
                why = f"they cannot be listed ({found.error.value}): delete what is no group's name"
                self.strange.tell(Malformed("asks", self.layout.asks, why))
            for name in found.names if isinstance(found, Children) else ():
                if names.is_group(name):
                    self._take(name)

    def _take(self, group: str) -> None:
        if group in self.queued:
            return
        if len(self.queued) >= ASKS_WAITING_MAX:
            self.left_out = True
            return
        self.queued.add(group)
        self.waiting.append(group)
        self._serve()

    def _serve(self) -> None:
        while self.waiting and self.under_way < GROUPS_AT_ONCE_MAX and not self.dead:
            group = self.waiting.popleft()
            if self.groups() >= GROUPS_MAX:
                self.queued.discard(group)
                self._is_full()
                continue
            self.under_way += 1
            self._look(group, TRIES_MAX)

    def _is_full(self) -> None:
        self.strange.tell(
            Malformed(
                "asks",
                self.layout.groups_root,
                f"there are {GROUPS_MAX} groups, and no more are made: delete those that nobody"
                " uses (zkcoord groups delete)",
            )
        )

    def _ended(self, group: str) -> None:
        self.under_way -= 1
        self.queued.discard(group)
        if self.left_out and not self.queued:
            self.left_out = False
            self.port.read([GetData(self.layout.asks)], self._sized)
        self._serve()

    def _look(self, group: str, tries: int) -> None:
        parts = self.layout.parts(group)

        def read(result: ReadResult) -> None:
            if self.dead or not isinstance(result, ReadDone):
                return
            lacking = [
                path
                for path, answer in zip(parts, result.answers, strict=True)
                if isinstance(answer, Missing)
            ]
            there = [path for path in parts if path not in lacking]
            if lacking and there:
                self._judge(group, there, lacking, tries)
            else:
                self._make(group, lacking, tries)

        self.port.read([GetData(path) for path in parts], read)

    def _judge(self, group: str, there: list[str], lacking: list[str], tries: int) -> None:
        """Some of it is there: by whom could it have been made?"""

        def answered(result: AclsResult) -> None:
            if self.dead or not isinstance(result, AclsDone):
                return
            root, *rest = result.answers
            wrong = Belief(self.roles, root, True).usable_group(self.layout, group, there, rest)
            if wrong:
                self.strange.tell(Malformed("group", group, f"it is not completed: {wrong}"))
                self._ended(group)
            else:
                self._make(group, lacking, tries)

        self.port.acls([self.layout.epoch, *there], answered)

    def _make(self, group: str, lacking: list[str], tries: int) -> None:
        ops: list[Op] = [
            self.fence,
            *(Create(path, b"", acl=self.acl) for path in lacking),
            Delete(self.layout.ask(group)),
        ]

        def ended(result: MultiResult) -> None:
            if self.dead:
                return
            if isinstance(result, Committed) and lacking:
                self.record(Record("group made", group))
            # whoever asked may be gone, and this term over: then there is nothing to make
            if isinstance(result, Rejected) and 0 < result.index < len(ops) - 1 and tries > 1:
                self._look(group, tries - 1)
            else:
                self._ended(group)

        self.port.multi(ops, ended)
