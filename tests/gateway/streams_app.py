"""An instance of a Kafka Streams application, as a process: `java/CountingStreams.java`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.gateway.clients import HERE, PATIENCE_S
from tests.legacy.jars import compiled
from zkcoord.stack import jars
from zkcoord.stack.java import Java

SOURCE = HERE / "java" / "CountingStreams.java"
FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
STREAMS = jars.Artifact(
    "org.apache.kafka",
    "kafka-streams",
    "3.9.2",
    HERE / "kafka-streams-3.9.2.lock",
    megabytes=70,
    seconds=40,
)


class StreamsInstance:
    """See the module. `application` is its group; its state stays in `home` when it begins anew."""

    def __init__(
        self, home: Path, java: Java, bootstrap: str, application: str, topic: str, to: str
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        libraries = map(str, jars.resolve(STREAMS, java, lambda _: None))
        classes = os.pathsep.join([jars.logging_classpath(), *libraries])
        path = os.pathsep.join([compiled(SOURCE, java, class_path=classes), classes])
        options = {
            "application.id": application,
            "bootstrap.servers": bootstrap,
            "processing.guarantee": "exactly_once_v2",
            "num.standby.replicas": 1,
            "replication.factor": 1,
            "commit.interval.ms": 100,
            "state.dir": home / "state",
            "session.timeout.ms": 10_000,
            "consumer.auto.offset.reset": "earliest",
            "producer.transaction.timeout.ms": 10_000,
        }
        self._command = [
            str(java.executable),
            *FLAGS,
            "-cp",
            path,
            SOURCE.stem,
            topic,
            to,
            *(f"{name}={value}" for name, value in options.items()),
        ]
        self._home = home
        self.log_path = home / "streams.log"
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log_path.open("ab") as log:
            return subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self._home
            )

    def log(self) -> str:
        """What it has said."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def restart(self) -> None:
        """Kill it (-9), and begin it again."""
        self.kill()
        self.process = self._start()

    def close(self) -> None:
        """Let it end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(PATIENCE_S) == 0, self.log()[-4000:]

    def kill(self) -> None:
        """Kill -9."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
