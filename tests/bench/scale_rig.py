"""The servers and processes of one run of the scale benchmark: a real ZooKeeper with the stack's
settings (more heap, longer sessions), and coordinators in processes of their own
(`scale_coordinator`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.scale_wire import Hub
from tests.bench.scale_world import Seeder
from tests.harness.zookeeper import fresh_chroot, srvr_stats
from zkcoord.stack.java import find_java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import ZooKeeperOptions, ZooKeeperServer

SESSION_MS = 3_600_000
HEAP_MB = 2_048
END_TIMEOUT_S = 60.0
WAIT_S = 300.0


class CoordinatorProcess:
    """One coordinator. `said` maps an event to what it said of it."""

    def __init__(
        self, hosts: str, journal: Path, log: Path, path: Sequence[str], *flags: str
    ) -> None:
        self.journal = journal
        self.said: dict[str, dict[str, Any]] = {}
        self._taken = 0
        self._log = log.open("wb")
        command = [
            sys.executable,
            "-m",
            "tests.bench.scale_coordinator",
            hosts,
            str(journal),
            *flags,
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (*path, os.environ.get("PYTHONPATH")))),
        }
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found = json.loads(line)
            self.said[found["event"]] = found

    def records(self) -> list[dict[str, Any]]:
        """Journal records since the last call."""
        if not self.journal.exists():
            return []
        with self.journal.open(encoding="utf-8") as lines:
            lines.seek(self._taken)
            text = lines.read()
        whole = text[: text.rfind("\n") + 1]
        self._taken += len(whole.encode())
        return [json.loads(line) for line in whole.splitlines()]

    def now(self, hub: Hub) -> dict[str, Any]:
        """What it says of itself when it is asked, while the hub's sessions live on."""
        self.said.pop("now", None)
        self.process.send_signal(signal.SIGUSR1)
        hub.run_until(lambda: "now" in self.said, WAIT_S, "a coordinator's answer")
        return self.said["now"]

    def stop(self) -> dict[str, Any]:
        """SIGTERM; what it said at the end."""
        self.process.terminate()
        self.end()
        assert "ended" in self.said, f"the coordinator ended with status {self.process.returncode}"
        return self.said["ended"]

    def end(self) -> None:
        """Wait for its end, and kill it when it does not come."""
        try:
            self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        self._log.close()


class Rig:
    """One server; each part works in a chroot of its own."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.say = say
        self.count = 0
        self.java = find_java()
        self.server = ZooKeeperServer(
            folder / "zookeeper",
            free_port(),
            self.java,
            True,
            ZooKeeperOptions(heap_mb=HEAP_MB, session_timeout_max_ms=SESSION_MS),
        )

    @contextmanager
    def running(self) -> Iterator[Rig]:
        """The server inside the block."""
        self.server.start()
        try:
            yield self
        finally:
            self.server.kill()

    @contextmanager
    def hub(self, timeout_ms: int = 60_000, hosts: str = "") -> Iterator[tuple[Hub, Seeder]]:
        """Sessions in a fresh chroot (or in `hosts`) with its roots."""
        hub = Hub(hosts or fresh_chroot(self.server.address, "scale"), timeout_ms)
        try:
            seeder = Seeder(hub)
            if not hosts:
                seeder.roots()
            yield hub, seeder
        finally:
            hub.close()

    def hosts(self, hub: Hub) -> str:
        """The connect string of a hub's chroot."""
        return self.server.address + hub.chroot

    @contextmanager
    def coordinator(
        self, hub: Hub, *flags: str, path: Sequence[str] = (), until: str = "ready"
    ) -> Iterator[CoordinatorProcess]:
        """One that is ready inside the block, or has said `until`, while the hub's sessions live
        on. `path` is where it finds more packages.
        """
        self.count += 1
        name = f"coordinator-{self.count}"
        process = CoordinatorProcess(
            self.hosts(hub),
            self.folder / f"{name}.jsonl",
            self.folder / f"{name}.log",
            path,
            *flags,
        )
        try:
            self.wait(hub, process, until)
            yield process
        finally:
            if process.process.poll() is None:
                process.process.terminate()
            process.end()

    def wait(self, hub: Hub, process: CoordinatorProcess, until: str) -> dict[str, Any]:
        """Until a coordinator has said it: what."""
        hub.run_until(
            lambda: until in process.said or process.process.poll() is not None,
            WAIT_S,
            f"a coordinator that says {until}",
        )
        assert until in process.said, (
            f"the coordinator ended with status {process.process.returncode}: see"
            f" {process.journal.with_suffix('.log')}"
        )
        return process.said[until]

    def received(self) -> int:
        """Packets that the server has received so far."""
        return srvr_stats(self.server.port).received
