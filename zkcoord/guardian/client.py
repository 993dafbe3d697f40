"""`Guardian`: what coordinators and consumers hold.

    guardian = Guardian.start(log=logger.warning)
    guardian.watch(session_id, password, negotiated_timeout_ms, servers)
        on every new session, servers: the connected one first
    ... close the session ...
    guardian.stop()

Nothing here raises into the caller, and nothing waits for ZooKeeper. Ordering contract: say `watch`
as soon as the session is known, and `forget` (or `stop`) only AFTER the session was closed: the
other way round a kill in between is noticed by nobody. Register (create ephemeral nodes) only after
`watch`: then there is no moment in which a registration exists and its guardian has not been told.

While a session is replaced there are two, so a Guardian keeps the SESSIONS_KEPT latest: a process
killed between "new one told" and "old one closed" leaves neither. Should the older one be closed
already, then ZooKeeper says so and nothing happens.

One companion serves all Guardians of a process: a `_Keeper` per way of reaching it holds the
current messages, sends each at once, and has one thread that waits for the companion's end. A
companion that was killed is started again, at most once per `RESTART_MS`, and told everything that
counts now; until then the state is `GuardianAway`. A companion that does not read (somebody stopped
it) is replaced in the same way.

Fork: a child inherits memory and descriptors, but neither the thread nor the right to speak.
`os.register_at_fork` lets go of them in the child; its Guardians are `Off(FORKED)` from then on. A
child that opens ZooKeeper sessions of its own starts a Guardian of its own.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zkcoord.guardian import handover, link, wire
from zkcoord.guardian.handover import Handover, TlsOptions
from zkcoord.guardian.link import Link, OffReason, OpenFailure

__all__ = [
    "Guardian",
    "GuardianAway",
    "Off",
    "OffReason",
    "Running",
    "State",
    "TlsOptions",
    "Waiting",
]

RESTART_MS = 1_000
SESSIONS_KEPT = 2
SOCKET_VARIABLE = "ZKCOORD_GUARDIAN_SOCKET"


@dataclass(frozen=True)
class Running:
    """A guardian waits for the end of this process."""


@dataclass(frozen=True)
class GuardianAway:
    """The guardian is gone; it is started, or connected to, again within about RESTART_MS. Until
    then a crash takes the session timeout.
    """

    why: str

    def __str__(self) -> str:
        return f"There is no guardian at the moment: {self.why}; tried again every {RESTART_MS} ms."


@dataclass(frozen=True)
class Off:
    """There is no guardian and there will be none: a crash takes the session timeout."""

    reason: OffReason
    detail: str = ""

    def __str__(self) -> str:
        return (
            f"The guardian is off: {self.reason.value}"
            + (f" ({self.detail})" if self.detail else "")
            + "."
        )


State = Running | GuardianAway | Off
Waiting = GuardianAway
"""Its name in the first release."""
Log = Callable[[str], None]


def _silent(_: str) -> None:
    return


class _Keeper:
    """Keeps one guardian reachable and told. Lock order: only ever its own lock; `send` does not
    block.
    """

    def __init__(self, opener: link.Opener, log: Log) -> None:
        self._opener = opener
        self._log = log
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._messages: dict[int, bytes] = {}
        self._users: set[int] = set()
        self._link: Link | None = None
        self._thread: threading.Thread | None = None
        self.state: State = Off(OffReason.STOPPED)

    def open(self) -> State:
        """The first opening; starts the thread unless the guardian is off for good."""
        with self._lock:
            self._adopt(self._opener())
            if not isinstance(self.state, Off):
                self._thread = threading.Thread(
                    target=self._keep, name="zkcoord-guardian", daemon=True
                )
                self._thread.start()
            return self.state

    def join(self, user: int) -> bool:
        """A Guardian uses this keeper; False when it is already being stopped."""
        with self._lock:
            if self._stopping.is_set() or isinstance(self.state, Off):
                return False
            self._users.add(user)
            return True

    def say(self, user: int, key: int, message: bytes | None) -> None:
        """Set what counts for a key of a user (None = nothing any more) and tell it."""
        with self._lock:
            if user not in self._users:
                return
            if message is None:
                if self._messages.pop(key, None) is None:
                    return
                message = handover.encode_forget(key)
            else:
                self._messages[key] = message
            self._send(message)

    def leave(self, user: int) -> None:
        """A Guardian is done; the last one ends the companion and waits a moment for that."""
        with self._lock:
            self._users.discard(user)
            if self._users or self._stopping.is_set():
                return
            self._stopping.set()
            self.state = Off(OffReason.STOPPED)
            current, thread = self._link, self._thread
            if current is not None and not current.send(handover.encode_stop()):
                current.discard()
        if thread is not None and thread is not threading.current_thread():
            thread.join(link.STOP_WAIT_S)
            if thread.is_alive() and current is not None:
                current.discard()

    def after_fork_in_child(self) -> None:
        """Only the forking thread exists now, and somebody may have held the lock."""
        self._lock = threading.Lock()
        current, self._link = self._link, None
        self._messages.clear()
        self._users.clear()
        self._stopping.set()
        self.state = Off(OffReason.FORKED)
        if current is not None:
            current.forked()

    def _send(self, message: bytes) -> None:
        if self._link is not None and not self._link.send(message):
            self._link.discard()  # the thread opens another and repeats all messages

    def _adopt(self, opened: Link | OpenFailure) -> None:
        """Take the outcome of an opening; with a link, tell it everything. Called with the lock
        held.
        """
        if isinstance(opened, OpenFailure):
            self._link = None
            self.state = (
                GuardianAway(f"{opened.reason.value}: {opened.detail}")
                if opened.retriable
                else Off(opened.reason, opened.detail)
            )
            return
        self._link, self.state = opened, Running()
        for message in self._messages.values():
            self._send(message)

    def _keep(self) -> None:
        """The thread: wait for the link's end, open another, until stopped."""
        while True:
            current = self._link
            if current is not None:
                why = current.wait_gone()
                with self._lock:
                    if self._stopping.is_set():
                        return
                    if isinstance(why, OpenFailure):
                        self._adopt(why)
                        self._log(str(self.state))
                        return
                    self._link, self.state = None, GuardianAway(why)
                self._log(f"The guardian {why}; it is started again in {RESTART_MS} ms.")
            if self._stopping.wait(RESTART_MS / 1000):
                return
            opened = self._opener()
            with self._lock:
                if self._stopping.is_set():
                    if not isinstance(opened, OpenFailure):
                        opened.discard()
                        opened.wait_gone()
                    return
                self._adopt(opened)
                if isinstance(self.state, Off):
                    self._log(str(self.state))
                    return


_registry_lock = threading.Lock()
_keepers: dict[str, _Keeper] = {}
_every_keeper: weakref.WeakSet[_Keeper] = weakref.WeakSet()
_users = itertools.count(1)
_keys = itertools.count(1)


def _after_fork_in_child() -> None:
    global _registry_lock  # noqa: PLW0603  the lock of before may be held by a thread of the parent
    _registry_lock = threading.Lock()
    _keepers.clear()
    for keeper in list(_every_keeper):
        keeper.after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)


class Guardian:
    """The guardian of one ZooKeeper session of this process. Thread-safe; no method raises, none
    blocks for longer than about a second.
    """

    def __init__(
        self,
        keeper: _Keeper | None,
        off: Off | None,
        tls: TlsOptions | None,
        report_path: str | None,
        log: Log,
    ) -> None:
        """Use `Guardian.start`."""
        self._keeper = keeper
        self._off = off
        self._tls = tls.absolute() if tls is not None else None
        self._report_path = os.path.abspath(report_path) if report_path is not None else None
        self._log = log
        self._user = next(_users)
        self._sessions_lock = threading.Lock()
        self._sessions: list[tuple[int, int]] = []  # (session id, key), latest last

    @classmethod
    def start(
        cls,
        tls: TlsOptions | None = None,
        log: Log | None = None,
        *,
        enabled: bool = True,
        sasl_demanded: bool = False,
        socket_path: str | None = None,
        report_path: str | None = None,
        also: int | None = None,
    ) -> Guardian:
        """A Guardian in state Running, GuardianAway or Off; what keeps it off is said once through
        `log` (one sentence).

        `tls`: how ZooKeeper is reached, None = plain. `enabled` False: the user's option.
        `sasl_demanded`: the ensemble closes unauthenticated connections. `socket_path`: a guardian
        that already runs (`zkcoord guard --socket PATH`; default: the environment's
        ZKCOORD_GUARDIAN_SOCKET, which `zkcoord guard -- COMMAND` sets). `report_path`: append one
        JSON line per closed session to this file. `also`: a process that can go on with what this
        one holds; the session is closed when both are gone. It has a companion of its own, whatever
        serves.
        """
        log = log or _silent
        off = _why_off(tls, enabled, sasl_demanded)
        if off is None:
            guardian = cls(None, None, tls, report_path, log)
            guardian._attach(socket_path or os.environ.get(SOCKET_VARIABLE, ""), also, log)
        else:
            guardian = cls(None, off, tls, report_path, log)
        if not isinstance(guardian.state, Running) and enabled:
            log(str(guardian.state))
        return guardian

    def _attach(self, socket_path: str, also: int | None, log: Log) -> None:
        """Share the process's keeper for this way, or open one; with `also`, one of its own."""
        with _registry_lock:
            keeper = _keepers.get(socket_path) if also is None else None
            if keeper is not None and keeper.join(self._user):
                self._keeper = keeper
                return
            keeper = _Keeper(
                _opener(socket_path, log) if also is None else (lambda: link.open_companion(also)),
                log,
            )
            state = keeper.open()
            if isinstance(state, Off):
                self._off = state
                return
            if also is None:
                _keepers[socket_path] = keeper
            _every_keeper.add(keeper)
            keeper.join(self._user)
            self._keeper = keeper

    @property
    def state(self) -> State:
        """Running, GuardianAway(why) or Off(reason, detail)."""
        if self._off is not None:
            return self._off
        assert self._keeper is not None
        return self._keeper.state

    def watch(
        self, session_id: int, password: bytes, timeout_ms: int, servers: Sequence[tuple[str, int]]
    ) -> None:
        """Guard this session, too. `timeout_ms` as negotiated; `servers` (host, port) in the order
        to try, the connected one first.
        """
        session = Handover(
            session_id, bytes(password), timeout_ms, servers, self._tls, self._report_path
        )
        if isinstance(handover.parse(handover.encode_watch(0, session)), handover.MalformedLine):
            self._log(
                f"The guardian cannot guard {session}: it needs a session id, a password, a timeout"
                " and at least one host and port."
            )
            return
        # asked without the lock: a forked child may have inherited it locked
        if self._keeper is None or isinstance(self.state, Off):
            return
        with self._sessions_lock:
            known = dict(self._sessions)
            key = known.get(session.session_id) or next(_keys)
            self._sessions = [
                entry for entry in self._sessions if entry[0] != session.session_id
            ] + [(session.session_id, key)]
            self._keeper.say(self._user, key, handover.encode_watch(key, session))
            for _, old in self._sessions[:-SESSIONS_KEPT]:
                self._keeper.say(self._user, old, None)
            self._sessions = self._sessions[-SESSIONS_KEPT:]

    def forget(self, session_id: int | None = None) -> None:
        """This session (None: every one) is closed: nothing is to be done for it when the process
        ends.
        """
        # asked without the lock: a forked child may have inherited it locked
        if self._keeper is None or isinstance(self.state, Off):
            return
        with self._sessions_lock:
            for known, key in list(self._sessions):
                if session_id is None or known == session_id & handover.SESSION_ID_MASK:
                    self._sessions.remove((known, key))
                    self._keeper.say(self._user, key, None)

    def stop(self) -> None:
        """Do without a guardian from now on; the last Guardian of a process ends the companion.
        More than once is fine.
        """
        if self._keeper is not None and self._off is None:
            forked = self._keeper.state == Off(OffReason.FORKED)
            if not forked:
                self.forget()
            self._off = Off(OffReason.FORKED if forked else OffReason.STOPPED)
            self._keeper.leave(self._user)


def _opener(socket_path: str, log: Log) -> link.Opener:
    """How a guardian is reached. A sidecar's path is waited for; the abstract address of a guardian
    that has gone never comes back.
    """

    def open_either() -> Link | OpenFailure:
        opened = link.open_socket(socket_path)
        if isinstance(opened, OpenFailure) and socket_path.startswith("@"):
            log(
                f"No guardian serves {socket_path} any more: this process has a companion of its"
                " own instead."
            )
            return link.open_companion()
        return opened

    return open_either if socket_path else link.open_companion


def _why_off(tls: TlsOptions | None, enabled: bool, sasl_demanded: bool) -> Off | None:
    """What can be known before anything is started."""
    if not enabled:
        return Off(OffReason.DISABLED)
    if sasl_demanded:
        return Off(OffReason.SASL)
    if tls is not None:
        try:
            wire.tls_context(tls)
        except OSError as error:
            return Off(OffReason.TLS_FILES, str(error))
    return None
