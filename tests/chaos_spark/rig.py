"""What the chaos run works with: one group with a coordinator, a topic with load, applications; and
what is in ZooKeeper and in the sink's directory at any moment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet
from kafka import KafkaProducer
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.retry import KazooRetry

from consumer.spark.sink.files import is_hidden
from tests.chaos_spark.app import Config
from tests.chaos_spark.driver import App, Driver, runs
from tests.harness.kafka import create_topic, end_offsets
from tests.harness.zookeeper import connect, disconnect
from tests.spark.cluster import Cluster
from zkcoord.demo.processes import DemoProcesses, Line, environment
from zkcoord.errors import ScenarioError
from zkcoord.stack.ports import free_port
from zkcoord.stack.process import poll_until
from zkcoord.stack.spark_java import spark_java_home
from zkcoord.znodes.paths import Layout

LAYOUT = Layout.DRAFT
TOPIC = "orders"
PARTITIONS = 4
SESSION_MS = 3_000
MAX_ROWS = 1_000
LOAD_PER_S = 400
LOAD_TICK_S = 0.05
PATIENCE_S = 600.0
CLIENT_SESSION_S = 60.0
END_S = 30.0
AUDIT_S = 900.0
COORDINATOR = "coordinator"
Record = tuple[int, int]


@dataclass(frozen=True)
class Where:
    """Where drivers run their tasks: in their own process, or in a cluster, on so many of its
    cores.
    """

    cluster: Cluster | None = None
    python: str = sys.executable
    cores: int = 0


class Rig:
    """One group. A query that ends though nobody did anything to it ends every wait
    (`ScenarioError`); one that was fenced without being made a zombie is counted
    (`fenced_unasked`).
    """

    def __init__(
        self,
        folder: Path,
        zookeeper: str,
        kafka: str,
        group: str,
        sink: str,
        where: Where = Where(),  # never changed
    ) -> None:
        self.folder = folder
        self.zookeeper = zookeeper
        self.kafka = kafka
        self.group = group
        self.topic = create_topic(kafka, f"{TOPIC}-{group}", PARTITIONS)
        self.sink = sink
        self.where = where
        self.out = folder / "out"
        self.out.mkdir(parents=True)
        self.drivers: dict[str, Driver] = {}
        self.apps: list[App] = []
        self.zombies: set[str] = set()
        self.fenced_unasked = 0
        self._trouble = ""
        self._spare: Driver | None = None
        self._read: set[str] = set()
        self._found: Counter[Record] = Counter()
        self.children = DemoProcesses(self._line)
        self.client: KazooClient = connect(zookeeper, CLIENT_SESSION_S)
        self._retry = KazooRetry(max_tries=-1, deadline=PATIENCE_S)
        self._stop_load = threading.Event()
        self._pause_load = threading.Event()
        self._load = threading.Thread(target=self._produce, name="load", daemon=True)

    def _line(self, name: str, line: Line) -> None:
        if name in self.drivers:
            self.drivers[name].lines.append(line)
            if line.get("event") == "failed" and not line["slow"] and name not in self.zombies:
                if line["fenced"]:
                    self.fenced_unasked += 1
                else:
                    self._trouble = f"the query of {name} ended: {line['error']}"

    # processes

    def begin(self, apps: int) -> list[App]:
        """A coordinator, load, and applications that share the partitions."""
        command = [
            "zkcoord.cli.main",
            "coordinator",
            "--zookeeper",
            self.zookeeper,
            "--http-port",
            str(free_port()),
            "--journal-dir",
            str(self.folder / "run" / "coordinators" / COORDINATOR),
        ]
        self.children.start(
            COORDINATOR, command, self.folder / "coordinator.out", self.folder / "coordinator.log"
        )
        self._load.start()
        for number, driver in enumerate([self._launch() for _ in range(apps)]):
            driver.heard("ready")
            self.apps.append(App(f"app-{number + 1}", self.folder, driver))
        for app in self.apps:
            app.start()
        self.shared(apps)
        return self.apps

    def spare(self) -> Driver:
        """A driver without a query, whose session is there; kept until it is taken. Nothing is
        produced until then: a session starts sooner where the others have nothing to do.
        """
        if self._spare is None:
            self._pause_load.set()
            self._spare = self._launch()
            self._spare.heard("ready")
            self._pause_load.clear()
        return self._spare

    def executors(self, app: App, at_least: int = 0) -> list[psutil.Process]:
        """An application's in the cluster, once there are so many."""
        cluster = self.where.cluster
        assert cluster is not None
        found: list[psutil.Process] = []
        application = app.driver.application

        def there() -> bool:
            found[:] = cluster.executors(application)
            return len(found) >= at_least

        self.wait(there, f"{at_least} executors of {app.driver.name}")
        return found

    def replace(self, app: App) -> None:
        """Give an application whose driver was killed the spare one, and start its query."""
        app.driver, self._spare = self.spare(), None
        app.start()

    def _launch(self) -> Driver:
        name = f"driver-{len(self.drivers) + 1}"
        folder = self.folder / name
        folder.mkdir(parents=True)
        driver = Driver(
            self.children,
            self.wait,
            folder,
            Config(
                name,
                self.zookeeper,
                self.group,
                self.topic,
                str(self.out),
                "",
                "",
                "",
                self.sink,
                SESSION_MS,
                MAX_ROWS,
                "local[1]" if self.where.cluster is None else self.where.cluster.address,
                self.where.python,
                self.where.cores,
            ),
        )
        with self.children.lock:
            self.drivers[name] = driver
        return driver

    def close(self) -> None:
        """End everything."""
        self._stop_load.set()
        processes = [process for driver in self.drivers.values() for process in driver.release()]
        self.children.close()
        poll_until(lambda: not any(map(runs, processes)), END_S)
        for process in filter(runs, processes):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if self._load.is_alive():
            self._load.join(END_S)
        disconnect(self.client)

    # load

    def _produce(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self.kafka, linger_ms=5)
        number = 0
        while not self._stop_load.wait(LOAD_TICK_S):
            for _ in range(0 if self._pause_load.is_set() else round(LOAD_PER_S * LOAD_TICK_S)):
                producer.send(self.topic, value=b"%d" % number, partition=number % PARTITIONS)
                number += 1
        producer.flush()
        producer.close()

    # what is there

    def wait(self, condition: Callable[[], object], what: str) -> None:
        """Until it holds."""

        def holds() -> bool:
            if self._trouble:
                raise ScenarioError(self._trouble)
            return bool(condition())

        self.children.wait_for(holds, PATIENCE_S, what)

    def sessions(self) -> dict[str, int]:
        """Registered member -> its session."""
        found = {}
        for name in self._children(LAYOUT.ids(self.group)):
            stat = self._retry(self.client.exists, LAYOUT.registration(self.group, name))
            if stat is not None:
                found[name] = stat.ephemeralOwner
        return found

    def owners(self) -> dict[int, int]:
        """Partition -> the session that owns it."""
        found = {}
        for name in self._children(f"{LAYOUT.owners(self.group)}/{self.topic}"):
            stat = self._retry(
                self.client.exists, f"{LAYOUT.owners(self.group)}/{self.topic}/{name}"
            )
            if stat is not None:
                found[int(name)] = stat.ephemeralOwner
        return found

    def offsets(self) -> dict[int, int]:
        """Partition -> its stored offset."""
        parent = f"{LAYOUT.offsets(self.group)}/{self.topic}"
        return {
            int(name): int(self._retry(self.client.get, f"{parent}/{name}")[0])
            for name in self._children(parent)
        }

    def shared(self, members: int) -> dict[int, int]:
        """Wait until so many members are registered and share all partitions evenly; gives the
        owners.
        """
        found: dict[int, int] = {}

        def even() -> bool:
            nonlocal found
            sessions, found = set(self.sessions().values()), self.owners()
            shares = Counter(found.values())
            return (
                len(sessions) == members
                and len(found) == PARTITIONS
                and set(shares) == sessions
                and max(shares.values()) - min(shares.values()) <= 1
            )

        self.wait(even, f"{PARTITIONS} partitions shared by {members} members")
        return found

    def gone(self, member: str) -> None:
        """Wait until a member is not registered any more, and others own everything."""
        self.wait(lambda: member not in self.sessions(), f"the end of {member}")
        self.wait(
            lambda: (
                len(self.owners()) == PARTITIONS
                and set(self.owners().values()) <= set(self.sessions().values())
            ),
            "new owners of all partitions",
        )

    def passed(self, batch: Line) -> None:
        """Wait until the stored offsets are at the end of this batch, or further: it is written,
        whoever wrote it.
        """
        ends = {int(name.rpartition("-")[2]): end for name, (_, end) in batch["ranges"].items()}

        def stored() -> bool:
            offsets = self.offsets()
            return all(offsets[partition] >= end for partition, end in ends.items())

        self.wait(stored, f"the end of batch {batch['batch']} of {batch['member']}")

    def visible(self) -> Counter[Record]:
        """How often each record (partition, offset) is in the files that a reader of the directory
        sees. Each file is read once.
        """
        for place, folders, names in os.walk(self.out):
            folders[:] = [name for name in folders if not is_hidden(name)]
            for path in (os.path.join(place, name) for name in names if not is_hidden(name)):
                if path not in self._read:
                    table = pyarrow.parquet.read_table(
                        path, columns=["partition", "offset"], partitioning=None
                    )
                    self._found.update(
                        zip(table["partition"].to_pylist(), table["offset"].to_pylist())
                    )
                    self._read.add(path)
        return self._found

    def duplicates(self) -> int:
        """How many records are there more than once, each counted as often as it is there too
        much.
        """
        return sum(times - 1 for times in self.visible().values() if times > 1)

    def lost(self) -> int:
        """How many records below the stored offsets are not there, once everything is finished that
        is committed by now.
        """
        stored = self.offsets()
        waiting = set(self._children(LAYOUT.publications(self.group)))
        self.wait(
            lambda: not waiting.intersection(self._children(LAYOUT.publications(self.group))),
            "the end of what is committed and not visible",
        )
        seen = self.visible()
        return sum(
            (partition, offset) not in seen
            for partition, end in stored.items()
            for offset in range(end)
        )

    def conclude(self) -> None:
        """Stop the load, wait until everything is read, end all applications."""
        self._stop_load.set()
        self._load.join(PATIENCE_S)
        ends = end_offsets(self.kafka, self.topic, PARTITIONS)
        self.wait(lambda: self.offsets() == ends, "the end of the topic")
        for app in self.apps:
            app.driver.end()

    def audit(self) -> dict[str, Any]:
        """The report of `python -m zkcoord.consumer.spark.audit`, which excuses nothing. Raises
        `ScenarioError`.
        """
        command = [
            sys.executable,
            "-m",
            "consumer.spark.audit",
            "--journal",
            str(self.folder / "run"),
            "--records",
            str(self.out),
            "--exactly-once",
            "--json",
        ]
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=AUDIT_S,
            check=False,
            env={**environment(), "JAVA_HOME": str(spark_java_home())},
        )
        if answer.returncode not in (0, 1):
            raise ScenarioError(f"the audit failed: {answer.stderr[-1_000:]}")
        report: dict[str, Any] = json.loads(answer.stdout)
        return report

    def _children(self, path: str) -> list[str]:
        try:
            return sorted(self._retry(self.client.get_children, path))
        except NoNodeError:
            return []
