"""I12: the same events give the same actions.

While `recording()` is on, every core (coordinator and agent) keeps its own journal of events and of the actions that it answered with. `differences` feeds each journal to a fresh
core and compares. Equality of the events themselves is part of it: a core that changed a value after taking it would not repeat itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from consumer.core.agent import Agent
from zkcoord.core.coordinator import Coordinator

DIFFERENCES_MAX = 5


@dataclass(slots=True)
class Journal:
    """What one core was told and what it said."""

    core: Any
    steps: list[tuple[Any, list[Any]]] = field(default_factory=list)


def _recorded(original: Callable[[Any, Any], list[Any]], journals: dict[int, Journal]) -> Callable[[Any, Any], list[Any]]:
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
    originals = {cls: cls.step for cls in (Coordinator, Agent)}
    for cls, original in originals.items():
        setattr(cls, "step", _recorded(original, journals))
    try:
        yield journals
    finally:
        for cls, original in originals.items():
            setattr(cls, "step", original)


def differences(journals: dict[int, Journal]) -> list[str]:
    """Where a fresh core, told the same, says something else."""
    found: list[str] = []
    for journal in journals.values():
        fresh = type(journal.core)(journal.core.options)
        for number, (event, actions) in enumerate(journal.steps):
            said = fresh.step(event)
            if said != actions:
                found.append(f"{type(fresh).__name__} step {number}: {event} gave {actions}, again {said}")
                break
        if len(found) >= DIFFERENCES_MAX:
            break
    return found
