"""Faults of the network and of the servers beyond `faults.py`: lost requests and replies of every
kind, delays, one-way black holes; the leading server lost, the quorum away for longer than any
session, a restart of everything, followers that lag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.faults import FaultKind, running_of

if TYPE_CHECKING:
    from tests.sim.world import World


def _lossy(world: World) -> str | None:
    """From now on every kind of request, and its reply, may be lost."""
    w, rng = world.zk.weather, world.kernel.rng
    w.lose_request_chance, w.lose_reply_chance = (
        rng.choice((0.0, 0.02, 0.08)),
        rng.choice((0.0, 0.05, 0.15)),
    )
    w.lose_other_request_chance, w.lose_other_reply_chance = (
        rng.choice((0.0, 0.01, 0.04)),
        rng.choice((0.0, 0.02, 0.08)),
    )
    w.lose_welcome_chance = rng.choice((0.0, 0.1, 0.3))
    return (
        f"{w.lose_request_chance=} {w.lose_reply_chance=} {w.lose_other_request_chance=}"
        f" {w.lose_other_reply_chance=} {w.lose_welcome_chance=}"
    )


def _slow_network(world: World) -> str | None:
    """From now on every message takes longer, some much longer."""
    w, rng = world.zk.weather, world.kernel.rng
    w.latency_max_ms, w.tail_chance, w.tail_max_ms = (
        rng.choice((1, 20, 150)),
        rng.choice((0.0, 0.05, 0.2)),
        rng.choice((300, 1_500)),
    )
    return f"{w.latency_max_ms=} {w.tail_chance=} {w.tail_max_ms=}"


def _fine_weather(world: World) -> str | None:
    """Requests pass again, so that what was begun can end."""
    world.zk.weather.clear()
    return ""


def _half_link(world: World, up: bool) -> str | None:
    able = running_of(world)
    if not able:
        return None
    process = world.kernel.rng.choice(able)
    duration = world.kernel.between(30, process.timeout_ms * 3 // 2)
    world.zk.half_link(process.host, duration, up)
    return f"{process.host.name} for {duration} ms"


def _cut_all(world: World) -> str | None:
    """A switch restarts: every link is cut at once."""
    duration = world.kernel.rng.choice((0, 200, 2_500, 7_000)) + world.kernel.between(0, 200)
    for process in running_of(world):
        world.zk.cut_link(process.host, duration)
    return f"for {duration} ms"


def _lagging_followers(world: World) -> str | None:
    w, rng = world.zk.weather, world.kernel.rng
    w.lag_max_ms, w.lag_tail_chance, w.lag_tail_max_ms = (
        rng.choice((3, 100, 1_000, 3_000)),
        rng.choice((0.0, 0.1)),
        rng.choice((800, 5_000)),
    )
    return f"{w.lag_max_ms=} {w.lag_tail_chance=} {w.lag_tail_max_ms=}"


def _server_leader_lost(world: World) -> str | None:
    duration = world.kernel.rng.choice((30, 300, 1_500)) + world.kernel.between(0, 100)
    server = world.zk.new_leader(duration)
    return f"{server.name} leads after {duration} ms"


def _quorum_lost(world: World) -> str | None:
    """Nobody is served for about as long as a session lasts, or longer."""
    duration = world.kernel.rng.choice(
        (world.plan.session_ms * 2 // 3, world.plan.session_ms, world.plan.session_ms * 2)
    ) + world.kernel.between(-200, 200)
    world.zk.outage(duration)
    return f"for {duration} ms"


def _full_restart(world: World) -> str | None:
    """Every server stops and starts: sessions survive, their clocks start again, another server may
    lead.
    """
    duration = world.kernel.between(500, 6_000)
    server = world.zk.new_leader(duration)
    for each in world.zk.servers:
        each.isolated_until_ms = 0
    return f"{server.name} leads after {duration} ms"


SERVER_FAULTS: tuple[FaultKind, ...] = (
    FaultKind("lossy", _lossy),
    FaultKind("slow_network", _slow_network),
    FaultKind("fine_weather", _fine_weather),
    FaultKind("mute_link", lambda w: _half_link(w, up=True)),
    FaultKind("deaf_link", lambda w: _half_link(w, up=False)),
    FaultKind("cut_all", _cut_all),
    FaultKind("lagging_followers", _lagging_followers),
    FaultKind("server_leader_lost", _server_leader_lost),
    FaultKind("quorum_lost", _quorum_lost),
    FaultKind("full_restart", _full_restart),
)
