"""The fold behind the benchmark's figures: when a group counts as balanced, and how gaps are
measured.
"""

from __future__ import annotations

import pytest

from tests.bench.figures import Bar, Row, quantile, spread
from tests.bench.group import Group


def fed(group: Group, *lines: tuple[int, str, str, object]) -> Group:
    for t_ns, who, event, value in lines:
        if who not in group.views:
            group.expect(who)
        group.line(
            who,
            {
                "event": event,
                "t": t_ns,
                **(
                    {"partition": value}
                    if event == "first_fetch"
                    else {"partitions": value}
                    if value is not None
                    else {}
                ),
            },
        )
    return group


def whole() -> Group:
    return fed(
        Group(2),
        (1, "a", "assigned", [0]),
        (2, "a", "first_fetch", 0),
        (3, "b", "assigned", [1]),
        (4, "b", "first_fetch", 1),
    )


def test_balanced() -> None:
    assert whole().balanced(["a", "b"])


@pytest.mark.parametrize(
    "line",
    [
        (5, "a", "revoked", [0]),
        (5, "a", "lost", [0]),
        (5, "b", "assigned", [0]),
        (5, "b", "closing", None),
        (5, "c", "assigned", [2]),
    ],
)
def test_not_balanced(line: tuple[int, str, str, object]) -> None:
    assert not fed(whole(), line).balanced(["a", "b"])


def test_what_is_not_fetched_again_is_not_balanced() -> None:
    group = fed(whole(), (5, "a", "revoked", [0]), (6, "a", "assigned", [0]))
    assert not group.balanced(["a", "b"])
    assert fed(group, (7, "a", "first_fetch", 0)).balanced(["a", "b"])


def test_a_member_that_is_not_there_yet() -> None:
    group = whole()
    group.expect("c")
    assert group.balanced(["a", "b"]) and not group.balanced(["a", "b", "c"])


def test_somebody_else_owns_something() -> None:
    assert not whole().balanced(["a"])


def test_two_owners_of_one_partition() -> None:
    assert not fed(whole(), (5, "b", "assigned", [0]), (6, "b", "first_fetch", 0)).balanced(
        ["a", "b"]
    )


def test_one_owns_three_of_four() -> None:
    group = fed(
        Group(4),
        (1, "a", "assigned", [0, 1, 2]),
        (2, "b", "assigned", [3]),
        *[(3, "a", "first_fetch", n) for n in range(3)],
        (4, "b", "first_fetch", 3),
    )
    assert not group.balanced(["a", "b"])


def test_uneven() -> None:
    group = fed(
        Group(3),
        *[(1, "a", "assigned", [n]) for n in range(3)],
        *[(2, "a", "first_fetch", n) for n in range(3)],
    )
    group.expect("b")
    assert group.balanced(["a"]) and not group.balanced(["a", "b"])


def test_a_member_that_failed_is_said() -> None:
    group = Group(1)
    group.expect("a")
    group.line("a", {"event": "error", "t": 1, "message": "no broker"})
    with pytest.raises(AssertionError, match="a: no broker"):
        group.balanced(["a"])


@pytest.mark.parametrize(
    ("times", "begin", "end", "gap"),
    [
        ([0, 10, 20, 60, 70], 15, 75, 40),
        ([0, 10, 60, 62], 50, 63, 50),  # began before the window, ended in it
        ([0, 5, 90], 0, 60, 55),  # nothing more until the window's end
        ([], 10, 30, 20),
        ([0, 40, 41, 42], 41, 43, 1),
    ],
)
def test_gap(times: list[int], begin: int, end: int, gap: int) -> None:
    group = Group(1)
    for t in times:
        group.line("a", {"event": "records", "t": t, "partitions": [0], "ages": [t]})
    assert group.gap_ns(0, begin, end) == gap
    assert group.age_ms(0, begin, end) == max((t for t in times if begin <= t <= end), default=0)
    assert group.last_hand_out_ns(0) == max(times, default=0)


def test_forget() -> None:
    group = whole()
    group.line("a", {"event": "records", "t": 9, "partitions": [0], "ages": [3]})
    group.forget(4)
    assert [seen.t_ns for seen in group.since(0)] == [4]
    group.forget(10)
    assert group.handed_out == {0: []} and group.balanced(["a", "b"])


def test_spread_and_bars() -> None:
    values = [float(n) for n in range(1, 101)]
    assert spread(values) == {"n": 100, "min": 1.0, "median": 50.5, "p95": 95.0, "max": 100.0}
    assert spread([1.1349])["median"] == 1.13 and spread([113.49])["median"] == 113.5
    assert quantile([3.0, 1.0, 2.0], 0.95) == 3.0 and quantile([1.0], 0.5) == 1.0
    row = Row("x", "y", values, (Bar("median", 50), Bar("p95", 95), Bar("max", 99)))
    assert [bar.what for bar in row.missed] == ["median", "max"]
    assert Row("x", "y", [], (Bar("median", 0),)).missed == []
