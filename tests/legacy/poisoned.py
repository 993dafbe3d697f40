"""What each registration of `poison` does, measured: to real old consumers of every release, to
three members of ours beside it, and what `zkcoord check` says of it. A part of `make
legacy-matrix`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from tests.bench.figures import Bar, Row, Section
from tests.harness.kafka import create_topic, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import consumer, coordinator, settled
from tests.legacy.consumers import LegacyProcess
from tests.legacy.jars import RELEASES, V1_1
from tests.legacy.looking import owners, registered
from tests.legacy.poison import (
    ALL,
    BATTERY,
    HARMLESS,
    POISON,
    SCALA_JSON,
    SINCE_010,
    Registration,
)
from tests.legacy.revival import share
from zkcoord.check.rules import JACKSON as SINCE_10
from zkcoord.check.rules import SCALA_JSON as BEFORE_10
from zkcoord.check.rules import WHOLE_GROUP
from zkcoord.check.severity import ALL as EVERY
from zkcoord.check.severity import Severity
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.paths import Layout

WAIT_S = 120.0
PARTITIONS, MEMBERS = 6, 3
BACKOFF_MS = 200
VICTIMS = {
    "": frozenset[str](),
    EVERY: frozenset(ALL),
    BEFORE_10: frozenset(SCALA_JSON),
    SINCE_10: frozenset({V1_1}),
    WHOLE_GROUP: frozenset(SINCE_010),
}
WHOLE = (Bar("min", 100, at_least=True),)


def add(client: KazooClient, group: str, registration: Registration) -> str:
    """Its node, which lasts as long as the client's session; the path."""
    return str(
        client.create(f"/consumers/{group}/ids/{group}_poison", registration.data, ephemeral=True)
    )


def newest_owners(client: KazooClient, group: str, topic: str) -> list[int]:
    """The transactions that made the topic's owner nodes."""
    parent = f"/consumers/{group}/owners/{topic}"
    stats = [client.exists(f"{parent}/{number}") for number in range(PARTITIONS)]
    return [stat.czxid for stat in stats if stat is not None]


def killed_by(
    registration: Registration, process: LegacyProcess, client: KazooClient, topic: str
) -> bool:
    """Add it to a group of one old consumer that owns everything: either that gives up (True), or
    all its owner nodes are made anew.
    """
    member = process.consumer(
        unique("group"), {topic: 1}, name="A", rebalance_backoff_ms=BACKOFF_MS
    )
    path = add(client, member.group, registration)
    added = client.exists(path).czxid

    def made_anew() -> bool:
        made = newest_owners(client, member.group, topic)
        return len(made) == PARTITIONS and min(made) > added

    wait_until(
        lambda: member.gave_up() or made_anew(),
        WAIT_S,
        f"what {process.version} does beside {registration.name}",
    )
    found = bool(member.gave_up())
    client.delete(path)
    member.ask_to_close()
    return found


def said_by_check(hosts: str, group: str) -> list[dict[str, Any]]:
    """The findings of `zkcoord check` in this group."""
    command = [
        sys.executable,
        "-m",
        "zkcoord.cli.main",
        "check",
        "--zookeeper",
        hosts,
        "--only",
        group,
        "--json",
        "--fail-on",
        "never",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert ended.returncode == 0, ended.stderr
    return list(json.loads(ended.stdout)["findings"])


def victims(findings: Iterable[dict[str, Any]], path: str) -> frozenset[str]:
    """The releases of ours that these findings call victims of the node."""
    return frozenset().union(
        *(
            VICTIMS[each["versions"]]
            for each in findings
            if each["node"] == path and each["severity"] == Severity.ERROR.value
        )
    )


def owned_by_ours(
    broker: KafkaBroker,
    client: KazooClient,
    registrations: Iterable[Registration],
    section: Section,
) -> dict[str, tuple[frozenset[str], str]]:
    """A group of three beside each, one more joins and leaves: a row each. Returns what `zkcoord
    check` says at that moment: victims, and codes.
    """
    topic, group = create_topic(broker.address, unique("poison"), PARTITIONS), unique("group")
    share(client, group)
    said: dict[str, tuple[frozenset[str], str]] = {}

    def beside(registration: Registration, members: list[Any]) -> None:
        path = add(client, group, registration)
        try:
            with consumer(broker.zookeeper, group, topic, zookeeper_layout="isolated") as another:
                settled([*members, another], topic, PARTITIONS, timeout_s=WAIT_S)
            settled(members, topic, PARTITIONS, timeout_s=WAIT_S)
            found = said_by_check(broker.zookeeper, group)
            said[registration.name] = (
                victims(found, path),
                ", ".join(sorted({each["code"] for each in found if each["node"] == path})),
            )
        finally:
            here = registered(client, group).keys() - {f"{group}_poison"}
            owned = [
                tp
                for tp, thread in owners(client, group).items()
                if thread.rpartition("-")[0] in here
            ]
            section.rows.append(
                Row(
                    f"beside {registration.name}",
                    f"owned by {len(members)} of ours",
                    [100.0 * len(owned) / PARTITIONS],
                    WHOLE,
                    unit="%",
                )
            )
            client.delete(path)

    with coordinator(broker.zookeeper, layout=Layout.ISOLATED), ExitStack() as running:
        members = [
            running.enter_context(
                consumer(broker.zookeeper, group, topic, zookeeper_layout="isolated")
            )
            for _ in range(MEMBERS)
        ]
        settled(members, topic, PARTITIONS, timeout_s=WAIT_S)
        for registration in registrations:
            section.attempt(
                registration.name, lambda registration=registration: beside(registration, members)
            )
    return said


def play_poison(
    folder: Path, broker: KafkaBroker, client: KazooClient, into: list[Section]
) -> None:
    """The section of the report: who owns what beside each, and whether `zkcoord check` calls those
    its victims that it kills.
    """
    section = Section(
        "poison",
        f"Registrations that kill old consumers: {MEMBERS} members of ours beside each, what"
        " zkcoord check says, and who gave up",
    )
    into.append(section)
    said = owned_by_ours(broker, client, POISON, section)
    topic = create_topic(broker.address, unique("poison"), PARTITIONS)
    real: dict[str, set[str]] = {
        registration.name: set() for registration in (*POISON, *HARMLESS, *BATTERY)
    }
    for version in RELEASES:
        with LegacyProcess(
            folder / f"poison-{version}", version, broker.zookeeper, broker.program.java
        ) as process:
            for registration in (*POISON, *HARMLESS, *BATTERY):
                if killed_by(registration, process, client, topic):
                    real[registration.name].add(version)
    for registration in POISON:
        named, codes = said.get(registration.name, (frozenset(), "nothing"))
        agreeing = sum(
            (version in named) == (version in real[registration.name]) for version in RELEASES
        )
        gave_up = [version for version in RELEASES if version in real[registration.name]]
        note = f"{codes}; gave up: {', '.join(gave_up) or 'none'}"
        section.rows.append(
            Row(
                f"beside {registration.name}",
                "releases of which check is right",
                [100.0 * agreeing / len(RELEASES)],
                WHOLE,
                unit="%",
                note=note,
            )
        )
    spoilt = [
        name
        for name, found in real.items()
        if found and name in {registration.name for registration in HARMLESS}
    ]
    section.rows.append(
        Row(
            "harmless ones",
            "releases that gave up beside them",
            [float(len(spoilt))],
            (Bar("max", 0),),
            unit="",
            note=", ".join(spoilt),
        )
    )
