"""What is made of hand-outs: pure, on made-up groups."""

from __future__ import annotations

import pytest

from tests.bench.side.events import Found
from tests.bench.side.flow import MS, Flow, change, gap_ns, taken_ns
from tests.bench.side.ground import partition_of
from tests.bench.side.report import compared
from tests.bench.side.systems import SYSTEMS, spread_over

BEAT_MS = 50


def play(flow: Flow, begin_ms: int, end_ms: int, owners: dict[int, str]) -> None:
    """Hand out a record of each partition per beat."""
    for t_ms in range(begin_ms, end_ms, BEAT_MS):
        for number, who in owners.items():
            flow.line(who, {"event": "records", "t": t_ms * MS, "partitions": [number]})


def group(*members: str) -> Flow:
    flow = Flow(4, BEAT_MS)
    for who in members:
        flow.expect(who)
    return flow


BOTH = {0: "a", 1: "a", 2: "b", 3: "b"}


def test_settled_is_even_quiet_and_later_than_the_event() -> None:
    flow = group("a", "b")
    play(flow, 0, 3_000, dict.fromkeys(range(4), "a"))
    assert flow.settled(["a"], 0) and not flow.settled(["a", "b"], 0), "b has nothing"
    play(flow, 3_000, 3_900, BOTH)
    assert not flow.settled(["a", "b"], 0), "not for long enough"
    play(flow, 3_900, 4_200, BOTH)
    assert flow.settled(["a", "b"], 3_000 * MS) and not flow.settled(["a", "b"], 3_500 * MS), (
        "an event at 3.5 s may not have shown yet"
    )
    assert not flow.settled(["a"], 0), "b is no member any more, and has partitions"
    play(flow, 4_200, 5_600, {0: "a", 1: "a", 2: "b"})
    assert not flow.settled(["a", "b"], 0), "a partition is silent"
    flow.line("a", {"event": "error", "t": 0, "message": "broken"})
    with pytest.raises(AssertionError, match="a: broken"):
        flow.settled(["a", "b"], 0)


def test_settled_is_not_when_one_has_two_more() -> None:
    flow = group("a", "b")
    play(flow, 0, 3_000, {0: "a", 1: "a", 2: "a", 3: "b"})
    assert not flow.settled(["a", "b"], 0)


def test_lines_of_two_processes_come_in_any_order() -> None:
    flow = group("a", "b")
    play(flow, 0, 1_000, dict.fromkeys(range(4), "a"))
    flow.line("b", {"event": "records", "t": 1_050 * MS, "partitions": [3]})
    flow.line("a", {"event": "records", "t": 1_000 * MS, "partitions": [3]})
    assert flow.owners()[3] == "b"


def test_a_join_ends_with_the_last_partition_that_moved_for_good() -> None:
    flow = group("a", "b")
    play(flow, 0, 2_000, dict.fromkeys(range(4), "a"))
    before = flow.owners()
    flow.line("b", {"event": "records", "t": 2_100 * MS, "partitions": [2]})
    flow.line("a", {"event": "records", "t": 2_150 * MS, "partitions": [2]})
    play(flow, 2_050, 4_000, {0: "a", 1: "a"})
    play(flow, 2_300, 4_000, {2: "b"})
    play(flow, 2_600, 4_000, {3: "b"})
    found = change(flow, before, 2_000 * MS)
    assert (found.took, found.first) == (600.0, 300.0), "2 went back to a in between"
    assert found.moved == 650.0 and found.quiet == BEAT_MS and found.kept == 2 * BEAT_MS


def test_an_eager_group_is_silent_where_it_keeps_too() -> None:
    flow = group("a", "b")
    play(flow, 0, 2_000, dict.fromkeys(range(4), "a"))
    before = flow.owners()
    play(flow, 3_000, 5_000, BOTH)
    found = change(flow, before, 2_000 * MS)
    assert found.kept == found.moved == 1_050.0 and found.took == 1_000.0


def test_nothing_moved_is_no_event() -> None:
    flow = group("a", "b")
    play(flow, 0, 2_000, BOTH)
    with pytest.raises(AssertionError, match="nothing moved"):
        change(flow, flow.owners(), 1_000 * MS)


def test_gaps_and_runs() -> None:
    of = [(t, "a") for t in (0, 10, 50, 60)]
    assert (
        gap_ns(of, 20, 65) == 40
        and gap_ns(of, 55, 100) == 40
        and gap_ns(of, 55, 65) == 10
        and gap_ns([], 0, 7) == 7
    )
    assert taken_ns([(1, "b"), (2, "a"), (3, "b"), (5, "b")], "b", 0) == 3
    assert taken_ns([(1, "b"), (3, "b"), (5, "b")], "b", 2) == 3


def test_where_a_group_is_coordinated() -> None:
    hashes = {"a": 97, "group-1": 293427299, "zkcoord": -235535772}
    assert [partition_of(name) for name in hashes] == [abs(found) % 10 for found in hashes.values()]
    assert spread_over(3, 4) == [1, 1, 1] and spread_over(23, 4) == [6, 6, 6, 5]


def test_first_is_by_a_tenth_or_a_beat() -> None:
    ours, old = Found(SYSTEMS[0], 4), Found(SYSTEMS[-1], 4)
    ours.add("join", took=110.0, kept=70.0, moved=None)
    old.add("join", took=100.0, kept=40.0)
    *_, first = compared([ours, old], 4, "join", "took")
    assert not first.missed and first.values == [1.1]
    *_, gap = compared([ours, old], 4, "join", "kept")
    assert gap.values == [30.0] and not gap.missed, "less than a beat"
    ours.values["join"] = {"took": [112.0], "kept": [90.0]}
    assert (
        compared([ours, old], 4, "join", "took")[-1].missed
        and compared([ours, old], 4, "join", "kept")[-1].missed
    )
    assert len(compared([ours], 4, "join", "took")) == 1, "nothing to compare with"
