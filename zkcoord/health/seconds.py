"""Lag in seconds: how long ago the log's end was where the group is now. Pure.

A `LogTable` holds what was seen of one log: (time, end). An offset's time is when the log ended
there: exact where a sample says so (the last of several that say the same: the record behind it was
written after that), and on the straight line between two samples else. Times are of a clock that
never goes back (`boot_ms`), so a step of the wall clock changes nothing.

* No lag is 0, whatever the table holds.
* An offset from before the table is answered with the table's age, marked as `at_least`: people see
  `>58`. So that it seldom comes to that, brokers can be asked where a log ended before anybody
  looked, by the times of its records (`asks`, `told`): at times twice as old from one question to
  the next, then in between, until the answer is within a tenth, or a second. That is as right as
  the clocks of the producers. What contradicts a look is not believed, and the end of the
  questions.
* A log whose end goes back (a topic that was made again, or a log that was cut) is another log: the
  table begins anew.
* A table has at most `POINTS_MAX` points. What is left out is the point that is missed least, by
  the gap it leaves and its age: old ones stand further apart, so that a long table stays exact
  where lag is short, and within about a tenth where it is long.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from math import isqrt
from operator import attrgetter
from typing import NamedTuple

POINTS_MAX = 60
EXACT_PART = 0.1
EXACT_MS = 1_000
AGE_MS_MIN = 60_000
AGE_MS_MAX = 30 * 86_400_000
"""Nothing is asked about times that are older."""


class LogPoint(NamedTuple):
    """Where a log ended, and when that was seen."""

    at_ms: int
    end: int


@dataclass(frozen=True, slots=True)
class LagSeconds:
    """`at_least`: the offset is older than all that was seen, and the lag at least so long."""

    value: float
    at_least: bool = False

    def __str__(self) -> str:
        if not self.value and not self.at_least:
            return "0"
        text = f"{self.value:.1f}" if self.value < 10 else f"{self.value:.0f}"
        return f">{text}" if self.at_least else text


NO_LAG = LagSeconds(0.0)


@dataclass(frozen=True, slots=True)
class LogTable:
    """What was seen of one log: times rise, ends never fall; of an end that stands still only the
    first and the last sight are kept. `told_until_ms` is the first look: what is older was told;
    `silent`: nothing more is asked.
    """

    points: tuple[LogPoint, ...] = ()
    told_until_ms: int | None = None
    silent: bool = False

    @property
    def end(self) -> int | None:
        """Where the log ended last."""
        return self.points[-1].end if self.points else None

    def end_after(self, at_ms: int) -> int | None:
        """Where the log ended at the first sight after a time."""
        index = bisect_right(self.points, at_ms, key=attrgetter("at_ms"))
        return self.points[index].end if index < len(self.points) else None

    def goes_back(self, end: int) -> bool:
        """Whether this end is that of another log."""
        return bool(self.points) and end < self.points[-1].end

    def seen(self, at_ms: int, end: int, points_max: int = POINTS_MAX) -> LogTable:
        """With another sight of the end."""
        points, new = self.points, LogPoint(at_ms, end)
        if not points or end < points[-1].end:
            return LogTable((new,), at_ms)
        last = points[-1]
        if at_ms <= last.at_ms:  # as good as the same moment
            return replace(self, points=(*points[:-1], LogPoint(last.at_ms, end)))
        still = len(points) > 1 and points[-2].end == last.end == end
        points = (*(points[:-1] if still else points), new)
        return replace(self, points=_thinned(points) if len(points) > points_max else points)

    def asks(self, offset: int, now_ms: int) -> int | None:
        """The time at which it should be known where the log ended, for this offset; None: it is
        known well enough, or not to be found out.
        """
        points = self.points
        if not points or self.silent or len(points) >= POINTS_MAX or offset >= points[-1].end:
            return None
        if offset < points[0].end:
            age = now_ms - points[0].at_ms
            older = min(AGE_MS_MAX, max(AGE_MS_MIN, 2 * age))
            return now_ms - older if older > age else None
        index = bisect_right(points, offset, key=attrgetter("end"))
        before, after = points[index - 1], points[index]
        if before.at_ms >= (self.told_until_ms or 0):
            return None
        older, newer = now_ms - before.at_ms, max(EXACT_MS, now_ms - after.at_ms)
        exact = older - newer <= max(EXACT_MS, newer * EXACT_PART)
        return None if exact else now_ms - isqrt(older * newer)

    def told(self, at_ms: int, end: int | None) -> LogTable:
        """With what a broker says of a time before the first look; None: it says nothing."""
        points = self.points
        index = bisect_right(points, at_ms, key=attrgetter("at_ms"))
        fits = (
            end is not None
            and index < len(points)
            and end <= points[index].end
            and (index == 0 or (points[index - 1].at_ms < at_ms and points[index - 1].end <= end))
        )
        if not fits or end is None:
            return replace(self, silent=True)
        return replace(self, points=(*points[:index], LogPoint(at_ms, end), *points[index:]))

    def lag(self, offset: int, now_ms: int) -> LagSeconds | None:
        """How long ago the log ended at this offset, read at `now_ms`; None: nothing was seen."""
        points = self.points
        if not points:
            return None
        if offset >= points[-1].end:
            return NO_LAG
        if offset < points[0].end:
            return LagSeconds(_since(points[0].at_ms, now_ms), at_least=True)
        index = bisect_right(points, offset, key=attrgetter("end"))
        before, after = points[index - 1], points[index]
        part = (offset - before.end) / (after.end - before.end)
        return LagSeconds(_since(before.at_ms + part * (after.at_ms - before.at_ms), now_ms))


def _since(at_ms: float, now_ms: int) -> float:
    return max(0.0, (now_ms - at_ms) / 1000)


def _thinned(points: tuple[LogPoint, ...]) -> tuple[LogPoint, ...]:
    """Without the point that is missed least; the first and the last one stay."""
    now = points[-1].at_ms
    least = min(
        range(1, len(points) - 1),
        key=lambda n: (points[n + 1].at_ms - points[n - 1].at_ms) / (now - points[n - 1].at_ms),
    )
    return points[:least] + points[least + 1 :]
