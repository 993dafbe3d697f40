"""The rules, for one partition: pure folds over its facts in order of time. No clock, no file, no thread; bounded memory however many records there were.

LOST         produced and handed out to nobody.
DUPLICATED   handed out more than once. Excused once, and only after a kill -9: the records that the killed owner had handed out since its last acknowledged commit.
OWNED_TWICE  two members held the partition at the same time, or one was handed records of it while another held it. A member that lost its session hears of that late, but its lease
             ended before: what counts there is whether it was handed anything after the other had begun.
UNOWNED      records handed out by a member that did not hold the partition, while nobody else did.
OFFSET_BACK  a stored offset that is lower than one stored before: seen in commits, at the beginning of an ownership, or by an observer.

Late lines. A member writes a commit down after it was answered; meanwhile its successor may have begun. So a commit is compared within the ownership that it belongs to: in the
newest ownership with all that came before, in an older one with the offset at which the next one began.

Gaps. While the producer runs, the time between two deliveries of the partition; the clock starts with its first record, or
where the warm-up ends. A gap is *moved* when the ownership changed within it (one about which the
partition has something to tell), else *kept*: nothing that happens to other partitions may cause one of those. A gap as long as the producer's own pause in that partition says nothing about the group.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from zkcoord.verdict.facts import Assigned, Committed, Delivered, End, Partition, PartitionFact, Produced, ProducerStopped, Released, Steady, Stored
from zkcoord.verdict.ranges import RangeSet

EXAMPLES_MAX = 5


class Rule(enum.Enum):
    """What can be wrong; the values are the words of the verdict."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    OWNED_TWICE = "owned twice"
    UNOWNED = "delivered without ownership"
    OFFSET_BACK = "offset went back"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `amount` is in records (LOST, DUPLICATED, UNOWNED) or in events (OWNED_TWICE, OFFSET_BACK)."""

    rule: Rule
    partition: Partition
    amount: int
    text: str
    t_ns: int


@dataclass(frozen=True, slots=True)
class Gap:
    """`ms` without a delivery, from `t_ns` on."""

    ms: float
    t_ns: int


NO_GAP = Gap(0.0, 0)


@dataclass
class PartitionReport:
    """What the rules found. `amounts` counts everything, `examples` keeps the first few per rule. `excused` are records handed out again after a kill -9, within what was not committed."""

    partition: Partition
    amounts: dict[Rule, int] = field(default_factory=dict)
    examples: list[Finding] = field(default_factory=list)
    produced: int = 0
    delivered: int = 0
    excused: int = 0
    owners: int = 0
    longest_kept: Gap = NO_GAP
    longest_moved: Gap = NO_GAP
    longest_unproduced: Gap = NO_GAP


@dataclass
class Holding:
    """One ownership. `committed` is the highest offset known to be stored under it, `handed_out` the next offset after the last record handed out, `rival` who began meanwhile."""

    member: str
    start: int
    committed: int
    handed_out: int
    next_start: int | None = None
    rival: str = ""


class PartitionJudge:
    """Feed it the facts of one partition in order of time, then ask for `report`. `Released` facts without a partition go to every judge."""

    def __init__(self, partition: Partition) -> None:
        self.result = PartitionReport(partition)
        self._holders: dict[str, Holding] = {}
        self._latest: dict[str, Holding] = {}
        self._newest: Holding | None = None
        self._stored = -1
        self._handed_out = RangeSet()
        self._excused = RangeSet()
        self._gap_from_ns: int | None = None
        self._grown_ns = 0
        self._producing = False
        self._moved = False

    def fact(self, fact: PartitionFact) -> None:
        """Take the next fact."""
        if isinstance(fact, Delivered):
            self._delivered(fact)
        elif isinstance(fact, Committed):
            self._committed(fact)
        elif isinstance(fact, Assigned):
            self._assigned(fact)
        elif isinstance(fact, Released):
            self._released(fact)
        elif isinstance(fact, Stored):
            self._is_stored(fact)
        elif isinstance(fact, Produced):
            self._produced(fact)
        elif isinstance(fact, Steady):
            self._steady(fact)
        elif isinstance(fact, ProducerStopped):
            self._producer_stopped(fact)

    def report(self) -> PartitionReport:
        """All that was found; call it once, at the end."""
        for holding in self._holders.values():
            self._confirm(holding, 0)
        for start, end in self._handed_out.holes(0, self.result.produced):
            self._find(Rule.LOST, end - start, f"offsets {start}..{end - 1} were produced and handed out to nobody", 0)
        self.result.examples.sort(key=lambda finding: (finding.rule.value, finding.t_ns))
        return self.result

    def _find(self, rule: Rule, amount: int, text: str, t_ns: int) -> None:
        self.result.amounts[rule] = self.result.amounts.get(rule, 0) + amount
        if sum(finding.rule is rule for finding in self.result.examples) < EXAMPLES_MAX:
            self.result.examples.append(Finding(rule, self.result.partition, amount, text, t_ns))

    # ownership

    def _assigned(self, fact: Assigned) -> None:
        if fact.member in self._holders:
            return
        for other in self._holders.values():
            other.rival = fact.member
        self._store(fact.offset, f"{fact.member} began at {fact.offset}", fact.t_ns)
        if self._newest is not None:
            self._newest.next_start = fact.offset
        holding = Holding(fact.member, fact.offset, fact.offset, fact.offset)
        self._holders[fact.member] = self._latest[fact.member] = self._newest = holding
        self.result.owners += 1
        self._moved = True

    def _released(self, fact: Released) -> None:
        holding = self._holders.pop(fact.member, None)
        if holding is None:
            return
        self._moved = True
        if fact.end is not End.LOST:
            self._confirm(holding, fact.t_ns)
        if fact.end is End.KILLED and holding.committed < holding.handed_out:
            self._excused.add(holding.committed, holding.handed_out)

    def _confirm(self, holding: Holding, t_ns: int) -> None:
        """The member still held the partition after its rival had begun."""
        if holding.rival:
            self._find(Rule.OWNED_TWICE, 1, f"{holding.rival} began while {holding.member} held it", t_ns)
            holding.rival = ""

    # records

    def _delivered(self, fact: Delivered) -> None:
        first, end = fact.first, fact.last + 1
        self.result.delivered += end - first
        holding = self._holders.get(fact.member)
        if holding is not None:
            holding.handed_out = max(holding.handed_out, end)
            self._confirm(holding, fact.t_ns)
        elif self._holders:
            self._find(Rule.OWNED_TWICE, 1, f"{fact.member} was handed offsets {first}..{fact.last} while {next(iter(self._holders))} held it", fact.t_ns)
        else:
            self._find(Rule.UNOWNED, end - first, f"{fact.member} was handed offsets {first}..{fact.last} and did not hold it", fact.t_ns)
        for again, again_end in self._handed_out.add(first, end):
            excused = sum(e - s for s, e in self._excused.remove(again, again_end))
            self.result.excused += excused
            if again_end - again > excused:
                self._find(Rule.DUPLICATED, again_end - again - excused, f"offsets {again}..{again_end - 1} were handed out again, to {fact.member}", fact.t_ns)
        self._end_gap(fact.t_ns)

    # offsets

    def _committed(self, fact: Committed) -> None:
        holding = self._latest.get(fact.member)
        if holding is None or holding is self._newest:
            self._store(fact.offset, f"{fact.member} committed {fact.offset}", fact.t_ns)
        elif holding.next_start is not None and fact.offset > holding.next_start:
            self._find(Rule.OFFSET_BACK, 1, f"the next owner began at {holding.next_start} although {fact.member} had committed {fact.offset}", fact.t_ns)
        if holding is not None:
            holding.committed = max(holding.committed, fact.offset)

    def _is_stored(self, fact: Stored) -> None:
        self._store(fact.offset, f"{fact.offset} was found in ZooKeeper", fact.t_ns)

    def _store(self, offset: int, what: str, t_ns: int) -> None:
        """`offset` is stored now. After a step back the rules go on from there, so that one step is one finding."""
        if offset < self._stored:
            self._find(Rule.OFFSET_BACK, 1, f"{what} after {self._stored} was stored", t_ns)
        self._stored = offset

    # gaps

    def _produced(self, fact: Produced) -> None:
        if fact.end > self.result.produced:
            if self._grown_ns:
                pause = Gap((fact.t_ns - self._grown_ns) / 1e6, self._grown_ns)
                self.result.longest_unproduced = max(self.result.longest_unproduced, pause, key=lambda g: g.ms)
            self.result.produced, self._grown_ns = fact.end, fact.t_ns
        if self._gap_from_ns is None and fact.end > 0:
            self._gap_from_ns = fact.t_ns
            self._producing = True
            self._moved = False

    def _end_gap(self, t_ns: int) -> None:
        if self._gap_from_ns is not None and self._producing:
            gap = Gap(max(0, t_ns - self._gap_from_ns) / 1e6, self._gap_from_ns)
            if self._moved:
                self.result.longest_moved = max(self.result.longest_moved, gap, key=lambda g: g.ms)
            else:
                self.result.longest_kept = max(self.result.longest_kept, gap, key=lambda g: g.ms)
            self._gap_from_ns = t_ns
        self._moved = False

    def _steady(self, fact: Steady) -> None:
        if self._producing:
            self._gap_from_ns = self._grown_ns = fact.t_ns
            self.result.longest_kept = self.result.longest_moved = self.result.longest_unproduced = NO_GAP
        self._moved = False

    def _producer_stopped(self, fact: ProducerStopped) -> None:
        self._end_gap(fact.t_ns)
        self._producing = False
