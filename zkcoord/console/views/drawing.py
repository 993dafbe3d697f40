"""Timelines and sparklines as numbers for SVG. Pure: no markup here, for templates escape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zkcoord.console.views.timeline import Mark, OwnersTimeline
from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value

WIDTH = 1000
ROW = 16
BAR = 12
COLOURS = 12
MARK_WIDTH_MIN = 2
TICKS = (
    60_000, 300_000, 600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 10_800_000, 21_600_000,
    43_200_000, 86_400_000,
)  # fmt: skip
TICKS_MAX = 8
SPARK_HEIGHT = 16
SPARK_BAR = 5


@value
class DrawnOwner:
    """An owner's colour, and all that it has had, as one path."""

    name: str
    colour: int
    path: str


@value
class DrawnMark:
    """A mark's place, in the order of time."""

    x: int
    width: int
    mark: Mark


@dataclass(frozen=True)
class DrawnTimeline:
    """See the module."""

    width: int
    height: int
    rows: Sequence[tuple[int, TopicPartition]]
    owners: Sequence[DrawnOwner]
    marks: Sequence[DrawnMark]
    ticks: Sequence[tuple[int, int]]


def drawn(found: OwnersTimeline) -> DrawnTimeline:
    """Places of everything, in units of the SVG."""
    span = max(1, found.end_ms - found.begin_ms)

    def x_of(at_ms: int) -> int:
        return max(0, min(WIDTH, (at_ms - found.begin_ms) * WIDTH // span))

    paths: dict[str, list[str]] = {}
    for index, row in enumerate(found.rows.values()):
        top = index * ROW + (ROW - BAR) // 2
        for segment in row:
            left, right = x_of(segment.begin_ms), x_of(segment.end_ms)
            # M = to there, h, v = along by so much
            part = f"M{left} {top}h{max(1, right - left)}v{BAR}H{left}z"
            paths.setdefault(segment.owner, []).append(part)
    return DrawnTimeline(
        WIDTH,
        max(1, len(found.rows)) * ROW,
        [(index * ROW, tp) for index, tp in enumerate(found.rows)],
        [
            DrawnOwner(owner, number % COLOURS, "".join(paths.get(owner, ())))
            for number, owner in enumerate(found.owners)
        ],
        [
            DrawnMark(
                x_of(mark.begin_ms),
                max(MARK_WIDTH_MIN, x_of(mark.at_ms) - x_of(mark.begin_ms)),
                mark,
            )
            for mark in found.marks
        ],
        [(x_of(at), at) for at in _ticks(found.begin_ms, found.end_ms)],
    )


def _ticks(begin_ms: int, end_ms: int) -> list[int]:
    span = end_ms - begin_ms
    step = next((tick for tick in TICKS if span // tick <= TICKS_MAX), TICKS[-1])
    step *= max(1, -(-span // step // TICKS_MAX))
    first = -(-begin_ms // step) * step
    return list(range(first, end_ms, step))


def spark(counts: Sequence[int]) -> str:
    """A path of bars, `SPARK_BAR` wide each; "" where there is nothing."""
    highest = max(counts, default=0)
    if not highest:
        return ""
    return "".join(
        f"M{index * SPARK_BAR} {SPARK_HEIGHT}v-{max(1, count * SPARK_HEIGHT // highest)}"
        f"h{SPARK_BAR - 1}V{SPARK_HEIGHT}z"
        for index, count in enumerate(counts)
        if count
    )
