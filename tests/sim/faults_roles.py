"""What members of another application do in a world with roles: they make what an older version
lets them make, with ACLs of their choice, and try what none lets them; they ask for groups that
nobody needs, and take asks of others away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.faults import JUNK, LEADER, FaultKind
from tests.sim.rights import OPEN, OTHERS, acl_of, made_by_others
from tests.sim.tree import parent_of
from zkcoord.zk.port import AclEntry, Committed, Delete

if TYPE_CHECKING:
    from tests.sim.world import World

LEGACY = b'{"version":1,"mode":"legacy","strategy":"legacy-range","by":"operator"}'
REBALANCE = b'{"version":1,"request":"rebalance","fresh":true,"by":"operator"}'
ASKS_MAX = 5
LATE_ASKS = 4
HELD_UP_MAX_MS = 30


def make_older(world: World) -> None:
    """The nodes of the groups as members of an older version make them, and the roots as an older
    coordinator does: members may create in them.
    """
    at = world.places
    made: dict[str, str] = {"/consumers": "rc"}
    for path in (parent_of(at.leader), at.root):
        made.setdefault(path, "rc" if path == at.root else "r")
    for group in world.groups:
        for path in (at.group(group), parent_of(at.ids(group)), f"/consumers/{group}"):
            made.setdefault(path, "rc")
        made.update({at.ids(group): "rcd", at.owners(group): "rc", at.channels(group): "rc"})
        made[f"/consumers/{group}/offsets"] = "rc"
    for path, members in made.items():
        world.zk.commit([Delete(path)] if path in world.zk.tree.nodes else [], 0, "operator")
        world.zk.commit([made_by_others(path, b"", acl_of(members))], 0, OTHERS)


def _forged(world: World, path: str, data: bytes, acl: tuple[AclEntry, ...] = ()) -> str | None:
    """Another application's member makes a node, if it may; open, or with the ACL of its place."""
    if path in world.zk.tree.nodes:
        return None
    chosen = acl or world.kernel.rng.choice(((OPEN,), acl_of("r")))
    result = world.zk.commit([made_by_others(path, data, chosen)], 0, OTHERS)
    return f"{path}: {'made' if isinstance(result, Committed) else 'refused'}"


def _forge_mode(world: World) -> str | None:
    """It says that a group belongs to its old consumers."""
    group = world.kernel.rng.choice(world.groups)
    return _forged(world, f"{world.places.group(group)}/mode", LEGACY)


def _forge_request(world: World) -> str | None:
    """It asks, as an operator does, that a group be assigned as if nobody owned anything."""
    requests = world.places.requests(world.kernel.rng.choice(world.groups))
    _forged(world, requests, b"", (OPEN,))
    return _forged(world, f"{requests}/request-{world.kernel.between(0, 99):010d}", REBALANCE)


def _forge_leader(world: World) -> str | None:
    """It says that the other layout's coordinator leads."""
    data = world.kernel.rng.choice((LEADER, b"", *JUNK))
    return _forged(world, world.places.other_leader, data)


def _lock_out(world: World) -> str | None:
    """It makes a group that no coordinator may read."""
    path = world.places.group(f"evil{world.kernel.between(0, 3)}")
    return _forged(world, path, b"", acl_of("rwcda")[1:])


def _ask_for_junk(world: World) -> str | None:
    """It asks for groups that nobody needs."""
    asks = f"{world.places.above_asks}/asks"
    names = (f"junk{world.kernel.between(0, 99)}", "..", "a b", "ids", "x" * 300)
    for _ in range(world.kernel.between(1, ASKS_MAX)):
        path = f"{asks}/{world.kernel.rng.choice(names)}"
        if asks in world.zk.tree.nodes and path not in world.zk.tree.nodes:
            world.zk.commit([made_by_others(path, b"", (OPEN,))], 0, OTHERS)
    return asks


def _take_ask_away(world: World) -> str | None:
    """It deletes what others ask for, before anybody answers."""
    asks = f"{world.places.above_asks}/asks"
    names = sorted(world.zk.tree.children.get(asks, ()))
    if not names:
        return None
    path = f"{asks}/{world.kernel.rng.choice(names)}"
    world.zk.commit([Delete(path)], 0, OTHERS)
    return path


def _ask_between_terms(world: World) -> str | None:
    """An operator deletes the leader node while the leader is held up for some milliseconds, and
    groups are asked for meanwhile.
    """
    leader, kernel = world.leader(), world.kernel
    asks = f"{world.places.above_asks}/asks"
    if (
        leader is None
        or not leader.running
        or leader.host.paused
        or asks not in world.zk.tree.nodes
    ):
        return None

    def ask() -> None:
        path = f"{asks}/late{kernel.between(0, 9_999)}"
        if path not in world.zk.tree.nodes:
            world.zk.commit([made_by_others(path, b"", (OPEN,))], 0, OTHERS)

    leader.host.pause()
    if world.places.leader in world.zk.tree.nodes:
        world.zk.commit([Delete(world.places.leader)], 0, "operator")
    for _ in range(LATE_ASKS):
        world.later(kernel.between(0, HELD_UP_MAX_MS), ask)
    held_ms = kernel.between(1, HELD_UP_MAX_MS)
    world.later(held_ms, leader.host.resume)
    return f"{leader.host.name} is held up for {held_ms} ms"


ROLE_FAULTS: tuple[FaultKind, ...] = (
    FaultKind("forge_mode", _forge_mode),
    FaultKind("forge_request", _forge_request),
    FaultKind("forge_leader", _forge_leader),
    FaultKind("lock_out", _lock_out),
    FaultKind("ask_for_junk", _ask_for_junk),
    FaultKind("take_ask_away", _take_ask_away),
    FaultKind("ask_between_terms", _ask_between_terms),
)
