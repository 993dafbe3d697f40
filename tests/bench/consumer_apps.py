"""Processes of `tests.bench.consumer_app` and `consumer.verifiable`, and the lines that they have
written.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zkcoord.demo.processes import DemoProcess, DemoProcesses, Line
from zkcoord.errors import ConditionTimeoutError
from zkcoord.stack.process import last_line

WAIT_S = 120.0
END_S = 90.0
NS = 1_000_000
OURS, THEIRS = "zkcoord", "kafka-python"


@dataclass
class App:
    """One process. `started_ns` is the time just before it was started: by a watcher that becomes
    it, which takes a few milliseconds.
    """

    name: str
    child: DemoProcess
    started_ns: int
    lines: list[Line]

    def of(self, event: str) -> list[Line]:
        """Its lines of one kind."""
        return [line for line in list(self.lines) if line["event"] == event]

    def at(self, event: str) -> int:
        """When the first of this kind happened (ns)."""
        return int(self.of(event)[0]["t"])

    def ms(self, event: str, since: str = "") -> float:
        """From its start, or from another event, to the first of this kind."""
        return (self.at(event) - (self.at(since) if since else self.started_ns)) / NS


class Apps:
    """Starts them, hears them, ends them all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lines: dict[str, list[Line]] = {}
        self.children = DemoProcesses(self._line)

    def _line(self, name: str, line: Line) -> None:
        self._lines[name].append(line)

    def start(self, name: str, module: Sequence[str], lines: str = "lines") -> App:
        """`python -m module...`; its lines go to NAME.jsonl in the folder `lines`."""
        with self.children.lock:
            said = self._lines[name] = []
        started_ns = time.time_ns()
        child = self.children.start(
            name,
            module,
            self.folder / lines / f"{name}.jsonl",
            self.folder / "logs" / f"{name}.log",
        )
        return App(name, child, started_ns, said)

    def app(self, name: str, **order: Any) -> App:
        """A `consumer_app`; one with an end to its work may end by itself."""
        app = self.start(name, ["tests.bench.consumer_app", json.dumps(order)])
        app.child.expected_to_end = bool(order.get("total") or order.get("idle_s"))
        return app

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
        """Until it holds. Raises `ScenarioError`."""
        self.children.wait_for(condition, timeout_s, what)

    def wait_line(self, app: App, event: str, count: int = 1) -> None:
        """Until a process has said something so often. Raises `ScenarioError`, also where it ends
        before.
        """
        self.wait(
            lambda: len(app.of(event)) >= count or not app.child.alive,
            f"{count} x {event!r} of {app.name}",
        )
        self.children.drain()
        if len(app.of(event)) < count:
            raise ConditionTimeoutError(
                f"{app.name} ended with status {app.child.process.returncode} before it was"
                f" {event}: {last_line(app.child.log)}"
            )

    def end(self, *apps: App) -> None:
        """SIGTERM for all of them, and wait for their ends and last lines. Raises
        `ConditionTimeoutError`.
        """
        for app in apps:
            app.child.expected_to_end = True
            if app.child.alive:
                self.children.terminate(app.child)
        self.wait_ended(*apps)

    def wait_ended(self, *apps: App) -> None:
        """Until these have ended, by themselves, and their last lines are read. Raises
        `ConditionTimeoutError`, also where one failed.
        """
        for app in apps:
            app.child.expected_to_end = True
            status = self.children.wait_gone(app.child, END_S)
            if status != 0:
                raise ConditionTimeoutError(
                    f"{app.name} ended with status {status}: see {app.child.log}"
                )
        self.children.drain()

    def close(self) -> None:
        """End everything; safe to call twice."""
        self.children.close()


@contextmanager
def running_apps(folder: Path) -> Iterator[Apps]:
    """Apps inside the block."""
    apps = Apps(folder)
    try:
        yield apps
    finally:
        apps.close()


def alternating(sides: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """(round, side), each round in the opposite order of the one before."""
    for number in range(rounds):
        yield from (
            (number, side) for side in (sides if number % 2 == 0 else tuple(reversed(sides)))
        )


def configs(kind: str, zookeeper: str, kafka: str, group: str, **more: Any) -> dict[str, Any]:
    """The options of one side; everything that is not named is the default that ships."""
    where = {"bootstrap_servers": kafka} if kind == THEIRS else {"zookeeper_connect": zookeeper}
    return {
        **where,
        "group_id": group,
        "auto_offset_reset": "earliest",
        **({"data_client": "librdkafka"} if kind == "librdkafka" else {}),
        **more,
    }


def installed(names: Collection[str]) -> bool:
    """Does this consumer know all these options?"""
    from consumer.options import DEFAULT_CONFIG

    return DEFAULT_CONFIG.keys() >= set(names)
