"""Everybody who plays in the demo: starts them, talks to them, ends them, and writes each end down.
Every process is a real one: `zkcoord coordinator`, `consumer.verifiable`, a producer.
"""

from __future__ import annotations

import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from zkcoord.demo.observer import OffsetObserver
from zkcoord.demo.options import GROUP, TOPIC, Break, DemoOptions
from zkcoord.demo.processes import DemoProcess, DemoProcesses, Line, signal_name
from zkcoord.demo.state import ConsumerPhase, GroupShown, ProcessKind
from zkcoord.demo.story import ScenarioJournal
from zkcoord.errors import ScenarioError
from zkcoord.stack.ports import free_port
from zkcoord.stack.stack import KafkaKind
from zkcoord.verdict import engine

READY_TIMEOUT_S = 0.5


@dataclass(frozen=True)
class Addresses:
    """Where the servers are."""

    zookeeper: str
    kafka: str


class Cast:
    """The processes of one run. `say` shows a sentence to the user."""

    def __init__(
        self,
        options: DemoOptions,
        addresses: Addresses,
        story: ScenarioJournal,
        say: Callable[[str], None],
    ) -> None:
        self.options = options
        self.addresses = addresses
        self.story = story
        self.say = say
        self.state = GroupShown()
        self.runs = options.folder / "run"
        self.partitions = options.pace.partitions
        self.children = DemoProcesses(self._line)
        self._ready: dict[str, str] = {}
        try:
            self.observer = OffsetObserver(
                addresses.zookeeper, GROUP, TOPIC, lambda: self.partitions, self._seen
            )
        except ScenarioError:
            self.children.close()
            raise

    def _line(self, name: str, line: Line) -> None:
        self.state.line(name, line)

    def _seen(self, t_ns: int, offsets: Mapping[int, int]) -> None:
        self.story.stored(t_ns, TOPIC, offsets)
        with self.children.lock:
            self.state.stored(offsets)
        self.children.changed()

    def close(self) -> None:
        """End everything that still runs; safe to call twice."""
        self.children.close()
        self.observer.close()
        self.story.close()

    # starting

    def start(self, name: str, kind: ProcessKind, module: list[str], folder: str) -> DemoProcess:
        """A process of the demo that runs `module` (its words after `python -m`)."""
        with self.children.lock:
            self.state.expect(name, kind)
        plain = name.replace(" ", "-")
        return self.children.start(
            name,
            module,
            self.runs / folder / f"{plain}{engine.SUFFIX}",
            self.options.folder / "logs" / f"{plain}.log",
        )

    def journal_of(self, coordinator: str) -> Path:
        """Its folder."""
        return self.runs / engine.COORDINATORS / coordinator.replace(" ", "-")

    def start_coordinator(self, name: str) -> None:
        """`zkcoord coordinator`, with a journal of its own."""
        journal = self.journal_of(name)
        again = journal.exists()
        port = free_port()
        self._ready[name] = f"http://127.0.0.1:{port}/ready"
        flags = [
            "--zookeeper",
            self.addresses.zookeeper,
            "--session-timeout-ms",
            str(self.options.coordinator_session_timeout_ms),
            "--http-port",
            str(port),
            "--journal-dir",
            str(journal),
        ]
        if self.options.kafka is not KafkaKind.ZOOKEEPER:
            flags += ["--bootstrap-servers", self.addresses.kafka]
        self.start(
            name, ProcessKind.COORDINATOR, ["zkcoord.cli.main", "coordinator", *flags], "output"
        )
        if not again:
            self.children.follow_folder(name, journal)

    def start_consumer(
        self, name: str, fault: Break | None = None, wait_for_go: bool = False
    ) -> None:
        """A consumer with automatic commit and small batches."""
        o = self.options
        flags = [
            "--zookeeper",
            self.addresses.zookeeper,
            "--group",
            GROUP,
            "--topic",
            TOPIC,
            "--commit",
            "auto",
            "--commit-interval-ms",
            str(o.commit_interval_ms),
            "--session-timeout-ms",
            str(o.consumer_session_timeout_ms),
            "--max-poll-records",
            str(o.max_poll_records),
            "--batch-delay-ms",
            str(o.batch_delay_ms),
            "--client-id",
            name,
            *(("--assignor", o.assignor) if o.assignor else ()),
        ]
        acting = (["--wait"] if wait_for_go else []) + (
            [] if fault is None else ["--fault", fault.value]
        )
        self.start(
            name,
            ProcessKind.CONSUMER,
            ["zkcoord.demo.actor", *acting, "--", *flags],
            engine.CONSUMERS,
        )

    def start_producer(self) -> None:
        """The producer."""
        flags = [
            "--bootstrap-servers",
            self.addresses.kafka,
            "--topic",
            TOPIC,
            "--partitions",
            str(self.partitions),
            "--rate",
            str(self.options.pace.rate),
        ]
        self.start(
            "producer", ProcessKind.PRODUCER, ["zkcoord.demo.producer", *flags], engine.PRODUCERS
        )

    def start_rogue(self, number: int) -> str:
        """Somebody who fetches a partition that is not his; his name."""
        self.start(
            "rogue",
            ProcessKind.ROGUE,
            [
                "zkcoord.demo.rogue",
                "--bootstrap-servers",
                self.addresses.kafka,
                "--topic",
                TOPIC,
                "--partition",
                str(number),
            ],
            engine.CONSUMERS,
        )
        return "rogue"

    # talking

    def is_waiting(self, name: str) -> bool:
        """Is this consumer loaded and waiting for `go`? (under the lock)"""
        return self.state.consumers[name].phase is ConsumerPhase.WAITING

    def go(self, name: str) -> None:
        """Let a waiting consumer begin."""
        os.kill(self.children.children[name].pid, signal.SIGUSR2)

    def trigger(self, name: str) -> None:
        """Make a broken consumer do what is wrong with it."""
        os.kill(self.children.children[name].pid, signal.SIGUSR1)

    def is_ready(self, name: str) -> bool:
        """Does this coordinator lead or stand by?"""
        try:
            # the address of a coordinator that this demo started
            with urllib.request.urlopen(self._ready[name], timeout=READY_TIMEOUT_S) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    # ending

    def ask_to_leave(self, name: str) -> int:
        """SIGTERM; the time just before it."""
        return self.children.terminate(self.children.children[name])

    def left(self, name: str) -> None:
        """Wait for the end of a process that was asked to leave. Raises `ScenarioError` when it did
        not end cleanly.
        """
        child = self.children.children[name]
        status = self.children.wait_gone(child)
        self.gone(child, killed=False)
        if status != 0:
            raise ScenarioError(
                f"{name} did not end cleanly: {signal_name(status)} (its log is {child.log})"
            )

    def kill(self, name: str) -> int:
        """kill -9; the time just before it."""
        child = self.children.children[name]
        killed_ns = self.children.kill(child)
        self.gone(child, killed=True)
        return killed_ns

    def kill_below(self, name: str, program: str = "java") -> int:
        """kill -9 of the JVM, or another program, below a process; the time just before it. What
        has to go with it is for the caller to end, and to say (`gone`).
        """
        import psutil

        child = self.children.children[name]
        below = psutil.Process(child.pid).children(recursive=True)
        victim = next((process for process in below if process.name() == program), None)
        if victim is None:
            raise ScenarioError(f"{name} has no {program} to be killed (its log is {child.log})")
        child.expected_to_end = True
        child.killed_ns = time.time_ns()
        victim.kill()
        return child.killed_ns

    def gone(self, child: DemoProcess, killed: bool) -> None:
        """A process has ended: write it down."""
        self.story.exit(child.name, killed, self.children.last_sign_ns(child))
        with self.children.lock:
            self.state.gone(child.name, killed)
        self.children.changed()

    def stop_producer(self) -> None:
        """Stop producing, and know what is in the topic for good."""
        self.ask_to_leave("producer")
        self.left("producer")

    def end_servers(self) -> None:
        """SIGTERM for all gateways and coordinators that run."""
        for kind in (ProcessKind.GATEWAY, ProcessKind.COORDINATOR):
            self._end(kind)

    def _end(self, kind: ProcessKind) -> None:
        running = [
            child
            for child in self.children.children.values()
            if child.alive and self.state.kinds[child.name] is kind
        ]
        for child in running:
            self.ask_to_leave(child.name)
        for child in running:
            self.left(child.name)

    # the topic

    def create_topic(self) -> None:
        """The topic, empty, with a leader for every partition."""
        with administration(self.addresses.kafka) as admin:
            admin.create_topics(
                {TOPIC: {"num_partitions": self.partitions, "replication_factor": 1}}
            )
            self.children.wait_for(
                lambda: led(admin) == self.partitions,
                self.options.step_timeout_s,
                "the topic's leaders",
            )

    def grow(self, partitions: int) -> None:
        """Add partitions to the topic."""
        with administration(self.addresses.kafka) as admin:
            admin.create_partitions({TOPIC: partitions})
        self.partitions = partitions


@contextmanager
def administration(kafka: str) -> Iterator[KafkaAdminClient]:
    """Kafka's admin client. Raises `ScenarioError` for what the broker refuses."""
    try:
        admin = KafkaAdminClient(bootstrap_servers=kafka)
        try:
            yield admin
        finally:
            admin.close()
    except KafkaError as error:
        raise ScenarioError(
            f"the broker refused to change the topic ({error}): its log says why"
        ) from error


def led(admin: KafkaAdminClient) -> int:
    """Partitions of the topic that have a leader."""
    found = admin.describe_topics([TOPIC])
    return sum(partition["leader_id"] >= 0 for partition in found[0]["partitions"]) if found else 0
