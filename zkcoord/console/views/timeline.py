"""Who owned which partition when, from a group's journal. Pure.

The journal's record of a rebalance says who owns what when it is over (`owned`), and how long it
took. So a partition belongs to the owner that a record names, from then on; where the next record
names another one, nobody is known to have had it from that rebalance's beginning to its end. Of
what was before the first record in the journal nothing is known, and nothing is drawn. Records of
groups of many partitions, of earlier releases and of client-led groups have no `owned`: they are
marks alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any

from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value

OWNED_MAX = 10_000
"""Partitions that are read of one record: the journal writes fewer."""

WORK_MAX = 500_000
"""The same of all records that a timeline reads, from the newest."""

ROWS_MAX = 100
SEGMENTS_MAX = 1_500
MARKS_MAX = 200
"""So much can be seen, and a page stays light."""
REBALANCES = ("rebalance", "client-led rebalance")
MARKED = (*REBALANCES, "evicted", "quarantined", "released", "mode", "static", "legacy")
NOBODY = ""


@value
class Segment:
    """From when to when (ms) somebody owned a partition."""

    begin_ms: int
    end_ms: int
    owner: str


@value
class Mark:
    """Something that happened to the group. `took_ms` 0: at a point in time."""

    at_ms: int
    kind: str
    record: Mapping[str, Any]
    took_ms: int = 0

    @property
    def begin_ms(self) -> int:
        """When it began."""
        return self.at_ms - self.took_ms

    @property
    def is_rebalance(self) -> bool:
        """Whether partitions may have moved."""
        return self.kind in REBALANCES


@dataclass(frozen=True)
class OwnersTimeline:
    """Rows by partition, the marks, and every owner in the order in which it first appears.
    `left_out`: partitions beyond `ROWS_MAX`; `marks_left`: older marks beyond `marks_max`;
    `unknown`: rebalances that do not say who owned what.
    """

    begin_ms: int
    end_ms: int
    rows: Mapping[TopicPartition, Sequence[Segment]] = field(default_factory=dict)
    marks: Sequence[Mark] = ()
    owners: Sequence[str] = ()
    left_out: int = 0
    marks_left: int = 0
    unknown: int = 0


def timeline(
    records: Iterable[Mapping[str, Any]],
    begin_ms: int,
    end_ms: int,
    topic: str = "",
    marks_max: int = MARKS_MAX,
) -> OwnersTimeline:
    """Of this time; of one topic, or of all."""
    marked = [r for r in records if r["kind"] in MARKED and r["t"] <= end_ms]
    marks = [
        Mark(r["t"], r["kind"], r, _whole(r.get("duration_ms")))
        for r in marked
        if r["t"] >= begin_ms
    ]
    changes: dict[TopicPartition, list[Segment]] = {}
    unknown = 0
    for record, owners_then in _known(marked, begin_ms, topic):
        at_ms = record["t"]
        began_ms = at_ms - _whole(record.get("duration_ms"))
        unknown += owners_then is None and at_ms >= begin_ms
        _apply(changes, owners_then or {}, began_ms, at_ms, end_ms)
    rows = {tp: clipped for tp in sorted(changes) if (clipped := _clip(changes[tp], begin_ms))}
    shown = dict(list(rows.items())[:ROWS_MAX])
    ordered = sorted((s.begin_ms, s.owner) for row in shown.values() for s in row)
    return OwnersTimeline(
        begin_ms,
        end_ms,
        _coarse(shown, end_ms - begin_ms),
        marks[-marks_max:],
        list(dict.fromkeys(owner for _, owner in ordered if owner)),
        len(rows) - len(shown),
        max(0, len(marks) - marks_max),
        unknown,
    )


def owned(found: Mapping[Any, Any], topic: str = "") -> dict[TopicPartition, str]:
    """Owners by partition, of a record's `owned`: {member: {topic: "0-3,7"}}. What is not of this
    form is left out: the record may be of another version.
    """
    pairs = (
        (TopicPartition(name, number), str(member))
        for member, topics in found.items()
        if isinstance(topics, dict)
        for name, numbers in topics.items()
        if not topic or name == topic
        for number in _numbers(numbers)
    )
    return dict(islice(pairs, OWNED_MAX))


def _known(
    marked: Sequence[Mapping[str, Any]], begin_ms: int, topic: str
) -> list[tuple[Mapping[str, Any], dict[TopicPartition, str] | None]]:
    """Rebalances with the owners after them, None where the journal does not say that: from the
    last one before `begin_ms` on, or from where `WORK_MAX` partitions are read.
    """
    found: list[tuple[Mapping[str, Any], dict[TopicPartition, str] | None]] = []
    work = 0
    for record in reversed(marked):
        if record["kind"] not in REBALANCES:
            continue
        said = record.get("owned")
        then = owned(said, topic) if isinstance(said, dict) else None
        work += len(then or ())
        if work > WORK_MAX:
            break
        found.append((record, then))
        if record["t"] <= begin_ms:
            break
    return found[::-1]


def _numbers(text: Any) -> Iterator[int]:
    for part in text.split(",") if isinstance(text, str) else ():
        first, _, last = part.partition("-")
        if not (_is_number(first) and _is_number(last or first)):
            continue
        yield from range(int(first), int(last or first) + 1)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _whole(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


def _apply(
    changes: dict[TopicPartition, list[Segment]],
    after: Mapping[TopicPartition, str],
    began_ms: int,
    over_ms: int,
    end_ms: int,
) -> None:
    """A rebalance from `began_ms` to `over_ms`, after which these are the owners."""
    for tp in changes.keys() | after.keys():
        row = changes.setdefault(tp, [])
        owner = after.get(tp, NOBODY)
        last = row[-1] if row else None
        if last is not None and last.end_ms == end_ms:  # it goes on until then
            if last.owner == owner:
                continue
            left = max(last.begin_ms, min(began_ms, over_ms))
            row[-1] = Segment(last.begin_ms, left, last.owner)
        if owner:
            row.append(Segment(over_ms, end_ms, owner))


def _clip(row: Sequence[Segment], begin_ms: int) -> list[Segment]:
    return [
        Segment(max(s.begin_ms, begin_ms), s.end_ms, s.owner) for s in row if s.end_ms > begin_ms
    ]


def _coarse(
    rows: Mapping[TopicPartition, Sequence[Segment]], span_ms: int
) -> dict[TopicPartition, Sequence[Segment]]:
    """The same with at most `SEGMENTS_MAX` segments in all: those of a row that begin within the
    same slice of time count as the last of them.
    """
    if sum(map(len, rows.values())) <= SEGMENTS_MAX or not span_ms:
        return dict(rows)
    slice_ms = max(1, span_ms * len(rows) // SEGMENTS_MAX)
    return {
        tp: [
            Segment(together[0].begin_ms, together[-1].end_ms, together[-1].owner)
            for _, found in groupby(row, key=lambda s: s.begin_ms // slice_ms)
            if (together := list(found))
        ]
        for tp, row in rows.items()
    }
