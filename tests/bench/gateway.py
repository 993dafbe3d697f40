"""Unmodified clients through the gateway beside the same clients directly on the same broker.

    python -m tests.bench.gateway [--quick] [--only NAME ...] [--rounds N]

One broker, one coordinator, one gateway; each kind of client in processes of its own, session
timeout 10 s, heartbeat interval 3 s, a topic of 24 partitions. Of each kind and assignor, in
alternation through the gateway and directly: a fourth member joins three, leaves, joins, is killed
with SIGKILL; and four begin at once. A change is over when the assignment callbacks of all say that
every partition is owned once and evenly. Changes come a heartbeat interval apart: a client that has
just been told its assignment can be told nothing before its next heartbeat. Writes
build/reports/bench-gateway.json; the exit status is 0 when every bar is reached.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.bench.figures import Bar, Row, Section
from tests.bench.gateway_clients import (
    KINDS,
    Client,
    command_of,
    options_of,
    running,
    shares,
    when,
)
from tests.bench.running import Part, conclude, measure_all, measured_in_a_folder, report_named, say
from tests.gateway.clients import GatewayProcess
from tests.harness.kafka import create_topic, unique
from tests.kafka.groups import coordinator
from zkcoord.stack.java import Java, find_java
from zkcoord.stack.stack import running_stack

PARTITIONS = 24
ROUNDS, QUICK_ROUNDS = 5, 2
QUIET_S = 3.5
JOIN_MS, JOIN_TIMES = 100.0, 10.0
LEAVE_MS, LEAVE_MAX_MS = 150.0, 500.0
KILL_MS = 1_300.0
FORM_MS = 1_000.0
DIRECT, THROUGH = "direct", "gateway"
ASSIGNORS = ("range", "cooperative")


@dataclass(frozen=True)
class Place:
    """Where everything runs."""

    folder: Path
    java: Java
    broker: str
    gateway: GatewayProcess

    def bootstrap(self, side: str) -> str:
        """Where a client of a side begins."""
        return self.broker if side == DIRECT else self.gateway.address


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
    when(lambda _: client.said("ready") is not None, time.monotonic(), f"{name} is ready")
    return client


def measure(place: Place, kind: str, strategy: str, side: str, rounds: int) -> Times:
    """One group of one kind: the times in ms."""
    topic, group = unique("bench"), unique("bench")
    create_topic(place.broker, topic, PARTITIONS)
    times: Times = {"form": [], "join": [], "leave": [], "kill": []}
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
    return times


def part_of(place: Place, kind: str, rounds: int) -> Part:
    """One kind of client: a section with a row for each figure, each with its peer."""

    def run(sections: list[Section]) -> None:
        for strategy in ASSIGNORS if kind != "kafka-python" else ("default",):
            section = Section(kind, f"{kind}, {strategy}")
            sections.append(section)
            found: dict[str, Times] = {}
            for side in (THROUGH, DIRECT):
                section.attempt(
                    side,
                    lambda s=side: found.update({s: measure(place, kind, strategy, s, rounds)}),
                )
            through, direct = found.get(THROUGH, {}), found.get(DIRECT, {})
            bars = {
                "form": (Bar("max", FORM_MS),),
                "join": (Bar("median", JOIN_MS),),
                "leave": (Bar("median", LEAVE_MS), Bar("max", LEAVE_MAX_MS)),
                "kill": (Bar("max", KILL_MS),),
            }
            for what, reached in bars.items():
                if through.get(what):
                    section.rows.append(Row(what, THROUGH, through[what], reached))
                if direct.get(what):
                    section.rows.append(Row(what, DIRECT, direct[what]))

    return run


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.gateway",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds")
    parser.add_argument("--rounds", type=int, help=f"joins of each (default: {ROUNDS})")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    args = parser.parse_args(arguments)
    rounds = args.rounds or (QUICK_ROUNDS if args.quick else ROUNDS)

    def measured(folder: Path) -> int:
        java = find_java()
        with running_stack(folder / "stack", progress=say) as stack:
            status = stack.status()
            assert status.zookeeper is not None and status.kafka is not None
            zookeeper, broker = status.zookeeper.address, status.kafka.address
            with (
                coordinator(zookeeper),
                GatewayProcess(folder / "gateway", zookeeper, broker) as gateway,
            ):
                place = Place(folder, java, broker, gateway)
                parts = {kind: part_of(place, kind, rounds) for kind in KINDS}
                sections = measure_all(parts, args.only)
        report = report_named("bench-gateway", args.only, KINDS)
        return conclude(sections, {"rounds": rounds}, str(java.executable), report, "gateway")

    return measured_in_a_folder(measured)


if __name__ == "__main__":
    sys.exit(main())
