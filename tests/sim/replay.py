"""I12: the same events give the same actions.

While `recording()` is on, every core (coordinator and member) keeps its own journal of events and
of the actions that it answered with. `replayed` feeds each journal to a fresh core and compares. A
coordinator's journal goes through the text of a recording and the product's own replay, so that
every simulator run is also a test of those; a member's through the same encoding. What a core
changed in a value after it took it would be recorded as changed, and would not repeat itself.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from consumer.core.events import MemberAction, MemberEvent
from consumer.core.group_member import GroupMember
from zkcoord.coordinator.input_recorder import end_line, header_line, step_line
from zkcoord.core.coordinator import Coordinator
from zkcoord.core.events import Elected
from zkcoord.core_encoding import codec
from zkcoord.replay.replay import Recording, Replay, ReplayResult

DIFFERENCES_MAX = 5


@dataclass(slots=True)
class Journal:
    """What one core was told and what it said."""

    core: Any
    steps: list[tuple[Any, list[Any]]] = field(default_factory=list)


def _recorded(
    original: Callable[[Any, Any], list[Any]], journals: dict[int, Journal]
) -> Callable[[Any, Any], list[Any]]:
    def step(self: Any, event: Any) -> list[Any]:
        actions = original(self, event)
        journal = journals.get(id(self))
        if journal is None:
            journal = journals[id(self)] = Journal(self)
        journal.steps.append((event, list(actions)))
        return actions

    return step


@contextlib.contextmanager
def recording() -> Iterator[dict[int, Journal]]:
    """Every core that takes a step inside this block keeps a journal."""
    journals: dict[int, Journal] = {}
    originals = {cls: cls.step for cls in (Coordinator, GroupMember)}
    for cls, original in originals.items():
        cls.step = _recorded(original, journals)
    try:
        yield journals
    finally:
        for cls, original in originals.items():
            cls.step = original


@dataclass(slots=True)
class Replayed:
    """What the replay of a run's journals found. Only coordinators have terms and writes."""

    terms: int = 0
    inputs: int = 0
    writes: int = 0
    differences: list[str] = field(default_factory=list)

    def add(self, other: Replayed) -> None:
        """Count another run's."""
        self.terms += other.terms
        self.inputs += other.inputs
        self.writes += other.writes
        self.differences += other.differences


def terms(journal: Journal) -> Iterator[Recording]:
    """A coordinator's journal as recordings, one per term, read back from their text."""
    lines: list[bytes] = []
    for event, actions in journal.steps:
        if isinstance(event, Elected):
            if lines:
                yield Recording("simulator", [*lines, end_line("another term")])
            lines = [header_line(journal.core.options, event.epoch, 0)]
        if lines:
            lines.append(step_line(event, actions))
    if lines:
        yield Recording("simulator", [*lines, end_line("the run ended")])


def replayed(journals: dict[int, Journal]) -> Replayed:
    """Every journal again: where a fresh core, told the same, says something else."""
    found = Replayed()
    for journal in journals.values():
        if isinstance(journal.core, Coordinator):
            for term in terms(journal):
                _count(Replay(term).run(), found)
        else:
            found.differences += _member_differences(journal)
    return found


def _count(verdict: ReplayResult, found: Replayed) -> None:
    found.terms += 1
    found.inputs += verdict.inputs
    found.writes += verdict.writes
    if verdict.difference is not None:
        d = verdict.difference
        found.differences.append(
            f"Coordinator, line {d.step.line}: {d.step.event} gave {d.recorded}, again {d.said}"
        )


def _member_differences(journal: Journal) -> list[str]:
    fresh = GroupMember(journal.core.options)
    events, out = codec(MemberEvent), codec(MemberAction)
    for number, (event, actions) in enumerate(journal.steps):
        said = fresh.step(events.decode(json.loads(json.dumps(events.encode(event)))))
        if [out.encode(action) for action in said] != json.loads(
            json.dumps([out.encode(action) for action in actions])
        ):
            return [f"Member step {number}: {event} gave {actions}, again {said}"]
    return []
