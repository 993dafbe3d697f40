"""Fixtures: guarded processes that never outlive their test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect

ROOT = Path(__file__).resolve().parents[2]
# a session of the longest timeout, 60 s, may end 40 s after the death of its process by itself: the
# last ping was up to 20 s before
PATIENCE_S = 38.0


def alive(pid: int) -> bool:
    """Running and no zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


class GuardedApp:
    """A process of `guarded_app`, in a process group of its own."""

    def __init__(
        self, hosts: str, front: tuple[str, ...] = (), quiet: bool = False, **options: Any
    ) -> None:
        self.options = options
        self.forked: list[int] = []
        command = [
            *front,
            sys.executable,
            "-m",
            "tests.guardian.guarded_app",
            hosts,
            json.dumps(options),
        ]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            start_new_session=True,
        )
        self.ready = self.expect("ready")

    @property
    def pid(self) -> int:
        return self.ready["pid"]

    @property
    def companion(self) -> int:
        return self.ready["companion"]

    def expect(self, event: str) -> dict[str, Any]:
        """The next event of this name; others are passed over."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found = json.loads(line)
            if found["event"] == event:
                if event == "forked":
                    self.forked.append(found["pid"])
                return found
        raise AssertionError(f"the process ended without saying {event}")

    def tell(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def ask(self, command: str, event: str) -> dict[str, Any]:
        self.tell(command)
        return self.expect(event)

    def kill(self) -> None:
        """kill -9 of the guarded process alone."""
        os.kill(self.pid, signal.SIGKILL)

    def clean_up(self) -> None:
        for pid in (self.pid, *self.forked):
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue


def _hear_interrupts() -> None:
    """In the child: a test run that a shell put into the background ignores SIGINT, and children
    inherit that.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Sidecar:
    """A `zkcoord guard` process and what it said."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "zkcoord.guardian", *arguments],
            cwd=ROOT,
            text=True,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            preexec_fn=_hear_interrupts,
        )

    def expect(self, part: str) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if part in line:
                return line
        raise AssertionError(f"the sidecar ended without saying: {part}")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


@pytest.fixture
def start_app(zk_hosts: str) -> Iterator[Callable[..., GuardedApp]]:
    """Start guarded processes on the shared ZooKeeper."""
    apps: list[GuardedApp] = []

    def start(**options: Any) -> GuardedApp:
        hosts = options.pop("hosts", zk_hosts)
        apps.append(GuardedApp(hosts, **{"node": "/member", **options}))
        return apps[-1]

    yield start
    for app in apps:
        app.clean_up()
    for app in apps:
        if app.companion is not None:
            wait_until(lambda: not alive(app.companion), PATIENCE_S, "the companion's end")


@pytest.fixture
def observer(zk_hosts: str) -> Iterator[KazooClient]:
    """A client that looks."""
    client = connect(zk_hosts)
    yield client
    disconnect(client)


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """Where a guardian reports."""
    return tmp_path / "report.jsonl"


def closed(line: dict[str, Any]) -> bool:
    """Whether a report says that the guardian closed the session. Where an attempt was not answered
    in time, the next one finds what it did.
    """
    return bool(
        line["outcome"] == "closed" or (line["outcome"] == "expired" and line["attempts"] > 1)
    )


def reported(path: Path) -> list[dict[str, Any]]:
    """What guardians have reported so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
