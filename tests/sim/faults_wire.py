"""Faults of gateways and their clients: gateways killed, stopped, paused until they are zombies,
cut off from ZooKeeper, rolled; connections that are cut, swallow all, or lose the answer to a
JoinGroup; clients that move, hang, die, leave, come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.faults import FaultKind

if TYPE_CHECKING:
    from tests.sim.wire import Wires
    from tests.sim.wire_client import WireClient
    from tests.sim.wire_gateway import GatewayProcess
    from tests.sim.world import World

CLIENTS_EVER_MAX = 40
GATEWAYS_EVER_MAX = 25


def _wires(world: World) -> Wires:
    assert world.wires is not None
    return world.wires


def _gateways(world: World) -> list[GatewayProcess]:
    """Those that serve."""
    return [g for g in _wires(world).gateways if g.listens and not g.host.paused]


def _clients(world: World) -> list[WireClient]:
    """Those that run and want to be members."""
    return [c for c in _wires(world).clients if c.running]


def _attached(world: World) -> list[WireClient]:
    return [c for c in _clients(world) if c.connection is not None and not c.host.paused]


def _another_gateway(world: World, delay_ms: int) -> None:
    wires = _wires(world)
    if len(wires.gateways) < GATEWAYS_EVER_MAX:
        world.later(delay_ms, wires.add_gateway)


def _kill_gateway(world: World) -> str | None:
    able = [g for g in _wires(world).gateways if g.running]
    if not able or len(_wires(world).gateways) >= GATEWAYS_EVER_MAX:
        return None
    gateway = world.kernel.rng.choice(able)
    world.kill(gateway)
    _another_gateway(world, world.kernel.between(10, 3_000))
    return gateway.host.name


def _stop_gateway(world: World) -> str | None:
    able = _gateways(world)
    if not able or len(_wires(world).gateways) >= GATEWAYS_EVER_MAX:
        return None
    gateway = world.kernel.rng.choice(able)
    gateway.close()
    _another_gateway(world, world.kernel.between(10, 1_000))
    return gateway.host.name


def _roll_gateways(world: World) -> str | None:
    """One after the other stops and begins again, as an upgrade does it."""
    able = _gateways(world)
    if not able or len(_wires(world).gateways) + len(able) > GATEWAYS_EVER_MAX:
        return None
    at = 0
    for gateway in able:
        world.later(at, lambda gateway=gateway: gateway.running and gateway.close())  # type: ignore[misc]
        _another_gateway(world, at + world.kernel.between(50, 500))
        at += world.kernel.between(500, 2_500)
    return f"{len(able)} within {at} ms"


def _pause_gateway(world: World) -> str | None:
    """Shorter or longer than its sessions live: it comes back as a zombie."""
    able = _gateways(world)
    if not able:
        return None
    gateway = world.kernel.rng.choice(able)
    limit = gateway.timeout_ms
    if world.kernel.chance(0.5):
        duration = world.kernel.between(50, limit * 3 // 4)
    else:
        duration = world.kernel.between(limit, 2 * limit + world.plan.lease_max_ms)
    gateway.host.pause()
    world.later(duration, gateway.host.resume)
    return f"{gateway.host.name} for {duration} ms"


def _cut_gateway(world: World) -> str | None:
    """Its link to ZooKeeper; its clients reach it."""
    able = _gateways(world)
    if not able:
        return None
    gateway = world.kernel.rng.choice(able)
    duration = world.kernel.between(0, 2 * gateway.timeout_ms)
    if world.kernel.chance(0.6):
        world.zk.cut_link(gateway.host, duration)
    else:
        world.zk.stall_link(gateway.host, duration)
    return f"{gateway.host.name} for {duration} ms"


def _expire_agent(world: World) -> str | None:
    """One of a gateway's sessions is over, though the gateway lives."""
    able = [
        (g, port.session_id)
        for g in _gateways(world)
        for port in g.zk.ports
        if port.session_id and world.zk.sessions[port.session_id].alive
    ]
    if not able:
        return None
    gateway, session = world.kernel.rng.choice(able)
    world.zk.end_session(session)
    gateway.disturbed_ms = world.kernel.now
    return f"{session:x} of {gateway.host.name}"


def _cut_connection(world: World) -> str | None:
    """A client cannot reach any gateway for less or more than it may be away."""
    able = _attached(world)
    if not able:
        return None
    client = world.kernel.rng.choice(able)
    grace = _wires(world).plan.disconnect_grace_ms
    short = world.kernel.chance(0.6)
    away = world.kernel.between(0, grace * 3 // 4) if short else world.kernel.between(grace, 8_000)
    client.link.keep_away(away)
    assert client.connection is not None
    client.connection.cut()
    return f"{client.host.name} for {away} ms"


def _mute_connection(world: World) -> str | None:
    """A connection swallows everything, and nobody is told."""
    able = _attached(world)
    if not able:
        return None
    client = world.kernel.rng.choice(able)
    assert client.connection is not None
    client.connection.mute_ms = world.kernel.now
    return client.host.name


def _move_client(world: World) -> str | None:
    """A client goes to another gateway while the first one lives, and sometimes comes back soon."""
    able = _attached(world)
    if not able:
        return None
    client = world.kernel.rng.choice(able)
    assert client.connection is not None
    others = [g for g in _gateways(world) if g is not client.connection.gateway]
    if not others:
        return None
    first, client.link.prefers = client.connection.gateway, world.kernel.rng.choice(others)
    client.host.do(client.link.disconnect)

    def back() -> None:
        client.link.prefers = first
        client.host.do(client.link.disconnect)

    if world.kernel.chance(0.5):
        world.later(world.kernel.between(100, 900), back)
    return f"{client.host.name} to {client.link.prefers.host.name}"


def _duplicate_join(world: World) -> str | None:
    """A client joins again, and its connection breaks before it has the answer."""
    able = _attached(world)
    if not able:
        return None
    client = world.kernel.rng.choice(able)
    client.cut_at_join = world.kernel.between(1, 2)
    client.join_again()
    return client.host.name


def _kill_client(world: World) -> str | None:
    able = _clients(world)
    wires = _wires(world)
    if not able or len(wires.clients) >= CLIENTS_EVER_MAX:
        return None
    client = world.kernel.rng.choice(able)
    client.host.kill()
    group = client.habits.group
    if client.habits.instance is not None or world.kernel.chance(0.5):
        again = client if client.habits.instance is not None else None
        world.later(world.kernel.between(10, 3_000), lambda: wires.add_client(group, again))
    return client.host.name


def _pause_client(world: World) -> str | None:
    able = [c for c in _clients(world) if not c.host.paused]
    if not able:
        return None
    client = world.kernel.rng.choice(able)
    session = client.habits.session_ms
    short = world.kernel.chance(0.5)
    duration = world.kernel.between(50, session // 2 if short else 3 * session)
    client.host.pause()
    world.later(duration, client.host.resume)
    return f"{client.host.name} for {duration} ms"


def _leave_client(world: World) -> str | None:
    able = [c for c in _clients(world) if not c.host.paused]
    if len(able) < 2:
        return None
    client = world.kernel.rng.choice(able)
    client.leave()
    return client.host.name


def _join_client(world: World) -> str | None:
    wires, group = _wires(world), world.kernel.rng.choice(world.groups)
    full = len(wires.of_group(group)) >= wires.plan.clients_max
    if full or len(wires.clients) >= CLIENTS_EVER_MAX:
        return None
    return wires.add_client(group).host.name


def _other_topics(world: World) -> str | None:
    """A client subscribes to others."""
    able = _attached(world)
    if not able:
        return None
    client = world.kernel.rng.choice(able)
    topics = sorted(world.topics)
    some = [t for t in topics if world.kernel.chance(0.6)] or topics[:1]
    client.habits.topics = tuple(some)
    client.join_again()
    return f"{client.host.name}: {some}"


WIRE_FAULTS: tuple[FaultKind, ...] = (
    FaultKind("kill_gateway", _kill_gateway),
    FaultKind("stop_gateway", _stop_gateway),
    FaultKind("roll_gateways", _roll_gateways),
    FaultKind("pause_gateway", _pause_gateway),
    FaultKind("cut_gateway", _cut_gateway),
    FaultKind("expire_agent", _expire_agent),
    FaultKind("cut_connection", _cut_connection),
    FaultKind("mute_connection", _mute_connection),
    FaultKind("move_client", _move_client),
    FaultKind("duplicate_join", _duplicate_join),
    FaultKind("kill_client", _kill_client),
    FaultKind("pause_client", _pause_client),
    FaultKind("leave_client", _leave_client),
    FaultKind("join_client", _join_client),
    FaultKind("other_topics", _other_topics),
)
