"""Starts a server that cannot outlive its owner: `python keeper.py OWNER_PID program arguments...`.
Standard library only, and no imports of this project: it is started by path.

Why: a demo or a test run must leave no process behind, also when it is killed with -9 and can tidy
nothing. The kernel's parent-death signal alone does not do: it fires when the thread that started
the child ends, not the process.

How: this process becomes the server (same pid, so that signals from outside reach it), after it has
forked a watcher. The watcher waits for the owner's end on a pidfd and then kills the server; it
ends with the server by its own parent-death signal. Both ends are closed against races: the owner
must still be this process's parent when the watcher has its pidfd, and the watcher kills its parent
only while that is still the server.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
OWNER_POLL_S = 0.2
EXIT_OWNER_GONE = 75


def main(arguments: list[str]) -> None:
    owner, command = int(arguments[0]), arguments[1:]
    server = os.getpid()
    owner_fd = os.pidfd_open(owner) if hasattr(os, "pidfd_open") else None
    if os.getppid() != owner:
        sys.exit(EXIT_OWNER_GONE)
    if os.fork() == 0:
        _watch(owner, owner_fd, server)
        os._exit(0)
    os.execvp(command[0], command)  # noqa: S606  what `zkcoord stack` starts


def _watch(owner: int, owner_fd: int | None, server: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != server:  # it ended before the signal was asked for
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if owner_fd is not None:
        select.select([owner_fd], [], [])
    else:
        while _alive(owner):
            time.sleep(OWNER_POLL_S)
    if os.getppid() == server:
        os.kill(server, signal.SIGKILL)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if __name__ == "__main__":
    main(sys.argv[1:])
