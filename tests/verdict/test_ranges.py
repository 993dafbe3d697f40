"""Sets of offsets, against plain sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zkcoord.verdict.ranges import RangeSet

RANGES = st.lists(st.tuples(st.booleans(), st.integers(0, 60), st.integers(1, 12)), max_size=40)


def offsets(parts: list[tuple[int, int]]) -> set[int]:
    """The offsets in half-open ranges."""
    return {offset for start, end in parts for offset in range(start, end)}


@given(RANGES)
def test_it_is_a_set(operations: list[tuple[bool, int, int]]) -> None:
    ranges, model = RangeSet(), set()
    for adding, start, length in operations:
        touched = set(range(start, start + length))
        known = offsets(
            ranges.add(start, start + length) if adding else ranges.remove(start, start + length)
        )
        assert known == model & touched
        model = model | touched if adding else model - touched
        assert offsets(list(ranges)) == model
        assert offsets(ranges.holes(0, 80)) == set(range(80)) - model
        listed = list(ranges)
        assert all(start < end for start, end in listed) and all(
            before[1] <= after[0] for before, after in zip(listed, listed[1:])
        )


def test_records_in_order_are_one_range() -> None:
    ranges = RangeSet()
    for start in range(0, 10_000, 10):
        assert ranges.add(start, start + 10) == []
    assert list(ranges) == [(0, 10_000)]
