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
from math import isqrt

from zkcoord.core.value_type import value

POINTS_MAX = 60
EXACT_PART = 0.1
EXACT_MS = 1_000
AGE_MS_MIN = 60_000
AGE_MS_MAX = 30 * 86_400_000
"""Nothing is asked about times that are older."""


@value
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


@value
class LogTable:
    """What was seen of a log: `ends[n]` at `times[n]`. Times rise, ends never fall; of an end that
    stands still only the first and the last sight are kept. `told_until_ms` is the first look: what
    is older was told; `silent`: nothing more is asked. (Two tuples of numbers, which cost the
    collector of garbage nothing: there may be a hundred thousand tables.)
    """

    times: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    told_until_ms: int = 0
    silent: bool = False

    def end_after(self, at_ms: int) -> int | None:
        """Where the log ended at the first sight after a time."""
        index = bisect_right(self.times, at_ms)
        return self.ends[index] if index < len(self.ends) else None

    def goes_back(self, end: int) -> bool:
        """Whether this end is that of another log."""
        return bool(self.ends) and end < self.ends[-1]

    def seen(self, at_ms: int, end: int, points_max: int = POINTS_MAX) -> LogTable:
        """With another sight of the end."""
        times, ends = self.times, self.ends
        if not ends or end < ends[-1]:
            return LogTable((at_ms,), (end,), at_ms)
        if at_ms <= times[-1]:  # as good as the same moment
            return self._with(times, (*ends[:-1], end))
        if len(ends) > 1 and ends[-2] == ends[-1] == end:
            return self._with((*times[:-1], at_ms), ends)
        times, ends = (*times, at_ms), (*ends, end)
        if len(times) > points_max:
            least = _missed_least(times)
            times = times[:least] + times[least + 1 :]
            ends = ends[:least] + ends[least + 1 :]
        return self._with(times, ends)

    def asks(self, offset: int, now_ms: int) -> int | None:
        """The time at which it should be known where the log ended, for this offset; None: it is
        known well enough, or not to be found out.
        """
        times, ends = self.times, self.ends
        if not ends or self.silent or len(ends) >= POINTS_MAX or offset >= ends[-1]:
            return None
        if offset < ends[0]:
            age = now_ms - times[0]
            older = min(AGE_MS_MAX, max(AGE_MS_MIN, 2 * age))
            return now_ms - older if older > age else None
        index = bisect_right(ends, offset)
        if times[index - 1] >= self.told_until_ms:
            return None
        older, newer = now_ms - times[index - 1], max(EXACT_MS, now_ms - times[index])
        exact = older - newer <= max(EXACT_MS, newer * EXACT_PART)
        return None if exact else now_ms - isqrt(older * newer)

    def told(self, at_ms: int, end: int | None) -> LogTable:
        """With what a broker says of a time before the first look; None: it says nothing."""
        times, ends = self.times, self.ends
        index = bisect_right(times, at_ms)
        fits = (
            end is not None
            and index < len(ends)
            and end <= ends[index]
            and (index == 0 or (times[index - 1] < at_ms and ends[index - 1] <= end))
        )
        if not fits or end is None:
            return LogTable(times, ends, self.told_until_ms, silent=True)
        return self._with(
            (*times[:index], at_ms, *times[index:]), (*ends[:index], end, *ends[index:])
        )

    def lag(self, offset: int, now_ms: int) -> LagSeconds | None:
        """How long ago the log ended at this offset, read at `now_ms`; None: nothing was seen."""
        times, ends = self.times, self.ends
        if not ends:
            return None
        if offset >= ends[-1]:
            return NO_LAG
        if offset < ends[0]:
            return LagSeconds(_since(times[0], now_ms), at_least=True)
        index = bisect_right(ends, offset)
        before, after = times[index - 1], times[index]
        part = (offset - ends[index - 1]) / (ends[index] - ends[index - 1])
        return LagSeconds(_since(before + part * (after - before), now_ms))

    def _with(self, times: tuple[int, ...], ends: tuple[int, ...]) -> LogTable:
        return LogTable(times, ends, self.told_until_ms, self.silent)


def _since(at_ms: float, now_ms: int) -> float:
    return max(0.0, (now_ms - at_ms) / 1000)


def _missed_least(times: tuple[int, ...]) -> int:
    """Which point between the first and the last leaves the smallest gap for its age."""
    now = times[-1]
    return min(
        range(1, len(times) - 1),
        key=lambda n: (times[n + 1] - times[n - 1]) / (now - times[n - 1]),
    )
