"""Lag in seconds, by what was seen of a log."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkcoord.health.seconds import NO_LAG, POINTS_MAX, LagSeconds, LogTable

NOW = 1_000_000


def table(*points: tuple[int, int], points_max: int = POINTS_MAX) -> LogTable:
    """Of (second, end)."""
    found = LogTable()
    for second, end in points:
        found = found.seen(second * 1_000, end, points_max)
    return found


def points(found: LogTable) -> list[tuple[int, int]]:
    return list(zip(found.times, found.ends, strict=True))


LINE = table((0, 100), (10, 200), (20, 200), (30, 300))


@pytest.mark.parametrize(
    ("offset", "second", "expected"),
    [
        (300, 30, NO_LAG),
        (301, 99, NO_LAG),  # beyond the end
        (250, 30, LagSeconds(5.0)),  # on the line from 20 to 30
        (250, 40, LagSeconds(15.0)),
        (200, 30, LagSeconds(10.0)),  # the end stood at 200 until 20
        (199, 30, LagSeconds(20.1)),
        (100, 30, LagSeconds(30.0)),  # exact, though the oldest
        (99, 30, LagSeconds(30.0, at_least=True)),
        (0, 30, LagSeconds(30.0, at_least=True)),
        (250, 0, LagSeconds(0.0)),  # read before the end was seen
    ],
)
def test_the_time_at_which_the_log_ended_there(
    offset: int, second: int, expected: LagSeconds
) -> None:
    found = LINE.lag(offset, second * 1_000)
    assert found is not None and found.at_least is expected.at_least
    assert found.value == pytest.approx(expected.value)


def test_nothing_seen_is_nothing_known() -> None:
    assert LogTable().lag(5, NOW) is None and LogTable().end_after(0) is None
    assert not LogTable().goes_back(0)


def test_one_sight_of_a_log_knows_no_lag_or_at_least_none() -> None:
    assert table((0, 5)).lag(5, 0) == NO_LAG
    assert table((0, 5)).lag(4, 3_000) == LagSeconds(3.0, at_least=True)


def test_an_end_that_stands_still_takes_two_points() -> None:
    assert points(table(*((n, 7) for n in range(50)))) == [(0, 7), (49_000, 7)]


def test_a_log_whose_end_goes_back_is_another_log() -> None:
    assert LINE.goes_back(299) and not LINE.goes_back(300)
    again = LINE.seen(40_000, 3)
    assert points(again) == [(40_000, 3)]
    assert again.lag(250, 41_000) == NO_LAG and again.lag(2, 41_000) == LagSeconds(1.0, True)


def test_a_second_sight_of_one_moment_replaces_the_first() -> None:
    assert points(LINE.seen(30_000, 310))[-1] == (30_000, 310)
    assert points(LINE.seen(29_000, 310))[-1] == (30_000, 310), "a clock that goes back"


@pytest.mark.parametrize(
    ("lag", "text"),
    [
        (NO_LAG, "0"),
        (LagSeconds(0.04), "0.0"),
        (LagSeconds(9.94), "9.9"),
        (LagSeconds(58.2, True), ">58"),
        (LagSeconds(0.0, True), ">0.0"),
        (LagSeconds(7_260.4), "7260"),
    ],
)
def test_as_people_see_it(lag: LagSeconds, text: str) -> None:
    assert str(lag) == text


@st.composite
def tables(draw: st.DrawFn) -> tuple[LogTable, list[tuple[int, int]]]:
    steps = draw(
        st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**12)), min_size=1, max_size=59)
    )
    at = end = 0
    found, points = LogTable(), []
    for ms, records in steps:
        at, end = at + ms, end + records
        found = found.seen(at, end)
        points.append((at, end))
    return found, points


@given(tables(), st.integers(0, 10**7), st.lists(st.integers(0, 2**63), min_size=2))
def test_it_is_never_negative_and_never_grows_with_the_offset(
    made: tuple[LogTable, list[tuple[int, int]]], later: int, offsets: list[int]
) -> None:
    found, points = made
    now = points[-1][0] + later
    inside = [offset % (points[-1][1] + 2) for offset in offsets]
    lags = [found.lag(offset, now) for offset in sorted(inside + offsets)]
    values = [lag.value for lag in lags if lag is not None]
    assert len(values) == len(lags) and min(values) >= 0
    assert all(a >= b - 1e-6 for a, b in zip(values, values[1:]))


@given(tables(), st.integers(0, 10**7))
def test_it_is_exact_where_a_sight_is(
    made: tuple[LogTable, list[tuple[int, int]]], later: int
) -> None:
    found, points = made
    now = points[-1][0] + later
    last = {end: at for at, end in points}
    for end, at in last.items():
        lag = found.lag(end, now)
        assert lag is not None and not lag.at_least
        assert lag.value == pytest.approx(0.0 if end == points[-1][1] else (now - at) / 1000)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 50)), max_size=300))
def test_a_table_stays_small_and_in_order(steps: list[tuple[int, int]]) -> None:
    found, at, end = LogTable(), 0, 0
    for ms, records in steps:
        at, end = at + ms, end + records
        found = found.seen(at, end, 12)
        times, ends = list(found.times), list(found.ends)
        assert len(times) <= 12 and times == sorted(set(times)) and ends == sorted(ends)
        assert ends[-1] == end and len(ends) == len(times)


def test_what_is_left_out_costs_less_than_a_tenth() -> None:
    """A log whose rate changes all the time, looked at every two seconds for three hours."""
    found, ends = LogTable(), []
    end = 0
    for n in range(5_400):
        end += (n * 7919) % 1_000
        ends.append(end)
        found = found.seen(n * 2_000, end)
    assert len(found.times) <= POINTS_MAX
    now = 5_399 * 2_000
    for n in range(1, 5_400, 7):
        lag = found.lag(ends[n], now)
        assert lag is not None
        truth = (now - n * 2_000) / 1000
        assert abs(lag.value - truth) <= max(2.0, truth / 10), (n, lag.value, truth)


# what brokers are asked about times before the first look


def found_out(
    table: LogTable, offset: int, now_ms: int, ends: Callable[[int], int | None]
) -> tuple[LogTable, int]:
    """The table when nothing is asked any more, and how often it was."""
    for count in range(100):
        at_ms = table.asks(offset, now_ms)
        if at_ms is None:
            return table, count
        table = table.told(at_ms, ends(at_ms))
    raise AssertionError(table)


def test_nothing_is_asked_of_what_is_known() -> None:
    assert LogTable().asks(5, 0) is None
    for offset in (100, 150, 300, 400):
        assert LINE.asks(offset, 40_000) is None
    assert LINE.asks(99, 40_000) == 40_000 - 80_000
    assert table((0, 100)).asks(99, 1_000) == 1_000 - 60_000, "a minute at least"


@given(st.integers(1_001, 29 * 86_400_000), st.integers(1, 1_000), st.booleans())
def test_it_is_found_out_within_a_tenth_or_a_second(
    age_ms: int, per_s: int, in_bursts: bool
) -> None:
    """A log that has grown for ever, or in two bursts with a long silence between them."""
    now = 10**12
    total = (now // 1000) * per_s

    def end_at(at_ms: int) -> int:
        if in_bursts and now - 2 * age_ms < at_ms < now - age_ms:
            at_ms = now - 2 * age_ms  # it ended there until the next record came
        return max(0, at_ms * per_s) // 1000

    offset = end_at(now - age_ms)
    when = next(at for at in (now - age_ms, now - age_ms + 1) if end_at(at) >= offset)
    first = LogTable().seen(now, total)
    found, count = found_out(first, offset, now, end_at)
    lag = found.lag(offset, now)
    assert lag is not None and not lag.at_least and count < 30
    truth = (now - when) / 1000
    bound = max(2.0, truth / 10) + 1 / per_s
    assert abs(lag.value - truth) <= bound


def test_a_log_that_has_not_got_it_any_more_is_older_than_a_month() -> None:
    found, count = found_out(table((0, 1_000)), 10, 0, lambda at: 500)
    lag = found.lag(10, 0)
    assert lag is not None and lag.at_least and lag.value > 10 * 86_400 and count < 20


@pytest.mark.parametrize(
    ("at_ms", "end"),
    [(-60_000, None), (-60_000, 101), (-60_000, 10**9), (31_000, 300), (0, 50), (5_000, 99)],
)
def test_what_contradicts_a_look_is_not_believed_and_nothing_more_is_asked(
    at_ms: int, end: int | None
) -> None:
    found = LINE.told(at_ms, end)
    assert points(found) == points(LINE) and found.silent
    assert found.asks(99, 40_000) is None and found.lag(99, 40_000) == LINE.lag(99, 40_000)
    assert not found.seen(50_000, 3).silent, "another log"


def test_what_is_told_is_between_what_was_seen() -> None:
    found = LINE.told(-60_000, 20).told(-30_000, 20).told(-10_000, 80)
    assert found.ends[:4] == (20, 20, 80, 100)
    lag = found.lag(90, 30_000)
    assert lag is not None and lag.value == pytest.approx(35.0)
    assert LINE.end_after(-60_000) == 100 and LINE.end_after(30_000) is None
