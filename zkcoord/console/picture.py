"""What the console knows of all groups at one moment. Immutable: the thread that watches replaces
it as a whole, and every page reads one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from zkcoord.core.value_type import value
from zkcoord.health.rules import GroupHealth, HealthVerdict
from zkcoord.health.trouble.kinds import Trouble
from zkcoord.zk.sync.group_snapshot import CoordinatorSeen, GroupListed

NOT_SEEN = "it was not looked at yet"


@value
class GroupLine:
    """A group of the list: what ZooKeeper says, the verdict, and what is wrong with it."""

    listed: GroupListed
    health: GroupHealth | None
    troubles: tuple[Trouble, ...] = ()

    @property
    def name(self) -> str:
        """The group."""
        return self.listed.name

    @property
    def verdict(self) -> HealthVerdict:
        """UNKNOWN where nobody could judge yet."""
        return self.health.verdict if self.health is not None else HealthVerdict.UNKNOWN

    @property
    def is_well(self) -> bool:
        """Nothing is known that is not well."""
        return self.verdict in (HealthVerdict.OK, HealthVerdict.UNKNOWN)

    @property
    def why(self) -> str:
        """The evidence for the verdict."""
        return self.health.why if self.health is not None else NOT_SEEN

    @property
    def lag(self) -> int | None:
        """In records; None: not known."""
        return self.health.lag if self.health is not None else None

    @property
    def seconds(self) -> float | None:
        """Of the partition that is behind longest; None: not known."""
        found = self.health.seconds if self.health is not None else None
        return found.value if found is not None else None

    @property
    def badness(self) -> tuple[int, float, int]:
        """What sorts the worst group last."""
        return self.verdict.rank, self.seconds or 0.0, self.lag or 0


@dataclass(frozen=True)
class Picture:
    """All groups, by name. `number` rises with each look; `at_ms` (wall clock) is when the newest
    look that succeeded began, 0 before the first; `problem` says why a later one did not, and
    `no_lag` why there are no verdicts.
    """

    number: int = 0
    at_ms: int = 0
    lines: Mapping[str, GroupLine] = field(default_factory=dict)
    coordinator: CoordinatorSeen | None = None
    problem: str = ""
    no_lag: str = ""
    took_ms: int = 0

    def of_topic(self, topic: str) -> list[GroupLine]:
        """Groups that subscribe to it, or have stored offsets of it."""
        return [
            line
            for line in self.lines.values()
            if topic in line.listed.topics
            or (line.health and any(p.tp.topic == topic for p in line.health.partitions))
        ]


def lines_of(
    listed: Sequence[GroupListed],
    health: Sequence[GroupHealth],
    troubles: Mapping[str, tuple[Trouble, ...]] | None = None,
) -> dict[str, GroupLine]:
    """By name, in the order in which they are listed."""
    judged, found = {one.group: one for one in health}, troubles or {}
    return {
        group.name: GroupLine(group, judged.get(group.name), found.get(group.name, ()))
        for group in listed
    }
