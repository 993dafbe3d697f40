"""Faults that strike at a moment: just when a start or a stop was sent, an ack or a commit was
written, a member registered, a coordinator was elected.

Faults that come at random times rarely meet what takes a few milliseconds. Here a fault lies in
wait: it names a moment and one to three strikes; the next transaction that is such a moment springs
them, each a few milliseconds later, upon whom and what the transaction was about.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.sim.faults import FaultKind, make_again
from tests.sim.tree import Txn
from zkcoord.core.model import TopicPartition
from zkcoord.zk.port import Delete, SetData

if TYPE_CHECKING:
    from tests.sim.processes import ConsumerProcess
    from tests.sim.world import World

STRIKE_WITHIN_MS = 6
WAITING_MAX = 4
OPTIONS = {"start-fetcher": "start_sent", "stop-fetcher": "stop_sent"}


@dataclass(frozen=True, slots=True)
class Scene:
    """What a transaction was about. `host` is the member's process."""

    group: str = ""
    host: str = ""
    path: str = ""  # the registration
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """A fault that lies in wait."""

    name: str
    strikes: tuple[str, ...]


def spring(world: World, txn: Txn) -> None:
    """Let those faults strike whose moment this transaction is."""
    for name, scene in _scenes(world, txn).items():
        for moment in [m for m in world.moments if m.name == name]:
            world.moments.remove(moment)
            world.kernel.happened["moment struck"] += 1
            world.kernel.trace("WORLD", f"*** at {name} of {scene}: {moment.strikes}")
            for strike in moment.strikes:
                world.later(
                    world.kernel.between(0, STRIKE_WITHIN_MS),
                    lambda act=STRIKES[strike], scene=scene: act(world, scene),
                )  # type: ignore[misc]


def _scenes(world: World, txn: Txn) -> dict[str, Scene]:
    """The moments that a transaction is, each with the first of what it was about."""
    found: dict[str, Scene] = {}
    for path, before, after in txn.changes:
        place = world.places.place_of(path)
        if place.kind == "leader" and before is None:
            found.setdefault("elected", Scene())
        elif (
            place.kind == "command" and before is None and after is not None and txn.host[:1] == "k"
        ):
            _command(world, place.group, place.member, after.data, found)
        elif place.kind == "ids" and before is None and txn.host[:1] == "c":
            found.setdefault("registered", Scene(place.group, txn.host, path))
        elif place.kind == "owner" and txn.host[:1] == "c" and txn.kind == "multi":
            found.setdefault(
                "start_acked" if before is None else "stop_acked",
                Scene(place.group, txn.host, "", (place.partition,)),
            )
        elif place.kind == "offset" and txn.host[:1] == "c" and before is not None:
            found.setdefault("offset_stored", Scene(place.group, txn.host, "", (place.partition,)))
    return found


def _command(world: World, group: str, member: str, data: bytes, found: dict[str, Scene]) -> None:
    value, path = json.loads(data), f"{world.places.ids(group)}/{member}"
    name, node = OPTIONS.get(value["option"]), world.zk.tree.nodes.get(path)
    if name is None or node is None:
        return
    names = [
        n.rpartition("-") for n in (*value.get("ownershipMap", {}), *value.get("partitions", []))
    ]
    found.setdefault(
        name,
        Scene(
            group,
            world.host_of_session(node.owner),
            path,
            tuple(TopicPartition(t, int(p)) for t, _, p in names),
        ),
    )


# what can strike


def _process(world: World, scene: Scene) -> ConsumerProcess | None:
    return next((c for c in world.consumers if c.host.name == scene.host and c.running), None)


def _topic_again(world: World, scene: Scene) -> None:
    topics = sorted({tp.topic for tp in scene.partitions} & world.topics.keys())
    if topics and len(world.topics) > 1:
        make_again(world, world.kernel.rng.choice(topics), world.kernel.rng.choice((0, 0, 3, 40)))


def _topic_again_unseen(world: World, scene: Scene) -> None:
    """The coordinator dies before it sees that the topic was made again."""
    _topic_again(world, scene)
    _kill_leader(world, scene)


def _kill_leader(world: World, scene: Scene) -> None:
    leader = world.leader()
    if leader is not None and leader.running:
        world.kill(leader)
        world.later(world.kernel.between(10, 2_000), world.add_coordinator)


def _pause_leader(world: World, scene: Scene) -> None:
    leader = world.leader()
    if leader is not None and leader.running and not leader.host.paused:
        leader.host.pause()
        world.later(leader.timeout_ms + world.kernel.between(-200, 1_000), leader.host.resume)


def _cut_leader(world: World, scene: Scene) -> None:
    leader = world.leader()
    if leader is not None and leader.running:
        world.zk.cut_link(leader.host, world.kernel.between(0, 300))


def _cut_member(world: World, scene: Scene) -> None:
    process = _process(world, scene)
    if process is not None:
        world.zk.cut_link(process.host, world.kernel.between(0, 300))


def _deafen_member(world: World, scene: Scene) -> None:
    process = _process(world, scene)
    if process is not None:
        world.zk.half_link(
            process.host, world.kernel.between(30, process.timeout_ms * 3 // 2), up=False
        )


def _pause_member(world: World, scene: Scene) -> None:
    process = _process(world, scene)
    if process is not None and not process.host.paused:
        process.host.pause()
        world.later(world.kernel.between(50, process.timeout_ms * 3 // 2), process.host.resume)


def _kill_member(world: World, scene: Scene) -> None:
    process = _process(world, scene)
    if process is not None and not process.closing:
        world.kill(process)
        world.later(
            world.kernel.between(10, 2_000), lambda: world.add_consumer(process.wishes.group)
        )


def _resubscribe(world: World, scene: Scene) -> None:
    process = _process(world, scene)
    if process is not None and not process.closing:
        process.subscribe(world.draw_subscription())


def _delete_registration(world: World, scene: Scene) -> None:
    if scene.path in world.zk.tree.nodes:
        world.zk.commit([Delete(scene.path)], 0, "operator")


def _offset_paths(world: World, scene: Scene) -> list[str]:
    paths = [world.places.offset((scene.group, tp)) for tp in scene.partitions]
    return [path for path in paths if path in world.zk.tree.nodes]


def _reset_to_the_same(world: World, scene: Scene) -> None:
    for path in _offset_paths(world, scene)[:1]:
        world.zk.commit([SetData(path, world.zk.tree.nodes[path].data, -1)], 0, "operator")


def _reset(world: World, scene: Scene) -> None:
    for path in _offset_paths(world, scene)[:1]:
        world.zk.commit(
            [SetData(path, str(world.kernel.between(0, 50)).encode(), -1)], 0, "operator"
        )


def _delete_offset(world: World, scene: Scene) -> None:
    for path in _offset_paths(world, scene)[:1]:
        world.zk.commit([Delete(path)], 0, "operator")


def _lose_leading_server(world: World, scene: Scene) -> None:
    world.zk.new_leader(world.kernel.between(30, 300))


Strike = Callable[["World", Scene], None]
STRIKES: dict[str, Strike] = {
    "topic_again": _topic_again,
    "topic_again_unseen": _topic_again_unseen,
    "kill_leader": _kill_leader,
    "pause_leader": _pause_leader,
    "cut_leader": _cut_leader,
    "cut_member": _cut_member,
    "deafen_member": _deafen_member,
    "pause_member": _pause_member,
    "kill_member": _kill_member,
    "resubscribe": _resubscribe,
    "delete_registration": _delete_registration,
    "reset_to_the_same": _reset_to_the_same,
    "reset": _reset,
    "delete_offset": _delete_offset,
    "lose_leading_server": _lose_leading_server,
}
OF_COORDINATOR = ("kill_leader", "pause_leader", "cut_leader", "lose_leading_server")


def _lie_in_wait(world: World, name: str) -> str | None:
    if len(world.moments) >= WAITING_MAX:
        return None
    able = list(OF_COORDINATOR if name == "elected" else STRIKES)
    strikes = tuple(world.kernel.rng.sample(able, world.kernel.between(1, 3)))
    world.moments.append(Moment(name, strikes))
    return f"{strikes}"


def _at(name: str) -> FaultKind:
    return FaultKind(f"at_{name}", lambda world: _lie_in_wait(world, name))


MOMENT_FAULTS: tuple[FaultKind, ...] = tuple(
    _at(name)
    for name in (
        "start_sent",
        "stop_sent",
        "start_acked",
        "stop_acked",
        "offset_stored",
        "registered",
        "elected",
    )
)
