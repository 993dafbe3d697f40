"""What operators, foreign tools and the machines' clocks do beyond `faults.py`: nodes deleted and
overwritten under the system's feet, an old consumer that comes and goes, the time of day set back
and forth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.faults import JUNK, FaultKind, running_of
from tests.sim.kernel import Host
from tests.sim.tree import parent_of
from zkcoord.zk.port import Create, Delete, SetData

if TYPE_CHECKING:
    from tests.sim.world import World

WALL_JUMP_MAX_MS = 3_600_000
LEGACY_SESSION_MS = 10_000


def _some_group(world: World) -> str:
    return world.kernel.rng.choice(world.groups)


def _names(world: World, path: str) -> list[str]:
    return sorted(world.zk.tree.children.get(path, ()))


def _delete_channel(world: World) -> str | None:
    """An operator deletes a member's channel, with what is in it."""
    root = world.places.channels(_some_group(world))
    names = _names(world, root)
    if not names:
        return None
    path = f"{root}/{world.kernel.rng.choice(names)}"
    for node in _names(world, path):
        world.zk.commit([Delete(f"{path}/{node}")], 0, "operator")
    world.zk.commit([Delete(path)], 0, "operator")
    return path


def _delete_command(world: World) -> str | None:
    """An operator deletes a command that nobody has answered yet."""
    root = world.places.channels(_some_group(world))
    paths = [
        f"{root}/{name}/{node}"
        for name in _names(world, root)
        for node in _names(world, f"{root}/{name}")
    ]
    if not paths:
        return None
    path = world.kernel.rng.choice(paths)
    world.zk.commit([Delete(path)], 0, "operator")
    return path


def _delete_offsets_of_topic(world: World) -> str | None:
    """An operator forgets what a group has read of a topic."""
    root = f"/consumers/{_some_group(world)}/offsets"
    names = _names(world, root)
    if not names:
        return None
    topic = world.kernel.rng.choice(names)
    for node in _names(world, f"{root}/{topic}"):
        world.zk.commit([Delete(f"{root}/{topic}/{node}")], 0, "operator")
    world.zk.commit([Delete(f"{root}/{topic}")], 0, "operator")
    return f"{root}/{topic}"


def _overwrite(world: World) -> str | None:
    """A foreign tool writes over a registration, a channel or a group's report."""
    group = _some_group(world)
    at = world.places
    ids = [f"{at.ids(group)}/{n}" for n in _names(world, at.ids(group))]
    channels = [f"{at.channels(group)}/{n}" for n in _names(world, at.channels(group))]
    paths = [*channels, at.group(group)] if world.kernel.chance(0.6) else ids
    paths = [p for p in paths if p in world.zk.tree.nodes]
    if not paths:
        return None
    path, data = world.kernel.rng.choice(paths), world.kernel.rng.choice(JUNK)
    if path in ids:
        return _spoil_registration(world, path, data)
    world.zk.commit([SetData(path, data, -1)], 0, "operator")
    return f"{path} = {data!r}"


def _spoil_registration(world: World, path: str, data: bytes) -> str:
    """A registration that cannot be read any more stays so: after a while somebody notices and
    deletes it.
    """
    world.zk.commit([SetData(path, data, -1)], 0, "operator")
    czxid = world.zk.tree.nodes[path].czxid

    def delete() -> None:
        node = world.zk.tree.nodes.get(path)
        if node is not None and node.czxid == czxid:
            world.zk.commit([Delete(path)], 0, "operator")

    world.later(world.kernel.between(100, 3_000), delete)
    return f"{path} = {data!r}"


def _junk_flood(world: World) -> str | None:
    """A foreign tool writes much junk at once: registrations that are none, commands, owners,
    groups.
    """
    kernel, at, group = world.kernel, world.places, _some_group(world)
    made = 0
    for number in range(kernel.between(5, 25)):
        path = kernel.rng.choice(
            (
                f"{at.ids(group)}/flood{number}",
                f"{at.channels(group)}/flood{number}",
                f"{at.root}/flood{number}",
                f"/brokers/topics/flood{number}",
                f"{at.owners(group)}/flood{number}",
            )
        )
        if parent_of(path) in world.zk.tree.nodes and path not in world.zk.tree.nodes:
            world.zk.commit([Create(path, kernel.rng.choice(JUNK))], 0, "operator")
            made += 1
    return f"{made} nodes" if made else None


def _request_rebalance(world: World) -> str | None:
    """An operator asks for a rebalance, perhaps as if nobody owned anything; some requests cannot
    be read.
    """
    group, kernel = _some_group(world), world.kernel
    if world.places.group(group) not in world.zk.tree.nodes:
        return None
    if world.places.requests(group) not in world.zk.tree.nodes:
        world.zk.commit([Create(world.places.requests(group), b"")], 0, "operator")
    data = kernel.rng.choice(
        (
            b'{"version":1,"request":"rebalance","fresh":false,"by":"operator"}',
            b'{"version":1,"request":"rebalance","fresh":true,"by":"operator"}',
            b"junk",
        )
    )
    world.zk.commit(
        [Create(f"{world.places.requests(group)}/request-", data, sequential=True)], 0, "operator"
    )
    return f"{group} {data!r}"


def _legacy_member(world: World) -> str | None:
    """An old consumer registers in the group and goes after a while. While it is there, the group
    is not ours to move.
    """
    group = _some_group(world)
    ids = world.places.ids(group)
    if ids not in world.zk.tree.nodes or not world.topics:
        return None
    host = Host(world.kernel, world.new_name("x"))
    port = world.zk.open_for(host, LEGACY_SESSION_MS).open(lambda event: None)
    topic = sorted(world.topics)[0]
    data = (
        '{"version":1,"subscription":{"%s":1},"pattern":"static","timestamp":"%d"}'
        % (topic, 1_500_000_000_000 + world.kernel.now)
    ).encode()
    path = f"{ids}/{group}_{host.name}-1500000000000-{world.kernel.rng.getrandbits(32):08x}"
    world.later(100, lambda: port.multi([Create(path, data, ephemeral=True)], lambda result: None))
    stays = world.kernel.between(200, 4_000)

    def leave() -> None:
        world.zk.end_session(port.session_id)
        host.kill()

    world.later(100 + stays, leave)
    return f"{path} for {stays} ms"


def _jump_wall_clock(world: World) -> str | None:
    """The time of day of a machine is set, up to an hour back or forth."""
    able = running_of(world)
    if not able:
        return None
    process = world.kernel.rng.choice(able)
    process.skew_ms = world.kernel.between(-WALL_JUMP_MAX_MS, WALL_JUMP_MAX_MS)
    return f"{process.host.name} is off by {process.skew_ms} ms"


FOREIGN_FAULTS: tuple[FaultKind, ...] = (
    FaultKind("delete_channel", _delete_channel),
    FaultKind("delete_command", _delete_command),
    FaultKind("delete_offsets_of_topic", _delete_offsets_of_topic),
    FaultKind("overwrite", _overwrite),
    FaultKind("junk_flood", _junk_flood),
    FaultKind("request_rebalance", _request_rebalance),
    FaultKind("legacy_member", _legacy_member),
    FaultKind("jump_wall_clock", _jump_wall_clock),
)
