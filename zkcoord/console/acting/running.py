"""Running a command of the command line for a reader: as a process of its own, without a shell,
with the console's own options and credentials in its environment, bounded in time and in what it
prints.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from zkcoord.admin.common import ON_BEHALF_OF

AT_ONCE_MAX = 2
COMMAND_S = 150.0
INTERRUPTED_S = 5.0
OUTPUT_BYTES_MAX = 64 * 1024
FILE_BYTES_MAX = 256 * 1024 * 1024
BUSY = "other actions are under way: try again when they have ended"


class BusyError(Exception):
    """As many commands run as may."""


@dataclass(frozen=True)
class CommandResult:
    """What a command printed, its complaints after its answer, and its exit status (None: it was
    ended, since it took too long)."""

    status: int | None
    text: str

    @property
    def is_done(self) -> bool:
        """Whether it did what was asked."""
        return self.status == 0


class CommandRunner:
    """See the module. `environment` is that of the commands; `nice` as the system counts. Any
    thread.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        seconds: float = COMMAND_S,
        at_once: int = AT_ONCE_MAX,
        nice: int = 0,
    ) -> None:
        self._nice = nice
        self._environment = dict(environment)
        self._seconds = seconds
        self._room = threading.Semaphore(at_once)
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._over = False

    def run(self, arguments: Sequence[str], who: str) -> CommandResult:
        """Run it for this reader, and wait for its end. Raises `BusyError`, `OSError`."""
        if not self._room.acquire(blocking=False):
            raise BusyError(BUSY)
        try:
            with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
                status = self._ended(arguments, who, said.fileno(), complained.fileno())
                return CommandResult(status, _read(said) + _read(complained))
        finally:
            self._room.release()

    def _ended(self, arguments: Sequence[str], who: str, out: int, err: int) -> int | None:
        with self._lock:
            if self._over:
                raise BusyError("the console ends")
            process = subprocess.Popen(
                [sys.executable, "-m", "zkcoord.cli.main", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**self._environment, ON_BEHALF_OF: who},
                start_new_session=True,
            )
            _bound_files(process.pid)
            if self._nice:
                os.setpriority(os.PRIO_PROCESS, process.pid, self._nice)
            self._running.add(process)
        try:
            return process.wait(self._seconds)
        except subprocess.TimeoutExpired:
            _interrupt(process)
            return None
        finally:
            with self._lock:
                self._running.discard(process)

    def close(self) -> None:
        """What runs is interrupted, as by Ctrl-C: it says what it has done."""
        with self._lock:
            self._over = True
            running = list(self._running)
        for process in running:
            _interrupt(process)


def _bound_files(pid: int) -> None:
    """What it prints has room on the disk up to `FILE_BYTES_MAX` (where the system knows such a
    limit of others), and then it ends.
    """
    if hasattr(resource, "prlimit"):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(INTERRUPTED_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _read(file: IO[bytes]) -> str:
    file.seek(0, os.SEEK_END)
    size = file.tell()
    file.seek(0)
    text = file.read(OUTPUT_BYTES_MAX).decode("utf-8", "replace")
    left = size - OUTPUT_BYTES_MAX
    return text + (f"\n({left} bytes more)\n" if left > 0 else "")
