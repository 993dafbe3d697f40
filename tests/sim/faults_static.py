"""Faults of static members: restarts within and beyond their grace, one after the other, with the
coordinator dying in between; two processes of one instance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.faults import FaultKind, consumers_of

if TYPE_CHECKING:
    from tests.sim.processes import ConsumerProcess
    from tests.sim.world import World


def _static(world: World) -> list[ConsumerProcess]:
    return [
        c for c in consumers_of(world) if c.wishes.instance is not None and c.app.failed is None
    ]


def _restart(world: World, process: ConsumerProcess, away_ms: int) -> None:
    """End a process, cleanly or not, and start its successor."""
    if not process.running or process.closing:
        return
    if world.kernel.chance(0.5) and not process.host.paused:
        process.close()
        world.later(1_500, process.host.kill)
    else:
        process.closing = True  # its successor is the member from now on
        world.kill(process)
    world.later(away_ms, lambda: world.add_consumer(process.wishes.group, again=process))


def _restart_one(world: World) -> str | None:
    able = _static(world)
    if not able:
        return None
    process = world.kernel.rng.choice(able)
    away = world.kernel.between(20, world.plan.grace_ms * 3 // 4)
    _restart(world, process, away)
    return f"{process.host.name}, {away} ms"


def _restart_late(world: World) -> str | None:
    able = _static(world)
    if not able:
        return None
    process = world.kernel.rng.choice(able)
    away = world.plan.grace_ms + process.timeout_ms + world.kernel.between(-300, 1_500)
    _restart(world, process, away)
    return f"{process.host.name}, {away} ms"


def _roll(world: World) -> str | None:
    """A rolling restart of a group's static members; perhaps the coordinator dies midway."""
    group = world.kernel.rng.choice(world.groups)
    able = [c for c in _static(world) if c.wishes.group == group]
    if not able:
        return None
    at, pace = 0, world.kernel.rng.choice((100, 500, 1_500))
    for process in able:
        away = world.kernel.between(20, world.plan.grace_ms // 2)
        world.later(at, lambda process=process, away=away: _restart(world, process, away))  # type: ignore[misc]
        at += away + world.kernel.between(0, pace)
    leader = world.leader()
    if leader is not None and leader.running and world.kernel.chance(0.5):
        world.later(world.kernel.between(0, at), lambda: world.kill(leader))
        world.later(at, world.add_coordinator)
    return f"{group}: {len(able)} members within {at} ms"


def _twin(world: World) -> str | None:
    """A second process of an instance that lives."""
    able = _static(world)
    if not able or len(world.consumers) > 40:
        return None
    process = world.kernel.rng.choice(able)
    twin = world.add_consumer(process.wishes.group, again=process)
    return f"{twin.host.name} as {process.host.name}"


STATIC_FAULTS: tuple[FaultKind, ...] = (
    FaultKind("restart_static", _restart_one),
    FaultKind("restart_static_late", _restart_late),
    FaultKind("roll_static", _roll),
    FaultKind("twin_static", _twin),
)
