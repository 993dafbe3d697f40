"""Of very many groups that were read the ACLs are asked for later, a few at a time, but for those
with an operator's words in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.security.principals import ROLES
from zkcoord.core.model import GroupMode, Malformed, Mode
from zkcoord.zk.mirror.answers import Delta
from zkcoord.zk.mirror.group_acls import JUDGED_AT_ONCE_MAX, JUDGED_LATER_AT_ONCE, GroupJudge
from zkcoord.zk.port import OPEN_ACL, Acl, AclsDone, AclsResult, Missing
from zkcoord.znodes.paths import Layout

LAY = Layout.DRAFT
FOREIGN = ("g7", "g11")


class Asked:
    """A port that answers about ACLs when it is told to; `FOREIGN` groups are open."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Sequence[str], Callable[[AclsResult], None]]] = []

    def acls(self, paths: Sequence[str], done: Callable[[AclsResult], None]) -> None:
        self.waiting.append((paths, done))

    def answer(self) -> int:
        """Answer the oldest request; how many nodes it asked for."""
        paths, done = self.waiting.pop(0)
        found = tuple(
            Missing()
            if path == LAY.requests("g1")
            else Acl(OPEN_ACL if path in map(LAY.ids, FOREIGN) else ROLES.acl(path), 0)
            for path in paths
        )
        done(AclsDone(found))
        return len(paths)


class Read:
    """A group as it was read."""

    def __init__(self, name: str, mode: bool = False) -> None:
        self.name = name
        self.delta = Delta()
        self.why = ""
        if mode:
            self.delta.mode["mode"] = Mode(GroupMode.LEGACY)

    def leave_alone(self, reason: str) -> None:
        self.why = reason


def judged(groups: Sequence[Read]) -> tuple[Asked, list[str], list[tuple[str, Malformed]]]:
    """Begin to judge; the port, what was done, and who was told of later."""
    port, done, foreign = Asked(), [], []
    judge = GroupJudge(port, LAY, ROLES, lambda *found: foreign.append(found))  # type: ignore[arg-type]  # the part of a port that it uses
    judge.judge(groups, lambda: done.append("done"))
    return port, done, foreign


def test_few_groups_are_judged_before_they_are_handed_on() -> None:
    groups = [Read(f"g{number}") for number in range(JUDGED_AT_ONCE_MAX)]
    port, done, foreign = judged(groups)
    assert done == [] and len(port.waiting) == 1
    port.answer()
    assert done == ["done"] and port.waiting == foreign == []
    assert [group.name for group in groups if group.why] == list(FOREIGN)


def test_of_many_those_with_words_are_judged_first_and_the_others_in_between() -> None:
    groups: list[Any] = [Read(f"g{n}", mode=n == 3) for n in range(JUDGED_AT_ONCE_MAX + 50)]
    port, done, foreign = judged(groups)
    assert port.answer() == len(LAY.parts("g3")) + 2 and done == ["done"]
    assert groups[3].delta.mode["mode"] == Mode(GroupMode.LEGACY)
    most = 1 + JUDGED_LATER_AT_ONCE * len(LAY.parts("g"))
    while port.waiting:
        assert len(port.waiting) == 1 and port.answer() <= most
    assert [name for name, _ in foreign] == list(FOREIGN) and done == ["done"]
    assert all("world:anyone" in bad.reason and bad.what == "group" for _, bad in foreign)
