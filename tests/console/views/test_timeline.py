"""Who owned which partition when."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.console.pictures import rebalance
from zkcoord.console.views import timeline as module
from zkcoord.console.views.timeline import (
    MARKS_MAX,
    OWNED_MAX,
    ROWS_MAX,
    SEGMENTS_MAX,
    OwnersTimeline,
    owned,
    timeline,
)
from zkcoord.core.model import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def spans(found: OwnersTimeline, tp: TopicPartition) -> list[tuple[int, int, str]]:
    return [(s.begin_ms, s.end_ms, s.owner) for s in found.rows.get(tp, ())]


def test_a_partition_is_its_owners_until_the_next_rebalance_begins() -> None:
    after = {"m": {"a": "0"}, "n": {"a": "1"}}
    records = [rebalance(1_000, {"m": {"a": "0-1"}}), rebalance(5_000, after)]
    found = timeline(records, 0, 10_000)
    assert spans(found, A0) == [(1_000, 10_000, "m")], "who keeps it has it all the time"
    assert spans(found, A1) == [(1_000, 4_900, "m"), (5_000, 10_000, "n")]
    assert found.owners == ["m", "n"] and len(found.marks) == 2 and not found.unknown


def test_who_had_it_before_the_time_that_is_shown_has_it_at_its_beginning() -> None:
    records = [rebalance(1_000, {"m": {"a": "0"}}), rebalance(1_500, {"n": {"a": "0"}})]
    found = timeline(records, 3_000, 10_000)
    assert spans(found, A0) == [(3_000, 10_000, "n")] and not found.marks


def test_the_same_owner_again_after_nobody() -> None:
    records = [
        rebalance(1_000, {"m": {"a": "0"}}),
        rebalance(2_000, {}),
        rebalance(3_000, {"m": {"a": "0"}}),
    ]
    found = timeline(records, 0, 10_000)
    assert spans(found, A0) == [(1_000, 1_900, "m"), (3_000, 10_000, "m")]


@pytest.mark.parametrize("nothing", [None, 5, "0-3", [], True])
def test_a_rebalance_that_does_not_say_who_owns_what_ends_what_is_known(nothing: object) -> None:
    records = [
        rebalance(1_000, {"m": {"a": "0"}}),
        rebalance(2_000, nothing),
        rebalance(3_000, {"m": {"a": "0"}}),
    ]
    found = timeline(records, 0, 10_000)
    assert spans(found, A0) == [(1_000, 1_900, "m"), (3_000, 10_000, "m")]
    assert found.unknown == 1 and len(found.marks) == 3
    assert not timeline(records, 2_500, 2_900).rows


def test_only_one_topic() -> None:
    records = [rebalance(1_000, {"m": {"a": "0", "b": "0"}})]
    assert list(timeline(records, 0, 10_000, "b").rows) == [TopicPartition("b", 0)]


def test_what_is_of_the_future_or_of_another_kind_is_not_drawn() -> None:
    records = [rebalance(20_000, {"m": {"a": "0"}}), {"t": 5, "kind": "malformed"}]
    found = timeline(records, 0, 10_000)
    assert not found.rows and not found.marks
    assert len(timeline([{"t": 5, "kind": "evicted"}], 0, 10_000).marks) == 1


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ("0-2,7", [0, 1, 2, 7]),
        ("3", [3]),
        ("5-3", []),
        ("", []),
        (",,1", [1]),
        ("-", []),
        ("x-3,٣,+1, 2", []),
        ("1_0", []),
        (7, []),
        (None, []),
        ([1, 2], []),
        ("1000000000", []),
        ("0-2-4", []),
    ],
)
def test_ranges(numbers: Any, expected: list[int]) -> None:
    found = owned({"m": {"a": numbers}})
    assert [tp.partition for tp in found] == expected


@pytest.mark.parametrize("topics", [None, 5, "a", [["a", "0"]]])
def test_what_is_of_another_form_is_left_out(topics: object) -> None:
    assert owned({"m": topics, "n": {"a": "1"}}) == {A1: "n"}


def test_work_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = {"m": {"a": ",".join(["0-999999999"] * 1_000)}}
    assert len(owned(endless)) == OWNED_MAX
    monkeypatch.setattr(module, "WORK_MAX", 2 * OWNED_MAX)
    read = []
    monkeypatch.setattr(module, "owned", lambda said, topic="": read.append(1) or owned(said))
    timeline([rebalance(at, endless) for at in range(1_000, 2_000)], 0, 10_000)
    assert len(read) == 3, "from the newest, until it is enough"


@pytest.mark.parametrize("took", [-5, 10**15, "5", None, True, 3.5, [], {}])
def test_durations_of_wrong_types(took: Any) -> None:
    records = [rebalance(1_000, {"m": {"a": "0"}}), rebalance(2_000, {}, duration_ms=took)]
    (segment,) = timeline(records, 0, 10_000).rows[A0]
    assert 1_000 <= segment.begin_ms <= segment.end_ms <= 2_000


def test_rows_segments_and_marks_have_limits() -> None:
    draw = random.Random(5)
    records = [
        rebalance(at, {f"m{n}": {"a": f"{n * 50}-{n * 50 + 49}"} for n in draw.sample(range(9), 4)})
        for at in range(1_000, 401_000, 1_000)
    ]
    found = timeline(records, 0, 500_000)
    assert len(found.rows) == ROWS_MAX and found.left_out == 450 - ROWS_MAX
    assert sum(map(len, found.rows.values())) <= SEGMENTS_MAX + ROWS_MAX
    assert len(found.marks) == MARKS_MAX and found.marks_left == 400 - MARKS_MAX
    assert found.marks[-1].at_ms == 400_000
    for row in found.rows.values():
        assert all(s.begin_ms <= s.end_ms for s in row)
        assert all(one.end_ms <= other.begin_ms for one, other in zip(row, row[1:]))
