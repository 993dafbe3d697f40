"""Unmodified clients through the gateway beside the same clients directly on the same broker: how
long a group needs for a change.

Each kind of client in processes of its own, session timeout 10 s, heartbeat interval 3 s, a topic
of 24 partitions. Of each kind and assignor, in alternation through the gateway and directly: a
fourth member joins three, leaves, joins, is killed with SIGKILL; and four begin at once. A change
is over when the assignment callbacks of all say that every partition is owned once and evenly.
Changes come a heartbeat interval apart: a client that has just been told its assignment can be told
nothing before its next heartbeat.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from functools import partial
from statistics import median

from tests.bench.figures import Bar, Row, Section
from tests.bench.gateway_clients import (
    OWN,
    Client,
    command_of,
    options_of,
    running,
    shares,
    strategies,
    when,
)
from tests.bench.gateway_place import DIRECT, SIDES, THROUGH, Place
from tests.bench.running import Part, say
from tests.gateway.foreign import ToolchainMissingError
from tests.harness.kafka import create_topic, unique

PARTITIONS = 24
ROUNDS, QUICK_ROUNDS = 5, 2
QUIET_S = 3.5
JOIN_MS = 100.0
LEAVE_MS, LEAVE_MAX_MS = 150.0, 500.0
KILL_MS = 1_300.0
FORM_MS = 1_000.0
LED_PART = 0.5
BARS = {
    "form": (Bar("max", FORM_MS),),
    "join": (Bar("median", JOIN_MS),),
    "leave": (Bar("median", LEAVE_MS), Bar("max", LEAVE_MAX_MS)),
    "kill": (Bar("max", KILL_MS),),
}
NOT_MEASURED = "not measured"

Times = dict[str, list[float]]


def started(
    place: Place,
    kind: str,
    strategy: str,
    side: str,
    group: str,
    topic: str,
    clients: list[Client],
    name: str,
) -> Client:
    """A client that is warm and has not joined."""
    options = options_of(kind, strategy, place.bootstrap(side), group)
    client = Client(name, command_of(kind, place.java, topic, options), place.folder)
    clients.append(client)
    when(lambda _: client.is_ready(), time.monotonic(), f"{name} is ready")
    return client


def measure(place: Place, kind: str, strategy: str, side: str, rounds: int, times: Times) -> None:
    """One group of one kind: adds to the times, in ms."""
    topic, group = unique("bench"), unique("bench")
    create_topic(place.broker, topic, PARTITIONS)
    label = f"{kind.replace(' ', '-')}-{strategy}-{side}"
    with running() as clients:
        begin = partial(started, place, kind, strategy, side, group, topic, clients)
        three = [begin(f"{label}-{n}") for n in range(4)]
        since = time.monotonic()
        for client in three:
            client.say("join")
        times["form"].append(1000 * (when(shares(three, PARTITIONS), since, "it forms") - since))
        time.sleep(QUIET_S)
        three.pop().say("close")
        when(shares(three, PARTITIONS), since, "three share")
        for n in range(rounds):
            joiner = begin(f"{label}-joiner-{n}")
            time.sleep(QUIET_S)
            since = joiner.say("join")
            four = [*three, joiner]
            times["join"].append(1000 * (when(shares(four, PARTITIONS), since, "a join") - since))
            time.sleep(QUIET_S)
            if n % 2:
                since, what = joiner.kill(), "kill"
            else:
                since, what = joiner.say("close"), "leave"
            left = when(shares(three, PARTITIONS), since, f"a {what}")
            times[what].append(1000 * (left - since))


def part_of(place: Place, kind: str, assignors: Collection[str], rounds: int) -> Part:
    """One kind of client: a section for each of its assignors (of those named, if any), with a row
    for each figure, through the gateway and directly.
    """

    def run(sections: list[Section]) -> None:
        for strategy in strategies(kind):
            if strategy in assignors or not assignors:
                section = Section(kind, f"{kind}, {strategy}")
                sections.append(section)
                fill(section, place, kind, strategy, rounds)

    return run


def fill(section: Section, place: Place, kind: str, strategy: str, rounds: int) -> None:
    """One assignor of one kind."""
    try:
        command_of(kind, place.java, "", {})
    except ToolchainMissingError as error:
        section.rows.append(Row(NOT_MEASURED, THROUGH, [], note=str(error)))
        return
    found: dict[str, Times] = {side: {what: [] for what in BARS} for side in SIDES}
    for side in SIDES:
        section.attempt(side, partial(measure, place, kind, strategy, side, rounds, found[side]))
        say(f"  {section.title}, {side}: {shown(found[side])}")
    for what, usual in BARS.items():
        bars = led_bars(what, found[DIRECT][what]) if strategy == OWN else usual
        if found[THROUGH][what]:
            section.rows.append(Row(what, THROUGH, found[THROUGH][what], bars))
        if found[DIRECT][what]:
            section.rows.append(Row(what, DIRECT, found[DIRECT][what]))


def led_bars(what: str, direct: list[float]) -> tuple[Bar, ...]:
    """Of a group that its clients lead: they do the same as directly, and need not wait for it."""
    halved = what in ("join", "leave") and direct
    return (Bar("median", LED_PART * median(direct)),) if halved else ()


def shown(times: Times) -> str:
    """For progress: the median of each."""
    return ", ".join(f"{what} {median(values):,.0f} ms" for what, values in times.items() if values)


def is_missing(section: Section) -> bool:
    """Whether a section only says which toolchain is missing."""
    return any(row.what == NOT_MEASURED for row in section.rows)
