"""How long a group stands still that changes between the coordinator and a leader among its clients
while they run, and, beside it, one that is stopped for that and started again.

    python -m tests.gateway.changing_times [--rounds N]

Four clients of a kind before two gateways share six partitions. Measured is from when the first of
them has to stop until all partitions are somebody's again. For the other figure four more clients
have been started and are connected: they join as soon as the last of the first four has left, so it
says what stopping costs at the least. The exit status is 0 where nobody was told that it has lost
something.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

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
from tests.gateway.clients import PATIENCE_S, V3, GatewayProcess
from tests.gateway.led_stages import everything
from tests.harness.command import Running
from tests.harness.kafka import create_topic, unique
from tests.harness.wait import wait_until
from zkcoord.admin.group_machine import set_machine
from zkcoord.stack.java import find_java
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import OPEN_ACL
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.led_groups import describe_any_group
from zkcoord.znodes.classic.pin import Machine, Pin
from zkcoord.znodes.paths import Layout

PARTITIONS, MEMBERS = 6, 4
KINDS = (
    ("librdkafka", COOPERATIVE),
    ("librdkafka", RANGE),
    (f"java {V3}", COOPERATIVE),
    (f"java {V3}", RANGE),
)
CHANGES = (Machine.CLIENT_LED, Machine.COORDINATED)


class Group:
    """A group of clients of one kind."""

    def __init__(
        self, hosts: str, start: Callable[[str, str], Client], clients: list[Client]
    ) -> None:
        self.name = unique("g")
        self.hosts = hosts
        self._start = start
        self._clients = clients
        self.now = self.started()
        for client in self.now:
            client.say("join")
        when(shares(self.now, PARTITIONS), 0.0, "all to share")

    def started(self) -> list[Client]:
        """As many clients that are connected and have not joined."""
        found = [self._start(self.name, unique("client")) for _ in range(MEMBERS)]
        self._clients.extend(found)
        for client in found:
            wait_until(client.is_ready, PATIENCE_S, f"{client.name} to be ready")
        return found

    def says(self, machine: Machine) -> None:
        """An operator's word."""
        with SyncClient(ZkOptions(self.hosts)) as client:
            set_machine(client, Layout.DRAFT, self.name, Pin(machine, "me"), lambda path: OPEN_ACL)

    def is_run_by(self, machine: Machine) -> None:
        """Wait for it."""
        with SyncClient(ZkOptions(self.hosts)) as client:

            def done() -> bool:
                found = describe_any_group(client, Layout.DRAFT, self.name)
                led = bool(found.led is not None and found.led.members)
                return led is (machine is Machine.CLIENT_LED) and led is not bool(found.members)

            wait_until(done, PATIENCE_S, f"{machine.value}")

    def changes(self, machine: Machine) -> float:
        """While it runs; seconds."""
        since = time.monotonic()
        self.says(machine)
        self.is_run_by(machine)
        when(shares(self.now, PARTITIONS), since, "all to share")
        events = [e for client in self.now for e in client.events if e.at >= since and e.numbers]
        stops = min(e.at for e in events if e.kind == "revoked")
        return max(e.at for e in events if e.kind == "assigned") - stops

    def is_restarted(self, machine: Machine) -> float:
        """Everybody stops, and others begin; seconds."""
        new, old = self.started(), self.now
        since = time.monotonic()
        self.says(machine)
        for client in old:
            client.say("close")
        for client in old:
            wait_until(lambda one=client: one.process.poll() is not None, PATIENCE_S, "an end")
        for client in new:
            client.say("join")
        self.now = new
        return when(shares(new, PARTITIONS), since, "all to share") - since


def measure(rounds: int, folder: Path) -> bool:
    """Says the figures; whether nobody has lost anything."""
    java = find_java()
    lost = 0
    with ExitStack() as stack:
        broker, hosts = stack.enter_context(everything(folder))
        stack.enter_context(Running(folder / "coordinator", "--zookeeper", hosts)).ready("leading")
        gateways = [
            stack.enter_context(GatewayProcess(folder / f"gateway-{n}", hosts, broker.address))
            for n in range(2)
        ]
        topic = unique("topic")
        create_topic(broker.address, topic, PARTITIONS)
        print("| clients | how | changes | median | max |\n|---|---|---|---|---|")
        for kind, strategy in KINDS:
            with running() as clients:

                def start(group: str, name: str, kind: str = kind, how: str = strategy) -> Client:
                    gateway = gateways[len(clients) % 2]
                    options = options_of(kind, how, gateway.address, group)
                    return Client(name, command_of(kind, java, topic, options), folder)

                group = Group(hosts, start, clients)
                said = f"{kind}, {strategy}"
                _say(said, "while it runs", [group.changes(m) for m in CHANGES * rounds])
                lost += sum(e.kind == "lost" for one in clients for e in list(one.events))
                _say(said, "stopped and started", [group.is_restarted(m) for m in CHANGES * rounds])
    print(f"told that they have lost something: {lost}")
    return not lost


def _say(kind: str, how: str, took: Sequence[float]) -> None:
    median, worst = statistics.median(took), max(took)
    print(f"| {kind} | {how} | {len(took)} | {median * 1000:,.0f} ms | {worst * 1000:,.0f} ms |")
    sys.stdout.flush()


def main() -> int:
    """0: nobody has lost anything."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--rounds", type=int, default=5, help="changes to and fro (default: 5)")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="zkcoord-changing-") as folder:
        return 0 if measure(rounds, Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
