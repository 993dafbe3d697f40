"""Kafka without ZooKeeper (KRaft): a node that is controller and broker, and brokers beside it."""

from __future__ import annotations

import os
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from zkcoord.errors import StackError
from zkcoord.stack import jars
from zkcoord.stack.java import Java
from zkcoord.stack.ports import HOST
from zkcoord.stack.process import ServerProcess, owned_command
from zkcoord.stack.servers.java_process import (
    START_TIMEOUT_S,
    JavaProcess,
    OnLaunch,
    accepts,
    write_properties,
)
from zkcoord.stack.servers.kafka import KAFKA_HEAP_MB, OFFSETS_TOPIC_PARTITIONS

CLUSTER_ID = "c2lkZS1ieS1zaWRlLTAwMA"
CONTROLLER = 1
FORMAT_TIMEOUT_S = 120.0


def new_cluster_id() -> str:
    """One that no other cluster has: by it a coordinator knows brokers that are not its own."""
    while (found := urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        pass  # Kafka's tools would take it for an option
    return found


class KRaftNode:
    """Node `number`; `controller_port` is where node 1 is controller. `config` lines go over the
    usual ones, `artifact` is the release to run, `cluster_id` what the folder is formatted with:
    the same one for all nodes of a cluster.
    """

    def __init__(
        self,
        home: Path,
        port: int,
        java: Java,
        number: int,
        controller_port: int,
        config: Mapping[str, str] | None = None,
        artifact: jars.Artifact = jars.KAFKA_4,
        owned: bool = True,
        running: ServerProcess | None = None,
        on_launch: OnLaunch | None = None,
        cluster_id: str = CLUSTER_ID,
    ) -> None:
        self.program = JavaProcess("Kafka node", home, java, owned, running, on_launch)
        self.artifact = artifact
        self.port = port
        self.config = config
        self.number = number
        self.controller_port = controller_port
        self.cluster_id = cluster_id

    @property
    def home(self) -> Path:
        """Its folder."""
        return self.program.home

    @property
    def log(self) -> Path:
        """What it writes."""
        return self.program.log

    @property
    def pid(self) -> int:
        """The pid of the running server. Raises `StackError` when it was not started."""
        return self.program.running().id.pid

    def alive(self) -> bool:
        """Whether it runs."""
        return self.program.alive()

    def stop(self) -> None:
        """A clean stop; nothing happens when it does not run."""
        self.program.stop()

    def kill(self) -> None:
        """As kill -9 does it; returns when the process is gone."""
        self.program.kill()

    def pause(self) -> None:
        """SIGSTOP: it holds its connections and answers nothing."""
        self.program.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self.program.resume()

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{HOST}:{self.port}"

    def start(self, progress: jars.Progress = lambda _: None) -> None:
        """Start it and return when it takes connections; the first time its folder is formatted.
        That the controller counts it among the living is asked by who needs it
        (`tests.bench.side.ground`).
        """
        class_path = os.pathsep.join(
            [
                jars.logging_classpath(),
                *map(str, jars.resolve(self.artifact, self.program.java, progress)),
            ]
        )
        config = self._write_config()
        if not (self.home / "data" / "meta.properties").is_file():
            self._format(class_path, config)
        process = self.program.launch(class_path, ["kafka.Kafka", str(config)], KAFKA_HEAP_MB, {})
        process.wait_ready(lambda: accepts(self.port), START_TIMEOUT_S, f"Kafka at {self.address}")

    def _format(self, class_path: str, config: Path) -> None:
        command = [
            str(self.program.java.executable),
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            class_path,
            "kafka.tools.StorageTool",
            "format",
            "--cluster-id",
            self.cluster_id,
            "--config",
            str(config),
        ]
        answer = subprocess.run(
            owned_command(command),
            capture_output=True,
            text=True,
            timeout=FORMAT_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if answer.returncode != 0:
            raise StackError(
                f"The folder of Kafka at {self.address} could not be formatted:"
                f" {answer.stdout[-300:]}{answer.stderr[-300:]}"
            )

    def _write_config(self) -> Path:
        leads = self.number == CONTROLLER
        listeners = [
            f"PLAINTEXT://{HOST}:{self.port}",
            *([f"CONTROLLER://{HOST}:{self.controller_port}"] if leads else []),
        ]
        values = {
            "process.roles": "broker,controller" if leads else "broker",
            "node.id": self.number,
            "controller.quorum.voters": f"{CONTROLLER}@{HOST}:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listeners": ",".join(listeners),
            "advertised.listeners": listeners[0],
            "log.dirs": self.home / "data",
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": OFFSETS_TOPIC_PARTITIONS,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": OFFSETS_TOPIC_PARTITIONS,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "controlled.shutdown.enable": "false",
        }
        return write_properties(self.home, values, self.config)
