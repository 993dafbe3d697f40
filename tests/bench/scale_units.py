"""Unit costs: what a group, a member and an owned partition cost, and whether that says what a
size costs that was not used to find them.

Worlds of several sizes are written into one server, each below a root of its own. Of each is asked
what the server holds for it, and coordinators take it over, round after round, one that has just
started and one that stood by. Of the figures of a size the smallest counts: what disturbs a run
only adds to it. Unit costs (`scale_model`) are fitted to some of the sizes, and compared with the
others.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from tests.bench.figures import Bar, Row, Section
from tests.bench.scale_model import SECTION, SHARES, Costs, Size, fitted, off_percent
from tests.bench.scale_rig import SESSION_MS, CoordinatorProcess, Rig
from tests.bench.scale_server import connections_gone, held, small_transactions
from tests.bench.scale_takeover import TOPICS
from tests.bench.scale_wire import Hub
from tests.bench.scale_world import spread_evenly

FITTED = (Size(1_000, 3, 10), Size(4_000, 3, 10), Size(1_000, 9, 10), Size(1_000, 3, 40))
CHECKED = (Size(10_000, 3, 10), Size(2_000, 10, 30))
QUICK_FITTED = (Size(100, 3, 10), Size(200, 3, 10), Size(100, 9, 10), Size(100, 3, 40))
QUICK_CHECKED = (Size(300, 3, 10), Size(150, 10, 30))
WARM_UP = Size(200, 3, 3)
"""Comes first, and counts for nothing: what a server makes once, it has made."""
ROUNDS = 3
WITHIN_PERCENT = 20.0
AT_ONCE = 1_000
FRESH, STOOD_BY = "takeover by one that has just started", "takeover by one that stood by"
UNITS = {
    f"{FRESH}: time": "us",
    f"{FRESH}: processor time": "us",
    f"{FRESH}: received": "bytes",
    f"{FRESH}: requests": "of 1,000",
    f"{FRESH}: peak memory": "bytes",
    f"{STOOD_BY}: time": "us",
    f"{STOOD_BY}: processor time": "us",
    f"{STOOD_BY}: received": "bytes",
    f"{STOOD_BY}: peak memory": "bytes",
    "server: nodes": "nodes",
    "server: data, approximately": "bytes",
    "server: heap that is alive": "bytes",
    "server: watches of a coordinator": "of 1,000",
}
"""Quantity -> its unit. Units are small, so that a unit cost has digits."""


@dataclass(frozen=True)
class UnitsPlan:
    """Sizes that unit costs are fitted to, sizes that they are compared with, rounds."""

    fitted: tuple[Size, ...] = FITTED
    checked: tuple[Size, ...] = CHECKED
    rounds: int = ROUNDS


@dataclass
class SizedWorld:
    """Groups of one size below a root of their own. `figures`: quantity -> its values."""

    size: Size
    hub: Hub
    figures: dict[str, list[float]] = field(default_factory=dict)

    def add(self, what: str, value: float) -> None:
        """One value of a quantity."""
        self.figures.setdefault(what, []).append(value)


def written(rig: Rig, size: Size, stack: ExitStack, others: int) -> SizedWorld:
    """All of it, at rest, with what the server holds for it beside so many others."""
    before = held(rig)
    hub, seeder = stack.enter_context(rig.hub(SESSION_MS))
    world = SizedWorld(size, hub)
    topics = [f"topic-{number}" for number in range(TOPICS)]
    for topic in topics:
        seeder.topic(topic, size.partitions)
    for begin in range(0, size.groups, AT_ONCE):
        numbers = range(begin, min(begin + AT_ONCE, size.groups))
        seeder.groups(
            [
                spread_evenly(
                    f"group-{number:05d}", size.members, topics[number % TOPICS], size.partitions
                )
                for number in numbers
            ]
        )
        rig.say(f"  units: {size}: {numbers.stop:,} groups written")
    small_transactions(seeder)
    connections_gone(rig, others + 2)
    found = held(rig).since(before)
    world.add("server: nodes", found.nodes)
    world.add("server: data, approximately", found.data)
    if found.heap is not None:
        world.add("server: heap that is alive", found.heap)
    return world


def take_over(rig: Rig, world: SizedWorld) -> None:
    """Once by one that has just started, and by one that stood by it."""
    hub, groups = world.hub, world.size.groups
    watches, packets = held(rig, heap=False).watches, rig.received()
    with rig.coordinator(hub, "--counts") as first:
        world.add(f"{FRESH}: requests", 1_000 * (rig.received() - packets - 1))
        watches = held(rig, heap=False).watches - watches
        world.add("server: watches of a coordinator", 1_000 * watches)
        note(world, FRESH, first, "connected")
        with rig.coordinator(hub, "--counts", "--stands-by", str(groups), until="ahead") as second:
            first.stop()
            rig.wait(hub, second, "ready")
            note(world, STOOD_BY, second, "elected")
            second.stop()


def note(world: SizedWorld, who: str, process: CoordinatorProcess, since: str) -> None:
    """What it took until it was ready, from when it said `since`."""
    begun, ready = process.said[since], process.said["ready"]
    assert ready["groups"] == world.size.groups, ready
    world.add(f"{who}: time", (ready["t"] - begun["t"]) / 1e3)
    world.add(f"{who}: processor time", (ready["cpu_s"] - begun["cpu_s"]) * 1e6)
    world.add(f"{who}: received", ready["received"] - begun.get("received", 0))
    world.add(f"{who}: peak memory", ready["rss_mib"] * 2**20)


def unit_costs(worlds: Sequence[SizedWorld]) -> dict[str, Costs]:
    """Quantity -> unit costs, from worlds that have values of it."""
    return {
        what: fitted({world.size: min(world.figures[what]) for world in worlds})
        for what in UNITS
        if all(min(world.figures.get(what, [0.0])) > 0 for world in worlds)
    }


def tell(
    section: Section, costs: dict[str, Costs], checks: Section, worlds: Sequence[SizedWorld]
) -> None:
    """Unit costs, and how far the model is from it."""
    for what, found in costs.items():
        for share, cost in zip(SHARES, found):
            section.rows.append(Row(what, f"per {share}", [cost], (), UNITS[what]))
    for world in worlds:
        for what, found in costs.items():
            least = min(world.figures[what])
            checks.rows.append(
                Row(
                    what,
                    f"{world.size}: model by measured",
                    [off_percent(found.at(world.size), least)],
                    (Bar("max", WITHIN_PERCENT),),
                    "% off",
                    note=f"model {found.at(world.size):,.0f}, measured {least:,.0f} {UNITS[what]}",
                )
            )


def run(rig: Rig, sections: list[Section], plan: UnitsPlan) -> None:
    """Both sections."""
    names = [", ".join(map(str, sizes)) for sizes in (plan.fitted, plan.checked)]
    section = Section(SECTION, f"Unit costs, fitted to groups x members x partitions: {names[0]}")
    checks = Section("units-model", f"The model against sizes it was not fitted to: {names[1]}")
    measured = Section("units-measured", "What the unit costs were fitted to and compared with")
    sections += [section, checks, measured]
    with ExitStack() as stack:
        sizes = (*plan.fitted, *plan.checked)
        written(rig, WARM_UP, stack, 0)
        worlds = [written(rig, size, stack, number) for number, size in enumerate(sizes, 1)]
        for number in range(plan.rounds):
            for world in worlds:
                take_over(rig, world)
                took_us = world.figures[f"{FRESH}: time"][-1]
                rig.say(
                    f"  units, round {number + 1} of {plan.rounds}: {world.size} in"
                    f" {took_us / 1e3:.0f} ms"
                )
    base = worlds[: len(plan.fitted)]
    tell(section, unit_costs(base), checks, worlds[len(plan.fitted) :])
    for world in worlds:
        for what, values in world.figures.items():
            measured.rows.append(Row(what, str(world.size), values, (), UNITS[what]))
    section.notes.append(
        "the smallest value of each size counts; a member is a session that holds its nodes,"
        " without a connection"
    )
