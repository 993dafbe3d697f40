"""One pass over everything that was written down: files are read line by line, merged by time, and
each fact goes to the judge of its partition. Memory is bounded by the number of partitions, files
and steps, not by the records.

Order. The threads of a process write as they come, so lines of one file may be out of order by a
little: each file is sorted within a window of `REORDER_NS` before the files are merged. A consumer
that is stopped between a thing and its line, for longer than its session, writes that line when it
goes on, perhaps after another thread's: `CONSUMER_REORDER_NS`. A scenario learns later when
something had happened, so its few lines have a window of their own.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from zkcoord.verdict import lines
from zkcoord.verdict.facts import (
    CommandSeen,
    Delivered,
    Fact,
    FirstFetch,
    Partition,
    PartitionAssigned,
    ProducerStopped,
    RebalanceSeen,
    Released,
    SessionEnded,
    Started,
    Steady,
    StepBalanced,
    StepBegan,
)
from zkcoord.verdict.lines import UNREADABLE, Line, Parse
from zkcoord.verdict.outcome import ScenarioStep, Verdict
from zkcoord.verdict.rules import PartitionJudge

REORDER_NS = 2_000_000_000
CONSUMER_REORDER_NS = 60_000_000_000
SCENARIO_REORDER_NS = 600_000_000_000
SUFFIX = ".jsonl"
INPUTS = "inputs-"
CONSUMERS, COORDINATORS, PRODUCERS, SCENARIO = "consumers", "coordinators", "producers", "scenario"


class Court:
    """Feed it all facts in order of time, then ask for `verdict`. Where a member tells of no first
    fetch, as unmodified clients do, the first records since the assignment stand for it.
    """

    def __init__(self) -> None:
        self._judges: dict[Partition, PartitionJudge] = {}
        self._unfetched: set[tuple[Partition, str]] = set()
        self._verdict = Verdict()
        self._open: ScenarioStep | None = None

    def fact(self, fact: Fact) -> None:
        """Take the next fact."""
        if isinstance(fact, (FirstFetch, CommandSeen)):
            self._of_step(fact)
        elif isinstance(fact, StepBegan):
            self._open = ScenarioStep(fact.name, fact.quiet, fact.t_ns)
            self._verdict.steps.append(self._open)
        elif isinstance(fact, StepBalanced):
            self._balanced(fact)
        elif isinstance(fact, RebalanceSeen):
            self._verdict.rebalances.append(fact)
        elif isinstance(fact, (Started, SessionEnded)):
            # all processes of a run are on one machine; what a session's end means for partitions
            # is told of each
            return
        elif isinstance(fact, (Steady, ProducerStopped)) or (
            isinstance(fact, Released) and fact.partition is None
        ):
            for judge in self._judges.values():
                judge.fact(fact)
        else:
            assert fact.partition is not None, "only a release may concern all partitions"
            if self._open is not None and isinstance(fact, (PartitionAssigned, Released)):
                self._open.moves += 1
            if isinstance(fact, PartitionAssigned):
                self._unfetched.add((fact.partition, fact.member))
            elif isinstance(fact, Delivered) and (fact.partition, fact.member) in self._unfetched:
                self._of_step(FirstFetch(fact.t_ns, fact.partition, fact.member))
            if fact.partition not in self._judges:
                self._judges[fact.partition] = PartitionJudge(fact.partition)
            self._judges[fact.partition].fact(fact)

    def _of_step(self, fact: FirstFetch | CommandSeen) -> None:
        if isinstance(fact, FirstFetch):
            self._unfetched.discard((fact.partition, fact.member))
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
    """The verdict over a run's folder: `consumers/NAME.jsonl` (or any file that is alone in
    `consumers/NAME/`), `producers/NAME.jsonl`, `scenario/NAME.jsonl`, `coordinators/NAME/*.jsonl`.
    """
    unreadable = Unreadable()
    verdict = judge(facts_in(folder, unreadable))
    verdict.unreadable = unreadable.count
    return verdict


def facts_in(folder: Path, unreadable: Unreadable) -> Iterator[Fact]:
    """All facts of a run's folder, by time."""
    sources: list[tuple[str, Parse, int]] = [
        (CONSUMERS, lines.consumer, CONSUMER_REORDER_NS),
        (PRODUCERS, lines.producer, REORDER_NS),
        (COORDINATORS, lines.coordinator, REORDER_NS),
        (SCENARIO, lines.scenario, SCENARIO_REORDER_NS),
    ]
    streams = [
        in_order(facts_of(path, member_of(path, folder / name), parse, unreadable), window_ns)
        for name, parse, window_ns in sources
        for path in record_files(folder / name)
    ]
    return heapq.merge(*streams, key=lambda fact: fact.t_ns)


def record_files(folder: Path) -> list[Path]:
    """The files of records in a folder and below: what a coordinator decided from (`zkcoord
    replay`) may lie beside its journal, and is none.
    """
    return [path for path in sorted(folder.rglob(f"*{SUFFIX}")) if not path.name.startswith(INPUTS)]


@dataclass
class Unreadable:
    """Lines that are not what they should be."""

    count: int = 0


def member_of(path: Path, folder: Path) -> str:
    """Whose file this is, within `folder`: the name of its own folder where it is alone there, as
    that of a Spark application, else its own.
    """
    alone = path.parent != folder and len(record_files(path.parent)) == 1
    return path.parent.name if alone else path.stem


def facts_of(path: Path, member: str, parse: Parse, unreadable: Unreadable) -> Iterator[Fact]:
    """The facts of one file, as they stand there. A last line without its end (its writer was
    killed) is left out silently.
    """
    with path.open("rb") as file:
        for raw in file:
            if not raw.endswith(b"\n"):
                return
            try:
                line: Line = json.loads(raw)
                yield from parse(member, line)
            except UNREADABLE:
                unreadable.count += 1


def in_order(facts: Iterable[Fact], window_ns: int = REORDER_NS) -> Iterator[Fact]:
    """`facts` by time, where none is later in the stream than `window_ns` after one that it belongs
    before.
    """
    waiting: list[tuple[int, int, Fact]] = []
    newest = 0
    for number, fact in enumerate(facts):
        newest = max(newest, fact.t_ns)
        heapq.heappush(waiting, (fact.t_ns, number, fact))
        while waiting and waiting[0][0] <= newest - window_ns:
            yield heapq.heappop(waiting)[2]
    while waiting:
        yield heapq.heappop(waiting)[2]
