"""Spark applications as processes: started, looked at by what they say, killed in all ways."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from tests.harness.wait import wait_until

START_S = 600.0
PATIENCE_S = 300.0
ROOT = Path(__file__).parents[2]


class Application:
    """One run of `tests.spark.app` on a folder, which outlives it."""

    def __init__(
        self,
        hosts: str,
        group: str,
        topic: str,
        folder: Path,
        *arguments: str,
        options: Iterable[str] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.events: list[dict[str, Any]] = []
        self.log = folder / "log.txt"
        command = [
            sys.executable,
            "-m",
            "tests.spark.app",
            "--zookeeper",
            hosts,
            "--group",
            group,
            "--topic",
            topic,
            "--folder",
            str(folder),
            *arguments,
        ]
        for option in options:
            command += ["--option", option]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
            )
        self.reading = threading.Thread(target=self._read, daemon=True)
        self.reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            at = line.find('{"event"')  # behind Spark's progress bar
            if at >= 0:
                self.events.append(json.loads(line[at:]))

    def await_event(self, name: str, timeout_s: float = START_S) -> dict[str, Any]:
        """The first event of this name."""
        wait_until(
            lambda: any(e["event"] == name for e in self.events) or self.process.poll() is not None,
            timeout_s,
            f"{name} of {self.folder.name}",
        )
        found = [e for e in self.events if e["event"] == name]
        assert found, f"{self.folder.name} ended: {self.tail()}"
        return found[0]

    def tail(self) -> str:
        """The end of what it said on standard error."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-3_000:]

    @property
    def jvm(self) -> psutil.Process:
        return psutil.Process(self.await_event("started")["jvm"])

    @property
    def source(self) -> psutil.Process:
        """The process that plans."""

        def found() -> list[psutil.Process]:
            return [
                child
                for child in self.jvm.children(recursive=True)
                if "python_streaming_source_runner" in " ".join(child.cmdline())
            ]

        return wait_until(found, PATIENCE_S, "the source's process")[0]

    def said(self) -> dict[str, Any]:
        """The latest report of the source."""
        progress = [e for e in self.events if e["event"] == "progress"]
        found = progress[-1]["source"]["latestOffset"] if progress else None
        return json.loads(found) if isinstance(found, str) else found or {}

    def batches(self) -> list[dict[str, Any]]:
        """What is written, of all runs on this folder, in the order of time."""
        return sorted(
            (
                json.loads(line)
                for path in self.folder.glob("batches-*.jsonl")
                for line in path.read_text(encoding="utf-8").splitlines()
                if line.endswith("}")
            ),
            key=lambda b: b["t"],
        )

    def logged(self, what: str) -> int:
        """The number of the last batch in Spark's log of `offsets` or `commits` (-1: none)."""
        return max(
            (
                int(path.name)
                for path in (self.folder / "checkpoint" / what).glob("*")
                if path.name.isdigit()
            ),
            default=-1,
        )

    def plan(self, batch: int) -> dict[str, Any]:
        """The plan in Spark's log of offsets."""
        found: dict[str, Any] = json.loads(
            (self.folder / "checkpoint" / "offsets" / str(batch))
            .read_text(encoding="utf-8")
            .splitlines()[-1]
        )
        return found

    def kill(self) -> None:
        """kill -9 of the JVM; its driver goes with it."""
        self.jvm.kill()
        self._gone()

    def ask(self, number: signal.Signals) -> int:
        """SIGTERM: drain and stop; SIGUSR1: stop. Its exit status."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def _gone(self) -> None:
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(PATIENCE_S)

    def clean(self) -> None:
        """Nothing of it is left."""
        started = [e for e in self.events if e["event"] == "started"]
        for pid in {self.process.pid, *(e["jvm"] for e in started)}:
            try:
                for one in [*psutil.Process(pid).children(recursive=True), psutil.Process(pid)]:
                    one.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.wait(PATIENCE_S)


def written(applications: Iterable[Application]) -> Counter[tuple[int, int]]:
    """How often each (partition, offset) is written, by all runs on these folders."""
    folders = {application.folder: application for application in applications}
    return Counter(
        (int(partition), offset)
        for application in folders.values()
        for batch in application.batches()
        for partition, offsets in batch["offsets"].items()
        for offset in offsets
    )


@contextmanager
def cleaned() -> Iterator[list[Application]]:
    """A list of applications, none of which outlives the block."""
    started: list[Application] = []
    try:
        yield started
    finally:
        for application in started:
            application.clean()
