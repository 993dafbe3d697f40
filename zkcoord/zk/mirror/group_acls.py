"""Who may write the nodes that groups consist of: asked when groups are read as a whole, where
roles are configured, and never for a single event.

A group in which somebody may do more than the places of its nodes allow is left alone and named, as
one that keeps coordinators out. An operator's words in it (its mode, requests) count only where
nobody but coordinators can have made them: else they are named and not taken up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from zkcoord.core.model import Malformed, Mode, Request
from zkcoord.zk.acl.belief import Belief
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.port import AclAnswer, AclsDone, AclsResult, Missing, Port
from zkcoord.znodes.paths import Layout

PATHS_AT_ONCE = 2_000


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


def judge_groups(
    port: Port,
    layout: Layout,
    roles: Roles,
    groups: Sequence[JudgedGroup],
    done: Callable[[], None],
) -> None:
    """Ask, judge, then `done`. On a lost connection it simply never ends."""
    paths = [path for group in groups for path in _paths(layout, group)]
    found: dict[str, AclAnswer] = {}

    def ask(at: int) -> None:
        part = [layout.epoch, *paths[at : at + PATHS_AT_ONCE]]

        def answered(result: AclsResult) -> None:
            if not isinstance(result, AclsDone):
                return
            found.update(zip(part, result.answers, strict=True))
            if at + PATHS_AT_ONCE < len(paths):
                return ask(at + PATHS_AT_ONCE)
            belief = Belief(roles, found[layout.epoch])
            for group in groups:
                _judge(belief, layout, group, found)
            done()

        port.acls(part, answered)

    ask(0)


def _paths(layout: Layout, group: JudgedGroup) -> Iterator[str]:
    yield from layout.parts(group.name)
    if group.delta.mode:
        yield layout.mode(group.name)


def _judge(
    belief: Belief, layout: Layout, group: JudgedGroup, found: Mapping[str, AclAnswer]
) -> None:
    parts = layout.parts(group.name)
    wrong = belief.usable_group(layout, group.name, parts, [found[path] for path in parts])
    if wrong:
        return group.leave_alone(f"it is not served: {wrong}")
    said, root = group.delta, layout.group(group.name)
    for path, words in (
        (layout.requests(group.name), said.requests),
        (layout.mode(group.name), said.mode),
    ):
        if words:
            wrong = belief.closed(root, found[root]) or belief.closed(
                path, found.get(path, Missing())
            )
            _disbelieve(words, wrong)


def _disbelieve(
    words: dict[str, Request | Malformed | None] | dict[str, Mode | Malformed | None], wrong: str
) -> None:
    kind = "mode" if "mode" in words else "request"
    for name in list(words) if wrong else ():
        words[name] = Malformed(kind, name, f"not only coordinators can have made it: {wrong}")
