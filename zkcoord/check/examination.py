"""One examination of an ensemble: batch by batch through its groups, then Kafka's own nodes, then
once more (or for a while) those groups where something was seen that passes by itself in a healthy
group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from zkcoord.check import belief_rules, broker_rules
from zkcoord.check.group_rules import (
    NOT_READ,
    TRANSIENT,
    GroupJudgement,
    Topics,
    judge_group,
    not_read,
)
from zkcoord.check.reader import names_found, read_groups
from zkcoord.check.rules import CheckFinding
from zkcoord.check.severity import Severity
from zkcoord.check.source_rules import read_source, sources
from zkcoord.core.model import Malformed, TopicPartition
from zkcoord.zk.port import Denied, GetData, Node
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.listed_names import COORDINATOR, why_unusable
from zkcoord.zk.term.election import leads
from zkcoord.znodes.codec import EPOCH_MAX, EpochData, decode_epoch
from zkcoord.znodes.paths import CONSUMERS, LAYOUTS, Layout

LOOK_AGAIN_S = 3.0
EVERY_S = 1.0
HIDDEN_NAMED_MAX = 5
OF_TOPICS = ("partition-without-leader", "topic-being-deleted")

Ask = Callable[[Sequence[tuple[str, GroupJudgement]]], Iterable[CheckFinding]]
"""Asks Kafka about some groups."""


@dataclass
class ExaminationCounts:
    """Figures of an examination, filled while it goes on."""

    groups: int = 0
    old_members: int = 0
    our_members: int = 0
    topics: int = 0
    offsets: int = 0
    findings: Counter[Severity] = field(default_factory=Counter)
    hidden: Counter[str] = field(default_factory=Counter)
    """Nodes that could not be read, by the code of what was said of them."""


class Examination:
    """`wanted` chooses groups by name; `ask` is for what only Kafka knows (None: it is not asked);
    `clock` and `rest` are seconds. `watch_s` 0: one look, and another at what may pass by itself.
    `is_whole`: of what concerns no group everything is said, else only what may not be read.
    """

    def __init__(
        self,
        reader: SyncClient,
        wanted: Callable[[str], bool],
        ask: Ask | None,
        watch_s: float,
        clock: Callable[[], float],
        rest: Callable[[float], object],
        is_whole: bool = True,
    ) -> None:
        self.reader = reader
        self.wanted = wanted
        self.ask = ask
        self.watch_s = watch_s
        self.clock = clock
        self.rest = rest
        self.is_whole = is_whole
        self.seen = ExaminationCounts()
        self.hidden_first: dict[str, list[str]] = {}
        self.listed = False
        """Whether every group could be listed."""
        self._hidden: dict[str, Denied] = {}
        self._said: set[str] = set()
        self._doubtful: dict[str, set[CheckFinding]] = {}
        self._living: dict[str, dict[TopicPartition, int]] = {}
        self._shared: set[str] = set()
        self._of_groups: set[str] = set()

    def findings(self) -> Iterator[CheckFinding]:
        """All that is found, group by group as they are read. Raises `UnavailableError`."""
        for finding in self._all():
            self.seen.findings[finding.severity] += 1
            if finding.code in NOT_READ:
                self.seen.hidden[finding.code] += 1
                first = self.hidden_first.setdefault(finding.code, [])
                if len(first) < HIDDEN_NAMED_MAX:
                    first.append(finding.node)
            yield finding

    @property
    def shared(self) -> frozenset[str]:
        """Groups that have old consumers or a mode."""
        return frozenset(self._shared)

    @property
    def watches(self) -> bool:
        """Whether there is anything to watch: groups with old consumers."""
        return bool(self._living)

    def _all(self) -> Iterator[CheckFinding]:
        self.reader.sync()
        topics = broker_rules.read_topics(self.reader, self._hide)
        found = names_found(self.reader)
        led = belief_rules.led_names(self.reader, self._hide)
        for root, why in found.denied:
            self._hide(root, why)
        self.listed = not found.denied
        yield from self._not_readable()
        for name, path in found.unusable:
            if self.wanted(name):
                yield CheckFinding("group-name", name, path, why_unusable(name))
        names = [name for name in sorted({*found.groups, *led}) if self.wanted(name)]
        self.seen.topics, self.seen.groups = len(topics or ()), len(names)
        for batch in self._judged(names, topics):
            for name, judgement in batch:
                self.seen.old_members += judgement.old
                self.seen.our_members += judgement.ours
                self.seen.offsets += len(judgement.stored)
                self._of_groups |= {tp.topic for tp in (*judgement.stored, *judgement.owners)}
                doubtful = {finding for finding in judgement.findings if finding.code in TRANSIENT}
                if doubtful:
                    self._doubtful[name] = doubtful
                if judgement.old or judgement.has_mode:
                    self._shared.add(name)
                if judgement.old:
                    self._living[name] = dict(judgement.stored)
                yield from (finding for finding in judgement.findings if finding not in doubtful)
            yield from belief_rules.not_served(self.reader, [name for name, _ in batch])
            if self.ask is not None:
                yield from self.ask(batch)
        yield from (one for one in self._ensemble(topics) if self.is_whole or self._concerns(one))
        yield from self._later(topics)

    def _concerns(self, finding: CheckFinding) -> bool:
        """Whether what belongs to no group matters to those that were asked for."""
        topic = finding.node.rpartition("/")[2]
        return finding.code in NOT_READ or (finding.code in OF_TOPICS and topic in self._of_groups)

    def _hide(self, path: str, answer: Denied) -> None:
        """A node that belongs to no group could not be read."""
        self._hidden.setdefault(path, answer)

    def _not_readable(self) -> Iterator[CheckFinding]:
        """Each of them once."""
        for path, answer in self._hidden.items():
            if path not in self._said:
                self._said.add(path)
                yield not_read("", path, answer)

    def _judged(
        self, names: Sequence[str], topics: Topics | None
    ) -> Iterator[list[tuple[str, GroupJudgement]]]:
        for batch in read_groups(self.reader, names):
            yield [(group.name, judge_group(group, topics)) for group in batch]

    def _ensemble(self, topics: Topics | None) -> Iterator[CheckFinding]:
        old = self.seen.old_members > 0
        leader, groups = self.reader.read(
            [GetData(f"{CONSUMERS}/{COORDINATOR}"), GetData(Layout.DRAFT.groups_root)]
        )
        for path, answer in (
            (f"{CONSUMERS}/{COORDINATOR}", leader),
            (Layout.DRAFT.groups_root, groups),
        ):
            if isinstance(answer, Denied):
                self._hide(path, answer)
            if old and isinstance(answer, Node):
                yield CheckFinding(
                    "draft-layout",
                    "",
                    path,
                    "zkcoord's layout draft is in use beside old consumers",
                )
        for layout in LAYOUTS.values():
            yield from self._seat(layout)
        yield from belief_rules.none_served(self.reader)
        source = read_source(self.reader, self._hide)
        yield from sources(source, self.seen.groups, self.seen.old_members)
        yield from broker_rules.brokers(self.reader, old, self._hide)
        if not source.counts:  # of what Kafka keeps elsewhere ZooKeeper says nothing
            yield from broker_rules.deletions(self.reader, self._hide)
            yield from broker_rules.leaderless(self.reader, topics or {}, self._hide)
        yield from self._not_readable()

    def _seat(self, layout: Layout) -> Iterator[CheckFinding]:
        """Whether somebody can lead in a layout."""
        leader, epoch = self.reader.read([GetData(layout.leader), GetData(layout.epoch)])
        for path, answer in ((layout.leader, leader), (layout.epoch, epoch)):
            if isinstance(answer, Denied):
                self._hide(path, answer)
        if isinstance(leader, Node) and not leader.stat.ephemeral_owner:
            what = f"it is persistent and has {leader.stat.num_children} children"
            yield CheckFinding("seat-persistent", "", layout.leader, what)
        elif isinstance(leader, Node) and not leads(leader):
            what = f"it is of the session 0x{leader.stat.ephemeral_owner:x}"
            yield CheckFinding("seat-unreadable", "", layout.leader, what)
        value = decode_epoch(epoch.data) if isinstance(epoch, Node) else None
        if isinstance(value, Malformed):
            yield CheckFinding("epoch-unusable", "", layout.epoch, value.reason)
        elif isinstance(value, EpochData) and value.epoch == EPOCH_MAX:
            yield CheckFinding("epoch-unusable", "", layout.epoch, "it has no successor")

    def _later(self, topics: Topics | None) -> Iterator[CheckFinding]:
        """What is seen at every look; and, while it is watched, offsets that go back."""
        until = self.clock() + (self.watch_s or LOOK_AGAIN_S)
        again = sorted(set(self._doubtful) | (set(self._living) if self.watch_s else set()))
        while again and self.clock() < until:
            self.rest(min(EVERY_S, until - self.clock()) if self.watch_s else until - self.clock())
            self.reader.sync()
            for batch in self._judged(again, topics):
                for name, judgement in batch:
                    self._doubtful[name] = self._doubtful.get(name, set()) & _kinds(
                        judgement.findings, self._doubtful.get(name, set())
                    )
                    if self.watch_s:
                        yield from self._back(name, judgement)
        for name in sorted(self._doubtful):
            yield from sorted(
                self._doubtful[name], key=lambda finding: (finding.code, finding.node)
            )

    def _back(self, name: str, judgement: GroupJudgement) -> Iterator[CheckFinding]:
        before = self._living.setdefault(name, {})
        for tp, offset in judgement.stored.items():
            if offset < before.get(tp, offset):
                yield CheckFinding(
                    "offset-went-back",
                    name,
                    Layout.ISOLATED.offset(name, tp),
                    f"from {before[tp]} to {offset} while it was watched",
                )
            before[tp] = offset


def _kinds(findings: Iterable[CheckFinding], before: set[CheckFinding]) -> set[CheckFinding]:
    """Those of `before` that are found again: same kind, same node; how many partitions it concerns
    may have changed.
    """
    now = {(finding.code, finding.node) for finding in findings}
    return {finding for finding in before if (finding.code, finding.node) in now}
