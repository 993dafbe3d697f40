"""The companion: the program that a guarded process starts to have its ZooKeeper sessions closed
when it dies.

    python -I -S companion.py --pid 4711 --pidfd 5 [--also 6]
        hand-overs come on standard input

It is started as a file and with as little of Python as possible: no site packages, no environment,
a handful of modules. Its life:

1. Wait for whatever comes first, a message on standard input or the process's end (its pidfd
   becomes readable).
2. A message changes which sessions are guarded. The end of standard input changes nothing: it is
   not a sign of death.
3. When the process is gone: read what is left in the pipe FIRST (the last words of the dead count),
   then close the guarded sessions, then exit. A process that closed its session before it ended has
   said `forget`, or ZooKeeper says "expired"; either way there is nothing to do. `--also` is the
   pidfd of a second process, which can go on with the dead one's work (a JVM with its Python
   process's): the session is closed when both are gone.

Signals: SIGTERM, SIGINT, SIGHUP, SIGQUIT do nothing to it: the starter blocked them before the
start, so there is no gap. It also gave the companion a session of its own, `/` as its directory,
and no descriptor but the pipe and the pidfd: so a terminal's Ctrl-C, a `kill -- -group` and a pipe
that somebody reads to its end are nothing to it.

`report`: for tests and benchmarks each closed session appends one JSON line to a file; there is no
password in it. Paths are those of the process that started this one, with that one's rights: a
guardian that serves others opens none of theirs (`serve`).
"""

from __future__ import annotations

import os
import select
import sys

# started as a file: find the package this file belongs to, behind the standard library
if __package__ in (None, ""):
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from zkcoord.guardian import wire
from zkcoord.guardian.handover import INBOX_BYTES_MAX, Inbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkcoord.guardian.handover import Handover

READ_BYTES = 65_536


def report(
    path: str,
    pid: int,
    outcome: str,
    session_id: int,
    server: tuple[str, int] | None,
    attempts: int,
    elapsed_ms: float,
) -> None:
    """Append one line of JSON; a report that cannot be written is not worth a session."""
    name = f'"{server[0]}:{server[1]}"' if server is not None else "null"
    line = (
        f'{{"pid": {pid}, "outcome": "{outcome}", "session": "0x{session_id:x}", "server": {name}, '
        f'"attempts": {attempts}, "elapsed_ms": {elapsed_ms:.3f}}}\n'
    )
    try:
        descriptor = os.open(
            path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            os.write(descriptor, line.encode("utf-8", "surrogateescape"))
        finally:
            os.close(descriptor)
    except OSError:
        return


def bury(pid: int, inbox: Inbox, closer: wire.Closer) -> list[wire.CloseResult]:
    """Close what the dead process left behind and report it; returns the results."""
    results = closer.close_all(list(inbox.sessions.values()))
    for result in results:
        if result.handover.report_path is not None:
            report(
                result.handover.report_path,
                pid,
                result.outcome,
                result.handover.session_id,
                result.server,
                result.attempts,
                result.elapsed_ms,
            )
    return results


class Companion:
    """The waiting loop over one pidfd, or two, and one pipe."""

    def __init__(self, pid: int, pidfds: Sequence[int], pipe: int) -> None:
        self._pid = pid
        self._pipe = pipe
        self._alive = list(pidfds)
        self._inbox = Inbox()
        self._closer = wire.Closer(lambda: all(wire.pidfd_says_dead(pidfd) for pidfd in pidfds))
        self._poller = select.poll()
        for descriptor in (*pidfds, pipe):
            self._poller.register(descriptor, select.POLLIN)

    def run(self) -> None:
        """Returns when the process is gone and its sessions are dealt with, or when it said
        `stop`.
        """
        os.set_blocking(self._pipe, False)
        while not self._inbox.stopped:
            ready = {descriptor for descriptor, _ in self._poller.poll()}
            if self._pipe in ready:
                new = self._drain()
                if not all(wire.pidfd_says_dead(pidfd) for pidfd in self._alive):
                    for handover in new:
                        self._closer.prepare(handover)
            for pidfd in ready.intersection(self._alive):
                if wire.pidfd_says_dead(pidfd):
                    self._poller.unregister(pidfd)
                    self._alive.remove(pidfd)
            if not self._alive:
                self._drain()
                if not self._inbox.stopped:
                    bury(self._pid, self._inbox, self._closer)
                return

    def _drain(self) -> list[Handover]:
        """Read all there is; the end of the pipe only means that nothing more will be said."""
        new: list[Handover] = []
        for _ in range(INBOX_BYTES_MAX // READ_BYTES):
            try:
                data = os.read(self._pipe, READ_BYTES)
            except BlockingIOError:
                return new
            except OSError:
                data = b""
            if not data:
                try:  # noqa: SIM105  contextlib would double what a companion imports
                    self._poller.unregister(self._pipe)
                except KeyError:  # was at its end before
                    pass
                return new
            new += self._inbox.feed(data)
        return new


def main(arguments: Sequence[str]) -> int:
    """`--pid N --pidfd D [--also D]`; 0 when done, 2 when started by hand with something else."""
    options = dict(zip(arguments[::2], arguments[1::2], strict=False))
    try:
        pid, pidfds = (
            int(options["--pid"]),
            [
                int(options[name])
                for name in ("--pidfd", "--also")
                if name == "--pidfd" or name in options
            ],
        )
        for pidfd in pidfds:
            wire.pidfd_says_dead(pidfd)
    except (KeyError, ValueError, OSError):
        sys.stderr.write(
            "This program is started by a process that wants to be guarded; to guard one by hand"
            " use: zkcoord guard --help\n"
        )
        return 2
    Companion(pid, pidfds, 0).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
