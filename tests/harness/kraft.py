"""Kafka 4 without ZooKeeper, for comparison only: zkcoord does not run on it. Two nodes at most:
number 1 is controller and broker, number 2 a broker that can be killed while number 1 goes on.

Its jars come like all others, by a lock file:

    python -m tests.harness.kraft       fetches what is missing, for later without a network
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from zkcoord.errors import StackError
from zkcoord.stack import jars
from zkcoord.stack.java import Java, find_java
from zkcoord.stack.ports import HOST
from zkcoord.stack.process import owned_command
from zkcoord.stack.servers import (
    KAFKA_HEAP_MB,
    OFFSETS_TOPIC_PARTITIONS,
    START_TIMEOUT_S,
    JavaProcess,
    accepts,
    write_properties,
)

V4 = jars.Artifact(
    "org.apache.kafka",
    "kafka_2.13",
    "4.3.1",
    Path(__file__).parent / "kafka-4.3.1.lock",
    megabytes=66,
    seconds=60,
)
CLUSTER_ID = "c2lkZS1ieS1zaWRlLTAwMA"
CONTROLLER = 1
FORMAT_TIMEOUT_S = 120.0


class KRaftNode:
    """Node `number`; `controller_port` is where node 1 is controller. `config` lines go over the
    usual ones.
    """

    def __init__(
        self,
        home: Path,
        port: int,
        java: Java,
        number: int,
        controller_port: int,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.program = JavaProcess("Kafka 4 node", home, java, owned=True)
        self.port = port
        self.config = config
        self.number = number
        self.controller_port = controller_port

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
            [jars.logging_classpath(), *map(str, jars.resolve(V4, self.program.java, progress))]
        )
        config = self._write_config()
        if not (self.home / "data" / "meta.properties").is_file():
            self._format(class_path, config)
        process = self.program.launch(class_path, ["kafka.Kafka", str(config)], KAFKA_HEAP_MB, {})
        process.wait_ready(
            lambda: accepts(self.port), START_TIMEOUT_S, f"Kafka 4 at {self.address}"
        )

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
            CLUSTER_ID,
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
                f"The folder of Kafka 4 at {self.address} could not be formatted:"
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


def main() -> int:
    """Fetch what is missing, saying so."""
    try:
        jars.resolve(V4, find_java(), lambda sentence: print(sentence, flush=True))
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
