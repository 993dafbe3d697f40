"""The servers that all systems share: ZooKeeper with Kafka 3.9, and Kafka 4 beside it. All run all
the time, so that the machine is the same for everybody.

Of each Kafka there are two brokers: number 1 has the records of all topics, number 2 is the group
coordinator of the groups that are named here, so that a coordinator can be killed without any
partition losing its leader. Offsets and groups are on both. What a broker's failure costs is left
at what brokers ship: a ZooKeeper session of 18 s, and 9 s in Kafka 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.harness.kafka import CHROOT, admin, await_partitions
from tests.harness.wait import wait_until
from zkcoord.stack.java import Java
from zkcoord.stack.ports import free_ports
from zkcoord.stack.servers import OFFSETS_TOPIC_PARTITIONS, KafkaBroker, ZooKeeperServer
from zkcoord.stack.servers.kraft import KRaftNode

OFFSETS = "__consumer_offsets"
DATA, COORDINATOR = 1, 2
COME_BACK_S = 120.0
ADMIN_TIMEOUT_S = 30.0
HEARTBEAT_MS_MIN = 100
SESSION_MS_MIN = 6_000
CONFIG = {
    "offsets.topic.replication.factor": "2",
    "leader.imbalance.check.interval.seconds": "5",
    "log.retention.ms": "-1",
}
SHIPPED = {"zookeeper.session.timeout.ms": "18000"}
PERMITTED = {
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS_MIN),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS_MIN),
}
"""What a group of Kafka 4 may ask for; what it gets unless it asks stays as it ships."""


@dataclass
class Cluster:
    """Two brokers; the one that can be killed, how to start it again."""

    name: str
    data: KafkaBroker | KRaftNode
    coordinator: KafkaBroker | KRaftNode

    @property
    def bootstrap(self) -> str:
        """Both, for clients."""
        return f"{self.data.address},{self.coordinator.address}"

    def topic(self, name: str, partitions: int) -> str:
        """A new topic whose records are all with the broker that stays."""
        with admin(self.data.address) as client:
            client.create_topics(
                {name: {"assignments": {number: [DATA] for number in range(partitions)}}}
            )
        await_partitions(self.data.address, name, partitions)
        return name

    def start(self, say: Callable[[str], None]) -> None:
        """Both brokers, and the topic of offsets, half of it led by each. The first one begins, so
        that it is controller.
        """
        self.data.start(say)
        self.coordinator.start(say)
        assignments = {
            number: [DATA, COORDINATOR] if number % 2 else [COORDINATOR, DATA]
            for number in range(OFFSETS_TOPIC_PARTITIONS)
        }
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "104857600",
        }
        with admin(self.data.address) as client:
            client.create_topics({OFFSETS: {"assignments": assignments, "configs": configs}})
        await_partitions(self.data.address, OFFSETS, OFFSETS_TOPIC_PARTITIONS)

    def stop(self) -> None:
        """Their records are of no interest any more."""
        for broker in (self.coordinator, self.data):
            if broker.alive():
                broker.kill()

    def group(self, names: Callable[[], str]) -> str:
        """The first of these names whose coordinator is the broker that can be killed."""
        while True:
            name = names()
            if partition_of(name) % 2 == 0:
                return name

    def come_back(self) -> None:
        """Start the killed broker, and wait until it coordinates again."""
        self.coordinator.start()

        def leads() -> bool:
            with admin(self.data.address) as client:
                of = {
                    found["partition_index"]: found
                    for found in client.describe_topics([OFFSETS])[0]["partitions"]
                }
            return all(
                len(found["isr_nodes"]) == 2
                and found["leader_id"] == (DATA if number % 2 else COORDINATOR)
                for number, found in of.items()
            )

        wait_until(leads, COME_BACK_S, f"the coordinator of {self.name} back at its place")


@dataclass
class Ground:
    """Addresses of everything. `classic` has a ZooKeeper, `modern` has none."""

    zookeeper: ZooKeeperServer
    hosts: str
    classic: Cluster
    modern: Cluster


def partition_of(group: str) -> int:
    """The partition of the offsets' topic in which Kafka keeps a group: Java's hash of its name
    (ASCII).
    """
    found = 0
    for letter in group:
        found = (31 * found + ord(letter)) & 0xFFFFFFFF
    signed = found - (found >> 31 << 32)
    return abs(signed) % OFFSETS_TOPIC_PARTITIONS


def ask(bootstrap: str, group: str, wanted: Mapping[str, int]) -> None:
    """Give a group of Kafka 4 its own `consumer.*` settings."""
    entries = [
        ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)
        for name, value in wanted.items()
    ]
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
    # without a name it would be gone, and its question with it, before the answer
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in client.incremental_alter_configs([resource]).values():
        future.result(ADMIN_TIMEOUT_S)


@contextmanager
def ground(
    folder: Path, java: Java, say: Callable[[str], None], modern: bool = True
) -> Iterator[Ground]:
    """All servers inside the block; without Kafka 4 where nobody needs it (its cluster then has no
    brokers that run).
    """
    ports = free_ports(6)
    with ExitStack() as stack:
        zookeeper = ZooKeeperServer(folder / "zookeeper", ports[5], java, owned=True)
        stack.callback(zookeeper.stop)
        say(
            "Starting ZooKeeper, two brokers of Kafka"
            f" 3.9{' and two of Kafka 4' if modern else ''} ..."
        )
        zookeeper.start()
        hosts = zookeeper.address + CHROOT
        old = [
            KafkaBroker(
                folder / f"kafka-3-{number}",
                ports[number - 1],
                hosts,
                java,
                True,
                number,
                {**CONFIG, **SHIPPED},
            )
            for number in (DATA, COORDINATOR)
        ]
        new = [
            KRaftNode(
                folder / f"kafka-4-{number}",
                ports[number + 1],
                java,
                number,
                ports[4],
                {**CONFIG, **PERMITTED},
            )
            for number in (DATA, COORDINATOR)
        ]
        found = Ground(zookeeper, hosts, Cluster("Kafka 3.9", *old), Cluster("Kafka 4", *new))
        clusters = [found.classic, *([found.modern] if modern else [])]
        stack.callback(lambda: [cluster.stop() for cluster in clusters])
        with ThreadPoolExecutor() as pool:
            for begun in [pool.submit(cluster.start, say) for cluster in clusters]:
                begun.result()
        yield found
