"""Spark drivers as processes, and the applications that they are at the moment: an application is a
name and a checkpoint, and outlives the drivers that are killed under it.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import psutil

from tests.chaos_spark.app import Config
from zkcoord.demo.processes import DemoProcesses, Line, parsed

GATES = ("batch", "committed", "written")
RUNNER = "python_streaming_source_runner"


class Driver:
    """A process of `tests.chaos_spark.app`: its gates, its orders, what it said. `lines` grows
    under the lock of `children`; `config` is all that it is told but its places. `wait` waits for a
    condition, named for people.
    """

    def __init__(
        self,
        children: DemoProcesses,
        wait: Callable[[Callable[[], object], str], None],
        folder: Path,
        config: Config,
    ) -> None:
        self._children = children
        self._wait = wait
        self._left: list[psutil.Process] = []
        self.name = config.name
        self.gates = folder / "gates"
        self.gates.mkdir(parents=True)
        os.mkfifo(folder / "control")
        self._control = os.open(folder / "control", os.O_RDWR)
        self._seen = 0
        self.lines: list[Line] = []
        self.log = folder / "log"
        told = {
            **asdict(config),
            "folder": str(folder),
            "gates": str(self.gates),
            "control": str(folder / "control"),
        }
        (folder / "config.json").write_text(json.dumps(told), encoding="utf-8")
        self.child = children.start(
            self.name,
            ["tests.chaos_spark.app", str(folder / "config.json")],
            folder / "lines.jsonl",
            self.log,
        )

    def order(self, do: str, **more: str) -> None:
        """Tell it something."""
        os.write(self._control, json.dumps({"do": do, **more}).encode() + b"\n")

    def heard(self, event: str, **more: object) -> Line:
        """Wait for its next line of this kind, and give it; those before are passed over."""
        found: list[Line] = []

        def said() -> bool:
            while self._seen < len(self.lines) and not found:
                line = self.lines[self._seen]
                self._seen += 1
                if line.get("event") == event and all(
                    line.get(key) == value for key, value in more.items()
                ):
                    found.append(line)
            return bool(found)

        self._wait(said, f"{event} {more or ''} of {self.name} (its log is {self.log})")
        return found[0]

    def close_gate(self, gate: str) -> None:
        """From now on it waits there."""
        assert gate in GATES
        (self.gates / gate).touch()

    def open_gate(self, gate: str) -> None:
        """Let it go on."""
        (self.gates / gate).unlink(missing_ok=True)

    def at_gate(self, gate: str) -> Line:
        """Wait until it stands at the gate; gives what it said of the batch there."""
        self.heard("gate", gate=gate)
        with self._children.lock:
            return next(
                line for line in reversed(self.lines[: self._seen]) if line.get("event") == "batch"
            )

    def source(self) -> psutil.Process:
        """The process of its source: the youngest of that kind (those before it came too late, or
        are about to end).
        """
        found = [process for process in self.processes() if RUNNER in _command(process)]
        return max(found, key=lambda process: process.create_time())

    def processes(self) -> list[psutil.Process]:
        """All that it started."""
        return psutil.Process(self.child.pid).children(recursive=True) if self.child.alive else []

    @property
    def application(self) -> str:
        """Spark's name of it; it is ready."""
        with self._children.lock:
            return next(str(line["id"]) for line in self.lines if line.get("event") == "ready")

    def kill(self) -> None:
        """kill -9 of the JVM, and of the driver's Python that belongs to it."""
        self.child.expected_to_end = True
        self._left = self.processes()
        with self._children.lock:
            jvm = next(int(line["jvm"]) for line in self.lines if line.get("event") == "ready")
        os.kill(jvm, signal.SIGKILL)
        self._children.kill(self.child)

    def end(self) -> None:
        """A drained stop, and the end of the process."""
        self.child.expected_to_end = True
        self.order("end")
        self.heard("ended")

    def release(self) -> list[psutil.Process]:
        """Nothing holds it any more, so that it can be ended; gives what it started."""
        processes = self._left + self.processes()
        for gate in GATES:
            self.open_gate(gate)
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()
        os.close(self._control)
        return processes


class App:
    """An application: its checkpoint, and its driver of now."""

    def __init__(self, name: str, folder: Path, driver: Driver) -> None:
        self.name = name
        self.driver = driver
        self.checkpoint = folder / "checkpoints" / name
        self._journals = folder / "run" / "consumers"
        self._journal = self._journals / name
        self._starts = 0

    def start(self) -> None:
        """Start its query."""
        self._starts += 1
        self._journal = self._journals / f"{self.name}-{self._starts}"
        self.driver.order(
            "start", app=self.name, checkpoint=str(self.checkpoint), journal=str(self._journal)
        )
        self.driver.heard("started")

    def stop(self) -> None:
        """A drained stop of its query."""
        self.driver.order("stop")
        self.driver.heard("stopped")

    def journal(self) -> list[Line]:
        """What its sources wrote down since it was started last."""
        found = [
            parsed(raw)
            for path in self._journal.glob("*.jsonl")
            for raw in path.read_bytes().split(b"\n")
        ]
        return sorted((line for line in found if line is not None), key=lambda line: int(line["t"]))


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


def runs(process: psutil.Process) -> bool:
    """Whether it has not ended."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
