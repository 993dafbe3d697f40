"""A child process from the coordinator's side: started, asked one thing at a time with a limit on
everything, killed with all that it started.

Nothing here waits longer than it is told to, whatever the child does: its pipes are not blocking,
and a deadline, an end, a wrong byte or too many bytes are `AssignorFailed` values. After a
`AssignorFailed` the child is of no more use.

A child that has computed for `BACKGROUND_CPU_MS` in one call goes on in the background (Linux:
`SCHED_IDLE`): it gets what nobody else wants of a processor, and whoever wakes up takes it away at
once. Being nice is not enough: a process of the lowest priority still keeps its processor for a
millisecond when another wakes up. There is no way back without privileges, so it stays there as
long as it lives.
"""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from zkcoord.assignors.frames import ANSWER_BYTES_MAX, HEADER, body_bytes, frame, one_line
from zkcoord.core.value_type import value

READ_BYTES = 64 * 1024
PRINTED_BYTES_MAX = 1024 * 1024
PRINTED_KEPT_BYTES = 2_000
LOOK_UP_MS = 50
BACKGROUND_CPU_MS = 300
STAT_TIMES = slice(11, 13)
"""Time in the program and in the kernel, counted behind a process's name in /proc."""
SECRET_PREFIX = "ZKCOORD_"  # noqa: S105  the prefix of names of variables


@value
class AssignorFailed:
    """No answer, and why, in words in which "it" is the assignor. `gave_way`: nothing is wrong,
    others were waiting.
    """

    reason: str
    gave_way: bool = False


class AssignorProcess:
    """One process. Used by one thread; only `kill` may come from any."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert (
            process.stdin is not None and process.stdout is not None and process.stderr is not None
        )
        self._process = process
        self._in, self._out, self._err = (
            process.stdin.fileno(),
            process.stdout.fileno(),
            process.stderr.fileno(),
        )
        for descriptor in (self._in, self._out, self._err):
            os.set_blocking(descriptor, False)
        self._killed = False
        self._lock = threading.Lock()
        self._printed = bytearray()
        self._printed_bytes = 0
        self._in_background = False

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def usable(self) -> bool:
        """Whether it runs and has said nothing unasked since its last answer."""
        return (
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
            and not select.select([self._out], [], [], 0)[0]
        )

    def exchange(
        self, request: bytes | None, within_ms: int, give_way: Callable[[], bool] = lambda: False
    ) -> bytes | AssignorFailed:
        """Send a request (None: wait for the first sign of life) and return the answer's body.
        `give_way` is asked every `LOOK_UP_MS`.
        """
        self._printed_bytes = 0
        until = time.monotonic() + within_ms / 1000
        pending = memoryview(frame(request)) if request is not None else memoryview(b"")
        received = bytearray()
        background_at_ms = self._cpu_ms() + BACKGROUND_CPU_MS if request is not None else math.inf
        poller = select.poll()
        poller.register(self._out, select.POLLIN)
        poller.register(self._err, select.POLLIN)
        if pending:
            poller.register(self._in, select.POLLOUT)
        while (left := until - time.monotonic()) > 0:
            ready = {descriptor for descriptor, _ in poller.poll(min(left * 1000, LOOK_UP_MS))}
            if self._err in ready and not self._hear():
                poller.unregister(self._err)
            if self._printed_bytes > PRINTED_BYTES_MAX:
                return AssignorFailed(f"it printed more than {PRINTED_BYTES_MAX} bytes")
            if self._in in ready:
                pending = self._send(pending)
                if not pending:
                    poller.unregister(self._in)
            if self._out in ready:
                answer = self._receive(received)
                if answer is not None:
                    return answer
            if not self._in_background and self._cpu_ms() >= background_at_ms:
                self._go_to_background()
            if give_way():
                return AssignorFailed("it took long while others waited", gave_way=True)
        return AssignorFailed(f"it did not answer within {within_ms} ms and was killed")

    def _cpu_ms(self) -> float:
        """What it has computed so far; 0 where nobody says."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return sum(map(int, fields[STAT_TIMES])) * 1000 / os.sysconf("SC_CLK_TCK")

    def _go_to_background(self) -> None:
        self._in_background = True
        # it has ended, or a container forbids it: then it is as it was
        with suppress(OSError, ValueError):
            for thread in os.listdir(f"/proc/{self.pid}/task"):
                os.sched_setscheduler(int(thread), os.SCHED_IDLE, os.sched_param(0))

    def _send(self, pending: memoryview) -> memoryview:
        try:
            return pending[os.write(self._in, pending) :]
        except BlockingIOError:
            return pending
        except OSError:  # it ended: what it leaves in the other pipes says more
            return pending[:0]

    def _receive(self, received: bytearray) -> bytes | AssignorFailed | None:
        """The answer, once it is whole; None before that."""
        try:
            piece = os.read(self._out, READ_BYTES)
        except BlockingIOError:
            return None
        if not piece:
            return AssignorFailed(self._how_it_ended())
        received += piece
        if len(received) < HEADER.size:
            return None
        length = body_bytes(bytes(received[: HEADER.size]))
        if length < 0 or len(received) > HEADER.size + length:
            return AssignorFailed(
                "it broke the way to the coordinator: something in its process wrote to a"
                " descriptor that is not its own"
            )
        if length > ANSWER_BYTES_MAX:
            return AssignorFailed(
                f"it answered with {length} bytes, more than the {ANSWER_BYTES_MAX} allowed"
            )
        if len(received) < HEADER.size + length:
            return None
        self._hear()
        return bytes(received[HEADER.size :])

    def _hear(self) -> bool:
        """Read what was printed; False at its end."""
        try:
            piece = os.read(self._err, READ_BYTES)
        except BlockingIOError:
            return True
        self._printed += piece
        self._printed_bytes += len(piece)
        del self._printed[:-PRINTED_KEPT_BYTES]
        return bool(piece)

    def printed(self) -> str:
        """The end of what was printed since the last time of asking."""
        text = self._printed.decode("utf-8", "replace").strip()
        self._printed.clear()
        return text

    def _how_it_ended(self) -> str:
        """Its answers' pipe is closed: by its end, in nearly every case."""
        while (
            self._hear()
            and self._printed_bytes <= PRINTED_BYTES_MAX
            and select.select([self._err], [], [], 0)[0]
        ):
            continue
        self.kill()
        status = self._process.wait()
        last = one_line(self._printed.decode("utf-8", "replace").strip().rpartition("\n")[2])
        how = (
            f"it was ended by {_signal_name(-status)}"
            if status < 0
            else f"it ended its process with status {status}"
        )
        return f"{how}: {last}" if last else how

    def kill(self) -> None:
        """End it and all processes of its group. Any thread, any number of times."""
        with self._lock:
            if self._killed:
                return
            self._killed = True
            try:
                # nobody has waited for it yet, so the number is still its own
                os.killpg(self._process.pid, signal.SIGKILL)
            except OSError:
                self._process.kill()

    def end(self) -> None:
        """Kill it, wait for it and close the pipes."""
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()


def start(memory_mb: int) -> AssignorProcess | AssignorFailed:
    """A new child; it says when it is up (`exchange(None, ...)`). It finds the same packages as
    this process and knows nothing that options in the environment may hold, such as passwords.
    """
    if not sys.executable:
        return AssignorFailed(
            "it has no process to run in: there is no Python program to start one with"
        )
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(SECRET_PREFIX)
    }
    environment["PYTHONPATH"] = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
    command = [
        sys.executable,
        "-u",
        "-m",
        "zkcoord.assignors.child",
        str(os.getpid()),
        str(memory_mb),
    ]
    try:
        return AssignorProcess(
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        )
    except OSError as error:
        return AssignorFailed(f"it has no process to run in: {error.strerror}")


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
