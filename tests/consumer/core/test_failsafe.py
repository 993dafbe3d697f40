"""Where failsafe mode is none (the rest: scripts/failsafe*.txt)."""

from __future__ import annotations

from consumer.core import events as ev
from tests.consumer.core.script import World


def member(*lines: str) -> World:
    world = World()
    for line in (
        "options failsafe=true",
        "subscribe t",
        "opened m",
        "registered 1",
        "channel",
        *lines,
    ):
        world.run(line)
    return world


def test_old_consumers_share_the_group() -> None:
    world = member()
    world.member.session.shared = True
    before = world.member.lease.until_ms
    for line in ("suspended", "tick 5000", "nobodyserves 0"):
        world.run(line)
    assert world.member.lease.until_ms == before


def test_one_that_is_no_member_gets_no_lease() -> None:
    world = member("over", "nobodyserves 0")
    assert world.member.lease.until_ms == 0
    assert not [
        action
        for action in world.member.step(ev.NobodyServes(world.now, world.now))
        if isinstance(action, ev.SendMessage)
    ]


def test_a_proof_that_comes_when_the_lease_is_just_over_is_too_late() -> None:
    world = member("suspended")
    until = world.member.lease.until_ms
    world.now = until  # nothing has said so yet
    world.run("nobodyserves 0")
    assert world.member.lease.until_ms == until and world.member.session.lapsed


def test_a_lease_that_was_over_is_not_prolonged_though_a_longer_one_is_allowed_by_now() -> None:
    """It comes back with ZooKeeper only."""
    world = member("command 6-1 start t-0")
    assert world.member.session.known_epoch == 5
    said = [
        line for step in ("tick 12000", "epoch 6 20000", "suspended") for line in world.run(step)
    ]
    assert "tell notice lease lapsed held=0" in said
    before = world.member.lease.until_ms
    assert world.run("nobodyserves 0") == [] and world.member.lease.until_ms == before
