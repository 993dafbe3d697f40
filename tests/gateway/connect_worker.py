"""A worker of Kafka Connect, as a process: what `connect-distributed.sh` starts, of the jars that
Kafka's tools bring.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.gateway.clients import HERE, PATIENCE_S, V3, tools_classpath
from tests.harness.wait import wait_until
from tests.legacy.jars import compiled
from zkcoord.stack.java import Java

MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
SOURCE = HERE / "java" / "TickerSource.java"
JSON = "org.apache.kafka.connect.json.JsonConverter"
FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class ConnectWorker:
    """See the module. `cluster` is the group of its workers."""

    def __init__(
        self, home: Path, java: Java, bootstrap: str, cluster: str, port: int, version: str = V3
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._url = f"http://127.0.0.1:{port}"
        options = {
            "bootstrap.servers": bootstrap,
            "group.id": cluster,
            "key.converter": JSON,
            "value.converter": JSON,
            "listeners": self._url,
            "rest.advertised.host.name": "127.0.0.1",
            "rest.advertised.port": port,
            "session.timeout.ms": 10_000,
            "scheduled.rebalance.max.delay.ms": 1_000,
            "offset.flush.interval.ms": 1_000,
        }
        for kind in ("config", "offset", "status"):
            options[f"{kind}.storage.topic"] = f"{cluster}-{kind}"
            options[f"{kind}.storage.replication.factor"] = 1
        for kind in ("offset", "status"):
            options[f"{kind}.storage.partitions"] = 1
        file = home / "worker.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
        classes = tools_classpath(version, java)
        path = os.pathsep.join([compiled(SOURCE, java, class_path=classes), classes])
        self.log_path = home / "worker.log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    str(java.executable),
                    *FLAGS,
                    "-cp",
                    path,
                    MAIN,
                    str(file),
                ],
                stdout=log,
                stderr=log,
                cwd=home,
            )

    def _ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def listens(self) -> None:
        """Wait until it is a member of its cluster."""

        def answers() -> bool:
            assert self.process.poll() is None, self.log_path.read_text(encoding="utf-8")[-4000:]
            try:
                return isinstance(self._ask("/connectors"), list)
            except OSError:
                return False

        wait_until(answers, PATIENCE_S, "a Connect worker that is in its cluster")

    def create(self, name: str, tasks: int, topic: str) -> None:
        """A connector with so many tasks, each of which writes to a topic."""
        options = {
            "connector.class": SOURCE.stem,
            "tasks.max": str(tasks),
            "name": name,
            "topic": topic,
        }
        self._ask("/connectors", {"name": name, "config": options})

    def running(self, name: str, tasks: int) -> set[str]:
        """The workers that its tasks are on, once all of them run."""
        try:
            status = self._ask(f"/connectors/{name}/status")
        except (OSError, urllib.error.HTTPError):
            return set()
        found = [one["worker_id"] for one in status["tasks"] if one["state"] == "RUNNING"]
        return set(found) if len(found) == tasks else set()

    def kill(self) -> None:
        """Kill -9."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
