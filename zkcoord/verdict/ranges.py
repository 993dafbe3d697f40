"""Sets of offsets as sorted, disjoint, half-open ranges: a run of millions of records handed out in
order is one range.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class RangeSet:
    """Offsets that were seen. Memory and time grow with the number of holes, not of offsets."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._starts, self._ends, strict=False))

    def __bool__(self) -> bool:
        return bool(self._starts)

    def add(self, start: int, end: int) -> list[tuple[int, int]]:
        """Add [start, end) and return the parts of it that were there before, in order."""
        assert start < end, "a range holds at least one offset"
        if self._ends and start == self._ends[-1]:  # the usual case: the next records in order
            self._ends[-1] = end
            return []
        low, high = bisect_left(self._ends, start), bisect_right(self._starts, end)
        known = [
            (max(start, s), min(end, e))
            for s, e in zip(self._starts[low:high], self._ends[low:high], strict=False)
            if max(start, s) < min(end, e)
        ]
        if low < high:
            start, end = min(start, self._starts[low]), max(end, self._ends[high - 1])
        self._starts[low:high], self._ends[low:high] = [start], [end]
        return known

    def remove(self, start: int, end: int) -> list[tuple[int, int]]:
        """Remove [start, end) and return the parts that were there, in order."""
        low, high = self._touched(start, end)
        taken = self.within(start, end)
        kept = [
            part
            for s, e in zip(self._starts[low:high], self._ends[low:high], strict=False)
            for part in ((s, min(e, start)), (max(s, end), e))
            if part[0] < part[1]
        ]
        self._starts[low:high], self._ends[low:high] = [s for s, _ in kept], [e for _, e in kept]
        return taken

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of [start, end) that are in the set, in order."""
        low, high = self._touched(start, end)
        return [
            (max(start, s), min(end, e))
            for s, e in zip(self._starts[low:high], self._ends[low:high], strict=False)
        ]

    def holes(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of [start, end) that are not in the set, in order."""
        found: list[tuple[int, int]] = []
        at = start
        for s, e in self.within(start, end):
            if s > at:
                found.append((at, s))
            at = e
        if at < end:
            found.append((at, end))
        return found

    def _touched(self, start: int, end: int) -> tuple[int, int]:
        """Which ranges have something in [start, end): from, to."""
        return bisect_right(self._ends, start), bisect_left(self._starts, end)
