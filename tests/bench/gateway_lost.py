"""A gateway that is killed (kill -9) while another one is there.

Four clients share 24 partitions under a steady load, through two gateways. One gateway is killed:
how many rebalance callbacks there are in any client, how many records are lost or given out twice,
and how soon each client's commit is accepted. Clients without a gateway have nothing to compare
this with: it is the death of a broker to them, and of the group's coordinator.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from tests.bench.figures import Bar, Row, Section
from tests.bench.gateway_changes import QUIET_S
from tests.bench.gateway_clients import (
    COOPERATIVE,
    RANGE,
    Client,
    command_of,
    options_of,
    running,
    shares,
    when,
)
from tests.bench.gateway_place import THROUGH, Place
from tests.bench.gateway_stuck import PARTITIONS, load
from tests.bench.running import say
from tests.gateway.clients import V3, GatewayProcess
from tests.harness.kafka import create_topic, unique

CLIENTS = 4
ROUNDS, QUICK_ROUNDS = 5, 1
KINDS, QUICK_KINDS = ("librdkafka", f"java {V3}"), ("librdkafka",)
CALLBACKS = ("assigned", "revoked", "lost")
AFTERWARDS_S = 15.0
COMMIT_EVERY_S = 0.5
COMMITS_MS = 3_000.0


@dataclass
class Found:
    """Of each round: callbacks, records lost and given out twice, and of each client the time until
    a commit was accepted, in ms.
    """

    callbacks: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)
    twice: list[float] = field(default_factory=list)
    commits: list[float] = field(default_factory=list)


def gaps(clients: Sequence[Client]) -> tuple[int, int]:
    """How many records between the first and the last of each partition nobody was given, and how
    many were given out more than once.
    """
    given = Counter(record for client in clients for record in client.took())
    offsets: dict[int, list[int]] = {}
    for partition, offset in given:
        offsets.setdefault(partition, []).append(offset)
    lost = sum(max(found) - min(found) + 1 - len(found) for found in offsets.values())
    return lost, sum(count - 1 for count in given.values())


def once(place: Place, kind: str, strategy: str, found: Found) -> None:
    """One group and one kill."""
    topic, group = create_topic(place.broker, unique("lost"), PARTITIONS), unique("lost")
    label = unique("lost")
    with (
        GatewayProcess(place.folder / label, place.zookeeper, place.broker) as gateway,
        running() as clients,
        load(place.broker, topic),
    ):
        for n in range(CLIENTS):
            options = options_of(kind, strategy, gateway.address, group)
            command = command_of(kind, place.java, topic, options)
            clients.append(Client(f"{label}-{n}", command, place.folder))
        since = time.monotonic()
        when(lambda _: all(client.is_ready() for client in clients), since, "they are ready")
        for client in clients:
            client.say("join")
        when(shares(clients, PARTITIONS), since, "four share")
        time.sleep(QUIET_S)
        killed = time.monotonic()
        gateway.process.kill()
        while time.monotonic() < killed + AFTERWARDS_S:
            for client in clients:
                client.say("commit")
            time.sleep(COMMIT_EVERY_S)
        when(
            lambda _: all(client.said("committed", killed) for client in clients),
            killed,
            "commits of all",
        )
        found.commits += [1000 * ((c.said("committed", killed) or 0.0) - killed) for c in clients]
        events = [event for client in clients for event in list(client.events)]
        found.callbacks.append(sum(e.kind in CALLBACKS and e.at > killed for e in events))
        lost, twice = gaps(clients)
        found.lost.append(lost)
        found.twice.append(twice)


def run(place: Place, sections: list[Section], quick: bool) -> None:
    """The section."""
    title = f"kill -9 of one of two gateways, {CLIENTS} clients"
    section = Section("lost", title)
    sections.append(section)
    for kind in QUICK_KINDS if quick else KINDS:
        for strategy in (RANGE, COOPERATIVE):
            found = Found()
            rounds = QUICK_ROUNDS if quick else ROUNDS
            for number in range(rounds):
                section.attempt(f"{kind}, {strategy}", partial(once, place, kind, strategy, found))
                slowest = f"{max(found.commits):,.0f} ms" if found.commits else "none"
                say(
                    f"  lost, {kind}, {strategy}: round {number + 1} of {rounds}: callbacks"
                    f" {sum(found.callbacks):.0f}, slowest commit {slowest}"
                )
            for what, values, bar in (
                ("rebalance callbacks, of all clients", found.callbacks, Bar("max", 0)),
                ("records lost", found.lost, Bar("max", 0)),
                ("records given out twice", found.twice, Bar("max", 0)),
                ("until a client's commit is accepted", found.commits, Bar("max", COMMITS_MS)),
            ):
                section.rows.append(Row(f"{what}, {kind}, {strategy}", THROUGH, values, (bar,)))
