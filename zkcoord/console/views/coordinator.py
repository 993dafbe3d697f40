"""What the coordinator's page shows: terms of office and how long each takeover took, from the
journal's records. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from zkcoord.console.picture import GroupLine
from zkcoord.core.model import GroupState
from zkcoord.core.value_type import value

TERMS_SHOWN = 30
TERMS_MAX = 1_000


@dataclass(slots=True)
class Term:
    """One coordinator's time as leader. Times in ms since 1970; None: the journal does not say."""

    epoch: int
    elected_ms: int | None = None
    ready_ms: int | None = None
    ended_ms: int | None = None
    why: str = ""
    nobody_ms: int | None = None

    @property
    def takeover_ms(self) -> int | None:
        """From the election until it had read the world."""
        if self.elected_ms is None or self.ready_ms is None:
            return None
        return max(0, self.ready_ms - self.elected_ms)


def terms_of(records: Sequence[Mapping[str, Any]]) -> list[Term]:
    """The newest first. `nobody_ms` is from the end of the one before until this one was ready."""
    terms: dict[int, Term] = {}
    for record in records:
        epoch, at_ms = record.get("epoch"), record["t"]
        if record["kind"] != "term" or type(epoch) is not int:
            continue
        term = terms.setdefault(epoch, Term(epoch))
        match record.get("event"):
            case "elected":
                term.elected_ms = at_ms
            case "ready":
                term.ready_ms = at_ms
            case "resigned":
                term.ended_ms, term.why = at_ms, str(record.get("reason", ""))
            case _:
                pass
    found = [terms[epoch] for epoch in sorted(terms)][-TERMS_MAX:]
    for before, term in pairwise(found):
        if before.ended_ms is not None and term.ready_ms is not None:
            term.nobody_ms = max(0, term.ready_ms - before.ended_ms)
    return found[::-1]


@value
class Took:
    """How long rebalances of the last hour took, ms: how many there were, half of them at most, 95
    of 100 at most, and the longest.
    """

    count: int
    median: int
    p95: int
    longest: int


def took(durations_ms: Iterable[int]) -> Took | None:
    """None: there was none."""
    found = sorted(durations_ms)
    if not found:
        return None
    count = len(found)
    return Took(count, found[(count - 1) // 2], found[-(-95 * count // 100) - 1], found[-1])


@value
class Problems:
    """How many groups need somebody to look at them, by what is wrong."""

    not_well: int
    in_trouble: int
    quarantined: int
    paused: int


def problems_of(lines: Iterable[GroupLine]) -> Problems:
    """Of all groups."""
    found = list(lines)
    return Problems(
        sum(not line.is_well for line in found),
        sum(bool(line.troubles) for line in found),
        sum(line.listed.state is GroupState.QUARANTINED for line in found),
        sum(bool(line.listed.paused) for line in found),
    )
