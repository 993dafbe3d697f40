"""What the walk through the console looks at: a real ZooKeeper, broker, coordinator and console,
and groups in trouble, whose members are processes of their own.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from tests.console.running import ConsoleRunning, running
from tests.harness.command import PATIENCE_S, Running, environment
from tests.harness.kafka import create_topic
from tests.harness.wait import wait_until
from zkcoord.stack.stack import running_stack

TOKEN = "0123456789abcdef" * 4
READER = "ann"
PARTITIONS = {"orders": 6, "clicks": 4, "events": 4}
BACKLOG = 1_000
"""Records of each partition of `events`, as old as this:"""
BACKLOG_OLD_S = 3_600
EACH_S = 0.25
RESTLESS_LIVES = 6
Say = Callable[[str], None]


class Process:
    """A member: what it says, and a way to tell it something."""

    def __init__(
        self, home: Path, zookeeper: str, kind: str, group: str, topic: str, client: str
    ) -> None:
        self.log_path = home / f"{client}-{time.monotonic_ns()}.log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.console.walk_member", kind),
                    *("--zookeeper", zookeeper, "--group", group),
                    *("--topic", topic, "--client", client),
                ],
                env=environment(home),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=home,
            )

    def says(self, word: str) -> str:
        """The rest of the first line that begins so, once there is one."""

        def said() -> list[str]:
            lines = self.log_path.read_text().splitlines()
            return [line for line in lines if line.split(" ")[0] == word]

        wait_until(lambda: said() or self.process.poll() is not None, PATIENCE_S, f"it says {word}")
        assert said(), f"a member ended: {self.log_path.read_text()[-1_000:]}"
        return said()[0].removeprefix(word).strip()

    def tell(self, line: str) -> None:
        """One line to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """As a crash; its guardian closes its session."""
        self.process.kill()
        self.process.wait(PATIENCE_S)


class Stage:
    """Everything that runs while the walk looks at it."""

    def __init__(self, home: Path, zookeeper: str, brokers: str, coordinator: Running) -> None:
        self.home = home
        self.audit = home / "audit.jsonl"
        self.zookeeper = zookeeper
        self.brokers = brokers
        self.coordinator = coordinator
        self.console: ConsoleRunning
        self.members: list[Process] = []
        self.over = threading.Event()
        self.threads: list[threading.Thread] = []
        self.first, self.stuck, self.silent = "", "", ""

    def member(self, kind: str, group: str, topic: str, client: str) -> Process:
        """Another one."""
        found = Process(self.home, self.zookeeper, kind, group, topic, client)
        self.members.append(found)
        return found

    def thread(self, target: Callable[[], None]) -> None:
        """Until the end."""
        self.threads.append(threading.Thread(target=target, daemon=True))
        self.threads[-1].start()

    def close(self) -> None:
        """End what this has started."""
        self.over.set()
        for thread in self.threads:
            thread.join(PATIENCE_S)
        for member in self.members:
            member.end()

    def produce(self) -> None:
        """To all topics, a little at a time."""
        with contextlib.closing(KafkaProducer(bootstrap_servers=self.brokers)) as producer:
            while not self.over.wait(EACH_S):
                for topic, count in PARTITIONS.items():
                    for number in range(count):
                        producer.send(topic, b"x", partition=number)

    def backlog(self) -> None:
        """What came while nobody looked."""
        old_ms = int((time.time() - BACKLOG_OLD_S) * 1000)
        with contextlib.closing(KafkaProducer(bootstrap_servers=self.brokers)) as producer:
            for number in range(BACKLOG * PARTITIONS["events"]):
                at = number % PARTITIONS["events"]
                producer.send("events", b"x", partition=at, timestamp_ms=old_ms)
            producer.flush()

    def supervise(self) -> None:
        """A member of `search` that crashes is started again, some times, as supervisors do; the
        last one stays away.
        """
        for _ in range(RESTLESS_LIVES):
            one = self.member("restless", "search", "clicks", "indexer")
            while one.process.poll() is None:
                if self.over.wait(0.1):
                    return

    def rebalances(self, group: str) -> list[dict[str, Any]]:
        """Those that its journal has."""
        found = self.coordinator.records("rebalance")
        return [record for record in found if record["group"] == group]

    def done(self) -> list[dict[str, Any]]:
        """Actions that have ended, as the audit log has them."""
        lines = self.audit.read_text().splitlines() if self.audit.exists() else []
        return [one for one in map(json.loads, lines) if one["what"] == "ended"]

    def groups(self, say: Say) -> None:
        """All of them, up to where each is in its trouble."""
        say("  ingest: far behind, and its member does not commit any more")
        self.backlog()
        silent = self.member("silent", "ingest", "events", "loader")
        self.thread(self.produce)
        say("  search: a member that comes and goes")
        self.member("healthy", "search", "clicks", "searcher").says("member")
        self.thread(self.supervise)
        say("  audit: healthy")
        self.member("healthy", "audit", "orders", "auditor").says("member")
        say("  billing: one hangs in its handler while another joins")
        self.first = self.member("healthy", "billing", "orders", "first").says("member")
        second = self.member("healthy", "billing", "orders", "second")
        self.stuck = second.says("member")
        self.at_rest("billing", 2)
        second.tell("hang")
        second.says("hangs")
        self.member("healthy", "billing", "orders", "third")
        self.silent = silent.says("member")
        silent.says("silent")

    def at_rest(self, group: str, members: int) -> None:
        """The journal has a rebalance with so many members."""
        wait_until(
            lambda: any(one["members"] == members for one in self.rebalances(group)),
            PATIENCE_S,
            f"a rebalance of {group} with {members} members in the journal",
        )


@contextlib.contextmanager
def staged(home: Path, say: Say) -> Iterator[Stage]:
    """All of it, within the block; everything that was started is ended afterwards."""
    tokens = home / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"{READER} {TOKEN}\n")
    with running_stack(home / "stack", progress=say) as stack, contextlib.ExitStack() as ended:
        assert stack.zookeeper is not None and stack.kafka is not None, "both run inside the block"
        zookeeper, brokers = stack.zookeeper.address, stack.kafka.address
        for topic, count in PARTITIONS.items():
            create_topic(brokers, topic, count)
        coordinator = Running(home / "coordinator", "--zookeeper", zookeeper)
        ended.enter_context(coordinator)
        stage = Stage(home, zookeeper, brokers, coordinator)
        coordinator.logs("http serves")
        stage.console = ended.enter_context(
            running(
                home / "console",
                *("--zookeeper", zookeeper, "--journal-dir", str(coordinator.journal)),
                *("--actions-token-file", str(tokens), "--audit-log", str(stage.audit)),
            )
        )
        ended.callback(stage.close)
        say("Groups ...")
        stage.groups(say)
        yield stage
