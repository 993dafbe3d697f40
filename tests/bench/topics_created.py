"""How long a new topic takes from the broker's word that it is there to the member that has it, on
real brokers.

Three settings, one after the other: a broker of 3.9 on ZooKeeper, whose topics come from ZooKeeper;
the same broker, asked for them; and a broker of 4.3 that has no ZooKeeper underneath. In each a
coordinator as it ships and a member with a pattern, both processes of their own. Topics are created
at random moments, since the second setting and the third ask once a second.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka.admin import KafkaAdminClient

from tests.acceptance.test_rolling_restart import owned
from tests.bench.figures import Bar, Row, Section
from tests.bench.hostile import Coordinator
from tests.harness.kafka import new_broker
from tests.harness.wait import wait_until
from tests.harness.zookeeper import fresh_chroot
from tests.kafka.test_processes import Process, process
from zkcoord.stack.java import Java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import CONTROLLER, KRaftNode, ZooKeeperServer

WAIT_S = 60.0
PAUSE_MIN_S, PAUSE_MAX_S = 0.5, 2.0
PARTITIONS = 3
NS_PER_MS = 1e6
ZOOKEEPER_BAR = Bar("median", 200.0)
KAFKA_BAR = Bar("median", 1_200.0)
FAMILY = "family"


@dataclass(frozen=True)
class Ground:
    """Where a setting takes place: zkcoord's connect string, and a broker."""

    hosts: str
    broker: str


class CreatedPart:
    """See the module. `count`: so many topics in each setting."""

    def __init__(self, folder: Path, java: Java, count: int, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.java = java
        self.count = count
        self.say = say
        self.zookeeper = ZooKeeperServer(folder / "zookeeper", free_port(), java, owned=True)

    def run(self, sections: list[Section]) -> None:
        """Its section."""
        title = f"a topic of {PARTITIONS} partitions that a member has a pattern for, created"
        section = Section("created", title)
        sections.append(section)
        self.zookeeper.start()
        try:
            with self._on_zookeeper() as ground:
                self._setting(section, "3.9.2, topics from ZooKeeper", ground, "zookeeper")
                self._setting(section, "3.9.2, topics from the broker", ground, "kafka")
            with self._without() as ground:
                self._setting(section, "4.3.1, no ZooKeeper underneath", ground, "kafka")
        finally:
            self.zookeeper.kill()

    @contextmanager
    def _on_zookeeper(self) -> Iterator[Ground]:
        hosts = fresh_chroot(self.zookeeper.address, "created")
        broker = new_broker(self.folder / "broker", hosts, self.java)
        broker.start()
        try:
            yield Ground(hosts, broker.address)
        finally:
            broker.kill()

    @contextmanager
    def _without(self) -> Iterator[Ground]:
        hosts = fresh_chroot(self.zookeeper.address, "created")
        home = self.folder / "node"
        node = KRaftNode(home, free_port(), self.java, CONTROLLER, free_port())
        node.start()
        try:
            yield Ground(hosts, node.address)
        finally:
            node.kill()

    def _setting(self, section: Section, what: str, ground: Ground, source: str) -> None:
        bar = ZOOKEEPER_BAR if source == "zookeeper" else KAFKA_BAR
        row = Row(what, "acknowledged to assigned", [], (bar,))
        section.rows.append(row)
        self.say(f"  {what} ...")
        family = f"{FAMILY}-{len(section.rows)}"
        asked = ("--bootstrap-servers", ground.broker) if source == "kafka" else ()
        flags = ("--topic-source", source, *asked)
        coordinator = Coordinator(ground.hosts, self.folder / family, *flags)
        with ExitStack() as within:
            within.callback(coordinator.end)
            wait_until(lambda: "ready" in coordinator.terms(), WAIT_S, "a coordinator that leads")
            admin = KafkaAdminClient(bootstrap_servers=ground.broker)
            within.callback(admin.close)
            arguments = ("--zookeeper", ground.hosts, "--group", family)
            pattern = ("--pattern", f"{family}-.*", "--listener")
            member = within.enter_context(process(*arguments, *pattern))
            create(admin, member, f"{family}-first")
            spread = random.Random(0)
            for number in range(self.count):
                time.sleep(spread.uniform(PAUSE_MIN_S, PAUSE_MAX_S))
                row.values.append(create(admin, member, f"{family}-{number}"))


def create(admin: KafkaAdminClient, member: Process, topic: str) -> float:
    """From the broker's answer to the member's callback, in ms."""
    admin.create_topics({topic: {"num_partitions": PARTITIONS, "replication_factor": 1}})
    created_ns = time.time_ns()
    wanted = {f"{topic}-{number}" for number in range(PARTITIONS)}
    wait_until(lambda: wanted <= owned(member), WAIT_S, f"{topic} to be assigned")
    called = [one for one in member.of("called") if wanted & set(one["partitions"])]
    return (max(int(one["t"]) for one in called) - created_ns) / NS_PER_MS
