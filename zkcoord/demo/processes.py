"""Child processes that tell what they do as JSON lines, and conditions over what they told. For the
demo and for benchmarks.

A child writes its lines into a file, not into a pipe: nobody has to read for it to go on, and what
it wrote before a kill -9 is there. One thread follows all files and hands each line to the sink,
then wakes whoever waits (`wait_for`). Lines carry their own times, so it does not matter that they
are read `FOLLOW_S` later.

Nothing survives: every child dies with this process, however that ends (a watcher per child waits
for it on a pidfd), and `close` ends all of them in parallel. Children have sessions of their own,
so a Ctrl-C in the terminal reaches only this process, which then ends them in order.

Time of death. `kill` notes the time just before the signal; the process may have written its last
line a little later, and was alive then, so the later of the two counts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from zkcoord.errors import ChildEndedError, ConditionTimeoutError, ScenarioError
from zkcoord.stack.process import last_line, owned_command
from zkcoord.verdict.engine import record_files

FOLLOW_S = 0.02
TERM_TIMEOUT_S = 10.0
KILL_TIMEOUT_S = 10.0

Line = dict[str, Any]
Sink = Callable[[str, Line], None]


@dataclass
class DemoProcess:
    """One process. `lines` is the file with its JSON lines, `log` has its standard error.
    `killed_ns`: when it was killed by `DemoProcesses.kill`.
    """

    name: str
    process: subprocess.Popen[bytes]
    lines: Path
    log: Path
    expected_to_end: bool = False
    killed_ns: int | None = None
    last_line_ns: int = 0

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid


@dataclass
class Followed:
    """A file that is read as it grows. `name` is whom its lines are from."""

    name: str
    path: Path
    file: BinaryIO | None = None
    rest: bytes = b""


class DemoProcesses:
    """Starts, follows, ends. `sink(name, line)` gets every line, on the following thread, under
    `lock`; state that it changes is read under `lock` or in `wait_for` predicates, which hold it.
    """

    def __init__(self, sink: Sink) -> None:
        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        self._sink = sink
        self._files: list[Followed] = []
        self._folders: list[tuple[str, Path, set[Path]]] = []
        self._stopping = threading.Event()
        self.children: dict[str, DemoProcess] = {}
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._follow, name="follow-children", daemon=True)
        self._thread.start()

    # starting

    def start(
        self,
        name: str,
        module: Sequence[str],
        lines: Path,
        log: Path,
        release: Path | None = None,
    ) -> DemoProcess:
        """Start `python -m module...`; its standard output goes to `lines` and is followed.
        `release`: a virtual environment whose python and packages run instead of the present ones.
        """
        assert name not in self.children or not self.children[name].alive, (
            "two processes of one name"
        )
        lines.parent.mkdir(parents=True, exist_ok=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        with lines.open("ab") as output, log.open("ab") as errors:
            python = [sys.executable] if release is None else [f"{release}/bin/python", "-I"]
            command = owned_command([*python, "-m", *module])
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                env=environment(),
            )
        child = DemoProcess(name, process, lines, log)
        with self.lock:
            self.children[name] = child
            if all(followed.path != lines for followed in self._files):
                self._files.append(Followed(name, lines))
        return child

    def follow_folder(self, name: str, folder: Path) -> None:
        """Follow every file of records that is or comes into `folder`, as lines of `name`."""
        with self.lock:
            self._folders.append((name, folder, set()))

    # waiting

    def wait_for(self, predicate: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Until `predicate()`, asked under `lock` after every change. Raises
        `ConditionTimeoutError`, or `ChildEndedError` when a child ended that should not have.
        """
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not predicate():
                left = deadline - time.monotonic()
                if self.failure is not None:
                    raise ScenarioError(
                        f"the thread that reads what the processes say ended: {self.failure!r}"
                    ) from self.failure
                self.check()
                if left <= 0:
                    raise ConditionTimeoutError(f"waited {timeout_s:.0f} s in vain for {what}")
                self._changed.wait(min(left, 0.2))

    def check(self) -> None:
        """Raises `ChildEndedError` when a child ended that should not have."""
        for child in self.children.values():
            if not child.expected_to_end and not child.alive:
                raise ChildEndedError(
                    f"{child.name} ended by itself with status {child.process.returncode}:"
                    f" {last_line(child.log)} (its log is {child.log})"
                )

    def changed(self) -> None:
        """Something else changed that a predicate may ask for."""
        with self._changed:
            self._changed.notify_all()

    # ending

    def kill(self, child: DemoProcess) -> int:
        """kill -9; returns the wall-clock time in ns just before it."""
        child.expected_to_end = True
        child.killed_ns = time.time_ns()
        child.process.kill()
        child.process.wait(KILL_TIMEOUT_S)
        return child.killed_ns

    def terminate(self, child: DemoProcess) -> int:
        """SIGTERM without waiting; returns the wall-clock time in ns just before it."""
        child.expected_to_end = True
        now_ns = time.time_ns()
        child.process.terminate()
        return now_ns

    def wait_gone(self, child: DemoProcess, timeout_s: float = TERM_TIMEOUT_S) -> int:
        """Wait for its end and return its exit status. Raises `ConditionTimeoutError`."""
        try:
            return child.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise ConditionTimeoutError(
                f"{child.name} did not end within {timeout_s:.0f} s of its SIGTERM (its log is"
                f" {child.log})"
            ) from None

    def last_sign_ns(self, child: DemoProcess) -> int:
        """The latest time at which a child that is gone was certainly alive, or when it was killed,
        if that is later. Reads the rest of its lines first.
        """
        self.drain()
        return max(child.last_line_ns, child.killed_ns or 0)

    def close(self) -> None:
        """End all children, in parallel, and the following thread. Never raises; safe to call
        twice.
        """
        for child in self.children.values():
            if child.alive:
                self.terminate(child)
        deadline = time.monotonic() + TERM_TIMEOUT_S
        for child in self.children.values():
            try:
                child.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait(KILL_TIMEOUT_S)
        self._stopping.set()
        self._thread.join(TERM_TIMEOUT_S)
        for followed in self._files:
            if followed.file is not None:
                followed.file.close()

    # following

    def _follow(self) -> None:
        try:
            while not self._stopping.wait(FOLLOW_S):
                self.drain()
        except Exception as error:  # thread main
            self.failure = error
            self.changed()

    def drain(self) -> None:
        """Read everything that is there now."""
        with self._changed:
            for name, folder, seen in self._folders:
                for path in record_files(folder):
                    if path not in seen:
                        seen.add(path)
                        self._files.append(Followed(name, path))
            # each is read, whatever the one before gave
            came = [self._read(followed) for followed in self._files]
            if any(came):
                self._changed.notify_all()

    def _read(self, followed: Followed) -> bool:
        """Hand on what came; False when nothing did."""
        if followed.file is None:
            followed.file = followed.path.open("rb")
        data = followed.file.read()
        if not data:
            return False
        *whole, followed.rest = (followed.rest + data).split(b"\n")
        child = self.children.get(followed.name)
        for raw in whole:
            line = parsed(raw)
            if line is None:
                continue
            if (
                child is not None
                and child.lines == followed.path
                and isinstance(line.get("t"), int)
            ):
                child.last_line_ns = max(child.last_line_ns, line["t"])
            self._sink(followed.name, line)
        return True


def parsed(raw: bytes) -> Line | None:
    """A line's object; None for anything else (a process may print what is no JSON)."""
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def environment() -> Mapping[str, str]:
    """This process's environment, in which this very code is found, installed or not."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [
        root,
        *[
            path
            for path in os.environ.get("PYTHONPATH", "").split(os.pathsep)
            if path and path != root
        ],
    ]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}


def signal_name(status: int) -> str:
    """An exit status of a child for people."""
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
