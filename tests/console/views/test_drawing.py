"""Places of timelines and sparklines."""

from __future__ import annotations

import pytest

from tests.console.pictures import rebalance
from zkcoord.console.views.drawing import COLOURS, TICKS_MAX, WIDTH, drawn, spark
from zkcoord.console.views.timeline import OwnersTimeline, timeline


def test_segments_are_where_their_time_is() -> None:
    records = [rebalance(2_500, {"m": {"a": "0-1"}}), rebalance(5_000, {"n": {"a": "0"}})]
    found = drawn(timeline(records, 0, 10_000))
    assert [(one.name, one.colour) for one in found.owners] == [("m", 0), ("n", 1)]
    assert found.owners[0].path.startswith("M250 2h240v12H250z")
    assert found.owners[1].path == "M500 2h500v12H500z"
    assert [(y, str(tp)) for y, tp in found.rows] == [(0, "a-0"), (16, "a-1")]
    assert [(mark.x, mark.width) for mark in found.marks] == [(240, 10), (490, 10)]


@pytest.mark.parametrize("span", [1, 600_000, 3_600_000, 86_400_000, 604_800_000, 10**13])
def test_ticks_are_few_and_within(span: int) -> None:
    begin = 1_700_000_000_123
    found = drawn(OwnersTimeline(begin, begin + span))
    assert len(found.ticks) <= TICKS_MAX + 1
    assert all(0 <= x <= WIDTH and begin <= at < begin + span for x, at in found.ticks)


def test_nothing_can_be_drawn_too() -> None:
    found = drawn(OwnersTimeline(5, 5))
    assert (found.owners, found.marks, found.height) == ([], [], 16)


def test_what_took_longer_than_the_time_shown_begins_at_its_edge() -> None:
    (mark,) = drawn(timeline([rebalance(5_000, duration_ms=10**15)], 0, 10_000)).marks
    assert (mark.x, mark.width) == (0, 500)


def test_colours_come_again() -> None:
    owns = {f"m{n:02}": {"a": str(n)} for n in range(COLOURS + 1)}
    owners = drawn(timeline([rebalance(1, owns)], 0, 10)).owners
    assert owners[0].colour == owners[COLOURS].colour == 0


def test_sparklines() -> None:
    assert spark([]) == spark([0, 0]) == ""
    assert spark([0, 4, 1]) == "M5 16v-16h4V16zM10 16v-4h4V16z"
    assert "v-1h" in spark([1_000_000, 1]), "one is seen beside a million"
