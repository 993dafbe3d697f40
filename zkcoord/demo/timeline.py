"""Who owned which partition when, as intervals, out of a run's files. Pure but for reading them;
`picture` draws what is found here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from zkcoord.core.value_type import value
from zkcoord.verdict import engine
from zkcoord.verdict.facts import Delivered, OwnershipEnd, Partition, PartitionAssigned, Released
from zkcoord.verdict.outcome import ScenarioStep

BIN_NS = 500_000_000


@value
class Interval:
    """`member` owned `partition` from `start_ns` to `end_ns`."""

    partition: Partition
    member: str
    start_ns: int
    end_ns: int


@value
class TimelineMark:
    """An event. `took_ms`: until every partition that came was fetched, where something moved."""

    t_ns: int
    label: str
    took_ms: float | None = None


@dataclass
class Timeline:
    """A run as it is drawn. `delivered` counts records per `BIN_NS`, keyed by the bin's number
    since `start_ns`.
    """

    start_ns: int = 0
    end_ns: int = 0
    partitions: list[Partition] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)
    marks: list[TimelineMark] = field(default_factory=list)
    delivered: Counter[int] = field(default_factory=Counter)
    records: int = 0


class Drawing:
    """Folds facts, in order of time, into a timeline."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self._held: dict[tuple[Partition, str], int] = {}

    def assigned(self, fact: PartitionAssigned) -> None:
        """An ownership begins."""
        line = self.timeline
        if not line.start_ns:
            line.start_ns = fact.t_ns
        if fact.partition not in line.partitions:
            line.partitions.append(fact.partition)
        if fact.member not in line.members:
            line.members.append(fact.member)
        self._held.setdefault((fact.partition, fact.member), fact.t_ns)

    def released(self, fact: Released) -> None:
        """One or all ownerships of a member end."""
        for partition, member in [
            held
            for held in self._held
            if held[1] == fact.member and fact.partition in (None, held[0])
        ]:
            self.timeline.intervals.append(
                Interval(partition, member, self._held.pop((partition, member)), fact.t_ns)
            )
            self.timeline.end_ns = max(self.timeline.end_ns, fact.t_ns)

    def delivered(self, fact: Delivered) -> None:
        """Records were handed out."""
        count = fact.last - fact.first + 1
        self.timeline.records += count
        if self.timeline.start_ns:
            self.timeline.delivered[(fact.t_ns - self.timeline.start_ns) // BIN_NS] += count


def read(folder: Path, steps: Iterable[ScenarioStep]) -> Timeline:
    """The timeline of a run's folder, whose steps took what the verdict says. Ownerships that never
    ended end with the run.
    """
    drawing = Drawing()
    last_ns = 0
    took = {step.name: step.took_ms for step in steps if step.took_ms is not None}
    for fact in engine.facts_in(folder, engine.Unreadable()):
        if isinstance(fact, PartitionAssigned):
            drawing.assigned(fact)
        elif isinstance(fact, Released):
            drawing.released(fact)
        elif isinstance(fact, Delivered):
            drawing.delivered(fact)
        last_ns = max(last_ns, fact.t_ns)
    for member in drawing.timeline.members:
        drawing.released(Released(last_ns, None, member, OwnershipEnd.CLOSED))
    drawing.timeline.partitions.sort()
    drawing.timeline.marks = marks(folder, took)
    return drawing.timeline


def marks(folder: Path, took: dict[str, float]) -> list[TimelineMark]:
    """The scenario's marks, with the time that the step of each took, in order of time."""
    found: list[TimelineMark] = []
    waiting: list[tuple[int, str]] = []
    for path in sorted((folder / engine.SCENARIO).glob(f"*{engine.SUFFIX}")):
        for raw in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(raw)
            if line["event"] == "mark":
                waiting.append((line["t"], line["label"]))
            elif line["event"] == "balanced":
                found += [
                    TimelineMark(t_ns, label, took.get(line["name"])) for t_ns, label in waiting
                ]
                waiting.clear()
    return sorted(
        found + [TimelineMark(t_ns, label) for t_ns, label in waiting], key=lambda mark: mark.t_ns
    )
