"""ZooKeeper restored from an older state: no coordinator that knows of a higher epoch leads there;
one that is started again does, and the groups settle.
"""

from __future__ import annotations

import pytest

from tests.sim.plan import Plan
from tests.sim.world import World

BACKUP_MS = 6_000
RESTORED_MS = 16_000
PATIENCE_MS = 30_000


def _restored(seed: int) -> World:
    """A settled world whose leader was replaced after the backup, put back to it."""
    world = World(seed, plan=Plan(coordinators=1, consumers=3, topics=1, partitions_max=6))
    world._populate()
    world.kernel.run_until(BACKUP_MS)
    backup = world.zk.snapshot()
    first = world.leader()
    assert first is not None and not world.unsettled()
    world.kill(first)
    world.add_coordinator()
    world.kernel.run_until(RESTORED_MS)
    assert not world.unsettled()
    world.zk.restore(backup)
    return world


@pytest.mark.parametrize("seed", range(3))
def test_who_has_seen_a_higher_epoch_does_not_lead(seed: int) -> None:
    world = _restored(seed)
    second = world.coordinators[-1]
    world.kernel.run_until(RESTORED_MS + PATIENCE_MS, stop=lambda: second.driver.finished)
    assert (
        second.driver.finished
        and "restored from an older state" in (second.driver.failure or "")
        and world.leader() is not second
    )
    assert not world.checker.violations


@pytest.mark.parametrize("seed", range(3))
def test_a_coordinator_that_is_started_again_leads(seed: int) -> None:
    world = _restored(seed)
    second = world.coordinators[-1]
    world.kernel.run_until(RESTORED_MS + PATIENCE_MS, stop=lambda: second.driver.finished)
    for consumer in world.consumers:
        consumer.host.kill()
    world.checker.violations.clear()
    world.add_coordinator()
    for _ in range(2):
        world.add_consumer("g0")
    deadline_ms = world.kernel.now + PATIENCE_MS
    world.kernel.run_until(
        deadline_ms, stop=lambda: world.leader() is world.coordinators[-1] and not world.unsettled()
    )
    assert world.leader() is world.coordinators[-1] and not world.unsettled()
