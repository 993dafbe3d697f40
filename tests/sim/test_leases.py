"""Coordinators that differ in `lease_max_ms`: a member that was never told of the shorter one
counts on the longer, and nobody else gets what it may still fetch.
"""

from __future__ import annotations

import pytest

from tests.sim.plan import Plan
from tests.sim.variants import VARIANTS
from tests.sim.world import World
from zkcoord.zk.port import Delete

LONG_MS, SHORT_MS = 12_000, 1_500
STEP_MS = 3_000
PATIENCE_MS = 30_000
CUT_MS, OUTAGE_MS = 400, 5_000


@pytest.mark.parametrize("later", [1, 2], ids=["its successor", "the successor's successor"])
@pytest.mark.parametrize("seed", range(2))
def test_what_a_cut_off_member_holds_is_left_alone_for_the_longest_lease_that_it_may_count_on(
    seed: int, later: int
) -> None:
    """One coordinator lets members have the long lease. Another with a short one follows, or two,
    and command nobody. Then a member loses its link and its registration, not its session.
    """
    world = World(
        seed,
        plan=Plan(coordinators=0, consumers=3, topics=1, session_ms=60_000, guardian_chance=1.0),
    )
    world._populate()
    for lease_ms in (LONG_MS, *[SHORT_MS] * later):
        for coordinator in world.coordinators:
            world.kill(coordinator)
        world.add_coordinator(lease_ms)
        world.kernel.run_until(
            world.kernel.now + 2 * STEP_MS,
            stop=lambda: world.kernel.now % STEP_MS == 0 and not world.unsettled(),
        )
        assert not world.unsettled()
    victim = max(world.members("g0"), key=lambda m: len(m.app.fetching()))
    theirs = set(victim.app.fetching())
    assert theirs and victim.driver.core.proofs.lease_ms == LONG_MS
    cut_ms = world.kernel.now
    world.zk.cut_link(victim.host, PATIENCE_MS)
    world.zk.commit([Delete(f"{world.places.ids('g0')}/{victim.driver.name}")], 0, "operator")
    others = [m for m in world.members("g0") if m is not victim]
    world.kernel.run_until(
        cut_ms + PATIENCE_MS, stop=lambda: theirs <= {tp for m in others for tp in m.app.fetching()}
    )
    assert (
        not world.checker.violations and cut_ms + LONG_MS < world.kernel.now < cut_ms + PATIENCE_MS
    )


def stranded_through_an_outage(seed: int) -> World:
    """A member loses link and registration, then nobody is served for longer than an orphan is left
    alone; meanwhile its link heals, so it learns that and goes on; afterwards it is cut off again.
    """
    world = World(
        seed,
        plan=Plan(
            coordinators=0,
            consumers=3,
            topics=1,
            session_ms=60_000,
            coordinator_session_ms=60_000,
            guardian_chance=1.0,
            failsafe_chance=1.0,
        ),
    )
    world._populate()
    world.add_coordinator(SHORT_MS)
    world.kernel.run_until(
        PATIENCE_MS, stop=lambda: world.kernel.now % STEP_MS == 0 and not world.unsettled()
    )
    victim = max(world.members("g0"), key=lambda m: len(m.app.fetching()))
    assert victim.app.fetching()
    world.zk.cut_link(victim.host, CUT_MS)
    world.zk.commit([Delete(f"{world.places.ids('g0')}/{victim.driver.name}")], 0, "operator")
    world.kernel.run_until(world.kernel.now + CUT_MS // 2, stop=lambda: False)
    world.zk.outage(OUTAGE_MS)
    world.kernel.run_until(world.kernel.now + OUTAGE_MS - 10, stop=lambda: False)
    assert victim.driver.core.session.failsafe and victim.app.fetching()
    world.zk.cut_link(victim.host, PATIENCE_MS)
    world.kernel.run_until(world.kernel.now + PATIENCE_MS, stop=lambda: False)
    assert not victim.app.fetching() or victim.driver.core.session.lapsed
    return world


@pytest.mark.parametrize("seed", range(3))
def test_who_waits_for_a_lease_counts_again_after_an_outage(seed: int) -> None:
    assert not stranded_through_an_outage(seed).checker.violations


def test_without_the_recount_two_members_fetch() -> None:
    with VARIANTS["no_recount"].applied():
        assert {v.invariant for v in stranded_through_an_outage(0).checker.violations} == {"I3"}
