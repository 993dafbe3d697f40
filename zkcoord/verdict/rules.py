"""The rules, for one partition: pure folds over its facts in order. No clock, no file, no thread;
bounded memory however many records there were. `Rule` says what each one finds.

Order. By time where the facts' times are of one clock; else ownership after ownership as ZooKeeper
ordered them (`order`), each with its member's facts in that member's own time. The rules are the
same: by time they see more, since what a member did while another had begun is seen as it happens;
by `order` they see what reached ZooKeeper or the records.

Records. Where the output is known (`RecordsFound`), it says what was lost and duplicated, and what
was handed out (`Delivered`) says whose it was. Else what was handed out is the output. Where nobody
says what was produced, everything from where the first owner began to the highest offset stored is
expected: that much the group says it has done.

Late lines. A member writes a commit down after it was answered; meanwhile its successor may have
begun. So a commit is compared within the ownership that it belongs to: in the newest ownership with
all that came before, in an older one with the offset at which the next one began.

Where a client does not tell at which offset it begins, it is taken to begin at the one that was
stored last, and nothing is compared with that.

Gaps. While the producer runs, the time between two deliveries of the partition; the clock starts
with its first record, or where the warm-up ends. A gap is *moved* when the ownership changed within
it (one about which the partition has something to tell), else *kept*: nothing that happens to other
partitions may cause one of those. A gap as long as the producer's own pause in that partition says
nothing about the group.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field

from zkcoord.verdict.facts import (
    Delivered,
    OffsetCommitted,
    OffsetSeen,
    OwnershipEnd,
    Partition,
    PartitionAssigned,
    PartitionFact,
    Produced,
    ProducerStopped,
    RecordsFound,
    Released,
    Steady,
)
from zkcoord.verdict.ranges import RangeSet

EXAMPLES_MAX = 5


class Rule(enum.Enum):
    """What can be wrong; the values are the words of the verdict."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    OWNED_TWICE = "owned twice"
    UNOWNED = "delivered without ownership"
    OFFSET_BACK = "offset went back"

    @property
    def definition(self) -> str:
        """What it finds, in one sentence for people."""
        return DEFINITIONS[self]


DEFINITIONS: dict[Rule, str] = {
    Rule.LOST: (
        "records that are expected (produced, or below an offset that was stored) and are not there"
    ),
    Rule.DUPLICATED: (
        "records that are there more than once, except, once and only after a kill -9, those that"
        " the killed owner was handed since its last acknowledged commit"
    ),
    Rule.OWNED_TWICE: (
        "two members held the partition at the same time: one was handed records, gave it up or"
        " wrote its offset after another had begun; a member that lost its session hears of that"
        " late, so only what it did counts"
    ),
    Rule.UNOWNED: (
        "records handed out to a member that did not hold the partition while nobody else did, or"
        " found in the output though they were handed out to nobody, or not to the member that is"
        " named there"
    ),
    Rule.OFFSET_BACK: (
        "a stored offset that is lower than one stored before: seen in commits, at the beginning of"
        " an ownership, or by an observer"
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `amount` is in records (LOST, DUPLICATED, UNOWNED) or in events
    (OWNED_TWICE, OFFSET_BACK); `first` is the first offset concerned, the stored one where an
    offset went back, -1 where there is none.
    """

    rule: Rule
    partition: Partition
    amount: int
    text: str
    t_ns: int
    first: int = -1


@dataclass(frozen=True, slots=True)
class Gap:
    """`ms` without a delivery, from `t_ns` on."""

    ms: float
    t_ns: int


NO_GAP = Gap(0.0, 0)


@dataclass
class PartitionReport:
    """What the rules found. `amounts` counts everything, `examples` keeps the first few per rule.
    `produced` is the next offset after the last record that is expected; `excused` are records that
    are there again after a kill -9, within what was not committed.
    """

    partition: Partition
    amounts: dict[Rule, int] = field(default_factory=dict)
    examples: list[Finding] = field(default_factory=list)
    produced: int = 0
    delivered: int = 0
    found: int = 0
    excused: int = 0
    owners: int = 0
    longest_kept: Gap = NO_GAP
    longest_moved: Gap = NO_GAP
    longest_unproduced: Gap = NO_GAP


@dataclass
class Holding:
    """One ownership. `committed` is the highest offset known to be stored under it, `told` the
    latest that its member told of, `handed_out` the next offset after the last record handed out,
    `rival` who began meanwhile; `order` and `written` are the places in ZooKeeper's order of its
    claim and of its latest write.
    """

    member: str
    start: int
    committed: int
    told: int
    handed_out: int
    order: int | None = None
    written: int = -1
    next_start: int | None = None
    next_order: int | None = None
    next_member: str = ""
    rival: str = ""


class PartitionJudge:
    """Feed it the facts of one partition in order, then ask for `report`. `Released` facts without
    a partition go to every judge. `has_output`: `RecordsFound` facts say what came out, and none
    means nothing. `excuses`: False where each record must be there once whatever was killed.
    """

    def __init__(
        self,
        partition: Partition,
        has_output: bool = False,
        examples_max: int = EXAMPLES_MAX,
        excuses: bool = True,
    ) -> None:
        self.result = PartitionReport(partition)
        self._has_output = has_output
        self._examples_max = examples_max
        self._excuses = excuses
        self._kept: Counter[Rule] = Counter()
        self._holders: dict[str, Holding] = {}
        self._latest: dict[str, Holding] = {}
        self._past: list[Holding] = []
        self._newest: Holding | None = None
        self._begin: int | None = None
        self._stored = self._highest = -1
        self._handed_out = RangeSet()
        self._output = RangeSet() if has_output else self._handed_out
        self._excused = RangeSet()
        self._gap_from_ns: int | None = None
        self._grown_ns = 0
        self._producing = False
        self._moved = False

    def fact(self, fact: PartitionFact) -> None:
        """Take the next fact."""
        if isinstance(fact, Delivered):
            self._delivered(fact)
        elif isinstance(fact, OffsetCommitted):
            self._committed(fact)
        elif isinstance(fact, PartitionAssigned):
            self._assigned(fact)
        elif isinstance(fact, Released):
            self._released(fact)
        elif isinstance(fact, OffsetSeen):
            self._is_stored(fact)
        elif isinstance(fact, RecordsFound):
            self._found(fact)
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
        what = (
            "are expected in the output and not there"
            if self._has_output
            else "were produced and handed out to nobody"
        )
        for start, end in self._output.holes(*self._expected()):
            self._find(Rule.LOST, end - start, f"offsets {start}..{end - 1} {what}", 0, start)
        self.result.examples.sort(key=lambda finding: (finding.rule.value, finding.t_ns))
        return self.result

    def _expected(self) -> tuple[int, int]:
        """From, to: which offsets must be there."""
        if not self.result.produced and (self._has_output or self._handed_out):
            self.result.produced = max(0, self._highest)
            return self._begin or 0, self.result.produced
        return 0, self.result.produced

    def _find(self, rule: Rule, amount: int, text: str, t_ns: int, first: int = -1) -> None:
        self.result.amounts[rule] = self.result.amounts.get(rule, 0) + amount
        if self._kept[rule] < self._examples_max:
            self._kept[rule] += 1
            self.result.examples.append(
                Finding(rule, self.result.partition, amount, text, t_ns, first)
            )

    # ownership

    def _assigned(self, fact: PartitionAssigned) -> None:
        if fact.member in self._holders:
            return
        for other in self._holders.values():
            other.rival = fact.member
        start = max(self._stored, 0)
        if fact.offset is not None:
            start = fact.offset
            self._store(start, f"{fact.member} began at {start}", fact.t_ns)
        for earlier in self._latest.values():
            if earlier.next_start is None and fact.offset is not None:
                earlier.next_start, earlier.next_order, earlier.next_member = (
                    fact.offset,
                    fact.order,
                    fact.member,
                )
                self._in_order(earlier, fact.t_ns)
        holding = Holding(
            fact.member,
            start,
            start,
            start,
            start,
            fact.order,
            -1 if fact.order is None else fact.order,
        )
        self._holders[fact.member] = self._latest[fact.member] = self._newest = holding
        if self._has_output:
            self._past.append(holding)
        self._begin = start if self._begin is None else self._begin
        self.result.owners += 1
        self._moved = True

    def _released(self, fact: Released) -> None:
        holding = self._holders.pop(fact.member, None)
        if holding is None:
            return
        self._moved = True
        self._wrote(holding, fact.order, fact.t_ns)
        if fact.end is not OwnershipEnd.LOST:
            self._confirm(holding, fact.t_ns)
        if (
            self._excuses
            and fact.end is OwnershipEnd.KILLED
            and holding.committed < holding.handed_out
        ):
            self._excused.add(holding.committed, holding.handed_out)

    def _confirm(self, holding: Holding, t_ns: int) -> None:
        """The member still held the partition after its rival had begun."""
        if holding.rival:
            self._find(
                Rule.OWNED_TWICE,
                1,
                f"{holding.rival} began while {holding.member} held it",
                t_ns,
                holding.start,
            )
            holding.rival, holding.next_order = "", None

    def _wrote(self, holding: Holding, order: int | None, t_ns: int) -> None:
        """A write under an ownership, or what it saw, at this place in ZooKeeper's order."""
        if order is not None:
            holding.written = max(holding.written, order)
            self._in_order(holding, t_ns)

    def _in_order(self, holding: Holding, t_ns: int) -> None:
        """Whether the next ownership began after all that was written under this one."""
        if holding.next_order is not None and holding.written >= holding.next_order:
            self._find(
                Rule.OWNED_TWICE,
                1,
                f"{holding.member} was at its offset's version {holding.written} after"
                f" {holding.next_member} had begun at version {holding.next_order}",
                t_ns,
                holding.start,
            )
            holding.rival, holding.next_order = "", None

    # records

    def _delivered(self, fact: Delivered) -> None:
        first, end = fact.first, fact.last + 1
        self.result.delivered += end - first
        holding = self._holders.get(fact.member)
        if holding is not None:
            holding.handed_out = max(holding.handed_out, end)
            self._confirm(holding, fact.t_ns)
            self._wrote(holding, fact.order, fact.t_ns)
        elif self._holders:
            self._find(
                Rule.OWNED_TWICE,
                1,
                f"{fact.member} was handed offsets {first}..{fact.last} while"
                f" {next(iter(self._holders))} held it",
                fact.t_ns,
                first,
            )
        else:
            self._find(
                Rule.UNOWNED,
                end - first,
                f"{fact.member} was handed offsets {first}..{fact.last} and did not hold it",
                fact.t_ns,
                first,
            )
        for again, again_end in self._handed_out.add(first, end):
            if not self._has_output:
                self._again(
                    again, again_end, 1, f"were handed out again, to {fact.member}", fact.t_ns
                )
        self._end_gap(fact.t_ns)

    def _again(self, start: int, end: int, times: int, what: str, t_ns: int) -> None:
        """The records [start, end) are there so many times more."""
        excused = sum(e - s for s, e in self._excused.remove(start, end))
        self.result.excused += excused
        if (end - start) * times > excused:
            self._find(
                Rule.DUPLICATED,
                (end - start) * times - excused,
                f"offsets {start}..{end - 1} {what}",
                t_ns,
                start,
            )

    def _found(self, fact: RecordsFound) -> None:
        """What lies before the first ownership is not judged: it is older than the journal."""
        first, end = max(fact.first, self._begin or 0), fact.last + 1
        if first >= end:
            return
        self.result.found += (end - first) * fact.times
        for start, stop in self._foreign(first, end, fact.member):
            by, to = (f", by {fact.member},", " to it") if fact.member else ("", "")
            self._find(
                Rule.UNOWNED,
                stop - start,
                f"offsets {start}..{stop - 1} are in the output{by} and were not handed out{to}",
                fact.t_ns,
                start,
            )
        new = self._output.holes(first, end) if fact.times > 1 else []
        parts = [(start, stop, fact.times) for start, stop in self._output.add(first, end)] + [
            (start, stop, fact.times - 1) for start, stop in new
        ]
        for start, stop, times in parts:
            self._again(
                start,
                stop,
                times,
                (
                    "are in the output again"
                    if times == 1
                    else f"are in the output {times} times more"
                ),
                fact.t_ns,
            )

    def _foreign(self, first: int, end: int, member: str) -> list[tuple[int, int]]:
        """The parts of [first, end) that were handed out to nobody; with a member, not to it. Where
        no hand-out is known at all, only whether anybody held the partition.
        """
        if member:
            allowed = RangeSet()
            for holding in self._past:
                if holding.member == member and holding.start < max(
                    holding.handed_out, holding.committed
                ):
                    allowed.add(holding.start, max(holding.handed_out, holding.committed))
            return allowed.holes(first, end)
        return self._handed_out.holes(first, end) if self._handed_out or not self._past else []

    # offsets

    def _committed(self, fact: OffsetCommitted) -> None:
        """A member tells of a commit when its application hears of it; an observer may have seen
        the next one by then. So what is less than was seen in ZooKeeper is a step back only if the
        member had told of more.
        """
        holding = self._latest.get(fact.member)
        if holding is None or holding is self._newest:
            if holding is None or not holding.told <= fact.offset < self._stored:
                self._store(fact.offset, f"{fact.member} committed {fact.offset}", fact.t_ns)
        elif holding.next_start is not None and fact.offset > holding.next_start:
            self._find(
                Rule.OFFSET_BACK,
                1,
                f"the next owner began at {holding.next_start} although {fact.member} had committed"
                f" {fact.offset}",
                fact.t_ns,
                holding.next_start,
            )
        if holding is not None:
            holding.committed, holding.told = max(holding.committed, fact.offset), fact.offset
            self._wrote(holding, fact.order, fact.t_ns)

    def _is_stored(self, fact: OffsetSeen) -> None:
        is_back = fact.compares and fact.offset < self._stored
        is_more = fact.raises and fact.offset > self._stored
        if is_back or is_more:
            self._store(fact.offset, f"{fact.offset} was found in ZooKeeper", fact.t_ns)

    def _store(self, offset: int, what: str, t_ns: int) -> None:
        """`offset` is stored now. After a step back the rules go on from there, so that one step is
        one finding.
        """
        if offset < self._stored:
            self._find(Rule.OFFSET_BACK, 1, f"{what} after {self._stored} was stored", t_ns, offset)
        self._stored, self._highest = offset, max(offset, self._highest)

    # gaps

    def _produced(self, fact: Produced) -> None:
        if fact.end > self.result.produced:
            if self._grown_ns:
                pause = Gap((fact.t_ns - self._grown_ns) / 1e6, self._grown_ns)
                self.result.longest_unproduced = max(
                    self.result.longest_unproduced, pause, key=lambda g: g.ms
                )
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
            self.result.longest_kept = self.result.longest_moved = (
                self.result.longest_unproduced
            ) = NO_GAP
        self._moved = False

    def _producer_stopped(self, fact: ProducerStopped) -> None:
        self._end_gap(fact.t_ns)
        self._producing = False
