"""What was seen of many groups, look after look, and what follows from it. Memory is bounded: a
window per partition of a group, a table per partition; those that the last look did not find are
dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from zkcoord.core.model import TopicPartition
from zkcoord.health.log_ends import LogEnd
from zkcoord.health.rules import (
    GroupHealth,
    HealthLimits,
    HealthVerdict,
    PartitionHealth,
    judge,
    of_group,
    paused_group,
    while_paused,
)
from zkcoord.health.sampler import GroupLook, HealthLook
from zkcoord.health.seconds import LogTable
from zkcoord.health.window import CommitWindow, begun

NO_RECORD = -1
NEVER_ASKED = "no broker was asked"
Ends = Mapping[TopicPartition, int]


class OffsetBehind(NamedTuple):
    """What is committed of a partition, and when that was seen."""

    tp: TopicPartition
    offset: int
    seen_ms: int


class HealthMonitor:
    """For one thread."""

    def __init__(self, limits: HealthLimits) -> None:
        self._limits = limits
        self._windows: dict[str, dict[TopicPartition, CommitWindow]] = {}
        self._tables: dict[TopicPartition, LogTable] = {}
        self._last = HealthLook({}, {}, {})

    def take(self, look: HealthLook) -> None:
        """Add a look."""
        self._last = look
        anew = self._take_ends(look.ends)
        self._windows = {
            group: self._taken(group, found, look.ends, anew)
            for group, found in look.groups.items()
        }
        wanted = {tp for windows in self._windows.values() for tp in windows}
        self._tables = {tp: table for tp, table in self._tables.items() if tp in wanted}

    def _take_ends(self, ends: Mapping[TopicPartition, LogEnd]) -> set[TopicPartition]:
        """Add to the tables; the partitions whose log is another one."""
        anew = set()
        for tp, (end, at_ms) in ends.items():
            table = self._tables.get(tp, LogTable())
            if table.goes_back(end):
                anew.add(tp)
            self._tables[tp] = table.seen(at_ms, end)
        return anew

    def _taken(
        self,
        group: str,
        found: GroupLook,
        ends: Mapping[TopicPartition, LogEnd],
        anew: set[TopicPartition],
    ) -> dict[TopicPartition, CommitWindow]:
        before = self._windows.get(group, {})
        if found.problems and not found.offsets:
            return before  # it was not seen, and has not gone
        windows = {}
        for tp, seen in found.offsets.items():
            known = ends.get(tp)
            end = known.end if known is not None else None
            window = None if tp in anew else before.get(tp)
            windows[tp] = (
                begun(seen, end)
                if window is None
                else window.looked(seen, end, self._limits.commits_max)
            )
        return windows

    def behind(self) -> list[OffsetBehind]:
        """Offsets of which it is not known well enough when the log ended there, and brokers may
        know.
        """
        return [
            one
            for windows in self._windows.values()
            for tp, window in windows.items()
            if tp in self._last.ends
            and self._question(one := OffsetBehind(tp, window.offset, window.seen_ms)) is not None
        ]

    def questions(self, behind: Iterable[OffsetBehind]) -> dict[TopicPartition, int]:
        """Times, on the clock of the looks, at which it should be known where the log ended: one
        for each partition where that is open still.
        """
        found: dict[TopicPartition, int] = {}
        for one in behind:
            at_ms = self._question(one) if one.tp not in found else None
            if at_ms is not None:
                found[one.tp] = at_ms
        return found

    def _question(self, one: OffsetBehind) -> int | None:
        table = self._tables.get(one.tp)
        return table.asks(one.offset, one.seen_ms) if table is not None else None

    def answered(self, times: Mapping[TopicPartition, int], ends: Ends) -> None:
        """What brokers say to some of these questions: the first record that is not older, or
        `NO_RECORD`; nothing where they do not know.
        """
        for tp, at_ms in times.items():
            table = self._tables.get(tp)
            if table is not None:
                # without a record since then the log ended there as it did when it was seen next
                end = ends.get(tp)
                known = table.end_after(at_ms) if end == NO_RECORD else end
                self._tables[tp] = table.told(at_ms, known)

    def groups(self) -> list[GroupHealth]:
        """The verdicts, by the last look."""
        return [self._group(group, found) for group, found in self._last.groups.items()]

    def _group(self, group: str, found: GroupLook) -> GroupHealth:
        if not found.exists:
            return GroupHealth(
                group, HealthVerdict.NOTFOUND, "neither ZooKeeper nor Kafka knows this group"
            )
        partitions = sorted(self._partitions(group, found), key=lambda p: p.tp)
        if found.paused:
            partitions = [while_paused(one, found.paused) for one in partitions]
        health = of_group(group, found.state, found.storage, partitions, found.problems)
        return paused_group(health, found.paused) if found.paused else health

    def _partitions(self, group: str, found: GroupLook) -> Iterator[PartitionHealth]:
        for tp, window in self._windows.get(group, {}).items():
            if tp not in found.offsets:
                continue
            known, table = self._last.ends.get(tp), self._tables.get(tp)
            yield judge(
                tp,
                window,
                known.end if known is not None else None,
                table.lag(window.offset, window.seen_ms) if table is not None else None,
                self._limits,
                self._last.no_ends.get(tp, NEVER_ASKED),
            )
        for tp, why in found.unreadable.items():
            yield PartitionHealth(
                tp, HealthVerdict.ERROR, f"what is stored is no offset ({why}): nobody consumes it"
            )
        for tp, why in found.hidden.items():
            yield PartitionHealth(tp, HealthVerdict.UNKNOWN, why)

    def unsettled(self) -> int:
        """Of how many partitions more looks would say more: those with lag, no full window, and
        nothing that no look will change.
        """
        return sum(
            (known := self._last.ends.get(tp)) is not None
            and (known.end > window.offset or window.beyond == 1)
            and len(window.commits) < self._limits.commits_max
            for group, windows in self._windows.items()
            if not self._last.groups[group].paused
            for tp, window in windows.items()
        )
