"""The guardian as the first process: `zkcoord guard -- COMMAND ...` starts COMMAND, and outlives it
by the milliseconds that a close takes.

When PID 1 of a container dies, the kernel kills everything in it, a companion included; nobody is
left to close the session. So let the guardian be PID 1 and the application its child. What a PID 1
owes is done here as well:

* Signals are forwarded to the child (all but those that only mean something to their receiver). A
  signal that the terminal sent has reached the child already, since both are in one process group:
  the kernel marks those (`SI_KERNEL`), and they are not sent twice.
* Orphans that end up here are reaped.
* The status is the child's: its exit code, or 128 + the number of the signal that killed it, as a
  shell says it.

All signals are blocked and taken one by one with `sigwaitinfo`; the child gets the mask back that
this process was started with. The child finds the guardian through ZKCOORD_GUARDIAN_SOCKET, an
abstract address unless a path was asked for (a read-only container has no room for one); any of its
descendants may use it too. Order at the end: the child is reaped (so its pidfd is readable), then
`finish`, which buries, then exit.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence

from zkcoord.guardian.client import SOCKET_VARIABLE
from zkcoord.guardian.serve import (
    SOCKET_MODE,
    SOCKET_MODE_OTHERS,
    CannotListen,
    GuardPolicy,
    GuardServer,
    listen,
    remove_socket,
)

SI_KERNEL = 0x80
KEPT_SIGNALS = frozenset(
    {
        signal.SIGCHLD,
        signal.SIGKILL,
        signal.SIGSTOP,
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGTRAP,
        signal.SIGABRT,
        signal.SIGSYS,
        signal.SIGTTIN,
        signal.SIGTTOU,
        signal.SIGTSTP,
        signal.SIGCONT,
        signal.SIGPIPE,
    }
)
TAKEN_SIGNALS = frozenset(signal.valid_signals()) - KEPT_SIGNALS | {signal.SIGCHLD}
NOT_FOUND_STATUS = 127
NOT_STARTED_STATUS = 126
SIGNAL_STATUS = 128
BAD_USE_STATUS = 2


def run_command(
    command: Sequence[str],
    log: Callable[[str], None],
    socket_path: str | None = None,
    policy: GuardPolicy | None = None,
) -> int:
    """Start the command, guard it, and return what it ended with (126 and 127: it could not be
    started; 2: the socket could not be served).
    """
    path = socket_path or f"@zkcoord-guard-{os.getpid()}-{secrets.token_hex(8)}"
    policy = policy or GuardPolicy()
    listener = listen(path, SOCKET_MODE_OTHERS if policy.has_others else SOCKET_MODE)
    if isinstance(listener, CannotListen):
        log(listener.sentence)
        return BAD_USE_STATUS
    with listener:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, TAKEN_SIGNALS)
        try:
            # the hook runs before any thread exists here
            child = subprocess.Popen(
                list(command),
                env={**os.environ, SOCKET_VARIABLE: path},
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),  # noqa: PLW1509
            )
        except FileNotFoundError:
            log(f"There is no program {command[0]}: give a path, or a name that PATH leads to.")
            return NOT_FOUND_STATUS
        except OSError as error:
            log(f"{command[0]} cannot be started: {error.strerror}.")
            return NOT_STARTED_STATUS
        server = GuardServer(listener, log, policy=policy)
        thread = threading.Thread(target=server.run, name="guardian-server", daemon=True)
        thread.start()
        status = _attend(child.pid)
        child.returncode = status
        server.finish()
        thread.join()
        remove_socket(path, listener)
    return status


def _attend(child_pid: int) -> int:
    """Forward signals and reap until the child is gone; its status."""
    while True:
        status = _reap(child_pid)
        if status is not None:
            return status
        info = signal.sigwaitinfo(TAKEN_SIGNALS)
        if info.si_signo != signal.SIGCHLD and info.si_code != SI_KERNEL:
            os.kill(child_pid, info.si_signo)  # not reaped yet, so the number is still the child's


def _reap(child_pid: int) -> int | None:
    """Reap whoever has ended, the child last of all: None while it lives."""
    while True:
        try:
            pid, wait_status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 0
        if pid == 0:
            return None
        if pid == child_pid:
            code = os.waitstatus_to_exitcode(wait_status)
            return code if code >= 0 else SIGNAL_STATUS - code
