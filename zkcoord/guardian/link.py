"""How a process reaches its guardian: a companion it starts itself, or a guardian that already runs
behind a Unix socket.

Both are a `Link`: `send` takes one whole message and never blocks, `wait_gone` blocks until the
other side is no more. Opening answers with a link or with a named `OpenFailure`.

The companion's start closes these gaps:
* The pidfd is opened by the process itself, of itself, and inherited: the companion cannot get hold
  of somebody else's, however late it runs.
* The signals that must not end it are blocked in the starting thread for the moment of the start,
  so in the child for good.
* A session of its own and a closed descriptor table: see `companion`.

The socket form checks that whoever listens runs as the same user or as root before it tells a
password.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, unique
from typing import Protocol

from zkcoord.guardian import companion, handover

STOP_WAIT_S = 1.0
BLOCKED_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
SOCKET_WAIT_S = 1.0
REFUSED = b"refused "
WELCOME = b"welcome"
# what Python, TLS and the resolver may need
ENVIRONMENT_KEPT = (
    "LD_LIBRARY_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "RES_OPTIONS",
    "LOCALDOMAIN",
)
PEER_CREDENTIALS = struct.Struct("iII")  # pid, uid, gid


@unique
class OffReason(Enum):
    """Why there is no guardian; `value` is the sentence's beginning."""

    DISABLED = "switched off by option"
    NOT_LINUX = "it needs Linux"
    NO_PIDFD = "the kernel or its sandbox has no pidfds"
    NO_INTERPRETER = "there is no Python program to start it with"
    SASL = "ZooKeeper demands SASL, which the guardian does not speak"
    TLS_FILES = "the TLS files cannot be used"
    SPAWN_FAILED = "the companion process could not be started"
    SOCKET_REFUSED = "the guardian behind the socket refused"
    SOCKET_UNREACHABLE = "no guardian answers at the socket"
    FORKED = "this is a forked child of the guarded process"
    STOPPED = "it was stopped"


@dataclass(frozen=True)
class OpenFailure:
    """No link: the reason, details for people, and whether trying again later may help."""

    reason: OffReason
    detail: str
    retriable: bool


class Link(Protocol):
    """An open way to a guardian."""

    def send(self, message: bytes) -> bool:
        """True = the whole message was taken; False = the guardian is gone or does not read."""

    def wait_gone(self) -> str | OpenFailure:
        """Block until the guardian is no more; why, for the log. An `OpenFailure`: it has refused
        what it was told, and will again.
        """

    def discard(self) -> None:
        """Give up a guardian that does not answer; `wait_gone` returns soon. Any thread, more than
        once.
        """

    def forked(self) -> None:
        """Called in a forked child: let go of what was inherited, without a word to the
        guardian.
        """


class _CompanionProcess(subprocess.Popen[bytes]):
    """A child that is meant to outlive its parent: no warning about that, and no entry in Popen's
    list of children to reap.
    """

    def __del__(self) -> None:
        return


class CompanionLink:
    """A companion of our own."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: int) -> None:
        self.pid = process.pid
        self._process = process
        self._pipe = pipe

    def send(self, message: bytes) -> bool:
        assert len(message) <= handover.MESSAGE_BYTES_MAX
        try:
            return os.write(self._pipe, message) == len(message)
        # EPIPE: gone; EAGAIN: 64 KiB unread; EBADF: closed by an application that closes everything
        except OSError:
            return False

    def wait_gone(self) -> str:
        status = self._process.wait()
        self._close_pipe()
        return f"ended with status {status}"

    def discard(self) -> None:
        self._process.kill()

    def forked(self) -> None:
        self._close_pipe()

    def _close_pipe(self) -> None:
        pipe, self._pipe = self._pipe, -1
        if pipe >= 0:
            try:
                os.close(pipe)
            except OSError:
                return


def open_companion(also: int | None = None) -> CompanionLink | OpenFailure:
    """Start a companion for this process (which waits for the process `also`, too); takes a few
    milliseconds, does not wait for it to be up (the pipe keeps what is said meanwhile).
    """
    program = companion.__file__
    if (
        not sys.executable
        or getattr(sys, "frozen", False)
        or not program
        or not os.path.isfile(program)
    ):
        return OpenFailure(OffReason.NO_INTERPRETER, "", retriable=False)
    pidfds: list[int] = []
    for pid in (os.getpid(), *(() if also is None else (also,))):
        opened = open_pidfd(pid)
        if isinstance(opened, OpenFailure):
            _close_all(pidfds)
            return opened
        pidfds.append(opened)
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(write_end, False)
    command = [sys.executable, "-I", "-S", os.path.abspath(program), "--pid", str(os.getpid())]
    for name, pidfd in zip(("--pidfd", "--also"), pidfds, strict=False):
        command += [name, str(pidfd)]
    environment = {name: os.environ[name] for name in ENVIRONMENT_KEPT if name in os.environ}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED_SIGNALS)
    try:
        process = _CompanionProcess(
            command,
            stdin=read_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=True,
            pass_fds=pidfds,
            start_new_session=True,
            cwd="/",
            env=environment,
        )
    except OSError as error:
        os.close(write_end)
        return OpenFailure(OffReason.SPAWN_FAILED, str(error), retriable=True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _close_all((read_end, *pidfds))
    return CompanionLink(process, write_end)


def _close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def open_pidfd(pid: int) -> int | OpenFailure:
    """A descriptor that IS the process; the caller closes it."""
    if not sys.platform.startswith("linux"):
        return OpenFailure(OffReason.NOT_LINUX, sys.platform, retriable=False)
    if not hasattr(os, "pidfd_open"):
        return OpenFailure(
            OffReason.NO_PIDFD, "Python was built without os.pidfd_open", retriable=False
        )
    try:
        return os.pidfd_open(pid)
    except OSError as error:  # ENOSYS before Linux 5.3, EPERM in some sandboxes
        return OpenFailure(OffReason.NO_PIDFD, str(error), retriable=False)


class SocketLink:
    """A guardian that serves several processes."""

    def __init__(self, connection: socket.socket, path: str) -> None:
        self._connection = connection
        self._path = path

    def send(self, message: bytes) -> bool:
        assert len(message) <= handover.MESSAGE_BYTES_MAX
        try:
            return self._connection.send(message, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) == len(
                message
            )
        except OSError:
            return False

    def wait_gone(self) -> str | OpenFailure:
        said = b""
        for _ in range(2):  # an error, as of words it has not read, comes before its last ones
            try:
                while heard := self._connection.recv(handover.MESSAGE_BYTES_MAX):
                    said = heard
                break
            except OSError:
                continue
        self._connection.close()
        if said.startswith(REFUSED):
            why = said.removeprefix(REFUSED).decode("utf-8", "replace")
            return OpenFailure(OffReason.SOCKET_REFUSED, why, retriable=False)
        return f"closed the connection at {self._path}"

    def discard(self) -> None:
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def forked(self) -> None:
        self._connection.close()


def open_socket(path: str) -> SocketLink | OpenFailure:
    """Connect to `zkcoord guard` at a path, or at an abstract address written `@name`."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(SOCKET_WAIT_S)
    try:
        connection.connect("\0" + path[1:] if path.startswith("@") else path)
        _, uid, _ = PEER_CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER_CREDENTIALS.size)
        )
        if uid not in (0, os.geteuid()):
            connection.close()
            return OpenFailure(
                OffReason.SOCKET_REFUSED,
                f"{path} is served by user {uid}: run the guardian as this process's user or as"
                " root",
                retriable=False,
            )
        answer = connection.recv(handover.MESSAGE_BYTES_MAX)
    except OSError as error:
        connection.close()
        return OpenFailure(OffReason.SOCKET_UNREACHABLE, f"{path}: {error}", retriable=True)
    if answer != WELCOME:
        connection.close()
        text = answer.removeprefix(REFUSED).decode("utf-8", "replace") or "it hung up"
        return OpenFailure(OffReason.SOCKET_REFUSED, text, retriable=not answer.startswith(REFUSED))
    connection.settimeout(None)
    return SocketLink(connection, path)


Opener = Callable[[], "Link | OpenFailure"]
