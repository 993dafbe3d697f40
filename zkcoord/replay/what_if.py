"""`zkcoord replay --with NAME=VALUE`: figures of a recording beside those of the model, once as it
was and once with other options.
"""

from __future__ import annotations

import difflib
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_type_hints

from zkcoord.core import events as ev
from zkcoord.core.assignment import ASSIGNORS
from zkcoord.core.model import Option
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.value_type import value
from zkcoord.core_encoding import ForeignEncoding, codec
from zkcoord.errors import ConfigurationError
from zkcoord.replay.model import Model
from zkcoord.replay.recorded_world import Learned, learn
from zkcoord.replay.replay import Recording
from zkcoord.text_table import table
from zkcoord.words import counted
from zkcoord.znodes.names import shown

DURATIONS_SHOWN_MAX = 12
ASSUMES = """\
The model: who joins, changes and leaves, topics and operators' requests come from the recording, at
their times. Members carry out what they are commanded, completely, after the median time of their
own recorded acks; one that never answered its last command falls silent before that. Writes take
the median time of the recorded ones. So it tells how decisions would have differed, not how
applications would have: compare `model, what if` with `model, as it was`, and look at `recorded` to
see how near the model is.
"""


@dataclass
class Figures:
    """What one group, or all, went through. Only writes that succeeded count; `moved` is partitions
    in start commands.
    """

    generations: int = 0
    moved: int = 0
    stops: int = 0
    starts: int = 0
    rejects: int = 0
    evictions: int = 0
    durations_ms: list[int] = field(default_factory=list)
    last_generation: int | None = None

    def rows(self) -> dict[str, str]:
        """By name, as text."""
        shown_ms = [str(ms) for ms in self.durations_ms[:DURATIONS_SHOWN_MAX]] + (
            ["..."] if len(self.durations_ms) > DURATIONS_SHOWN_MAX else []
        )
        return {
            "generations": str(self.generations),
            "partitions started": str(self.moved),
            "commands": str(self.stops + self.starts + self.rejects),
            "stops / starts / rejects": f"{self.stops} / {self.starts} / {self.rejects}",
            "evictions": str(self.evictions),
            "rebalances": str(len(self.durations_ms)),
            "ms, median / longest": (
                f"{statistics.median(self.durations_ms):.0f} / {max(self.durations_ms)}"
                if self.durations_ms
                else "-"
            ),
            "ms, each": " ".join(shown_ms) or "-",
        }

    def values(self) -> dict[str, Any]:
        """By name, for JSON."""
        return {
            "generations": self.generations,
            "partitions_started": self.moved,
            "stops": self.stops,
            "starts": self.starts,
            "rejects": self.rejects,
            "evictions": self.evictions,
            "rebalances": len(self.durations_ms),
            "durations_ms": self.durations_ms,
        }


class Counter:
    """Counts from events and actions, whether recorded or modelled."""

    def __init__(self) -> None:
        self.groups: dict[str, Figures] = {}
        self._writing: dict[tuple[str, int], ev.Write] = {}

    def step(self, event: ev.Event, actions: Sequence[ev.Action]) -> None:
        """One input with the answers to it."""
        if isinstance(event, ev.Written):
            write = self._writing.pop((event.group, event.token), None)
            if write is not None and event.outcome is ev.Outcome.OK:
                self._wrote(self.groups.setdefault(event.group, Figures()), write)
        for action in actions:
            if isinstance(action, ev.Write):
                self._writing[(action.group, action.token)] = action
            elif isinstance(action, ev.Record) and action.kind == "rebalance":
                duration = action.detail.get("duration_ms")
                if isinstance(duration, int):
                    self.groups.setdefault(action.group, Figures()).durations_ms.append(duration)

    def _wrote(self, figures: Figures, write: ev.Write) -> None:
        for op in write.ops:
            if isinstance(op, ev.Send):
                figures.moved += len(op.command.start)
                figures.stops += op.command.option is Option.STOP
                figures.starts += op.command.option is Option.START
                figures.rejects += op.command.option is Option.REJECT
                self._generation(figures, op.command.generation)
            elif isinstance(op, ev.DeleteRegistration):
                figures.evictions += 1
            elif isinstance(op, ev.PutMetadata):
                self._generation(figures, op.metadata.generation)

    def _generation(self, figures: Figures, generation: int) -> None:
        if figures.last_generation != generation:
            figures.generations += 1
            figures.last_generation = generation


@value
class WhatIf:
    """Other options: the core's, and `assignor` for what members name."""

    options: CoordinatorOptions
    assignor: str | None
    text: str


def parse(recorded: CoordinatorOptions, pairs: Sequence[str]) -> WhatIf:
    """From NAME=VALUE texts. Raises `ConfigurationError`."""
    hints = get_type_hints(CoordinatorOptions)
    changed: dict[str, Any] = {}
    assignor = None
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.replace("-", "_")
        if name == "assignor" and equals:
            if text not in ASSIGNORS:
                raise ConfigurationError(
                    f"--with assignor={shown(text)}: no assignor that a replay can run is called"
                    f" so, write {' or '.join(sorted(ASSIGNORS))}"
                )
            assignor = text
        elif not equals or name not in hints:
            near = next(iter(difflib.get_close_matches(name, [*hints, "assignor"], n=1)), "")
            raise ConfigurationError(
                f"--with {shown(pair)} names no option of the decisions: write "
                + (f"{near}=VALUE" if near else "NAME=VALUE, for example debounce_ms=0")
            )
        else:
            changed[name] = _value(name, hints[name], text)
    if assignor is not None:
        changed["default_assignor"] = assignor
    return WhatIf(replace(recorded, **changed), assignor, ", ".join(pairs))


def _value(name: str, hint: Any, text: str) -> Any:
    try:
        value = text if hint is str else codec(hint).decode(json.loads(text))
    except (ValueError, RecursionError, ForeignEncoding) as error:
        raise ConfigurationError(
            f"--with {name}={shown(text)} is not a value of that option: write a whole number of 0"
            " or more"
        ) from error
    if isinstance(value, int) and value < 0:
        raise ConfigurationError(
            f"--with {name}={value} is negative: write a whole number of 0 or more"
        )
    return value


@value
class Comparison:
    """The same term three times."""

    recorded: Counter
    as_it_was: Counter
    what_if: Counter
    unanswered: int


def compare(recording: Recording, what_if: WhatIf) -> Comparison:
    """Count, and run the model twice. Raises `ReplayError`."""
    recorded = Counter()
    with recording.believed():
        for step in recording.steps():
            recorded.step(step.event, step.answers())
        learned = learn(recording)
        as_it_was, _ = _modelled(learned, WhatIf(recording.options, None, ""))
        other, unanswered = _modelled(learned, what_if)
    return Comparison(recorded, as_it_was, other, unanswered)


def _modelled(learned: Learned, what_if: WhatIf) -> tuple[Counter, int]:
    counter = Counter()
    model = Model(learned, what_if.options, counter.step, what_if.assignor)
    model.run()
    return counter, model.unanswered


def text(found: Comparison, group: str | None) -> str:
    """A table per group, by name."""
    columns = (
        ("GROUP", 8),
        ("", 24),
        ("RECORDED", 10),
        ("MODEL, AS IT WAS", 10),
        ("MODEL, WHAT IF", 0),
    )
    rows = []
    for name in _names(found, group):
        three = [
            counter.groups.get(name, Figures()).rows()
            for counter in (found.recorded, found.as_it_was, found.what_if)
        ]
        rows += [[name, row, *(figures[row] for figures in three)] for row in three[0]]
    warning = (
        f"{counted(found.unanswered, 'question')} to custom assignors, not recorded, failed in the"
        " model: choose another with --with assignor=NAME\n"
        if found.unanswered
        else ""
    )
    return table(columns, rows) + warning


def values(found: Comparison, group: str | None) -> dict[str, Any]:
    """For JSON."""
    three = {
        "recorded": found.recorded,
        "model_as_it_was": found.as_it_was,
        "model_what_if": found.what_if,
    }
    return {
        name: {
            kind: counter.groups.get(name, Figures()).values() for kind, counter in three.items()
        }
        for name in _names(found, group)
    }


def _names(found: Comparison, group: str | None) -> list[str]:
    names = {*found.recorded.groups, *found.as_it_was.groups, *found.what_if.groups}
    return sorted(name for name in names if group in (None, name))
