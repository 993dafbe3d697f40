"""A cluster of two brokers that goes from ZooKeeper to KRaft, one of Kafka's steps after the other
(https://kafka.apache.org/39/documentation.html#kraft_zk_migration).

| step | what |
|---|---|
| `begin` | brokers in ZooKeeper mode |
| `controller` | a KRaft controller that is to take ZooKeeper's data over |
| `dual` | brokers know of it: what is changed is written to both |
| `kraft 1`, `kraft 2` | a broker after the other without ZooKeeper |
| `finish` | the controller without ZooKeeper: there is no way back |
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from zkcoord.stack import jars
from zkcoord.stack.java import Java
from zkcoord.stack.ports import HOST, free_ports
from zkcoord.stack.process import owned_command
from zkcoord.stack.servers import (
    KAFKA_HEAP_MB,
    OFFSETS_TOPIC_PARTITIONS,
    START_TIMEOUT_S,
    JavaProcess,
    ZooKeeperServer,
    accepts,
    write_properties,
)
from zkcoord.znodes.kafka import CLUSTER_ID, decode_cluster_id

BROKERS = (1, 2)
CONTROLLER_ID = 3000
STEP_S = 180.0
SESSION_MS = 6_000
MIGRATES = {"zookeeper.metadata.migration.enable": "true"}

Say = Callable[[str], None]


class MigratingCluster:
    """See the module. `zookeeper` serves Kafka and zkcoord. Everything ends with `stop`."""

    def __init__(self, home: Path, java: Java) -> None:
        ports = free_ports(len(BROKERS) + 2)
        self._java = java
        self._ports = dict(zip(BROKERS, ports, strict=False))
        self._controller_port = ports[-2]
        self.zookeeper = ZooKeeperServer(home / "zookeeper", ports[-1], java, owned=True)
        self.brokers = {
            n: JavaProcess(f"broker {n}", home / f"broker-{n}", java, owned=True) for n in BROKERS
        }
        self.controller = JavaProcess("controller", home / "controller", java, owned=True)
        found = jars.resolve(jars.KAFKA, java, lambda _: None)
        self._class_path = os.pathsep.join([jars.logging_classpath(), *map(str, found)])

    @property
    def bootstrap(self) -> list[str]:
        """`host:port` of both brokers."""
        return [f"{HOST}:{port}" for port in self._ports.values()]

    def start(self) -> None:
        """Brokers in ZooKeeper mode."""
        self.zookeeper.start()
        for number in BROKERS:
            self._start(number, self._with_zookeeper(number))
        self.await_whole()

    def stop(self) -> None:
        """Everything, at once."""
        for server in (*self.brokers.values(), self.controller):
            if server.alive():
                server.kill()
        if self.zookeeper.alive():
            self.zookeeper.kill()

    def steps(self) -> list[tuple[str, Callable[[], None]]]:
        """Kafka's steps, in order."""
        return [
            ("controller", self._add_controller),
            ("dual", self._dual),
            *[(f"kraft {number}", self._kraft_of(number)) for number in BROKERS],
            ("finish", self._finish),
        ]

    def await_whole(self) -> None:
        """Until both brokers are there and have all that they keep."""
        wait_until(self._is_whole, STEP_S, "both brokers to be in sync")

    # the steps

    def _add_controller(self) -> None:
        client = connect(self.zookeeper.address)
        try:
            cluster = decode_cluster_id(client.get(CLUSTER_ID)[0])
        finally:
            disconnect(client)
        assert isinstance(cluster, str)
        config = self._write(
            self.controller, {**self._of_controller(), **self._theirs(), **MIGRATES}
        )
        self._format(cluster, config)
        self._launch(self.controller, config, self._controller_port)

    def _dual(self) -> None:
        for number in BROKERS:
            self._again(number, {**self._with_zookeeper(number), **self._controllers(), **MIGRATES})
        wait_until(
            lambda: "Completed migration of metadata from ZooKeeper to KRaft" in self._said(),
            STEP_S,
            "the controller to have taken over what ZooKeeper had",
        )

    def _kraft_of(self, number: int) -> Callable[[], None]:
        return lambda: self._again(
            number,
            {
                "process.roles": "broker",
                "node.id": number,
                **self._of_broker(number),
                **self._controllers(),
            },
        )

    def _finish(self) -> None:
        self.controller.stop()
        self._launch(
            self.controller,
            self._write(self.controller, self._of_controller()),
            self._controller_port,
        )
        self.await_whole()

    def _said(self) -> str:
        return self.controller.log.read_text(encoding="utf-8", errors="replace")

    # configurations

    def _theirs(self) -> dict[str, object]:
        return {
            "zookeeper.connect": self.zookeeper.address,
            "zookeeper.session.timeout.ms": SESSION_MS,
        }

    def _controllers(self) -> dict[str, object]:
        return {
            "controller.quorum.voters": f"{CONTROLLER_ID}@{HOST}:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }

    def _of_controller(self) -> dict[str, object]:
        return {
            "process.roles": "controller",
            "node.id": CONTROLLER_ID,
            **self._controllers(),
            "listeners": f"CONTROLLER://{HOST}:{self._controller_port}",
            "log.dirs": self.controller.home / "data",
        }

    def _with_zookeeper(self, number: int) -> dict[str, object]:
        return {"broker.id": number, **self._theirs(), **self._of_broker(number)}

    def _of_broker(self, number: int) -> dict[str, object]:
        listener = f"PLAINTEXT://{HOST}:{self._ports[number]}"
        return {
            "listeners": listener,
            "advertised.listeners": listener,
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": self.brokers[number].home / "data",
            "auto.create.topics.enable": "false",
            "default.replication.factor": len(BROKERS),
            "offsets.topic.num.partitions": OFFSETS_TOPIC_PARTITIONS,
            "offsets.topic.replication.factor": len(BROKERS),
            "transaction.state.log.replication.factor": len(BROKERS),
            "transaction.state.log.num.partitions": OFFSETS_TOPIC_PARTITIONS,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
        }

    # processes

    def _write(self, server: JavaProcess, values: dict[str, object]) -> Path:
        return write_properties(server.home, values, None)

    def _start(self, number: int, values: dict[str, object]) -> None:
        server = self.brokers[number]
        self._launch(server, self._write(server, values), self._ports[number])

    def _again(self, number: int, values: dict[str, object]) -> None:
        """A broker is stopped in order and started with another configuration, as one does."""
        self.await_whole()
        self.brokers[number].stop()
        self._start(number, values)
        self.await_whole()

    def _launch(self, server: JavaProcess, config: Path, port: int) -> None:
        process = server.launch(self._class_path, ["kafka.Kafka", str(config)], KAFKA_HEAP_MB, {})
        process.wait_ready(lambda: accepts(port), START_TIMEOUT_S, server.what)

    def _format(self, cluster: str, config: Path) -> None:
        command = [
            str(self._java.executable),
            "-XX:+UseSerialGC",
            "-cp",
            self._class_path,
            "kafka.tools.StorageTool",
            "format",
            "--cluster-id",
            cluster,
            "--config",
            str(config),
        ]
        subprocess.run(
            owned_command(command), check=True, timeout=STEP_S, capture_output=True, text=True
        )

    def _is_whole(self) -> bool:
        try:
            admin = KafkaAdminClient(bootstrap_servers=self.bootstrap, bootstrap_timeout_ms=5_000)
        except KafkaError:
            return False
        try:
            there = admin.describe_cluster()["brokers"]
            topics = admin.describe_topics()
        except KafkaError:
            return False
        finally:
            admin.close()
        if len(there) < len(BROKERS):
            return False
        partitions = [p for topic in topics for p in topic["partitions"]]
        return all(
            len(_isr(p)) == len(p["replica_nodes"] if "replica_nodes" in p else p["replicas"])
            for p in partitions
        )


def _isr(partition: dict[str, list[int]]) -> list[int]:
    return partition["isr_nodes"] if "isr_nodes" in partition else partition["isr"]
