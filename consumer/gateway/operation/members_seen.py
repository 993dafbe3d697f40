"""What there is of members and of what waits, at one moment. Everything here runs on the members'
loop, and visits each member once.
"""

from __future__ import annotations

from collections.abc import Mapping

from consumer.gateway.members.groups import WireGroups
from consumer.gateway.members.wire_group import WireGroup
from zkcoord.core.value_type import value

PARKED = ("heartbeat", "sync", "commit", "recall")
GROUPS_SHOWN_MAX = 2_000


@value
class MembersSeen:
    """`parked`: requests without an answer yet, by what they wait for (`PARKED`: something to say,
    an assignment, ZooKeeper, and whether another gateway remembers their client). `leaving`:
    members whose client is gone and whose session is not yet; `remembered`: clients whose place
    another gateway could take over; `taken_over`: how often one was, by this one.
    """

    groups: int
    members: int
    leaving: int
    remembered: int
    taken_over: int
    parked: dict[str, int]


@value
class ServedGroup:
    """One group: its members here, and how many partitions they hold. `in_kafka`: the first of its
    members that live in Kafka's own coordinator.
    """

    group: str
    members: int
    partitions: int
    in_kafka: tuple[str, ...] = ()


def members_seen(groups: WireGroups) -> MembersSeen:
    """All of them."""
    beats = syncs = commits = remembered = members = 0
    for group in groups.groups.values():
        for served in group.members.values():
            wire = served.wire
            members += 1
            beats += wire.parked_beat is not None
            syncs += wire.parked_sync is not None
            commits += len(wire.commits_under_way)
            remembered += served.remembered
    recalls = groups.recalls.waiting if groups.recalls is not None else 0
    return MembersSeen(
        sum(bool(group.members) for group in groups.groups.values()),
        members,
        groups.leaving,
        remembered,
        groups.taken_over,
        dict(zip(PARKED, (beats, syncs, commits, recalls), strict=True)),
    )


def members_count(groups: WireGroups) -> int:
    """How many members are here."""
    return sum(len(group.members) for group in groups.groups.values())


def group_names(groups: WireGroups) -> list[str]:
    """The groups with members here, sorted."""
    return sorted(name for name, group in groups.groups.items() if group.members)


def groups_seen(
    groups: WireGroups, split: Mapping[str, tuple[str, ...]]
) -> tuple[list[ServedGroup], int]:
    """The first `GROUPS_SHOWN_MAX` groups with members here, by name, and how many there are."""
    names = group_names(groups)
    shown = [_seen(groups.groups[name], split) for name in names[:GROUPS_SHOWN_MAX]]
    return shown, len(names)


def _seen(group: WireGroup, split: Mapping[str, tuple[str, ...]]) -> ServedGroup:
    held = sum(len(served.wire.held) for served in group.members.values())
    return ServedGroup(group.name, len(group.members), held, split.get(group.name, ()))
