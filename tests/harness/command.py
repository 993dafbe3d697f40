"""`zkcoord` as a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

from tests.harness.tape import assert_replays
from tests.harness.wait import wait_until
from zkcoord.coordinator.journal import journal_files

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0


def environment(home: Path, **more: str) -> dict[str, str]:
    """This process's environment without any option of zkcoord, at home in a folder of the test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ZKCOORD_")}
    return {**kept, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(home), "HOME": str(home), **more}


def run(
    home: Path, *arguments: str, timeout_s: float = PATIENCE_S, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, or fail after `timeout_s`."""
    return subprocess.run(
        [sys.executable, "-m", "zkcoord.cli.main", *arguments],
        env=environment(home, **more),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        cwd=home,
        check=False,
    )


class Running:
    """A coordinator process, with `more` in its environment. A context manager: it is killed at the
    end, if it still runs. Whatever happened to it, what it recorded of its inputs must replay to
    what it did.
    """

    def __init__(self, home: Path, *arguments: str, **more: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.log_path = home / "log"
        self.journal = home / "journal"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "zkcoord.cli.main",
                    "coordinator",
                    "--journal-dir",
                    str(self.journal),
                    "--journal-inputs",
                    *arguments,
                ],
                env=environment(home, **more),
                stdout=log,
                stderr=log,
                cwd=home,
            )

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        if kind is None:
            assert_replays(self.journal)

    @property
    def log(self) -> str:
        """What it logged so far."""
        return self.log_path.read_text(encoding="utf-8")

    def logs(self, text: str) -> None:
        """Wait until it has logged this."""
        wait_until(lambda: text in self.log or self._ended(), PATIENCE_S, f"{text!r} in the log")
        assert text in self.log, self.log

    def _ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def port(self) -> int:
        """Where it serves HTTP."""
        found = wait_until(
            lambda: re.search(r'msg="http serves".* port=(\d+)', self.log),
            PATIENCE_S,
            "the port in the log",
        )
        assert found is not None
        return int(found[1])

    def get(self, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
        """Status and body; (0, "") where nothing answers. `host`: whom the request says it asks."""
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers={"Host": host}
        )
        try:
            with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def ready(self, words: str) -> None:
        """Wait until /ready says this; what else people should know follows in the next line."""

        def is_ready() -> bool:
            status, said = self.get("/ready")
            return status == 200 and said.splitlines()[0] == words

        wait_until(is_ready, PATIENCE_S, f"/ready to say {words}")

    def metric(self, name: str) -> float:
        """A sample by its name with labels, as /metrics writes it."""
        for line in self.get("/metrics")[1].splitlines():
            if line.rpartition(" ")[0] == name:
                return float(line.rpartition(" ")[2])
        raise AssertionError(f"{name} is not in /metrics")

    def metric_becomes(self, name: str, value: float) -> None:
        """Wait until /metrics, which is made once a second, shows this."""
        wait_until(lambda: self.metric(name) == value, PATIENCE_S, f"{name} to be {value:g}")

    def signal(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def records(self, kind: str) -> list[dict[str, object]]:
        """Its journal's records of a kind."""
        # behind the last newline is a line that is just being written
        lines = [
            line
            for path in journal_files(self.journal)
            for line in path.read_text().split("\n")[:-1]
        ]
        return [record for record in map(json.loads, lines) if record.get("kind") == kind]
