"""Storms on a real server with real coordinators and members. How fast they come depends on the
machine, so the bounds follow the time that they took; `tests/core/test_storms.py` has the exact
ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.scale_rig import CoordinatorProcess
from tests.bench.scale_storms import Moves, await_balance, owners
from tests.bench.scale_wire import Hub
from tests.bench.scale_world import Member, Seeder
from zkcoord.core.options import CoordinatorOptions

WAIT_S = 120.0
SESSION_MS = 30_000
GROUP, TOPIC = "stormy", "orders"
QUIET_S = CoordinatorOptions().debounce_storm_ms / 1000
LONGEST_S = CoordinatorOptions().debounce_max_ms / 1000


@pytest.fixture
def hub(zk_hosts: str, tmp_path: Path) -> Iterator[Hub]:
    """Sessions in one thread, and a coordinator that leads."""
    hub = Hub(zk_hosts, SESSION_MS)
    Seeder(hub).roots()
    process = CoordinatorProcess(zk_hosts, tmp_path / "journal.jsonl", tmp_path / "log", ())
    try:
        hub.run_until(
            lambda: "ready" in process.said or process.process.poll() is not None,
            WAIT_S,
            "a coordinator",
        )
        yield hub
        process.stop()
    finally:
        process.process.kill()
        process.end()
        hub.close()


def test_thirty_joins_at_once(hub: Hub) -> None:
    seeder = Seeder(hub)
    seeder.topic(TOPIC, 120)
    members = [Member(hub, GROUP, [TOPIC]) for _ in range(3)]
    await_balance(hub, seeder, GROUP, members, 120)
    before, generation, moves = (
        owners(members),
        seeder.metadata(GROUP).generation,
        Moves(hub, GROUP),
    )
    began = time.monotonic()
    members += [Member(hub, GROUP, [TOPIC]) for _ in range(30)]
    await_balance(hub, seeder, GROUP, members, 120)
    made = seeder.metadata(GROUP).generation - generation
    assert made <= 4 + (time.monotonic() - began) / QUIET_S
    assert max(moves.beyond(before, owners(members))) <= made - 1, (
        "a partition moved twice with one target"
    )
    assert sum(moves.counts.values()) <= 120 + 40 * made, "more moved than was needed"


def test_a_member_that_comes_and_goes(hub: Hub) -> None:
    seeder = Seeder(hub)
    seeder.topic(TOPIC, 24)
    members = [Member(hub, GROUP, [TOPIC]) for _ in range(3)]
    await_balance(hub, seeder, GROUP, members, 24)
    before, generation, moves = (
        owners(members),
        seeder.metadata(GROUP).generation,
        Moves(hub, GROUP),
    )
    for _ in range(10):
        guest = Member(hub, GROUP, [TOPIC])
        hub.run_until(lambda: guest.joined, WAIT_S, "a registration")
        guest.leave()
        hub.run_until(lambda: guest.gone, WAIT_S, "its end")
    await_balance(hub, seeder, GROUP, members, 24)
    made = seeder.metadata(GROUP).generation - generation
    assert sum(moves.counts.values()) <= (made + 1) * 6, (
        "more moved than a guest's share with each target"
    )
    assert sum(1 for tp in before if not moves.counts[tp]) >= 12, (
        "others than a guest's share moved"
    )
