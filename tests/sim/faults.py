"""What can go wrong, by name. Each fault looks at the world, does one thing to it, and counts
itself; a fault that finds nothing to do fires nothing.

Processes are paused for less and for more than their session, killed (a guardian may close the
session at once), closed, and started. Links stall (TCP delivers later) or are cut (connections
break). Requests and replies are lost. Servers lag, followers lose their leader, the quorum goes
away. Topics come and grow, subscriptions change. An operator deletes the leader node, resets or
deletes offsets; a foreign tool writes junk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.sim.kernel import Host
from tests.sim.tree import parent_of
from zkcoord.zk.port import Create, Delete, SetData

if TYPE_CHECKING:
    from tests.sim.processes import ConsumerProcess, CoordinatorProcess
    from tests.sim.world import World

TOPICS_MAX = 5
PARTITIONS_MAX = 9
FOREIGN_SESSION_MS = 10_000
LEADER = b'{"version":1,"brokerid":"","host":"h","port":0,"epoch":7,"timestamp":"1700000000000"}'
JUNK = (
    b"",
    b"{}",
    b"\xff\xfe",
    b"not json",
    b"[1,2",
    b'{"version":1}',
    b'{"version":1,"option":"start-fetcher","epoch":"x"}',
    b"-1",
    b"007",
    b"9" * 40,
)


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A fault's name and what it does."""

    name: str
    action: Callable[[World], str | None]

    def fire(self, world: World) -> None:
        """Do it, and count it when it found something to do."""
        detail = self.action(world)
        if detail is not None:
            world.kernel.fault(self.name, "WORLD", detail)


def running_of(world: World) -> list[ConsumerProcess | CoordinatorProcess]:
    """The processes that run and are not paused."""
    return [p for p in [*world.consumers, *world.coordinators] if p.running and not p.host.paused]


def consumers_of(world: World) -> list[ConsumerProcess]:
    """The consumers that run and want to be members."""
    return [c for c in world.consumers if c.running and not c.closing]


def _pause(world: World, low: float, high: float) -> str | None:
    able = running_of(world)
    if not able:
        return None
    process = world.kernel.rng.choice(able)
    duration = world.kernel.between(int(process.timeout_ms * low), int(process.timeout_ms * high))
    process.host.pause()
    world.later(duration, process.host.resume)
    return f"{process.host.name} for {duration} ms"


def _stall_link(world: World) -> str | None:
    able = running_of(world)
    if not able:
        return None
    process = world.kernel.rng.choice(able)
    duration = world.kernel.between(50, process.timeout_ms * 3 // 2)
    world.zk.stall_link(process.host, duration)
    return f"{process.host.name} for {duration} ms"


def _cut_link(world: World) -> str | None:
    able = running_of(world)
    if not able:
        return None
    process = world.kernel.rng.choice(able)
    duration = (
        world.kernel.between(0, process.timeout_ms * 2)
        if world.kernel.chance(0.5)
        else world.kernel.between(0, 300)
    )
    world.zk.cut_link(process.host, duration)
    return f"{process.host.name} for {duration} ms"


def _isolate(world: World) -> str | None:
    followers = [s for s in world.zk.servers if not s.leading]
    if not followers:
        return None
    server = world.kernel.rng.choice(followers)
    duration = world.kernel.between(100, 8_000)
    world.zk.isolate(server, duration)
    return f"{server.name} for {duration} ms"


def _outage(world: World) -> str | None:
    duration = world.kernel.between(50, 4_000)
    world.zk.outage(duration)
    return f"for {duration} ms"


def _bad_weather(world: World) -> str | None:
    w, kernel = world.zk.weather, world.kernel
    w.tail_chance = kernel.rng.choice((0.0, 0.02, 0.1))
    w.lag_max_ms = kernel.rng.choice((3, 50, 400))
    w.lag_tail_chance = kernel.rng.choice((0.0, 0.05))
    w.lose_request_chance = kernel.rng.choice((0.0, 0.01, 0.05))
    w.lose_reply_chance = kernel.rng.choice((0.0, 0.02, 0.1))
    w.refuse_chance = kernel.rng.choice((0.0, 0.0, 0.0, 0.03))
    return f"{w.tail_chance=} {w.lag_max_ms=} {w.lose_request_chance=} {w.lose_reply_chance=}"


def _kill_coordinator(world: World) -> str | None:
    able = [c for c in world.coordinators if c.running]
    if not able:
        return None
    leader = world.leader()
    process = (
        leader
        if leader in able and world.kernel.chance(0.7) and leader is not None
        else world.kernel.rng.choice(able)
    )
    world.kill(process)
    world.later(world.kernel.between(10, 4_000), world.add_coordinator)
    return process.host.name


def _stop_coordinator(world: World) -> str | None:
    able = [c for c in world.coordinators if c.running and not c.host.paused]
    if not able:
        return None
    process = world.kernel.rng.choice(able)
    process.host.after(0, process.driver.stop)
    process.host.after(3_000, process.host.kill)
    world.later(world.kernel.between(10, 3_000), world.add_coordinator)
    return process.host.name


def _kill_consumer(world: World) -> str | None:
    able = consumers_of(world)
    if not able:
        return None
    process = world.kernel.rng.choice(able)
    world.kill(process)
    if world.kernel.chance(0.7):
        world.later(
            world.kernel.between(10, 3_000), lambda: world.add_consumer(process.wishes.group)
        )
    return process.host.name


def _close_consumer(world: World) -> str | None:
    able = [c for c in consumers_of(world) if not c.host.paused]
    if len(able) < 2:
        return None
    process = world.kernel.rng.choice(able)
    process.close()
    return process.host.name


def _join(world: World) -> str | None:
    group = world.kernel.rng.choice(world.groups)
    if len(world.members(group)) >= world.plan.consumers_max:
        return None
    world.add_consumer(group)
    return group


def _grow(world: World) -> str | None:
    name = world.kernel.rng.choice(sorted(world.topics))
    if world.topics[name] >= PARTITIONS_MAX:
        return None
    world.add_topic(name, world.topics[name] + world.kernel.between(1, 2))
    return f"{name} has {world.topics[name]} partitions"


def _new_topic(world: World) -> str | None:
    if len(world.topics) >= TOPICS_MAX:
        return None
    return world.new_topic(world.kernel.between(1, 4))


def _delete_topic(world: World) -> str | None:
    if len(world.topics) < 2:
        return None
    name = world.kernel.rng.choice(sorted(world.topics))
    world.delete_topic(name)
    return name


def _resubscribe(world: World) -> str | None:
    able = consumers_of(world)
    if not able:
        return None
    process = world.kernel.rng.choice(able)
    process.subscribe(world.draw_subscription())
    return f"{process.host.name} {process.wishes.subscription}"


def _delete_leader_node(world: World) -> str | None:
    if world.places.leader not in world.zk.tree.nodes:
        return None
    world.zk.commit([Delete(world.places.leader)], 0, "operator")
    return ""


def _delete_registration(world: World) -> str | None:
    """An operator deletes a registration whose session lives: now, or just when its member is sent
    its next command.
    """
    if world.kernel.chance(0.5):
        world.ambush = True
        return "as soon as somebody is sent a command"
    paths = [
        p
        for group in world.groups
        for p in world.zk.tree.nodes
        if parent_of(p) == world.places.ids(group)
        and world.zk.tree.nodes[p].owner
        and world.host_of_session(world.zk.tree.nodes[p].owner)[:1] != "l"
    ]
    if not paths:
        return None
    path = world.kernel.rng.choice(paths)
    world.zk.commit([Delete(path)], 0, "operator")
    return path


def _offset_nodes(world: World) -> list[tuple[str, object]]:
    keys = [(group, tp) for group in world.groups for tp in sorted(world.wanted(group))]
    return [
        (world.places.offset(key), key)
        for key in keys
        if world.places.offset(key) in world.zk.tree.nodes
    ]


def _reset_offset(world: World) -> str | None:
    nodes = _offset_nodes(world)
    if not nodes:
        return None
    path, _ = world.kernel.rng.choice(nodes)
    value = world.kernel.between(0, 50) if world.kernel.chance(0.8) else 0
    world.zk.commit([SetData(path, str(value).encode(), -1)], 0, "operator")
    return f"{path} = {value}"


def _delete_offset(world: World) -> str | None:
    nodes = _offset_nodes(world)
    if not nodes:
        return None
    path, _ = world.kernel.rng.choice(nodes)
    world.zk.commit([Delete(path)], 0, "operator")
    return path


def _junk(world: World) -> str | None:
    kernel, at, group = world.kernel, world.places, world.kernel.rng.choice(world.groups)
    data = kernel.rng.choice(JUNK)
    channels = sorted(p for p in world.zk.tree.nodes if parent_of(p) == at.channels(group))
    places = [
        f"{at.ids(group)}/junk{kernel.between(0, 9)}",
        f"{at.owners(group)}/junk",
        f"{at.owners(group)}/junk/x{kernel.between(0, 9)}",
        "/brokers/topics/junk",
        "/brokers/topics/tjunk",
        f"{at.channels(group)}/junk{kernel.between(0, 9)}",
        f"{at.group(group)}/odd",
        f"{at.root}/odd{kernel.between(0, 3)}",
    ]
    places += (
        [
            kernel.rng.choice(channels)
            + "/"
            + kernel.rng.choice(("junk", "7-1-0000000000", "99999999999999-1-"))
        ]
        if channels
        else []
    )
    path = kernel.rng.choice(places)
    if parent_of(path) not in world.zk.tree.nodes or path in world.zk.tree.nodes:
        return None
    world.zk.commit([Create(path, data)], 0, "operator")
    return f"{path} = {data!r}"


def _hang(world: World) -> str | None:
    able = consumers_of(world)
    if not able:
        return None
    process = world.kernel.rng.choice(able)
    duration = world.kernel.between(500, 8_000)
    process.app.hang(duration)
    return f"{process.host.name} does not poll for {duration} ms"


def _stillborn(world: World) -> str | None:
    process = world.add_consumer(world.kernel.rng.choice(world.groups), stillborn=True)
    return process.host.name


def _newborn(world: World) -> str | None:
    """A process that is closed, paused or cut off while it joins."""
    group = world.kernel.rng.choice(world.groups)
    if len(world.members(group)) >= world.plan.consumers_max:
        return None
    process = world.add_consumer(group)
    what = world.kernel.rng.choice(("close", "pause", "cut"))
    delay = world.kernel.between(0, 15)
    if what == "close":
        world.later(delay, process.close)
        world.later(delay + world.kernel.between(0, 10), process.close)
    elif what == "pause":
        world.later(delay, process.host.pause)
        world.later(
            delay + world.kernel.between(1_000, 3 * process.timeout_ms), process.host.resume
        )
    else:
        world.later(
            delay,
            lambda: world.zk.cut_link(
                process.host, world.kernel.between(1_000, 3 * process.timeout_ms)
            ),
        )
    return f"{process.host.name} {what} after {delay} ms"


def _tree_below(world: World, root: str) -> list[str]:
    return sorted(
        (p for p in world.zk.tree.nodes if p == root or p.startswith(root + "/")),
        key=len,
        reverse=True,
    )


def _erase_group(world: World) -> str | None:
    """Every member dies, and an operator deletes the group before anybody can react."""
    group = world.kernel.rng.choice(world.groups)
    for process in world.members(group):
        process.host.kill()
        for port in process.zk.ports:
            world.zk.end_session(port.session_id)
    roots = (world.places.group(group), world.places.ids(group), world.places.owners(group))
    for path in dict.fromkeys(path for root in roots for path in _tree_below(world, root)):
        world.zk.commit([Delete(path)], 0, "operator")
    for _ in range(world.plan.consumers):
        world.later(world.kernel.between(0, 2_000), lambda: world.add_consumer(group))
    return group


def _foreign_owner(world: World) -> str | None:
    """A foreign tool makes an owner node where nobody owns, and takes it away later."""
    keys = [(group, tp) for group in world.groups for tp in sorted(world.wanted(group))]
    paths = [world.places.owner(key) for key in keys]
    free = [
        path
        for path in paths
        if path not in world.zk.tree.nodes and parent_of(path) in world.zk.tree.nodes
    ]
    if not free:
        return None
    path = world.kernel.rng.choice(free)
    world.zk.commit([Create(path, b"somebody-0")], 0, "operator")
    czxid = world.zk.tree.nodes[path].czxid

    def take_away() -> None:
        node = world.zk.tree.nodes.get(path)
        if node is not None and node.czxid == czxid:
            world.zk.commit([Delete(path)], 0, "operator")

    world.later(world.kernel.between(100, 4_000), take_away)
    return path


def _foreign_leader(world: World) -> str | None:
    """Somebody runs a coordinator with the other layout, for a moment; or something that is no
    coordinator's lies there.
    """
    path = world.places.other_leader
    if path in world.zk.tree.nodes or not world.kernel.chance(0.3):
        return None
    if parent_of(path) not in world.zk.tree.nodes:
        world.zk.commit([Create(parent_of(path), b"")], 0, "operator")
    stays_ms = world.kernel.between(50, 1_000)
    if world.kernel.chance(0.5):
        world.zk.commit([Create(path, b"{}")], 0, "operator")
        world.later(stays_ms, lambda: world.zk.commit([Delete(path)], 0, "operator"))
        return f"{path}, which leads nobody"
    host = Host(world.kernel, world.new_name("x"))
    port = world.zk.open_for(host, FOREIGN_SESSION_MS).open(lambda event: None)
    leads = Create(path, LEADER, ephemeral=True)
    world.later(100, lambda: port.multi([leads], lambda result: None))

    def end() -> None:
        world.zk.end_session(port.session_id)
        host.kill()

    world.later(100 + stays_ms, end)
    return path


def _make_topic_again(world: World) -> str | None:
    """Kafka deletes a topic and creates another of that name, at once or later."""
    if len(world.topics) < 2:
        return None
    name = world.kernel.rng.choice(sorted(world.topics))
    gap = world.kernel.rng.choice((0, 2, 50, 1_000))
    make_again(world, name, gap)
    return f"{name} after {gap} ms"


def make_again(world: World, name: str, gap_ms: int) -> None:
    """Kafka deletes a topic, and creates another of that name at once or `gap_ms` later."""
    world.delete_topic(name)
    partitions = world.kernel.between(1, world.plan.partitions_max)
    if gap_ms:
        world.later(gap_ms, lambda: world.make_topic_again(name, partitions))
    else:
        world.make_topic_again(name, partitions)


MAKE_TOPIC_AGAIN = FaultKind("make_topic_again", _make_topic_again)
FAULTS: tuple[FaultKind, ...] = (
    FaultKind("pause_short", lambda w: _pause(w, 0.02, 0.6)),
    FaultKind("pause_long", lambda w: _pause(w, 0.9, 2.5)),
    FaultKind("stall_link", _stall_link),
    FaultKind("cut_link", _cut_link),
    FaultKind("isolate_follower", _isolate),
    FaultKind("outage", _outage),
    FaultKind("bad_weather", _bad_weather),
    FaultKind("kill_coordinator", _kill_coordinator),
    FaultKind("stop_coordinator", _stop_coordinator),
    FaultKind("kill_consumer", _kill_consumer),
    FaultKind("close_consumer", _close_consumer),
    FaultKind("join", _join),
    FaultKind("grow_topic", _grow),
    FaultKind("new_topic", _new_topic),
    FaultKind("resubscribe", _resubscribe),
    FaultKind("delete_leader_node", _delete_leader_node),
    FaultKind("delete_registration", _delete_registration),
    FaultKind("reset_offset", _reset_offset),
    FaultKind("delete_offset", _delete_offset),
    FaultKind("junk", _junk),
    FaultKind("delete_topic", _delete_topic),
    FaultKind("application_hangs", _hang),
    FaultKind("stillborn", _stillborn),
    FaultKind("newborn", _newborn),
    FaultKind("erase_group", _erase_group),
    FaultKind("foreign_owner", _foreign_owner),
    FaultKind("foreign_leader", _foreign_leader),
)
