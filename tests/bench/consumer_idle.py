"""What a consumer costs that has nothing to do, and, with the same options, how fast a group with
it reacts: idling must not be bought with slow joins.

Processor time is that of the consumer's process and of the companion that guards it; requests to
brokers are counted by the client, those to ZooKeeper by the server (what it receives without the
consumer is taken off).
"""

from __future__ import annotations

import psutil

from tests.bench import joins
from tests.bench.consumer_apps import OURS, THEIRS, App, Apps, configs, running_apps
from tests.bench.figures import Bar, Row, Section
from tests.bench.requests import Meter
from tests.bench.rig import Rig
from tests.harness.zookeeper import srvr_stats

IDLE_S = 30.0
PARTITIONS = 24
BAR_PERCENT = 1.0
ROUNDS_WITH_PEER = 3
COMPANION = "companion.py"


def companion_s(app: App) -> float:
    """Processor time of the process's companion so far."""
    found = 0.0
    for child in psutil.Process(app.child.pid).children():
        if any(COMPANION in part for part in child.cmdline()):
            used = child.cpu_times()
            found += used.user + used.system
    return found


def idle(rig: Rig, apps: Apps, seconds: float) -> dict[str, dict[str, float]]:
    """Both consumers at once, each of an empty topic: its share of a core (percent), and requests
    per second (those to ZooKeeper are ours: the other one knows none).
    """
    running = {
        side: apps.app(
            rig.unique(f"{side}-"),
            kind=side,
            topic=rig.topic(PARTITIONS),
            idle_s=seconds,
            configs=configs(side, rig.zookeeper, rig.kafka, rig.unique("idle-")),
        )
        for side in (THEIRS, OURS)
    }
    for app in running.values():
        apps.wait_line(app, "resting")
    received, guarded = srvr_stats(rig.zookeeper_port).received, companion_s(running[OURS])
    apps.wait_line(running[OURS], "rested")
    received, guarded = (
        srvr_stats(rig.zookeeper_port).received - 1 - received,
        companion_s(running[OURS]) - guarded,
    )
    apps.wait_ended(*running.values())
    found: dict[str, dict[str, float]] = {}
    for side, app in running.items():
        begin, end = app.of("resting")[0], app.of("rested")[0]
        took_s = (end["t"] - begin["t"]) / 1e9
        found[side] = {
            "percent": (
                (end["cpu_s"] - begin["cpu_s"] + (guarded if side == OURS else 0.0)) / took_s * 100
            ),
            "broker": (end["requests"] - begin["requests"]) / took_s,
            "zookeeper": received / took_s,
        }
    return found


def costs(rig: Rig, section: Section, rounds: int, seconds: float) -> None:
    """Both consumers, so often."""
    meter = Meter(rig)
    found: dict[str, list[dict[str, float]]] = {OURS: [], THEIRS: []}
    with rig.coordinators(), running_apps(rig.folder / "idle") as apps:
        meter.rest()
        for _ in range(rounds):
            for side, figures in idle(rig, apps, seconds).items():
                found[side].append(figures)
                rig.say(
                    f"  idle, {side}: "
                    + ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
                )
    ours, theirs = (
        {name: [one[name] for one in found[side]] for name in ("percent", "broker", "zookeeper")}
        for side in (OURS, THEIRS)
    )
    section.rows.append(
        Row(
            "an idle consumer",
            f"processor time in {seconds:g} s",
            ours["percent"],
            (Bar("max", BAR_PERCENT),),
            "% of a core",
            peer=theirs["percent"],
        )
    )
    section.rows.append(
        Row(
            "requests to brokers",
            "counted by the client",
            ours["broker"],
            unit="1/s",
            peer=theirs["broker"],
        )
    )
    section.rows.append(
        Row(
            "requests to ZooKeeper",
            "counted by the server",
            [max(0.0, value - meter.per_s) for value in ours["zookeeper"]],
            unit="1/s",
            note=f"without it: {meter.per_s:.1f}/s",
        )
    )


def run(rig: Rig, sections: list[Section], rounds: int, seconds: float = IDLE_S) -> None:
    """The sections."""
    section = Section("idle", f"An idle consumer of {PARTITIONS} partitions, shipped defaults")
    sections.append(section)
    section.attempt("idle", lambda: costs(rig, section, max(1, rounds // 5), seconds))
    joins.run(
        rig, sections, rounds, rounds >= ROUNDS_WITH_PEER, (PARTITIONS,), (0, joins.LOAD_PER_S)
    )
