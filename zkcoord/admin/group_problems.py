"""What old consumers make of registrations that zkcoord can use: the coordinator does not see it,
since it is about the text of the node, so the commands that show a group judge it themselves.
"""

from __future__ import annotations

from dataclasses import replace

from zkcoord.check.registration_rules import judge
from zkcoord.check.rules import KILLING, RULES
from zkcoord.zk.port import GetData, Node
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.group_snapshot import GroupSnapshot


def judged(reader: SyncClient, group: GroupSnapshot) -> GroupSnapshot:
    """The same group; to its problems are added the registrations that old consumers of some
    release die of although others read them. Raises `UnavailableError`.
    """
    if not any(member.legacy for member in group.members.values()):
        return group
    members = sorted(group.members)
    found = []
    for name, answer in zip(
        members,
        reader.read([GetData(group.layout.registration(group.group, name)) for name in members]),
        strict=False,
    ):
        problems = (
            judge(name, answer.data, answer.stat).problems if isinstance(answer, Node) else ()
        )
        found += [
            f"the registration {name}: {what}; old consumers {RULES[code].versions} that read it"
            f" give up until it is gone ({code})"
            for code, what in problems
            if code in KILLING
        ]
    return replace(
        group, metadata=replace(group.metadata, problems=(*group.metadata.problems, *found))
    )
