"""`zkcoord console` as a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.console.http.served import Stream
from tests.harness.command import PATIENCE_S, environment
from tests.harness.wait import wait_until


class ConsoleRunning:
    """The process; its address is in what it says."""

    def __init__(self, home: Path, *arguments: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.log_path = home / "console.log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "zkcoord.cli.main", "console"),
                    *("--listen", "127.0.0.1:0", "--interval-ms", "500", *arguments),
                ],
                env=environment(home),
                stdout=log,
                stderr=log,
                cwd=home,
            )
        wait_until(lambda: self._port() or self.process.poll() is not None, PATIENCE_S, "a port")
        assert self._port(), self.log
        self.port = self._port()

    @property
    def log(self) -> str:
        """What it said so far."""
        return self.log_path.read_text(encoding="utf-8")

    def _port(self) -> int:
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", self.log)
        return int(found[1]) if found else 0

    def get(self, path: str = "/", timeout_s: float = PATIENCE_S) -> tuple[int, str]:
        """Status and page; raises `TimeoutError`."""
        asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        with contextlib.closing(asked):
            asked.request("GET", path)
            answer = asked.getresponse()
            return answer.status, answer.read().decode()

    def shows(self, path: str, *texts: str) -> str:
        """The page, once it has all of these."""

        def has() -> str:
            page = self.get(path)[1]
            return page if all(text in page for text in texts) else ""

        return wait_until(has, PATIENCE_S, f"{texts} on {path}: {self.get(path)[1][-3_000:]}")

    def open(self, path: str) -> Stream:
        """A page's events."""
        return Stream(self.port, path)

    def signal(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit status after this."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@contextlib.contextmanager
def running(home: Path, *arguments: str) -> Iterator[ConsoleRunning]:
    """It runs within the block."""
    found = ConsoleRunning(home, *arguments)
    try:
        yield found
    finally:
        if found.process.poll() is None:
            found.process.kill()
        found.process.wait(PATIENCE_S)


def told(stream: Stream, part: str, text: str) -> str:
    """The part, once the page shows one with this text in it."""

    def has() -> str:
        found = stream.parts.get(part, "")
        if text in found:
            return found
        assert stream.next() is not None, "the stream has ended"
        return ""

    return wait_until(has, PATIENCE_S, f"{text} in {part}")
