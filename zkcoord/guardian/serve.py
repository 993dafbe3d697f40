"""One guardian for several processes, behind a Unix socket: a sidecar that shares a PID namespace
with them, or the guardian as PID 1.

A guarded process connects, is looked at, and says the same messages that a companion reads from its
pipe. Looking at it means:

* The kernel says who connected (SO_PEERCRED), and which process that IS: SO_PEERPIDFD gives its
  pidfd (Linux 6.5). Before that the pidfd is opened by number, and the number could belong to a
  newer process by then; so the start time of what the pidfd names must lie before the connection
  was accepted, and it must still be alive after the start time was read.
* Only users that the guardian was started for are served (`GuardPolicy.uids`, its own where none is
  named), root no more than others; a peer of another PID namespace has no number here and is told
  so.
* What it says is data of its own, never a path for us: TLS files are opened only where the guardian
  was started with the same ones, and a report is written to the guardian's own file or to none. A
  peer that names other files is told so and not guarded, because its session could not be closed.

The end of a connection is not a death (a forked child may hold it open, the process may close it):
its sessions stay guarded until the pidfd says that the process is gone. Ordering contract as in
`companion`: when a process is gone, first read what is left of its messages, then close. A process
may have several connections (one after a reconnect); each keeps what was said on it, and closing an
expired session does nothing.

One thread waits; each burial has a thread of its own, because an unreachable server must not delay
the next one.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from zkcoord.guardian import companion, wire
from zkcoord.guardian.handover import MESSAGE_BYTES_MAX, Handover, Inbox
from zkcoord.guardian.link import PEER_CREDENTIALS, REFUSED, WELCOME, OpenFailure, open_pidfd
from zkcoord.terminal import shown

CONNECTIONS_MAX = 1024
BACKLOG = 128
MESSAGES_AT_ONCE_MAX = 256
SOCKET_PATH_BYTES_MAX = 107
SO_PEERPIDFD = 77
SOCKET_MODE = 0o600
SOCKET_MODE_OTHERS = 0o666
CONNECT_PROBE_S = 1.0


@dataclass(frozen=True)
class GuardPolicy:
    """Whom a guardian serves, and which files it opens for them: its own configuration."""

    # Users, as numbers.
    uids: frozenset[int] = field(default_factory=lambda: frozenset({os.geteuid()}))
    # Absolute paths of TLS files that a peer may name.
    tls_files: frozenset[str] = frozenset()
    # Where each closed session is reported; None: nowhere.
    report: str | None = None

    @property
    def has_others(self) -> bool:
        """Whether other users than our own are served."""
        return not self.uids <= {os.geteuid()}

    def why_refused(self, session: Handover) -> str | None:
        """Why this session cannot be guarded here; None: it can."""
        named = () if session.tls is None else session.tls.files()
        foreign = [path for path in named if path not in self.tls_files]
        if not foreign:
            return None
        return (
            f"it names the TLS file {shown(foreign[0])}, and this guardian opens only files that it"
            " was started with: zkcoord guard --tls-file PATH for each"
        )


@dataclass(frozen=True)
class CannotListen:
    """The socket cannot be served; one sentence that says what to do."""

    sentence: str


@dataclass(frozen=True)
class RefusedPeer:
    """A peer that is not guarded, and why."""

    why: str


def listen(path: str, mode: int = SOCKET_MODE) -> socket.socket | CannotListen:
    """A listening socket at a path (`@name`: an abstract address); a dead guardian's leftover is
    replaced, a living one's is not. `mode`: who may connect; whom it serves is decided after that.
    """
    address = "\0" + path[1:] if path.startswith("@") else path
    if len(os.fsencode(address)) > SOCKET_PATH_BYTES_MAX:
        return CannotListen(
            f"The socket path {path} is longer than {SOCKET_PATH_BYTES_MAX} bytes: choose a shorter"
            " one."
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    before = os.umask(0o777 & ~mode)
    try:
        if not path.startswith("@") and os.path.lexists(path):
            occupied = _occupied(path)
            if occupied is not None:
                listener.close()
                return occupied
            os.unlink(path)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        return CannotListen(
            f"The guardian cannot listen at {path} ({error.strerror}): choose a path in a folder"
            " that this user may write to."
        )
    finally:
        os.umask(before)
    return listener


def _occupied(path: str) -> CannotListen | None:
    """Somebody's file, or a guardian that answers; None = the socket of one that is gone.

    The kind of file is looked at first: connecting to a plain file is refused just as a dead
    guardian's socket refuses, and what is not a socket must never be removed.
    """
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        return CannotListen(f"{path} exists and is no socket: choose another path.")
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    probe.settimeout(CONNECT_PROBE_S)
    try:
        probe.connect(path)
    except ConnectionRefusedError:
        return None
    except OSError as error:
        return CannotListen(
            f"{path} is a socket, but no guardian's ({error.strerror}): choose another path."
        )
    finally:
        probe.close()
    return CannotListen(
        f"Another guardian already serves {path}: use that one, or choose another path."
    )


def remove_socket(path: str, listener: socket.socket) -> None:
    """Remove the socket file that `listener` was bound to; whatever else is at the path by now
    stays.
    """
    if path.startswith("@"):
        return
    try:
        if stat.S_ISSOCK(os.lstat(path).st_mode) and listener.getsockname() == path:
            os.unlink(path)
    except OSError:  # gone already
        return


@dataclass
class _Peer:
    """One connection: the process behind it and what it said."""

    pid: int
    pidfd: int
    connection: socket.socket | None
    inbox: Inbox = field(default_factory=Inbox)
    closer: wire.Closer = field(init=False)

    def __post_init__(self) -> None:
        self.closer = wire.Closer(lambda: wire.pidfd_says_dead(self.pidfd))


class GuardServer:
    """Serves one listening socket until `finish`; `only_pid` guards that process alone. `policy`:
    whom it serves (None: its own user, with no files of its own).
    """

    def __init__(
        self,
        listener: socket.socket,
        log: Callable[[str], None],
        only_pid: int | None = None,
        policy: GuardPolicy | None = None,
    ) -> None:
        self._listener = listener
        self._log = log
        self._only_pid = only_pid
        self._policy = policy or GuardPolicy()
        self._peers: dict[int, _Peer] = {}
        self._connections: dict[int, _Peer] = {}
        self._burials: list[threading.Thread] = []
        self._poller = select.poll()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._finishing = False
        self._winding_down = False
        self._ended = False
        listener.setblocking(False)
        self._poller.register(listener, select.POLLIN)
        self._poller.register(self._wake_read, select.POLLIN)

    def run(self) -> None:
        """Serve; returns after `finish`, or when `only_pid` is gone, with every burial done."""
        only = open_pidfd(self._only_pid) if self._only_pid is not None else None
        if isinstance(only, OpenFailure):  # gone before anybody could connect
            self._let_go()
            return
        if only is not None:
            self._poller.register(only, select.POLLIN)
        while not self._finishing and not (self._winding_down and not self._peers):
            ready = [descriptor for descriptor, _ in self._poller.poll()]
            self._handle(ready)
            if only in ready:
                break
        self._handle([pidfd for pidfd in self._peers if wire.pidfd_says_dead(pidfd)])
        for burial in self._burials:
            burial.join()
        if only is not None:
            os.close(only)
        self._let_go()

    def _let_go(self) -> None:
        """Close what is open: peers that live on see the end of the connection and look for another
        guardian.
        """
        self._ended = True
        for descriptor, peer in list(self._connections.items()):
            self._hang_up(descriptor, peer)
        for peer in list(self._peers.values()):
            self._release(peer)
        os.close(self._wake_read)
        os.close(self._wake_write)

    def finish(self) -> None:
        """Stop serving: bury the processes that are gone by now, let go of the others. Any thread,
        any number of times.
        """
        self._finishing = True
        self._wake()

    def wind_down(self) -> None:
        """Serve on until the processes guarded now are gone. Any thread, any number of times."""
        self._winding_down = True
        self._wake()

    def _wake(self) -> None:
        if self._ended:
            return
        try:
            os.write(self._wake_write, b".")
        except OSError:  # the pipe is full: it is awake already
            return

    def _handle(self, ready: list[int]) -> None:
        if self._wake_read in ready:
            os.read(self._wake_read, MESSAGE_BYTES_MAX)
        if self._listener.fileno() in ready:
            self._accept()
        for descriptor in ready:
            if descriptor in self._connections:
                self._read(descriptor)
        for descriptor in ready:
            peer = self._peers.get(descriptor)
            if peer is not None and wire.pidfd_says_dead(descriptor):
                self._begin_burial(peer)
        self._burials = [burial for burial in self._burials if burial.is_alive()]

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it went away again
            return
        accepted_ticks = time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")
        peer = self._identify(connection, accepted_ticks)
        if isinstance(peer, RefusedPeer):
            self._log(f"A process was refused: {peer.why}.")
            _try_send(connection, REFUSED + peer.why.encode())
            connection.close()
            return
        connection.setblocking(False)
        self._peers[peer.pidfd] = self._connections[connection.fileno()] = peer
        self._poller.register(connection, select.POLLIN)
        self._poller.register(peer.pidfd, select.POLLIN)
        _try_send(connection, WELCOME)

    def _identify(self, connection: socket.socket, accepted_ticks: float) -> _Peer | RefusedPeer:
        pid, uid, _ = PEER_CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER_CREDENTIALS.size)
        )
        if pid == 0:
            return RefusedPeer(
                "its PID namespace is not this one's: let the containers share it"
                " (shareProcessNamespace)"
            )
        if uid not in self._policy.uids:
            return RefusedPeer(
                f"it runs as user {uid}, whom this guardian does not serve: run the guardian as"
                f" that user, or name it (zkcoord guard --uid {uid})"
            )
        if self._only_pid is not None and pid != self._only_pid:
            return RefusedPeer(
                f"process {pid} is not the one that this guardian was started for"
                f" ({self._only_pid})"
            )
        if len(self._peers) >= CONNECTIONS_MAX:
            return RefusedPeer(f"{CONNECTIONS_MAX} connections are guarded already")
        pidfd = peer_pidfd(connection, pid, accepted_ticks)
        if isinstance(pidfd, RefusedPeer):
            return pidfd
        return _Peer(pid, pidfd, connection)

    def _read(self, descriptor: int) -> None:
        """Take what a peer says; the end of the connection is no death."""
        peer = self._connections[descriptor]
        assert peer.connection is not None
        for _ in range(MESSAGES_AT_ONCE_MAX):
            try:
                data = peer.connection.recv(MESSAGE_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            refused = self._take(peer, data)
            if not data or refused or peer.inbox.stopped:
                self._hang_up(descriptor, peer)
                if refused or peer.inbox.stopped:
                    self._release(peer)
                return

    def _take(self, peer: _Peer, data: bytes) -> bool:
        """What a peer says, as far as the policy goes; True: it was refused, and told why."""
        for session in peer.inbox.feed(data):
            session.report_path = self._policy.report
            why = self._policy.why_refused(session)
            if why is not None:
                self._log(f"Process {peer.pid} is not guarded: {why}.")
                if peer.connection is not None:
                    _try_send(peer.connection, REFUSED + why.encode())
                return True
        return False

    def _hang_up(self, descriptor: int, peer: _Peer) -> None:
        del self._connections[descriptor]
        self._poller.unregister(descriptor)
        if peer.connection is not None:
            peer.connection.close()
            peer.connection = None

    def _release(self, peer: _Peer) -> None:
        self._poller.unregister(peer.pidfd)
        del self._peers[peer.pidfd]
        os.close(peer.pidfd)

    def _begin_burial(self, peer: _Peer) -> None:
        """The process is gone: its last words first."""
        if peer.connection is not None:
            descriptor = peer.connection.fileno()
            while descriptor in self._connections and _readable(descriptor):
                self._read(descriptor)
            if descriptor in self._connections:
                self._hang_up(descriptor, peer)
        if peer.pidfd not in self._peers:  # its last word was `stop`
            return
        self._poller.unregister(peer.pidfd)
        del self._peers[peer.pidfd]
        burial = threading.Thread(
            target=self._bury, args=(peer,), name=f"bury-{peer.pid}", daemon=True
        )
        self._burials.append(burial)
        burial.start()

    def _bury(self, peer: _Peer) -> None:
        try:
            for result in companion.bury(peer.pid, peer.inbox, peer.closer):
                self._log(
                    f"Process {peer.pid} is gone; session 0x{result.handover.session_id:x}:"
                    f" {result.outcome} after {result.elapsed_ms:.1f} ms."
                )
        finally:
            os.close(peer.pidfd)


def peer_pidfd(connection: socket.socket, pid: int, accepted_ticks: float) -> int | RefusedPeer:
    """The pidfd of the process that connected. `accepted_ticks`: clock ticks since boot when the
    connection was accepted.
    """
    try:
        return connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError:
        return pidfd_of_older(pid, accepted_ticks)


def pidfd_of_older(pid: int, accepted_ticks: float) -> int | RefusedPeer:
    """The pidfd of process `pid`, provided that it was started before `accepted_ticks`: a newer one
    only has the number.
    """
    pidfd = open_pidfd(pid)
    if isinstance(pidfd, OpenFailure):
        return RefusedPeer(f"process {pid} cannot be watched ({pidfd.detail})")
    try:
        with open(f"/proc/{pid}/stat", "rb") as status:
            started_ticks = int(status.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        os.close(pidfd)
        return RefusedPeer(f"the start time of process {pid} cannot be read")
    if started_ticks > accepted_ticks or wire.pidfd_says_dead(pidfd):
        os.close(pidfd)
        return RefusedPeer(f"process {pid} is not the one that connected")
    return pidfd


def _try_send(connection: socket.socket, message: bytes) -> None:
    try:
        connection.send(message, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    except OSError:  # it went away: its pidfd says so
        return


def _readable(descriptor: int) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(0))
