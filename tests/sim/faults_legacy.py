"""What happens in groups that are shared with old consumers: they come, go, die, sleep past their
session and come back; somebody holds what they want, or spoils a registration; an operator says
whose the group is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.faults import FaultKind
from tests.sim.tree import parent_of
from zkcoord.zk.port import Create, Delete, SetData

if TYPE_CHECKING:
    from tests.sim.legacy import LegacyMember
    from tests.sim.world import World

LEGACY_MAX = 4
POISONS = (
    b"t0",
    b"",
    b'{"version":1}',
    b'{"version":1,"subscription":{"t0":0},"pattern":"static","timestamp":"1"}',
)


def _alive(world: World) -> list[LegacyMember]:
    return [m for m in world.legacies if m.running and not m.closing]


def _legacy_join(world: World) -> str | None:
    group = world.kernel.rng.choice(world.groups)
    if len([m for m in _alive(world) if m.group == group]) >= LEGACY_MAX:
        return None
    return world.add_legacy(group).host.name


def _legacy_leave(world: World) -> str | None:
    able = [m for m in _alive(world) if not m.host.paused]
    if not able:
        return None
    member = world.kernel.rng.choice(able)
    member.close()
    return member.host.name


def _legacy_kill(world: World) -> str | None:
    able = _alive(world)
    if not able:
        return None
    member = world.kernel.rng.choice(able)
    member.host.kill()
    return member.host.name


def _legacy_pause(world: World) -> str | None:
    """For less and for more than its session: then it is a zombie when it comes back."""
    able = [m for m in _alive(world) if not m.host.paused]
    if not able:
        return None
    member = world.kernel.rng.choice(able)
    duration = world.kernel.between(member.timeout_ms // 10, member.timeout_ms * 5 // 2)
    member.host.pause()
    world.later(duration, member.host.resume)
    return f"{member.host.name} for {duration} ms"


def _legacy_cut(world: World) -> str | None:
    able = _alive(world)
    if not able:
        return None
    member = world.kernel.rng.choice(able)
    duration = world.kernel.between(0, member.timeout_ms * 2)
    world.zk.cut_link(member.host, duration)
    return f"{member.host.name} for {duration} ms"


def _poison(world: World) -> str | None:
    """A registration that old consumers die of, for a while."""
    group = world.kernel.rng.choice(world.groups)
    path = f"{world.places.ids(group)}/poison{world.kernel.between(0, 3)}"
    if parent_of(path) not in world.zk.tree.nodes or path in world.zk.tree.nodes:
        return None
    data = world.kernel.rng.choice(POISONS)
    world.zk.commit([Create(path, data)], 0, "operator")
    world.later(
        world.kernel.between(500, 12_000), lambda: world.zk.commit([Delete(path)], 0, "operator")
    )
    return f"{path} = {data!r}"


def _obstacle(world: World) -> str | None:
    """A foreign tool's owner node, for long enough that old consumers give up."""
    keys = [(group, tp) for group in world.groups for tp in sorted(world.wanted(group))]
    free = [
        path
        for path in map(world.places.owner, keys)
        if path not in world.zk.tree.nodes and parent_of(path) in world.zk.tree.nodes
    ]
    if not free:
        return None
    path = world.kernel.rng.choice(free)
    world.zk.commit([Create(path, b"somebody-0")], 0, "operator")
    world.later(
        world.kernel.between(1_000, 14_000), lambda: world.zk.commit([Delete(path)], 0, "operator")
    )
    return path


def _set_mode(world: World) -> str | None:
    """An operator says whose a group is, and soon after that it is shared again."""
    group = world.kernel.rng.choice(world.groups)
    mode = world.kernel.rng.choice(("coordinated", "mixed", ""))
    world.set_mode(group, mode)
    world.later(world.kernel.between(50, 6_000), lambda: world.set_mode(group, "mixed"))
    return f"{group} is {mode or 'nothing'}"


def write_mode(world: World, group: str, mode: str) -> None:
    """Write, or delete, a group's mode node, with what is missing above."""
    path = f"{world.places.group(group)}/mode"
    data = b'{"version":1,"mode":"%s","strategy":"legacy-range","by":"operator"}' % mode.encode()
    parts = path.split("/")
    for n in range(2, len(parts)):
        above = "/".join(parts[:n])
        if above not in world.zk.tree.nodes:
            world.zk.commit([Create(above, b"")], 0, "operator")
    if path in world.zk.tree.nodes:
        world.zk.commit([SetData(path, data, -1) if mode else Delete(path)], 0, "operator")
    elif mode:
        world.zk.commit([Create(path, data)], 0, "operator")


LEGACY_FAULTS: tuple[FaultKind, ...] = (
    FaultKind("legacy_join", _legacy_join),
    FaultKind("legacy_leave", _legacy_leave),
    FaultKind("legacy_kill", _legacy_kill),
    FaultKind("legacy_pause", _legacy_pause),
    FaultKind("legacy_cut", _legacy_cut),
    FaultKind("poison", _poison),
    FaultKind("obstacle", _obstacle),
    FaultKind("set_mode", _set_mode),
)
