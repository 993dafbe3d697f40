"""Real groups with a coordinator of their own, and what `groups health` says of them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from consumer.api.kafka_consumer import KafkaConsumer
from tests.harness.command import ROOT, Running, environment, run
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import PATIENCE_S, consumer
from zkcoord.stack.servers import KafkaBroker

COMMITS = {"enable_auto_commit": True, "auto_commit_interval_ms": 200}
Troubles = list[dict[str, Any]]


class Member:
    """A consumer as a process (`member.py`), begun again at will."""

    def __init__(self, home: Path, told: dict[str, Any]) -> None:
        self._home = home
        self._told = told
        self.begin()

    def begin(self) -> None:
        """Begin it."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.health.trouble.member", json.dumps(self._told)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(self._home),
            cwd=ROOT,
        )

    def kill(self) -> None:
        """As nobody can prepare for."""
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def died(self) -> bool:
        """Whether it has, by itself."""
        return self.process.poll() is not None

    def leave(self) -> None:
        """Let it close its consumer."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)


class Stage:
    """See the module. What was begun ends with it."""

    def __init__(self, home: Path, broker: KafkaBroker, hosts: str, stack: ExitStack) -> None:
        self.home = home
        self.broker = broker
        self.hosts = hosts
        self.stack = stack
        self.coordinator = stack.enter_context(
            Running(home / "coordinator", "--zookeeper", hosts, "--http-port", "0")
        )
        self.coordinator.ready("leading")

    def topic(self, name: str, partitions: int, records: int = 0) -> str:
        """A new one; the group has its name, too."""
        topic = create_topic(self.broker.address, unique(name), partitions)
        if records:
            produce_numbered(self.broker.address, topic, partitions, records)
        return topic

    def member(
        self, group: str, *topics: str, dies_at: tuple[int, int] | None = None, **configs: Any
    ) -> Member:
        """A process."""
        told = {
            "hosts": self.hosts,
            "group": group,
            "topics": list(topics or (group,)),
            "configs": {**COMMITS, **configs},
            "dies_at": list(dies_at or ()),
        }
        found = Member(self.home, told)
        self.stack.callback(lambda: (found.process.send_signal(signal.SIGCONT), found.kill()))
        return found

    def polling(
        self,
        group: str,
        *topics: str,
        each: Callable[[], object] = lambda: None,
        listener: Any = None,
        wait_ms: int = 50,
        **configs: Any,
    ) -> tuple[KafkaConsumer, Callable[[], None]]:
        """A consumer of this process that polls on a thread, with `each` after each poll of
        `wait_ms` at most; and what closes it.
        """
        one = consumer(self.hosts, group, **{**COMMITS, **configs})
        one.subscribe(list(topics or (group,)), listener=listener)
        over = threading.Event()

        def poll() -> None:
            while not over.is_set():
                one.poll(wait_ms)
                each()

        thread = threading.Thread(target=poll, daemon=True)
        thread.start()

        def close() -> None:
            if not over.is_set():
                over.set()
                thread.join(PATIENCE_S)
                one.close()

        self.stack.callback(close)
        return one, close

    def beside(self, work: Callable[[], None]) -> threading.Thread:
        """Do this on a thread; it is waited for."""
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    def owned(self, *consumers: KafkaConsumer, partitions: int) -> None:
        """Wait until they own so many."""
        wait_until(
            lambda: sum(len(one.assignment()) for one in consumers) == partitions,
            PATIENCE_S,
            f"{partitions} partitions of {len(consumers)} consumers",
        )

    def judged(self, *groups: str, looks: int = 1, interval_ms: int = 400) -> dict[str, Troubles]:
        """What `groups health` finds."""
        done = run(
            self.home,
            *("groups", "health", *groups, "--zookeeper", self.hosts, "--json"),
            *("--journal-dir", str(self.coordinator.journal)),
            *("--samples", str(looks), "--interval-ms", str(interval_ms)),
        )
        assert done.returncode in (0, 3), done.stderr
        return {one["group"]: one["troubles"] for one in json.loads(done.stdout)["groups"]}

    def finds(self, group: str, kind: str, looks: int = 1) -> dict[str, Any]:
        """The finding, once it is there."""
        seen: dict[str, Any] = {}

        def found() -> dict[str, Any] | None:
            seen.update(self.judged(group, looks=looks))
            return next((one for one in seen[group] if one["kind"] == kind), None)

        return wait_until(found, PATIENCE_S, f"{kind} of {group}: {seen}")


@contextmanager
def stage(home: Path, broker: KafkaBroker, hosts: str) -> Iterator[Stage]:
    """While the block runs."""
    with ExitStack() as stack:
        yield Stage(home, broker, hosts, stack)


@contextmanager
def records(stage: Stage, topic: str, partitions: int) -> Iterator[None]:
    """Some, all the time."""
    over = threading.Event()

    def work() -> None:
        start = 0
        while not over.wait(0.2):
            produce_numbered(stage.broker.address, topic, partitions, 5, start)
            start += 5

    thread = stage.beside(work)
    try:
        yield
    finally:
        over.set()
        thread.join(PATIENCE_S)
