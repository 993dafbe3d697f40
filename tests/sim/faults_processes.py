"""Faults of coordinators and members beyond `faults.py`: times that fall just before or after a
boundary of the protocol (session, lease, deadline), members that never answer or come and go, two
processes with one consumer id, many candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.faults import FaultKind, consumers_of
from zkcoord.zk.port import Delete, SetData

if TYPE_CHECKING:
    from tests.sim.processes import ConsumerProcess, CoordinatorProcess
    from tests.sim.world import World

EDGE_MS = 120
CANDIDATES_MAX = 6
BURST_MAX = 12


def _edges(world: World, process: ConsumerProcess | CoordinatorProcess) -> tuple[int, ...]:
    """The times that matter to a process: what its lease has left at least and at most, its
    session, the deadline of a command, an orphan's wait.
    """
    lease = min(process.timeout_ms * 2 // 3, world.plan.lease_max_ms)
    return (
        lease * 2 // 3,
        lease,
        process.timeout_ms * 2 // 3,
        process.timeout_ms,
        process.timeout_ms + world.zk.weather.tick_ms,
        world.plan.deadline_ms,
        world.plan.lease_max_ms + 1_000,
    )


def _about(world: World, process: ConsumerProcess | CoordinatorProcess) -> int:
    return max(
        1, world.kernel.rng.choice(_edges(world, process)) + world.kernel.between(-EDGE_MS, EDGE_MS)
    )


def _pause(world: World, process: ConsumerProcess | CoordinatorProcess) -> str:
    duration = _about(world, process)
    process.host.pause()
    world.later(duration, process.host.resume)
    return f"{process.host.name} for {duration} ms"


def _pause_member_at_edge(world: World) -> str | None:
    able = [c for c in consumers_of(world) if not c.host.paused]
    return _pause(world, world.kernel.rng.choice(able)) if able else None


def _cut_member_at_edge(world: World) -> str | None:
    able = consumers_of(world)
    if not able:
        return None
    process = world.kernel.rng.choice(able)
    duration = _about(world, process)
    if world.kernel.chance(0.5):
        world.zk.cut_link(process.host, duration)
    else:
        world.zk.stall_link(process.host, duration)
    return f"{process.host.name} for {duration} ms"


def _strand_member(world: World) -> str | None:
    """A member loses link and registration, not its session: it fetches on until its lease is over,
    and nobody tells it anything.
    """
    able = [
        c
        for c in consumers_of(world)
        if f"{world.places.ids(c.wishes.group)}/{c.driver.name}" in world.zk.tree.nodes
    ]
    if not able:
        return None
    process = world.kernel.rng.choice(able)
    world.zk.cut_link(process.host, process.timeout_ms)
    world.zk.commit(
        [Delete(f"{world.places.ids(process.wishes.group)}/{process.driver.name}")], 0, "operator"
    )
    return process.host.name


def _cut_into_outage(world: World) -> str | None:
    """A member is cut off, perhaps without its registration; then nobody is served, and meanwhile
    its link heals, perhaps for as long as nobody is served: what it believed of itself when the
    outage began may be long untrue.
    """
    able = [
        c
        for c in consumers_of(world)
        if f"{world.places.ids(c.wishes.group)}/{c.driver.name}" in world.zk.tree.nodes
    ]
    if not able:
        return None
    kernel, process = world.kernel, world.kernel.rng.choice(able)
    outage_after = kernel.rng.choice(
        (100, 100, process.timeout_ms * 2 // 3, process.timeout_ms + 1_500)
    ) + kernel.between(0, 300)
    duration = kernel.between(1_000, 6_000)
    world.zk.cut_link(process.host, outage_after + kernel.between(50, 700))
    if kernel.chance(0.5):
        world.zk.commit(
            [Delete(f"{world.places.ids(process.wishes.group)}/{process.driver.name}")],
            0,
            "operator",
        )
    world.later(outage_after, lambda: world.zk.outage(duration))
    if kernel.chance(0.5):
        again = kernel.between(300, 2_000)
        world.later(outage_after + duration - 10, lambda: world.zk.cut_link(process.host, again))
    return f"{process.host.name}, nobody is served {outage_after} ms later for {duration} ms"


def _pause_leader(world: World) -> str | None:
    leader = world.leader()
    if leader is None or not leader.running or leader.host.paused:
        return None
    return _pause(world, leader)


def _cut_leader(world: World) -> str | None:
    leader = world.leader()
    if leader is None or not leader.running:
        return None
    duration = _about(world, leader)
    if world.kernel.chance(0.5):
        world.zk.cut_link(leader.host, duration)
    else:
        world.zk.half_link(leader.host, duration, up=world.kernel.chance(0.5))
    return f"{leader.host.name} for {duration} ms"


def _zombie_leader(world: World) -> str | None:
    """The leader is paused for longer than its session while members come, so that it has something
    to write when it goes on.
    """
    leader = world.leader()
    if leader is None or not leader.running or leader.host.paused:
        return None
    before = world.kernel.between(0, 30)
    duration = (
        before + leader.timeout_ms + world.zk.weather.tick_ms + world.kernel.between(0, 1_500)
    )
    group = world.kernel.rng.choice(world.groups)
    if len(world.members(group)) < world.plan.consumers_max:
        world.add_consumer(group)
    world.later(before, leader.host.pause)
    world.later(duration, leader.host.resume)
    return f"{leader.host.name} for {duration} ms"


def _candidates(world: World) -> str | None:
    """Several coordinators are started at one moment."""
    running = len([c for c in world.coordinators if c.running])
    new = min(world.kernel.between(1, 3), CANDIDATES_MAX - running)
    for _ in range(new):
        world.add_coordinator()
    return f"{new} more" if new > 0 else None


def _step_down(world: World) -> str | None:
    """The leader is told to stop (an operator's step-down)."""
    leader = world.leader()
    if leader is None or not leader.running or leader.host.paused:
        return None
    leader.host.after(0, leader.driver.stop)
    leader.host.after(3_000, leader.host.kill)
    world.later(world.kernel.between(10, 3_000), world.add_coordinator)
    return leader.host.name


def _touch_epoch(world: World) -> str | None:
    """Somebody writes the epoch node as it is: whoever led before is fenced."""
    node = world.zk.tree.nodes.get(world.places.root)
    if node is None or not node.data:
        return None
    world.zk.commit([SetData(world.places.root, node.data, -1)], 0, "operator")
    return ""


def _never_acks(world: World) -> str | None:
    """An application that does not poll for longer than any deadline, though its session lives."""
    able = consumers_of(world)
    if not able:
        return None
    process = world.kernel.rng.choice(able)
    duration = world.plan.deadline_ms + world.kernel.between(
        100, world.plan.deadline_ms + world.plan.lease_max_ms
    )
    process.app.hang(duration)
    return f"{process.host.name} does not poll for {duration} ms"


def _flap(world: World) -> str | None:
    """A member that comes and goes: each life ends before or just after the group has settled."""
    group = world.kernel.rng.choice(world.groups)
    if len(world.members(group)) >= world.plan.consumers_max:
        return None
    lives, pace = world.kernel.between(2, 5), world.kernel.rng.choice((60, 300, 1_500))
    clean = world.kernel.chance(0.5)

    def live(left: int) -> None:
        process = world.add_consumer(group)
        life = world.kernel.between(5, pace)
        world.later(life, process.close if clean else lambda: world.kill(process))
        if left > 1:
            world.later(life + world.kernel.between(0, pace), lambda: live(left - 1))

    live(lives)
    return f"{group}: {lives} lives of {pace} ms"


def _same_id(world: World) -> str | None:
    """A second process is started with the consumer id of one that lives."""
    able = [c for c in consumers_of(world) if c.wishes.consumer_id]
    if not able or len(world.consumers) > 40:
        return None
    first = world.kernel.rng.choice(able)
    second = world.add_consumer(first.wishes.group, consumer_id=first.wishes.consumer_id or "")
    return f"{second.host.name} as {first.host.name}"


def _burst(world: World) -> str | None:
    """Many joins, or many leaves, within a second."""
    group = world.kernel.rng.choice(world.groups)
    members = [m for m in world.members(group) if not m.host.paused]
    within = world.kernel.rng.choice((20, 200, 1_000))
    if len(members) > world.plan.consumers_max // 2 or world.kernel.chance(0.3):
        leave = members[: max(0, world.kernel.between(1, len(members)) - 1)]
        for member in leave:
            end = (
                member.close
                if world.kernel.chance(0.7)
                else lambda member=member: world.kill(member)
            )  # type: ignore[misc]
            world.later(world.kernel.between(0, within), end)
        return f"{group}: {len(leave)} leave within {within} ms" if leave else None
    count = world.kernel.between(3, BURST_MAX)
    for _ in range(count):
        world.later(world.kernel.between(0, within), lambda: world.add_consumer(group))
    return f"{group}: {count} join within {within} ms"


PROCESS_FAULTS: tuple[FaultKind, ...] = (
    FaultKind("pause_member_at_edge", _pause_member_at_edge),
    FaultKind("cut_member_at_edge", _cut_member_at_edge),
    FaultKind("strand_member", _strand_member),
    FaultKind("cut_into_outage", _cut_into_outage),
    FaultKind("pause_leader", _pause_leader),
    FaultKind("cut_leader", _cut_leader),
    FaultKind("zombie_leader", _zombie_leader),
    FaultKind("candidates", _candidates),
    FaultKind("step_down", _step_down),
    FaultKind("touch_epoch", _touch_epoch),
    FaultKind("never_acks", _never_acks),
    FaultKind("flap", _flap),
    FaultKind("same_id", _same_id),
    FaultKind("burst", _burst),
)
