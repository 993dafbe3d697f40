"""A Kafka broker in ZooKeeper mode."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from zkcoord.errors import StackError
from zkcoord.stack import jars
from zkcoord.stack.java import Java
from zkcoord.stack.ports import HOST
from zkcoord.stack.probe import broker_probe
from zkcoord.stack.process import ServerProcess, poll_until
from zkcoord.stack.servers.java_process import (
    START_TIMEOUT_S,
    JavaProcess,
    OnLaunch,
    accepts,
    write_properties,
)

KAFKA_HEAP_MB = 512
KAFKA_SESSION_TIMEOUT_MS = 6_000
KAFKA_RETENTION_HOURS = 24
OFFSETS_TOPIC_PARTITIONS = 10


class KafkaBroker:
    """A Kafka broker in ZooKeeper mode. `zookeeper` is a connect string and may end in a chroot,
    which Kafka creates; `artifact` is the release to run.
    """

    def __init__(
        self,
        home: Path,
        port: int,
        zookeeper: str,
        java: Java,
        owned: bool,
        broker_id: int = 0,
        config: Mapping[str, str] | None = None,
        artifact: jars.Artifact = jars.KAFKA,
        running: ServerProcess | None = None,
        on_launch: OnLaunch | None = None,
    ) -> None:
        self.program = JavaProcess("Kafka broker", home, java, owned, running, on_launch)
        self.port = port
        self.config = config
        self.artifact = artifact
        self.zookeeper = zookeeper
        self.broker_id = broker_id

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
        """Start it and return when it is registered and takes connections. The first start on a
        machine fetches its jars.
        """
        found = jars.resolve(self.artifact, self.program.java, progress)
        class_path = os.pathsep.join([jars.logging_classpath(), *map(str, found)])
        with broker_probe(self.zookeeper, self.broker_id) as registered:
            if not poll_until(
                lambda: registered() is None, KAFKA_SESSION_TIMEOUT_MS / 1000 + START_TIMEOUT_S
            ):
                raise StackError(
                    f"Another broker {self.broker_id} is registered at {self.zookeeper}: stop it"
                    " first."
                )
            process = self.program.launch(
                class_path, ["kafka.Kafka", str(self._write_config())], KAFKA_HEAP_MB, {}
            )
            process.wait_ready(
                lambda: registered() is not None and accepts(self.port),
                START_TIMEOUT_S,
                f"Kafka at {self.address}",
            )

    def _write_config(self) -> Path:
        values = {
            "broker.id": self.broker_id,
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "zookeeper.connect": self.zookeeper,
            "zookeeper.session.timeout.ms": KAFKA_SESSION_TIMEOUT_MS,
            "log.dirs": self.home / "data",
            "log.retention.hours": KAFKA_RETENTION_HOURS,
            "auto.create.topics.enable": "false",
            "delete.topic.enable": "true",
            "num.partitions": 1,
            "offsets.topic.num.partitions": OFFSETS_TOPIC_PARTITIONS,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": OFFSETS_TOPIC_PARTITIONS,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "controlled.shutdown.enable": "false",
        }
        return write_properties(self.home, values, self.config)
