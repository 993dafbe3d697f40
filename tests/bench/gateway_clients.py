"""Clients of several libraries as processes, for `tests.bench.gateway` and the nightly tests: what
each says becomes events with one clock, and of these follows who had which partition when.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.gateway.clients import HERE, V3, V4, tools_classpath
from tests.gateway.foreign import CLIENTS
from tests.legacy.jars import compiled
from zkcoord.errors import UnavailableError
from zkcoord.stack.java import Java

PATIENCE_S = 60.0
SOURCE = HERE / "java" / "WireClient.java"
KINDS = ("librdkafka", "kafka-python", f"java {V3}", f"java {V4}", *CLIENTS)
RANGE, ROUND_ROBIN, COOPERATIVE = "range", "roundrobin", "cooperative"
OWN = "own"
JAVA = "org.apache.kafka.clients.consumer."
NAMED = {RANGE: "range", ROUND_ROBIN: "roundrobin", COOPERATIVE: "cooperative-sticky"}
STRATEGIES: dict[str, dict[str, str]] = {
    "librdkafka": NAMED,
    "kafka-python": {"default": ""},
    "java": {
        RANGE: f"{JAVA}RangeAssignor",
        ROUND_ROBIN: f"{JAVA}RoundRobinAssignor",
        COOPERATIVE: f"{JAVA}CooperativeStickyAssignor",
        OWN: "WireClient$OwnAssignor",
    },
    "franz-go": NAMED,
    "kafkajs": {ROUND_ROBIN: ""},
    "sarama": NAMED,
    "aiokafka": {RANGE: "range", ROUND_ROBIN: "roundrobin"},
}
"""Library -> the assignors that are measured with it, by what their column calls them, and what the
library does; "": it has this one without being told. With `OWN` its clients lead the group.
"""


def strategies(kind: str) -> dict[str, str]:
    """Those of a kind of client."""
    return STRATEGIES[kind.split(" ", maxsplit=1)[0]]


@dataclass(frozen=True)
class Event:
    """What a client said. `at` is in seconds of the monotonic clock. `numbers` are partitions, but
    of "took" a partition, the first and the last offset.
    """

    at: float
    kind: str
    numbers: tuple[int, ...]

    @property
    def partitions(self) -> frozenset[int]:
        """Of all kinds but "took"."""
        return frozenset(self.numbers)


class Client:
    """One process. `events` grows while it runs."""

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name = name
        self.events: list[Event] = []
        self._log = (folder / f"{name}.log").open("wb")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            at, _, rest = line.strip().partition(" ")
            kind, _, numbers = rest.rpartition(" ") if rest[-1:].isdigit() else (rest, "", "")
            if at.isdigit():
                found = tuple(map(int, numbers.split(","))) if numbers else ()
                self.events.append(Event(int(at) / 1e9, kind.strip(), found))

    def say(self, order: str) -> float:
        """Tell it something; when that was."""
        assert self.process.stdin is not None
        at = time.monotonic()
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        return at

    def said(self, kind: str, since: float = 0.0) -> float | None:
        """When it first said this."""
        return next((e.at for e in list(self.events) if e.kind == kind and e.at >= since), None)

    def owned(self, at: float) -> frozenset[int]:
        """What it had at a moment."""
        found: frozenset[int] = frozenset()
        for event in list(self.events):
            if event.at > at:
                break
            if event.kind == "assigned":
                found |= event.partitions
            elif event.kind in ("revoked", "lost"):
                found -= event.partitions
            elif event.kind == "closes":
                found = frozenset()
        return found

    def is_ready(self) -> bool:
        """Whether it has connected. Raises `UnavailableError` when it has ended instead."""
        if self.said("ready") is None and self.process.poll() is not None:
            raise UnavailableError(
                f"{self.name} ended with {self.process.returncode}: {self._why()}"
            )
        return self.said("ready") is not None

    def _why(self) -> str:
        lines = Path(self._log.name).read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    def took(self) -> list[tuple[int, int]]:
        """(partition, offset) of each record that it was given."""
        batches = [event.numbers for event in list(self.events) if event.kind == "took"]
        return [(n, offset) for n, first, last in batches for offset in range(first, last + 1)]

    def kill(self) -> float:
        """SIGKILL; when."""
        at = time.monotonic()
        self.process.kill()
        return at

    def end(self) -> None:
        """No more of it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._log.close()


def command_of(kind: str, java: Java, topic: str, options: dict[str, str]) -> list[str]:
    """How a client of this kind is started. Raises `ToolchainMissingError`."""
    given = [f"{name}={value}" for name, value in options.items()]
    if kind.startswith("java "):
        classes = tools_classpath(kind.removeprefix("java "), java)
        harness = compiled(SOURCE, java, class_path=classes)
        path = os.pathsep.join([harness, classes])
        flags = ["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [str(java.executable), *flags, "-cp", path, "WireClient", topic, *given]
    if kind in CLIENTS:
        return [*CLIENTS[kind](), topic, *given]
    return [sys.executable, "-m", "tests.gateway.wire_client", kind, topic, *given]


def options_of(kind: str, strategy: str, bootstrap: str, group: str) -> dict[str, str]:
    """The settings that are measured: session 10 s, a heartbeat each 3 s."""
    found = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "latest",
        "session.timeout.ms": "10000",
        "heartbeat.interval.ms": "3000",
    }
    if named := strategies(kind)[strategy]:
        found["partition.assignment.strategy"] = named
    return found


@contextmanager
def running() -> Iterator[list[Client]]:
    """Clients that are put into the list are gone afterwards."""
    clients: list[Client] = []
    try:
        yield clients
    finally:
        for client in clients:
            client.end()


def when(condition: Callable[[float], bool], since: float, what: str) -> float:
    """The first moment from `since` on at which a condition held (to a millisecond), waited for."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition(time.monotonic()):
        if time.monotonic() > deadline:
            raise UnavailableError(f"not within {PATIENCE_S:.0f} s: {what}")
        time.sleep(0.002)
    return _first(condition, since, time.monotonic())


def _first(condition: Callable[[float], bool], low: float, high: float) -> float:
    """By halves: once it holds, it holds until `high`."""
    while high - low > 0.0005:
        middle = (low + high) / 2
        if condition(middle):
            high = middle
        else:
            low = middle
    return high


def shares(clients: Sequence[Client], partitions: int) -> Callable[[float], bool]:
    """Whether these had everything at a moment, each partition once, evenly."""

    def shared(at: float) -> bool:
        owned = [client.owned(at) for client in clients]
        sizes = [len(part) for part in owned]
        return (
            len(frozenset().union(*owned)) == partitions == sum(sizes)
            and max(sizes) - min(sizes) <= 1
        )

    return shared
