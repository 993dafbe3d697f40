"""One server process: started, known again, signalled, stopped.

A server is known by its pid AND the time at which the kernel started it, because pids are given
again: a state file that survived a reboot must never make `stack down` kill a stranger. Both are in
`ProcessId`, which can be written down and read back by another run.

Attached servers (`owned=True`) die with the process that started them, through `keeper`; detached
ones, of `zkcoord stack up`, live until somebody stops them. Both are leaders of a session and a
process group of their own, so a Ctrl-C in the terminal reaches only who started them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from zkcoord.errors import ServerNotReadyError

POLL_S = 0.02
KILL_WAIT_S = 10.0
LOG_TAIL_BYTES = 8192
# of /proc/PID/stat, counted after the program's name
_STATE_FIELD, _THREADS_FIELD, _START_FIELD = 0, 17, 19


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process that cannot be mistaken for another: `started` is in clock ticks since boot, from
    /proc.
    """

    pid: int
    started: int

    def alive(self) -> bool:
        """Whether any of it runs. A zombie that only waits to be reaped does not; one whose other
        threads are still ending does, and still holds its ports.
        """
        fields = _stat(self.pid)
        if fields is None or int(fields[_START_FIELD]) != self.started:
            return False
        return fields[_STATE_FIELD] not in ("Z", "X") or int(fields[_THREADS_FIELD]) > 1


def identify(pid: int) -> ProcessId | None:
    """The identity of a running pid, None when there is no such process."""
    fields = _stat(pid)
    return None if fields is None else ProcessId(pid, int(fields[_START_FIELD]))


class ServerProcess:
    """A started program. Safe to stop twice; every wait has a limit."""

    def __init__(
        self, process_id: ProcessId, child: subprocess.Popen[bytes] | None, log: Path
    ) -> None:
        self.id = process_id
        self.log = log
        self._child = child

    @classmethod
    def start(cls, command: Sequence[str], log: Path, owned: bool) -> ServerProcess:
        """Start `command` with its output appended to `log`. `owned`: it dies when this process
        does.
        """
        if owned:
            command = owned_command(command)
        with log.open("ab") as output:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd=log.parent,
            )
        process_id = identify(child.pid)
        assert process_id is not None, "a child that is not reaped is in /proc"
        return cls(process_id, child, log)

    @classmethod
    def attach(cls, process_id: ProcessId, log: Path) -> ServerProcess:
        """The handle on a server that another process started."""
        return cls(process_id, None, log)

    def alive(self) -> bool:
        if self._child is not None:
            self._child.poll()
        return self.id.alive()

    def signal(self, number: int) -> None:
        """Send a signal to the server; nothing happens when it is gone."""
        if not self.alive():
            return
        try:
            os.kill(self.id.pid, number)
        except ProcessLookupError:
            return

    def stop(self, timeout_s: float) -> None:
        """TERM, and KILL what is still there after `timeout_s`. A paused server is continued first,
        or it would never see the TERM.
        """
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        if not self.wait_gone(timeout_s):
            self.kill()

    def kill(self) -> None:
        """KILL, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        if not self.wait_gone(KILL_WAIT_S):
            raise ServerNotReadyError(
                f"Process {self.id.pid} is still there {KILL_WAIT_S:.0f} s after it was killed:"
                " look at its state with `ps`."
            )

    def wait_gone(self, timeout_s: float) -> bool:
        return poll_until(lambda: not self.alive(), timeout_s)

    def wait_ready(self, ready: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Until `ready()`; ServerNotReadyError when the process ends before or `timeout_s`
        passes.
        """
        poll_until(lambda: ready() or not self.alive(), timeout_s)
        if not self.alive():
            raise ServerNotReadyError(
                f"{what} ended while it was starting, see {self.log}: {last_line(self.log)}"
            )
        if not ready():
            raise ServerNotReadyError(
                f"{what} was not ready within {timeout_s:.0f} s, see {self.log}:"
                f" {last_line(self.log)}"
            )


def owned_command(command: Sequence[str]) -> list[str]:
    """`command` so that it dies with this process, however that ends. The pid stays that of the
    started child.
    """
    return [
        sys.executable,
        "-I",
        "-S",
        str(Path(__file__).with_name("keeper.py")),
        str(os.getpid()),
        *command,
    ]


def poll_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Ask until the condition holds, at least once; False when it did not within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)
    return True


def last_line(log: Path) -> str:
    """The last line of a log that says something, at most 300 characters."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - LOG_TAIL_BYTES))
            lines = [line.strip() for line in stream.read().decode("utf-8", "replace").splitlines()]
    except FileNotFoundError:
        lines = []
    telling = [line for line in lines if line and not line.startswith("at ")]
    return telling[-1][:300] if telling else "it printed nothing"


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()
