"""What an operator has done to a group by the coordinator: a member is put out, the group is paused
and resumed. Any of it may be asked while something else is wrong, of whom it cannot be done, and
twice.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.sim.faults import FaultKind
from zkcoord.zk.port import Create, SetData

if TYPE_CHECKING:
    from tests.sim.world import World


def pause(world: World, group: str, paused: bool) -> None:
    """Say it, with what is missing above; each time it is somebody else, so that it can be told
    which of them a coordinator knows of.
    """
    by = f"operator {len(world.zk.log)}"
    said = {"version": 1, "mode": "coordinated", "strategy": "legacy-range", "by": by}
    path, data = world.places.mode(group), json.dumps({**said, "paused": paused}).encode()
    parts = path.split("/")
    for n in range(2, len(parts)):
        above = "/".join(parts[:n])
        if above not in world.zk.tree.nodes:
            world.operator(Create(above, b""))
    world.operator(SetData(path, data, -1) if path in world.zk.tree.nodes else Create(path, data))


def paused_groups(world: World) -> list[str]:
    """The groups that are paused now."""
    return [group for group in world.groups if is_paused(world, group)]


def is_paused(world: World, group: str) -> bool:
    """Whether an operator's last word says so."""
    node = world.zk.tree.nodes.get(world.places.mode(group))
    return node is not None and json.loads(node.data).get("paused") is True


def _pause_group(world: World) -> str | None:
    """For a while, or until somebody resumes it."""
    group = world.kernel.rng.choice(world.groups)
    if is_paused(world, group):
        return None
    pause(world, group, True)
    if world.kernel.chance(0.4):
        lasts_ms = world.kernel.between(20, 5_000)
        world.kernel.after(lasts_ms, lambda: _resume(world, group))
        return f"{group} for {lasts_ms} ms"
    return group


def _resume(world: World, group: str) -> None:
    if not world.calm and is_paused(world, group):
        pause(world, group, False)


def _resume_group(world: World) -> str | None:
    paused = paused_groups(world)
    if not paused:
        return None
    group = world.kernel.rng.choice(paused)
    pause(world, group, False)
    return group


def _evict_member(world: World) -> str | None:
    """Somebody who is there, or is not any more; perhaps an old consumer, or whoever has the name
    now. What it writes meanwhile may arrive late.
    """
    group, kernel = world.kernel.rng.choice(world.groups), world.kernel
    ids = world.places.ids(group)
    names = sorted(world.zk.tree.children.get(ids, ()))
    if not names or world.places.group(group) not in world.zk.tree.nodes:
        return None
    if world.places.requests(group) not in world.zk.tree.nodes:
        world.operator(Create(world.places.requests(group), b""))
    name = kernel.rng.choice(names)
    session = world.zk.tree.nodes[f"{ids}/{name}"].owner + (1 if kernel.chance(0.1) else 0)
    said = {"version": 1, "request": "evict", "fresh": False, "by": "operator"}
    data = json.dumps({**said, "member": name, "session": str(session)}).encode()
    path = f"{world.places.requests(group)}/request-"
    world.operator(Create(path, data, sequential=True))
    for member in world.members(group):
        if member.host.name == world.host_of_session(session) and kernel.chance(0.6):
            world.zk.stall_link(member.host, kernel.between(20, 1_500))
    return f"{group} {name}"


OPERATOR_FAULTS: tuple[FaultKind, ...] = (
    FaultKind("pause_group", _pause_group),
    FaultKind("resume_group", _resume_group),
    FaultKind("evict_member", _evict_member),
)
