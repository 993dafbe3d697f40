"""One pass over everything that was written down: files are read line by line, merged by time, and each fact goes to the judge of its partition. Memory is bounded by the number of partitions,
files and steps, not by the records.

Order. The threads of a process write as they come, so lines of one file may be out of order by a little: each file is sorted within a window of `REORDER_NS` before the files are merged. A scenario learns later when
something had happened, so its few lines have a window of their own.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from zkcoord.verdict import lines
from zkcoord.verdict.facts import Assigned, CommandSeen, Fact, FirstFetch, Partition, ProducerStopped, Rebalanced, Released, Steady, StepBalanced, StepBegan
from zkcoord.verdict.lines import Line, Parse
from zkcoord.verdict.rules import Finding, PartitionJudge, PartitionReport, Rule

REORDER_NS = 2_000_000_000
SCENARIO_REORDER_NS = 600_000_000_000
SUFFIX = ".jsonl"
CONSUMERS, COORDINATORS, PRODUCERS, SCENARIO = "consumers", "coordinators", "producers", "scenario"


@dataclass
class Step:
    """One step of a scenario. `took_ms`: from what is counted from (`StepBalanced.clock_ns`) to the first fetch response of the last partition that came; None when none did."""

    name: str
    quiet: bool
    t_ns: int
    took_ms: float | None = None
    balanced_ns: int | None = None
    fetched: int = 0
    commands: int = 0
    moves: int = 0
    last_fetch_ns: int = 0


@dataclass
class Verdict:
    """The judgement of a run. `clean` means that no rule found anything, every quiet step was quiet, and nothing failed otherwise (`failures`, which the scenario adds)."""

    partitions: list[PartitionReport] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    rebalances: list[Rebalanced] = field(default_factory=list)
    unreadable: int = 0
    failures: list[str] = field(default_factory=list)

    def amount(self, rule: Rule) -> int:
        """Records or events that a rule found, of all partitions."""
        return sum(report.amounts.get(rule, 0) for report in self.partitions)

    @property
    def findings(self) -> list[Finding]:
        """Examples of what is wrong, in order of time."""
        return sorted((finding for report in self.partitions for finding in report.examples), key=lambda finding: finding.t_ns)

    @property
    def noisy(self) -> list[Step]:
        """Quiet steps that were not."""
        return [step for step in self.steps if step.quiet and (step.commands or step.moves or step.fetched)]

    @property
    def reasons(self) -> list[str]:
        """What is wrong, in a few words each; empty when clean."""
        found = [f"{self.amount(rule)} {rule.value}" for rule in Rule if self.amount(rule)]
        found += [f"{step.commands} commands and {step.moves + step.fetched} changes of ownership in the quiet step '{step.name}'" for step in self.noisy]
        if not any(report.produced for report in self.partitions):
            found.append("nothing was produced")
        return found + self.failures

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.reasons

    @property
    def sentence(self) -> str:
        """The last line of a report."""
        return "VERDICT: clean" if self.clean else f"VERDICT: not clean: {', '.join(self.reasons)}"


class Court:
    """Feed it all facts in order of time, then ask for `verdict`."""

    def __init__(self) -> None:
        self._judges: dict[Partition, PartitionJudge] = {}
        self._verdict = Verdict()
        self._open: Step | None = None

    def fact(self, fact: Fact) -> None:
        """Take the next fact."""
        if isinstance(fact, (FirstFetch, CommandSeen)):
            self._of_step(fact)
        elif isinstance(fact, StepBegan):
            self._open = Step(fact.name, fact.quiet, fact.t_ns)
            self._verdict.steps.append(self._open)
        elif isinstance(fact, StepBalanced):
            self._balanced(fact)
        elif isinstance(fact, Rebalanced):
            self._verdict.rebalances.append(fact)
        elif isinstance(fact, (Steady, ProducerStopped)) or (isinstance(fact, Released) and fact.partition is None):
            for judge in self._judges.values():
                judge.fact(fact)
        else:
            assert fact.partition is not None, "only a release may concern all partitions"
            if self._open is not None and isinstance(fact, (Assigned, Released)):
                self._open.moves += 1
            if fact.partition not in self._judges:
                self._judges[fact.partition] = PartitionJudge(fact.partition)
            self._judges[fact.partition].fact(fact)

    def _of_step(self, fact: FirstFetch | CommandSeen) -> None:
        if self._open is None:
            return
        if isinstance(fact, CommandSeen):
            self._open.commands += 1
        else:
            self._open.fetched += 1
            self._open.last_fetch_ns = fact.t_ns

    def _balanced(self, fact: StepBalanced) -> None:
        step = self._open
        if step is not None and step.name == fact.name:
            step.balanced_ns = fact.t_ns
            step.took_ms = (step.last_fetch_ns - fact.clock_ns) / 1e6 if step.fetched else None
            self._open = None

    def verdict(self) -> Verdict:
        """All judgements; call it once, at the end."""
        self._verdict.partitions = [self._judges[at].report() for at in sorted(self._judges)]
        return self._verdict


def judge(facts: Iterable[Fact]) -> Verdict:
    """The verdict over facts that are in order of time."""
    court = Court()
    for fact in facts:
        court.fact(fact)
    return court.verdict()


def judge_folder(folder: Path) -> Verdict:
    """The verdict over a run's folder: `consumers/NAME.jsonl`, `producers/NAME.jsonl`, `scenario/NAME.jsonl`, `coordinators/NAME/*.jsonl`."""
    unreadable = Unreadable()
    verdict = judge(facts_in(folder, unreadable))
    verdict.unreadable = unreadable.count
    return verdict


def facts_in(folder: Path, unreadable: Unreadable) -> Iterator[Fact]:
    """All facts of a run's folder, by time."""
    sources: list[tuple[str, Parse, int]] = [
        (CONSUMERS, lines.consumer, REORDER_NS),
        (PRODUCERS, lines.producer, REORDER_NS),
        (COORDINATORS, lines.coordinator, REORDER_NS),
        (SCENARIO, lines.scenario, SCENARIO_REORDER_NS),
    ]
    streams = [in_order(facts_of(path, parse, unreadable), window_ns) for name, parse, window_ns in sources for path in sorted((folder / name).rglob(f"*{SUFFIX}"))]
    return heapq.merge(*streams, key=lambda fact: fact.t_ns)


@dataclass
class Unreadable:
    """Lines that are not what they should be."""

    count: int = 0


def facts_of(path: Path, parse: Parse, unreadable: Unreadable) -> Iterator[Fact]:
    """The facts of one file, as they stand there. A last line without its end (its writer was killed) is left out silently."""
    with path.open("rb") as file:
        for raw in file:
            if not raw.endswith(b"\n"):
                return
            try:
                line: Line = json.loads(raw)
                yield from parse(path.stem, line)
            except (ValueError, TypeError, KeyError, AttributeError, IndexError):
                unreadable.count += 1


def in_order(facts: Iterable[Fact], window_ns: int = REORDER_NS) -> Iterator[Fact]:
    """`facts` by time, where none is later in the stream than `window_ns` after one that it belongs before."""
    waiting: list[tuple[int, int, Fact]] = []
    newest = 0
    for number, fact in enumerate(facts):
        newest = max(newest, fact.t_ns)
        heapq.heappush(waiting, (fact.t_ns, number, fact))
        while waiting and waiting[0][0] <= newest - window_ns:
            yield heapq.heappop(waiting)[2]
    while waiting:
        yield heapq.heappop(waiting)[2]
