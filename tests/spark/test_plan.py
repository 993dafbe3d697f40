"""Plans and their text, the spread of a limit, the packing into tasks."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.spark.plan import (
    PARTITIONS_PER_PLAN_MAX,
    Plan,
    PlanError,
    PlannedRange,
    pack,
    parse_plan,
    plan,
)
from consumer.spark.sink.running_batch import current
from zkcoord.core.model import TopicPartition
from zkcoord.zk.port import Missing, Node, ReadAnswer
from zkcoord.znodes.stat import Stat

PARTITION = st.builds(
    TopicPartition, st.sampled_from(["orders", "a-b", "x.y_z-1"]), st.integers(0, 40)
)
AVAILABLE = st.dictionaries(
    PARTITION,
    st.tuples(st.integers(0, 10**12), st.integers(-5, 10**6)).map(lambda v: (v[0], v[0] + v[1])),
    max_size=20,
)


@st.composite
def ranges(draw: st.DrawFn) -> tuple[PlannedRange, ...]:
    found = draw(AVAILABLE)
    return tuple(
        PlannedRange(*tp, start, end, draw(st.integers(-1, 9)), draw(st.integers(-1, 2**63 - 1)))
        for tp, (start, end) in sorted(found.items())
        if end >= start
    )


PLANS = st.builds(
    Plan,
    st.integers(0, 10**6),
    st.just("billing"),
    st.just("zk:2181/k"),
    st.just("draft"),
    st.just("billing_h-1-a"),
    st.integers(0, 2**63 - 1),
    st.integers(0, 99),
    st.integers(0, 99),
    ranges(),
)


@given(PLANS)
def test_a_plan_survives_its_text(planned: Plan) -> None:
    assert parse_plan(planned.to_json()) == planned
    assert parse_plan(planned.to_dict()) == planned
    assert parse_plan(planned.to_json()).to_json() == planned.to_json()


def test_the_text_has_its_keys_in_order_whatever_the_ranges_were_given_in() -> None:
    some = (
        PlannedRange("b", 1, 5, 6),
        PlannedRange("a", 10, 1, 2, 3, 4),
        PlannedRange("a", 9, 1, 2),
    )
    assert Plan(ranges=some).to_json() == Plan(ranges=some[::-1]).to_json()
    assert list(json.loads(Plan(ranges=some).to_json())["ranges"]) == ["a-9", "a-10", "b-1"]
    assert list(Plan().to_dict()) == [
        "v",
        "n",
        "group",
        "zookeeper",
        "layout",
        "member",
        "incarnation",
        "generation",
        "epoch",
        "ranges",
    ]


def test_nothing_is_the_beginning() -> None:
    assert parse_plan(None) == parse_plan({}) == parse_plan("{}") == Plan()


GOOD = Plan(3, "g", "z", "draft", "m", 5, 1, 1, (PlannedRange("t", 0, 1, 2, 3, 4),)).to_dict()


@pytest.mark.parametrize(
    "given_",
    [
        "nonsense",
        "[1]",
        '{"v":2}',
        {**GOOD, "ranges": {"t-0": [2, 1, 0, 0]}},
        {**GOOD, "ranges": {"t": [1, 2, 0, 0]}},
        {**GOOD, "ranges": {"t-0": [1, 2]}},
        {**GOOD, "n": "3"},
        {**GOOD, "ranges": [1]},
        {k: v for k, v in GOOD.items() if k != "member"},
        {**GOOD, "ranges": {"t-0": [True, 2, 0, 0]}},
    ],
)
def test_what_is_no_plan_is_refused_with_what_to_do(given_: object) -> None:
    with pytest.raises(PlanError, match="use a new checkpointLocation"):
        parse_plan(given_)  # type: ignore[arg-type]


@given(AVAILABLE, st.integers(1, 10**6) | st.none())
def test_a_limit_is_spread_by_lag(
    available: dict[TopicPartition, tuple[int, int]], max_rows: int | None
) -> None:
    found = plan(available, max_rows)
    assert set(found) == {tp for tp, (start, end) in available.items() if end > start}
    for tp, (start, end) in found.items():
        assert start == available[tp][0] < end <= available[tp][1]
    total = sum(end - start for start, end in found.values())
    if max_rows is not None:
        assert total < max_rows + max(1, len(found))
        lags = {tp: end - start for tp, (start, end) in available.items() if end > start}
        for one in lags:
            for other in lags:
                if lags[one] >= lags[other]:
                    assert found[one][1] - found[one][0] >= found[other][1] - found[other][0]
    else:
        assert found == {tp: v for tp, v in available.items() if v[1] > v[0]}


@given(ranges(), st.integers(1, 8), st.sampled_from([0, 1000, 10**7]))
def test_packing_keeps_every_offset_once_and_no_task_waits_for_a_long_one(
    given_: tuple[PlannedRange, ...], tasks: int, tiny: int
) -> None:
    packed = pack(given_, tasks, tiny)
    assert len(packed) <= tasks
    pieces = sorted(r for task in packed for r in task)
    whole = [r for r in sorted(given_) if r.rows]
    for r in whole:
        mine = [p for p in pieces if p.tp == r.tp]
        assert (mine[0].start, mine[-1].end) == (r.start, r.end)
        assert all(a.end == b.start for a, b in zip(mine, mine[1:]))
        assert {(p.version, p.owner) for p in mine} == {(r.version, r.owner)}
    assert {p.tp for p in pieces} == {r.tp for r in whole}
    assert all(len({p.tp for p in task}) == len(task) for task in packed)
    total = sum(r.rows for r in whole)
    if tasks > 1 and total >= tiny and packed:
        assert max(sum(p.rows for p in task) for task in packed) <= 2 * -(-total // tasks)
    elif packed:
        assert len(packed) == 1


def test_one_partition_with_all_the_lag_is_split_and_a_small_batch_is_one_task() -> None:
    big, small = PlannedRange("t", 0, 0, 1_000_000), PlannedRange("t", 1, 0, 10)
    assert [[r.rows for r in task] for task in pack((big, small), 2)] == [[500_000, 10], [500_000]]
    assert pack((small, PlannedRange("t", 2, 0, 10)), 8) == [(small, PlannedRange("t", 2, 0, 10))]
    assert pack((), 4) == pack((PlannedRange("t", 0, 7, 7),), 4) == []


def test_a_plan_at_its_largest_fits_a_multi() -> None:
    """With names as long as Kafka and ZooKeeper admit; beside an offset's write its path and a few
    dozen bytes go with it.
    """
    assert PARTITIONS_PER_PLAN_MAX < 500 - 2
    assert (
        PARTITIONS_PER_PLAN_MAX * (len("/consumers//offsets//99999") + 2 * 249 + 100 + 20)
        < 512 * 1024
    )


LOGGED = Plan(3, "g", "z", "draft", "g_h-1-a", 5, 1, 1, (PlannedRange("t", 0, 1, 2, 3, 4),))
STAT = Stat(czxid=9, mzxid=9, version=0, cversion=0, ephemeral_owner=7, num_children=0)


def now_in_force(answer: ReadAnswer) -> Plan:
    """What a fenced sink takes for the plan, where ZooKeeper answers this."""
    keeper: Any = SimpleNamespace(look=lambda reads: [answer])
    return current(LOGGED, keeper)


def test_a_sink_takes_the_plan_of_a_batch_that_is_read_again_from_its_node() -> None:
    again = replace(LOGGED, member="g_h-2-b", ranges=())
    assert now_in_force(Node(again.to_json().encode(), STAT)) == again
    assert now_in_force(Missing()) == LOGGED


@pytest.mark.parametrize("data", [b"", b"{}", b"nonsense", LOGGED.to_json()[:-1].encode()])
def test_a_sink_refuses_a_replayed_plan_that_cannot_be_read(data: bytes) -> None:
    with pytest.raises(PlanError, match="plans/5-3 cannot be read"):
        now_in_force(Node(data, STAT))
