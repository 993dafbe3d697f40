"""How many moves each target of a coordinator takes, and how many a balance needs at least.

A partition has to move when its owner is gone. Of the others a target takes some from members that
are there (*moves*), and where all members subscribe to the same, the least number of these that
leads to a balance is known (*needed*): with a share of `floor` and some left over, a member must
give what it has beyond its share, but for one partition of as many members as there are left over.
"""

from __future__ import annotations

from collections import Counter

from zkcoord.core.coordinator import Coordinator
from zkcoord.core.group.machine import Group


def needed(held: Counter[str], members: int, partitions: int) -> int:
    """The least number of partitions that these members, who hold so many, must give up."""
    share, left_over = divmod(partitions, members)
    beyond = [count - share for count in held.values() if count > share]
    return sum(beyond) - min(left_over, len(beyond))


class Targets:
    """`found` gets (generation, members, moves, needed) for each target of a group."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.generation: int | None = None
        self.found: list[tuple[int, int, int, int]] = []

    def look(self, core: Coordinator) -> None:
        """After a step: has it a new target?"""
        group = core.groups.get(self.name)
        if group is None or group.generation == self.generation:
            return
        if self.generation is not None and group.view.target:
            self.found.append(judged(group))
        self.generation = group.generation


def judged(group: Group) -> tuple[int, int, int, int]:
    """The target that this group has just been given."""
    target = group.view.target
    members = group.view.coordinated_members() | group.static_members.away()
    held = {
        tp: thread.member
        for tp, thread in group._held().items()
        if thread.member in members and tp in target
    }
    moves = sum(1 for tp, member in held.items() if target[tp].member != member)
    least = needed(Counter(held.values()), len(members), len(target))
    return group.generation, len(members), moves, least
