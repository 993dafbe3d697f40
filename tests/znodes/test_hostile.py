"""Hostile znodes: a small run of `python -m tests.znodes.hostile` over every decoder and whole
coordinators and members, and that the junk gets far enough to mean something.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator

import pytest

from consumer.core import messages as msg
from tests.znodes import hostile
from tests.znodes.hostile_world import HostileCoordinator, HostileMember
from zkcoord.znodes.paths import Layout

INPUTS = 6_000
STEPS = 1_500


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """No log line per refused node."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_hostile_znodes_raise_nothing_and_cost_little() -> None:
    rows, growth_mib = hostile.run(INPUTS, seed=20_261_121)
    assert sum(row.inputs for row in rows) >= INPUTS and all(row.inputs for row in rows)
    assert all(row.refused > row.inputs / 4 for row in rows if row.receiver in hostile.DECODERS), (
        "most of it is hostile"
    )
    assert hostile.verdict(rows, growth_mib) == []


@pytest.mark.parametrize("layout", [Layout.DRAFT, Layout.ISOLATED], ids=lambda layout: layout.name)
def test_the_junk_reaches_the_decisions(layout: Layout) -> None:
    """A coordinator leads groups with members, owners, malformed nodes and one that is too large; a
    member is assigned partitions, loses them, seeks, commits.
    """
    coordinator, member, rng = HostileCoordinator(layout), HostileMember(layout), random.Random(5)
    met: dict[str, int] = dict.fromkeys(
        ("led", "members", "owners", "malformed", "too large", "written"), 0
    )
    said: list[msg.ToFetcher] = []
    hear = member.driver.to_fetcher
    for _ in range(STEPS):
        coordinator.feed(rng)
        core = coordinator.driver.core
        met["led"] += core.leading
        met["too large"] += len(core.left_alone)
        met["written"] += core.token
        for group in core.groups.values():
            met["members"] += len(group.view.members)
            met["owners"] += len(group.view.owners)
            met["malformed"] += len(group.view.malformed)
        member.driver.to_fetcher = lambda message: (said.append(message), hear(message)) and None
        member.feed(rng)
    assert all(met.values()), met
    assert {msg.Assigned, msg.Lost, msg.CommitDone, msg.Notice} <= {type(m) for m in said}, {
        type(m) for m in said
    }


def test_an_input_that_raises_or_costs_too_much_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run can fail."""

    def raises(data: bytes, name: str = "") -> object:
        return int(data)

    monkeypatch.setitem(hostile.DECODERS, "offset", (raises, [b"17"]))
    rows, growth_mib = hostile.run(500, seed=1)
    assert any("offset" in line and "raised" in line for line in hostile.verdict(rows, growth_mib))
    rows = [hostile.Row("x", 1, hostile.INPUT_MS_MAX + 1, "this one")]
    assert (
        "this one" in hostile.verdict(rows, 0.0)[0]
        and "MiB" in hostile.verdict([], hostile.GROWTH_MIB_MAX + 1)[0]
    )
