"""What /groups says of groups: a line of each that is assigned here, that clients lead, or that is
left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from zkcoord.core.coordinator import Coordinator
from zkcoord.core.group.machine import Group
from zkcoord.core.model import Malformed
from zkcoord.zk.classic.classic_groups import ClassicGroups

LEFT_ALONE = "left alone"
LED = "client-led group"
UNREADABLE = ("state of a group", "round of a group")
TOLD_MAX = 2_000

SUMMARY = (
    "group",
    "state",
    "failure",
    "protocol",
    "generation",
    "members",
    "partitions_owned",
    "commands_outstanding",
    "malformed",
    "cause",
    "trigger",
)
Summary = tuple[object, ...]


@dataclass(frozen=True)
class GroupsSeen:
    """What /groups is made of: the epoch of the term that leads, what keeps from leading, how many
    groups the coordinator assigns and the first of them, and the names of those that clients lead.
    """

    epoch: int | None
    waiting: str
    count: int
    groups: list[Summary]
    led: list[str]


def group_summary(group: Group) -> Summary:
    """What /groups says of one group: the fields of `SUMMARY`."""
    view = group.view
    return (
        group.name,
        group.state.value,
        group.quarantine.reason if group.quarantine.quarantined else "",
        group.result.protocol,
        group.generation,
        len(view.members),
        len(view.owners),
        sum(map(len, view.live.values())),
        len(view.malformed),
        group.cause.reason,
        group.cause.trigger,
    )


def left_alone_summary(name: str, why: Malformed) -> Summary:
    """The same of one that is left alone, of which nothing else is known."""
    known = {"group": name, "state": LEFT_ALONE, "failure": why.reason, "malformed": 1}
    return tuple(known.get(field) for field in SUMMARY)


def seen_groups(
    core: Coordinator, waiting: str, classic: ClassicGroups | None, shown_max: int
) -> GroupsSeen:
    """All groups, and the first of them."""
    led = _led(core, classic)
    names = sorted((core.groups.keys() | core.left_alone.keys()) - led)
    return GroupsSeen(
        core.epoch if core.leading else None,
        waiting,
        len(names),
        [
            left_alone_summary(name, core.left_alone[name])
            if name in core.left_alone
            else group_summary(core.groups[name])
            for name in names[:shown_max]
        ],
        sorted(led),
    )


def _led(core: Coordinator, classic: ClassicGroups | None) -> set[str]:
    """Groups whose leader is a client, or was one. Their offsets make them ones of the other kind,
    too, but a group is what its members are.
    """

    def is_led(name: str) -> bool:
        found = classic.group(name) if classic is not None else None
        if found is not None and found.members:
            return True
        other = core.groups.get(name)
        return name not in core.left_alone and (other is None or not other.view.members)

    return set(filter(is_led, classic.names if classic is not None else ()))


class LedTold:
    """What the coordinator has said of nodes of client-led groups, which it passes over or leaves
    alone: by group, of this term. On the loop's thread.
    """

    def __init__(self) -> None:
        self._said: dict[str, tuple[str, str]] = {}

    def record(self, record: dict[str, object]) -> None:
        """A record of the journal."""
        kind, what = record.get("kind"), str(record.get("what", ""))
        if kind == "term":
            self._said.clear()
        elif kind == "client-led rebalance":  # it was written anew
            self._said.pop(str(record.get("group")), None)
        elif kind == "malformed" and what in (LED, *UNREADABLE) and len(self._said) < TOLD_MAX:
            self._said[str(record.get("name"))] = (what, str(record.get("reason")))

    def summaries(
        self, classic: ClassicGroups | None, names: list[str], shown_max: int
    ) -> list[dict[str, object]]:
        """A line of each of these that is served, and of the others that are left alone."""
        if classic is None:
            return []
        served = [classic.summary(name) for name in names if classic.group(name) is not None]
        for one in served:
            what, why = self._said.get(str(one["group"]), ("", ""))
            if what in UNREADABLE and not one["members"]:
                one["problems"] = [f"the {what} counts for nothing: {why}"]
        alone: list[dict[str, object]] = [
            {"group": name, "state": LEFT_ALONE, "members": None, "problems": [why]}
            for name, (what, why) in sorted(self._said.items())
            if what == LED and classic.group(name) is None
        ]
        return served + alone[: max(0, shown_max - len(served))]
