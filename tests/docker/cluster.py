"""Three ZooKeeper servers, a broker, coordinators, consumers and a producer, each in a container of
its own on one network, and what they wrote down.

Coordinators and consumers run in the image that users get; the guardian is their PID 1. Servers run
in the same image with jars of this machine. `run/` and `logs/` are as `tests.chaos.checker` wants
them; all clocks are this machine's. From outside only ZooKeeper is asked, through ports published
on loopback.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from docker.errors import NotFound
from docker.types import EndpointConfig

import docker
from tests.docker.engine import text_of
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from zkcoord.core.model import TopicPartition
from zkcoord.demo.story import ScenarioJournal
from zkcoord.stack import jars
from zkcoord.stack.java import Java
from zkcoord.stack.ports import HOST, free_ports
from zkcoord.verdict import engine
from zkcoord.znodes.paths import Layout

NETWORK = "zkcoord-suite"
CHROOT = "/kafka"
TOPIC, GROUP = "orders", "billing"
PARTITIONS, RATE = 6, 200
SESSION_MS = 6_000
WAIT_S = 180.0
STOP_S = 30
SERVERS = ("zk1", "zk2", "zk3")
INSIDE = ",".join(f"{name}:2181" for name in SERVERS) + CHROOT
JAVA = (
    "java",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-Djava.awt.headless=true",
    "-Dzookeeper.admin.enableServer=false",
    "-Dzookeeper.forceSync=no",
)
HEAP = ("java", "-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
CREATE = (
    "import sys; from kafka.admin import KafkaAdminClient;"
    " KafkaAdminClient(bootstrap_servers='kafka:9092').create_topics({'%s': {'num_partitions': %d,"
    " 'replication_factor': 1}})" % (TOPIC, PARTITIONS)
)


class Cluster:
    """Everything that runs. Containers are told by slot (`c1`, `m2`, `zk3`, `kafka`, `producer`); a
    restarted process has another name, `m2-2`.
    """

    def __init__(self, client: docker.DockerClient, image: str, folder: Path, java: Java) -> None:
        self.client = client
        self.image = image
        self.folder = folder
        self.java = java
        self.containers: dict[str, Any] = {}
        self.names: dict[str, str] = {}
        self.lives: dict[str, int] = {}
        self.read_to: dict[Path, int] = {}
        self.handed_out_ns: dict[str, int] = {}
        self.next: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        self.ports = dict(zip(SERVERS, free_ports(len(SERVERS))))
        for part in (
            f"run/{engine.CONSUMERS}",
            f"run/{engine.COORDINATORS}",
            f"run/{engine.PRODUCERS}",
            "logs",
            "servers",
        ):
            (folder / part).mkdir(parents=True)
        self.story = ScenarioJournal(
            folder / "run" / engine.SCENARIO / "story.jsonl", lambda _: None
        )
        self.network = client.networks.create(NETWORK, driver="bridge")

    def close(self) -> None:
        """Remove everything; logs are kept."""
        for slot in list(self.containers):
            self.remove(slot)
        self.network.remove()
        self.story.close()

    # beginning

    def start(self) -> None:
        """Servers, the topic, two coordinators, three consumers, the producer; until records of
        every partition come.
        """
        for number, name in enumerate(SERVERS, 1):
            self._zookeeper(number, name)
        wait_until(self._zookeeper_answers, WAIT_S, "an ensemble with a quorum")
        self._kafka()
        wait_until(
            lambda: self._exists(f"{CHROOT}/brokers/ids/0"), WAIT_S, "the broker's registration"
        )
        self._run("tools", ["sleep", "infinity"])
        wait_until(
            lambda: self.containers["tools"].exec_run(["python3", "-c", CREATE]).exit_code == 0,
            WAIT_S,
            "the topic",
        )
        for slot in ("c1", "c2", "m1", "m2", "m3"):
            self.begin(slot)
        self._run(
            "producer",
            [
                "sh",
                "-c",
                (
                    "exec python3 -m zkcoord.demo.producer --bootstrap-servers kafka:9092 --topic"
                    f" {TOPIC} --partitions {PARTITIONS} --rate {RATE} >>"
                    f" /out/run/{engine.PRODUCERS}/producer.jsonl"
                ),
            ],
        )
        self.names["producer"] = "producer"
        self.fetched_since(time.time_ns(), "records of every partition")
        self.story.write("steady")

    def begin(self, slot: str) -> None:
        """Another life of a coordinator or consumer."""
        self.lives[slot] = self.lives.get(slot, 0) + 1
        self.names[slot] = name = f"{slot}-{self.lives[slot]}"
        if slot.startswith("c"):
            command = [
                "zkcoord",
                "coordinator",
                "--zookeeper",
                INSIDE,
                "--session-timeout-ms",
                str(SESSION_MS),
                "--lease-max-ms",
                str(SESSION_MS),
                "--connect-timeout-ms",
                "0",
                "--journal-inputs",
                "--journal-dir",
                f"/out/run/{engine.COORDINATORS}/{name}",
            ]
        else:
            flags = (
                f"--zookeeper {INSIDE} --group {GROUP} --topic {TOPIC} --commit auto"
                f" --commit-interval-ms 500 --session-timeout-ms {SESSION_MS}"
                f" --connection-timeout-ms 180000 --rebalance-timeout-ms 10000 --client-id {name}"
            )
            command = [
                "sh",
                "-c",
                (
                    f"exec python3 -m consumer.verifiable {flags} >>"
                    f" /out/run/{engine.CONSUMERS}/{name}.jsonl"
                ),
            ]
        self._run(slot, command)

    def _run(self, slot: str, command: list[str], **more: Any) -> None:
        volumes = {str(self.folder): {"bind": "/out", "mode": "rw"}}
        self.containers[slot] = self.client.containers.run(
            self.image,
            command,
            name=f"{NETWORK}-{slot}",
            hostname=slot,
            network=NETWORK,
            networking_config={NETWORK: EndpointConfig(self.client.api._version, aliases=[slot])},
            user="0",
            detach=True,
            volumes={**volumes, **more.pop("volumes", {})},
            **more,
        )

    def _server(
        self, slot: str, java: tuple[str, ...], class_path: str, main: list[str], **more: Any
    ) -> None:
        folders = sorted({str(Path(jar).parent) for jar in class_path.split(os.pathsep)})
        self._run(
            slot,
            [*java, "-cp", class_path, *main],
            entrypoint=[],
            volumes={folder: {"bind": folder, "mode": "ro"} for folder in folders},
            **more,
        )

    def _zookeeper(self, number: int, name: str) -> None:
        lines = [
            "tickTime=500",
            "initLimit=20",
            "syncLimit=10",
            "dataDir=/tmp/zookeeper",
            "clientPort=2181",
            "maxClientCnxns=0",
            "maxSessionTimeout=60000",
            "4lw.commands.whitelist=srvr",
        ]
        lines += [f"server.{n}={peer}:2888:3888" for n, peer in enumerate(SERVERS, 1)]
        (self.folder / "servers" / f"{name}.cfg").write_text(
            "\n".join(lines) + "\n", encoding="utf-8"
        )
        main = ["org.apache.zookeeper.server.quorum.QuorumPeerMain", f"/out/servers/{name}.cfg"]
        command = [
            "sh",
            "-c",
            f'mkdir -p /tmp/zookeeper && echo {number} > /tmp/zookeeper/myid && exec "$@"',
            "sh",
            *JAVA,
        ]
        self._server(
            name,
            tuple(command),
            jars.zookeeper_classpath(),
            main,
            ports={"2181/tcp": (HOST, self.ports[name])},
        )

    def _kafka(self) -> None:
        lines = [
            "broker.id=0",
            "listeners=PLAINTEXT://:9092",
            "advertised.listeners=PLAINTEXT://kafka:9092",
            f"zookeeper.connect={INSIDE}",
            "log.dirs=/tmp/kafka",
            "auto.create.topics.enable=false",
            "offsets.topic.num.partitions=4",
            "offsets.topic.replication.factor=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
        ]
        (self.folder / "servers" / "kafka.properties").write_text(
            "\n".join(lines) + "\n", encoding="utf-8"
        )
        found = jars.resolve(jars.KAFKA, self.java, lambda _: None)
        self._server(
            "kafka",
            HEAP,
            os.pathsep.join([jars.logging_classpath(), *map(str, found)]),
            ["kafka.Kafka", "/out/servers/kafka.properties"],
        )

    # ZooKeeper, from outside

    @contextmanager
    def _zk(self) -> Iterator[Any]:
        client = connect(",".join(f"{HOST}:{port}" for port in self.ports.values()))
        try:
            yield client
        finally:
            disconnect(client)

    def _zookeeper_answers(self) -> bool:
        return sum(
            b"Mode: " in self.containers[name].exec_run(["python3", "-c", ASK]).output
            for name in SERVERS
        ) == len(SERVERS)

    def _exists(self, path: str) -> bool:
        with self._zk() as client:
            return client.exists(path) is not None

    def leader_slot(self) -> str:
        """Which coordinator leads."""
        with self._zk() as client:
            return str(json.loads(client.get(CHROOT + Layout.DRAFT.leader)[0])["host"])

    def zookeeper_leader(self) -> str:
        """Which ZooKeeper server leads."""
        return next(
            name
            for name in SERVERS
            if b"Mode: leader" in self.containers[name].exec_run(["python3", "-c", ASK]).output
        )

    # faults

    def kill(self, slot: str) -> None:
        """SIGKILL to PID 1, and so to everything in the container."""
        self.containers[slot].kill()
        self.remove(slot)
        self.story.exit(self.names[slot], True, time.time_ns())

    def kill_inside(self, slot: str) -> None:
        """SIGKILL to the process, and not to the guardian, which ends the container when it has
        done its work.
        """
        self.containers[slot].exec_run(
            ["sh", "-c", "kill -9 $(pgrep -P 1 -f 'consumer.verifiable|zkcoord')"]
        )
        self.containers[slot].wait(timeout=STOP_S)
        self.remove(slot)
        self.story.exit(self.names[slot], True, time.time_ns())

    def cut(self, slot: str) -> None:
        """Off the network."""
        self.network.disconnect(self.containers[slot])

    def mend(self, slot: str) -> None:
        """On the network again, under its name."""
        self.network.connect(self.containers[slot], aliases=[slot])

    def remove(self, slot: str) -> None:
        """Keep its log, remove it."""
        container = self.containers.pop(slot)
        try:
            folder = "servers" if slot in (*SERVERS, "kafka", "tools") else "logs"
            (self.folder / folder / f"{self.names.get(slot, slot)}.log").write_text(
                text_of(container), encoding="utf-8"
            )
            container.remove(force=True, v=True)
        except NotFound:
            return

    def stop(self, slot: str) -> int:
        """SIGTERM; the exit status."""
        container = self.containers[slot]
        container.stop(timeout=STOP_S)
        status = int(container.wait(timeout=STOP_S)["StatusCode"])
        self.remove(slot)
        if slot in self.names:
            self.story.exit(self.names[slot], False, time.time_ns())
        return status

    # looking

    def hear(self) -> None:
        """Take in what consumers and producer have written since the last time."""
        for path in [
            path
            for part in (engine.CONSUMERS, engine.PRODUCERS)
            for path in engine.record_files(self.folder / "run" / part)
        ]:
            with path.open("rb") as file:
                file.seek(self.read_to.get(path, 0))
                for raw in file:
                    if not raw.endswith(b"\n"):
                        break
                    self.read_to[path] = self.read_to.get(path, 0) + len(raw)
                    self._line(json.loads(raw))

    def _line(self, line: dict[str, Any]) -> None:
        self.ends.update(line.get("ends", {}))
        for at, ranges in line.get("ranges", {}).items():
            self.handed_out_ns[at] = max(line["t"], self.handed_out_ns.get(at, 0))
            self.next[at] = max(ranges[-1][1] + 1, self.next.get(at, 0))

    def fetched_since(self, t_ns: int, what: str) -> float:
        """Wait until records of every partition were handed out since; how long the last one took,
        in ms.
        """

        def slowest_ns() -> int:
            self.hear()
            return min(self.handed_out_ns.get(f"{TOPIC}-{n}", 0) for n in range(PARTITIONS))

        wait_until(lambda: slowest_ns() > t_ns, WAIT_S, what)
        return (slowest_ns() - t_ns) / 1e6

    def consumed(self) -> None:
        """Wait until everything that was produced has been handed out; the producer has ended."""

        def all_of_it() -> bool:
            self.hear()
            return bool(self.ends) and all(
                self.next.get(at, 0) >= end for at, end in self.ends.items()
            )

        wait_until(all_of_it, WAIT_S, "every record to be handed out")

    def write_stored(self) -> None:
        """What is stored at the end, for the checker."""
        with self._zk() as client:
            client.sync("/")
            found = {
                n: int(client.get(CHROOT + Layout.DRAFT.offset(GROUP, TopicPartition(TOPIC, n)))[0])
                for n in range(PARTITIONS)
            }
        self.story.stored(time.time_ns(), TOPIC, found)


ASK = (
    "import socket; s = socket.create_connection(('localhost', 2181), 2); s.sendall(b'srvr');"
    " print(b''.join(iter(lambda: s.recv(4096), b'')).decode())"
)
