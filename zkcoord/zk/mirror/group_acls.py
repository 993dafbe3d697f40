"""Who may write the nodes that groups consist of: asked when groups are read as a whole, where
roles are configured, and never for a single event.

A group in which somebody may do more than the places of its nodes allow is left alone and named, as
one that keeps coordinators out. An operator's words in it (its mode, requests) count only where
nobody but coordinators can have made them: else they are named and not taken up.

ZooKeeper is asked for each node by itself, so a new coordinator that reads very many groups does
not wait for that: it asks at once of those with words in them, and of the others a few at a time
while it serves them already.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from zkcoord.core.model import Malformed, Mode, Request
from zkcoord.zk.acl.belief import Belief
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.port import AclAnswer, AclsDone, AclsResult, Missing, Port
from zkcoord.znodes.paths import Layout

JUDGED_AT_ONCE_MAX = 200
JUDGED_LATER_AT_ONCE = 20


class GroupWords(Protocol):
    """What was read of a group, as far as this looks at it."""

    requests: dict[str, Request | Malformed | None]
    mode: dict[str, Mode | Malformed | None]


class JudgedGroup(Protocol):
    """A group that was read, and exists."""

    name: str

    @property
    def delta(self) -> GroupWords:
        """What was read."""

    def leave_alone(self, reason: str) -> None:
        """It is not to be followed."""


class GroupJudge:
    """Asks and judges over one connection; on a lost one it simply never ends. `foreign` is told
    of groups that are found wrong after they were handed on.
    """

    def __init__(
        self,
        port: Port,
        layout: Layout,
        roles: Roles,
        foreign: Callable[[str, Malformed], None],
    ) -> None:
        self.port = port
        self.layout = layout
        self.roles = roles
        self.foreign = foreign
        self.later: deque[str] = deque()
        self.busy = False

    def judge(self, groups: Sequence[JudgedGroup], done: Callable[[], None]) -> None:
        """Judge groups that were read, then `done`; of very many some later."""
        many = len(groups) > JUDGED_AT_ONCE_MAX
        now = [g for g in groups if not many or g.delta.requests or g.delta.mode]

        def judged(belief: Belief, found: dict[str, AclAnswer]) -> None:
            for group in now:
                self._judge(belief, group, found)
            done()
            if many:
                asked = {group.name for group in now}
                self.later.extend(g.name for g in groups if g.name not in asked)
                self._go_on()

        self._ask([path for group in now for path in self._paths(group)], judged)

    def _paths(self, group: JudgedGroup) -> tuple[str, ...]:
        mode = (self.layout.mode(group.name),) if group.delta.mode else ()
        return (*self.layout.parts(group.name), *mode)

    def _ask(
        self, paths: Sequence[str], then: Callable[[Belief, dict[str, AclAnswer]], None]
    ) -> None:
        asked = [self.layout.epoch, *paths]

        def answered(result: AclsResult) -> None:
            if isinstance(result, AclsDone):
                found = dict(zip(asked, result.answers, strict=True))
                then(Belief(self.roles, found[self.layout.epoch], True), found)

        self.port.acls(asked, answered)

    def _wrong(self, belief: Belief, group: str, found: dict[str, AclAnswer]) -> str:
        parts = self.layout.parts(group)
        wrong = belief.usable_group(self.layout, group, parts, [found[path] for path in parts])
        return wrong and f"it is not served: {wrong}"

    def _judge(self, belief: Belief, group: JudgedGroup, found: dict[str, AclAnswer]) -> None:
        wrong = self._wrong(belief, group.name, found)
        if wrong:
            return group.leave_alone(wrong)
        layout, said = self.layout, group.delta
        # whoever may make a group's node has had it open and closed it
        above = layout.epoch, layout.group(group.name)
        for path, words in (
            (layout.requests(group.name), said.requests),
            (layout.mode(group.name), said.mode),
        ):
            if words:
                closed = [
                    belief.closed(node, found.get(node, Missing())) for node in (*above, path)
                ]
                _disbelieve(words, next(filter(None, closed), ""))

    def _go_on(self) -> None:
        """Judge some of those that were left for later: what else is asked comes in between."""
        if self.busy or not self.later:
            return
        self.busy = True
        names = [self.later.popleft() for _ in range(min(JUDGED_LATER_AT_ONCE, len(self.later)))]
        self._ask(
            [path for name in names for path in self.layout.parts(name)],
            partial(self._judged_later, names),
        )

    def _judged_later(
        self, names: Sequence[str], belief: Belief, found: dict[str, AclAnswer]
    ) -> None:
        self.busy = False
        for name in names:
            wrong = self._wrong(belief, name, found)
            if wrong:
                self.foreign(name, Malformed("group", name, wrong))
        self._go_on()


def _disbelieve(
    words: dict[str, Request | Malformed | None] | dict[str, Mode | Malformed | None], wrong: str
) -> None:
    kind = "mode" if "mode" in words else "request"
    for name in list(words) if wrong else ():
        words[name] = Malformed(kind, name, f"not only coordinators can have made it: {wrong}")
