"""The fold over the processes' lines."""

from __future__ import annotations

from typing import Any

import pytest

from zkcoord.demo.live import cell, plain_line, together
from zkcoord.demo.state import ConsumerPhase, GroupShown, ProcessKind

NOW = 50_000_000_000


@pytest.fixture
def state() -> GroupShown:
    """Two members own two partitions each, and all is fetched."""
    found = GroupShown(lambda: NOW)
    for name in ("c1", "c2"):
        found.expect(name, ProcessKind.CONSUMER)
        found.line(name, {"event": "registered", "t": 1, "name": "x"})
    for name, numbers in (("c1", (0, 1)), ("c2", (2, 3))):
        found.line(
            name, {"event": "assigned", "t": 2, "offsets": {f"orders-{n}": 0 for n in numbers}}
        )
        for n in numbers:
            found.line(name, {"event": "first_fetch", "t": 3 + n, "partition": f"orders-{n}"})
    return found


def test_balanced(state: GroupShown) -> None:
    assert state.balanced({"c1", "c2"}, 4)
    assert state.last_fetch_ns == 6


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("c1", {"event": "revoked", "t": 9, "positions": {"orders-0": 5}}),  # nobody has it
        ("c1", {"event": "lost", "t": 9, "partitions": ["orders-0"], "reason": "x"}),
        ("c2", {"event": "assigned", "t": 9, "offsets": {"orders-0": 5}}),  # two have it
        # one too many, and not fetched
        ("c1", {"event": "assigned", "t": 9, "offsets": {"orders-4": 5}}),
        ("c1", {"event": "closing", "t": 9}),
    ],
)
def test_not_balanced(state: GroupShown, name: str, line: dict[str, Any]) -> None:
    state.line(name, line)
    assert not state.balanced({"c1", "c2"}, 4)


def test_not_balanced_with_others_partitions_or_members(state: GroupShown) -> None:
    assert not state.balanced({"c1"}, 4)
    assert not state.balanced({"c1", "c2", "c3"}, 4)
    assert not state.balanced({"c1", "c2"}, 5)
    state.gone("c2", killed=True)
    assert state.consumers["c2"].phase is ConsumerPhase.KILLED and not state.balanced(
        {"c1", "c2"}, 4
    )


def test_an_assigned_partition_counts_when_it_is_fetched(state: GroupShown) -> None:
    state.line("c1", {"event": "revoked", "t": 9, "positions": {"orders-0": 5}})
    state.line("c1", {"event": "assigned", "t": 9, "offsets": {"orders-0": 5}})
    assert not state.balanced({"c1", "c2"}, 4)
    state.line("c1", {"event": "first_fetch", "t": 10, "partition": "orders-0"})
    assert state.balanced({"c1", "c2"}, 4)


def test_owned_twice_is_not_balanced(state: GroupShown) -> None:
    state.line("c2", {"event": "assigned", "t": 9, "offsets": {"orders-0": 5}})
    state.line("c2", {"event": "first_fetch", "t": 10, "partition": "orders-0"})
    assert not state.balanced({"c1", "c2"}, 4)


def test_uneven_is_not_balanced(state: GroupShown) -> None:
    state.line("c2", {"event": "revoked", "t": 9, "positions": {"orders-2": 5}})
    state.line("c1", {"event": "assigned", "t": 9, "offsets": {"orders-2": 5}})
    state.line("c1", {"event": "first_fetch", "t": 10, "partition": "orders-2"})
    assert not state.balanced({"c1", "c2"}, 4)


def test_who_leads(state: GroupShown) -> None:
    for name in ("a", "b"):
        state.expect(name, ProcessKind.COORDINATOR)
    state.line("a", {"t": 5, "kind": "term", "event": "elected", "epoch": 9})
    assert (state.leader, state.epoch, state.elected_ns) == ("a", 9, 5_000_000)
    state.gone("a", killed=True)
    assert state.leader == ""
    state.line("b", {"t": 6, "kind": "term", "event": "elected", "epoch": 10})
    state.line("a", {"t": 5, "kind": "term", "event": "elected", "epoch": 9})  # told late
    assert state.leader == "b"


def test_rate_lag_and_the_end(state: GroupShown) -> None:
    state.expect("p", ProcessKind.PRODUCER)
    state.line("p", {"event": "produced", "t": 5, "ends": {"orders-0": 10, "orders-1": 4}})
    state.line(
        "c1",
        {"event": "records", "t": NOW - 10, "count": 8, "ranges": {"orders-0": [[0, 7, 8, 1]]}},
    )
    state.line("c1", {"event": "committed", "t": 6, "offsets": {"orders-0": 6}})
    state.stored({1: 3})
    assert (state.rate, state.lag, state.delivered, state.caught_up()) == (4.0, 5, 8, False)
    state.line(
        "c1",
        {
            "event": "records",
            "t": NOW,
            "count": 6,
            "ranges": {"orders-0": [[8, 9, 2, 1]], "orders-1": [[0, 3, 4, 1]]},
        },
    )
    assert state.caught_up()
    assert "lag 5" in plain_line(state) and "c1:2  c2:2" in plain_line(state)


def test_cells_of_the_bars(state: GroupShown) -> None:
    state.line("c1", {"event": "assigned", "t": 9, "offsets": {"orders-2": 5}})
    c1 = state.consumers["c1"]
    assert [cell(c1, n)[0] for n in range(4)] == ["█", "█", "▒", "·"]
    assert [together(state, n)[0] for n in range(5)] == ["█", "█", "!", "█", " "]


def test_first_records_stand_for_a_first_fetch_that_is_not_told_of(state: GroupShown) -> None:
    state.line("c1", {"event": "revoked", "t": 9, "positions": {"orders-0": 5}})
    state.line("c2", {"event": "revoked", "t": 9, "positions": {"orders-2": 5, "orders-3": 5}})
    state.line("c2", {"event": "assigned", "t": 10, "offsets": {"orders-0": 5}})
    assert not state.balanced({"c1", "c2"}, 2)
    for t_ns, first in ((12, 5), (13, 6)):
        ranges = {"orders-0": [[first, first, 1, 0]]}
        state.line("c2", {"event": "records", "t": t_ns, "count": 1, "ranges": ranges})
    assert state.balanced({"c1", "c2"}, 2) and state.last_fetch_ns == 12
