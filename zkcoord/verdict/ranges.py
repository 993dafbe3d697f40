"""Sets of offsets as sorted, disjoint, half-open ranges: a run of millions of records handed out in order is one range."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class RangeSet:
    """Offsets that were seen. Memory and time grow with the number of holes, not of offsets."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._starts, self._ends))

    def __bool__(self) -> bool:
        return bool(self._starts)

    def add(self, start: int, end: int) -> list[tuple[int, int]]:
        """Add [start, end) and return the parts of it that were there before, in order."""
        assert start < end, "a range holds at least one offset"
        if self._ends and start == self._ends[-1]:  # the usual case: the next records in order
            self._ends[-1] = end
            return []
        low, high = bisect_left(self._ends, start), bisect_right(self._starts, end)
        known = [(max(start, s), min(end, e)) for s, e in zip(self._starts[low:high], self._ends[low:high]) if max(start, s) < min(end, e)]
        if low < high:
            start, end = min(start, self._starts[low]), max(end, self._ends[high - 1])
        self._starts[low:high], self._ends[low:high] = [start], [end]
        return known

    def remove(self, start: int, end: int) -> list[tuple[int, int]]:
        """Remove [start, end) and return the parts that were there, in order."""
        kept: list[tuple[int, int]] = []
        taken: list[tuple[int, int]] = []
        for s, e in self:
            cut_start, cut_end = max(start, s), min(end, e)
            if cut_start >= cut_end:
                kept.append((s, e))
                continue
            taken.append((cut_start, cut_end))
            kept += [part for part in ((s, cut_start), (cut_end, e)) if part[0] < part[1]]
        self._starts, self._ends = [s for s, _ in kept], [e for _, e in kept]
        return taken

    def holes(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of [start, end) that are not in the set, in order."""
        found: list[tuple[int, int]] = []
        at = start
        for s, e in self:
            if s >= end:
                break
            if s > at:
                found.append((at, s))
            at = max(at, e)
        if at < end:
            found.append((at, end))
        return found
