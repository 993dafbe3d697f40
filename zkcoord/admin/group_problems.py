"""What is wrong in a group and in no report: the coordinator does not write one for a group that
nobody said anything of, and does not see what is about the text of a node, so the commands that
show a group judge that themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from zkcoord.check.registration_rules import judge
from zkcoord.check.rules import KILLING, RULES
from zkcoord.core.group.legacy_group import (
    kept_out_problem,
    left_alone_problem,
    unfollowed_problem,
)
from zkcoord.core.model import GroupMode
from zkcoord.zk.port import GetData, Node
from zkcoord.zk.sync.beliefs import left_alone
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.group_snapshot import GroupSnapshot
from zkcoord.znodes.names import parse_partition

LEFT_ALONE = "coordinators leave it alone, and nobody is assigned anything: {}"


def judged(reader: SyncClient, group: GroupSnapshot) -> GroupSnapshot:
    """The same group; to its problems are added what a coordinator does not write or cannot see:
    old consumers that nobody can follow, or that are in a group without a mode, registrations that
    old consumers of some release die of although others read them, stored texts that are no
    offsets, and that coordinators leave the group alone. Raises `UnavailableError`.
    """
    alone = left_alone(reader, group.layout, [group.group]).get(group.group, "")
    old = sorted(name for name, member in group.members.items() if member.legacy)
    found = [LEFT_ALONE.format(alone)] if alone else []
    found += [
        f"what is stored in {group.layout.offset(group.group, tp)} is no offset ({bad.reason}):"
        f" nobody consumes {tp} until it is corrected (zkcoord offsets reset)"
        for bad in group.malformed
        if bad.what == "offset" and (tp := parse_partition(bad.name)) is not None
    ]
    if old:
        found += _of_old_consumers(group, old)
        found += _deadly(reader, group)
    known = set(group.metadata.problems)
    more = tuple(problem for problem in found if problem not in known)
    return replace(
        group,
        metadata=replace(group.metadata, problems=(*group.metadata.problems, *more)),
        left_alone=alone,
    )


def _of_old_consumers(group: GroupSnapshot, old: list[str]) -> Iterator[str]:
    """What a coordinator says too, where it writes a report."""
    for name in old:
        if group.members[name].unfollowed:
            yield unfollowed_problem(name, group.members[name].unfollowed)
    if group.mode is None and len(old) < len(group.members):
        yield left_alone_problem(len(old))
    elif group.mode is not None and group.mode.kind is GroupMode.COORDINATED:
        yield from map(kept_out_problem, old)


def _deadly(reader: SyncClient, group: GroupSnapshot) -> Iterator[str]:
    members = sorted(group.members)
    for name, answer in zip(
        members,
        reader.read([GetData(group.layout.registration(group.group, name)) for name in members]),
        strict=False,
    ):
        problems = (
            judge(name, answer.data, answer.stat).problems if isinstance(answer, Node) else ()
        )
        for code, what in problems:
            if code in KILLING:
                yield (
                    f"the registration {name}: {what}; old consumers {RULES[code].versions} that"
                    f" read it give up until it is gone ({code})"
                )
