"""One real ZooKeeper session behind `zkcoord.zk.port.Port`.

Threads: one per port (kazoo's connection thread, see `zkcoord.zk.kazoo_port.connection`), which
only reads, decodes and posts. `post` is the owner's queue: it takes a thunk, returns at once and
never raises; the owner's thread runs the thunks in order. Callbacks and events happen nowhere else,
also those that are known at once (a call on a session that is not connected): nothing calls back
from inside a call.

What is guaranteed, in the order of the owner's queue:

* answers and watch events stand in the order in which the server sent them: a read's answer never
  overtakes an event that the server sent before it;
* `Suspended` comes first when a connection is lost, then `Unanswered` for every call under way,
  then, if the session lives, `Connected`; no call is sent again or on another connection. A call
  made while `Suspended` and `Connected` are still in the queue belongs to the old connection: it is
  not sent, and ends `Unanswered` just before that `Connected`;
* after one of `Expired`, `Closed`, `Refused` no event follows, and every later call ends
  `Unanswered`;
* `Closed` follows `close()` within `close_deadline_ms`. A session that cannot be closed at the
  server by then ends there by its timeout.

A port belongs to the process that opened it: after a fork the child gets `ForkedProcessError` and
never touches the socket. A black hole is noticed within a third to two thirds of the session
timeout when idle, and after `request_deadline_ms` with calls under way.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from zkcoord.errors import ForkedProcessError
from zkcoord.zk.fork_guard import CurrentProcess
from zkcoord.zk.kazoo_port import wire_requests
from zkcoord.zk.kazoo_port.call import Call
from zkcoord.zk.kazoo_port.connection import SERVER_CLOSED, EdgeClient
from zkcoord.zk.kazoo_port.legacy_server import Answered, LegacyServer
from zkcoord.zk.kazoo_port.modern_server import ModernServer, ServerDialect
from zkcoord.zk.kazoo_port.observer import SessionEnd
from zkcoord.zk.options import Server, ZkOptions
from zkcoord.zk.port import (
    MULTI_BYTES_MAX,
    OPS_PER_MULTI_MAX,
    READS_PER_REQUEST_MAX,
    AclAnswer,
    AclsDone,
    AclsResult,
    Change,
    Closed,
    Connected,
    Expired,
    Fired,
    MultiResult,
    Op,
    PortEvent,
    Read,
    ReadResult,
    Refused,
    Rejected,
    Suspended,
    Unanswered,
    WatchMode,
    ZkError,
    encoded_bytes,
)

log = logging.getLogger(__name__)

Post = Callable[[Callable[[], None]], None]
Done = Callable[[MultiResult], None] | Callable[[ReadResult], None]
T = TypeVar("T")


class KazooEnsemble:
    """Sessions of one ensemble. Raises `ConfigurationError` when the TLS files cannot be used.

    `options.connect_timeout_ms` bounds the very first connection: when no server answers, the port
    ends `Refused`. Once one session was there, later ports keep trying.
    """

    def __init__(self, options: ZkOptions, post: Post) -> None:
        self.options = options
        self._post = post
        self._tls = options.tls.context() if options.tls else None
        self.was_reached = False

    def open(self, on_event: Callable[[PortEvent], None]) -> KazooPort:
        """Start a new session and return at once."""
        port = KazooPort(self, on_event, self._post)
        port.start(EdgeClient(self.options, self._tls, port))
        return port


class KazooPort:
    """A `Port`. Besides it: what a session's guardian needs (`session_id`, `password`,
    `timeout_ms`, `connected_server`, `servers`); never log `session_id` or `password`.
    """

    def __init__(
        self, ensemble: KazooEnsemble, on_event: Callable[[PortEvent], None], post: Post
    ) -> None:
        self._ensemble = ensemble
        self._options = ensemble.options
        self._on_event = on_event
        self._post = post
        self._pid = CurrentProcess.pid
        self._generation = 0
        # calls made while a `Connected` waits in the queue; None while they are told
        self._early: list[Callable[[], None]] | None = []
        self._way: ServerDialect = ModernServer(self.chroot, self._submit, self._on_event)
        self._client: EdgeClient
        self._connect_timer: threading.Timer | None = None
        self._close_timer: threading.Timer | None = None
        self.session_id = 0
        self.password = b""
        self.timeout_ms = 0
        self.connected_server: Server | None = None

    @property
    def servers(self) -> tuple[Server, ...]:
        """The servers of the ensemble, as configured."""
        return self._options.servers

    @property
    def chroot(self) -> str:
        """ "" or "/a/b": what stands before every path at the server."""
        return self._options.chroot

    @property
    def takes_many_reads(self) -> bool:
        """Whether the server takes a multiRead through `ask` (servers before 3.6 do not)."""
        return isinstance(self._way, ModernServer)

    def start(self, client: EdgeClient) -> None:
        """Begin to connect; called once, by `KazooEnsemble.open`."""
        self._client = client
        if self._options.connect_timeout_ms and not self._ensemble.was_reached:
            self._connect_timer = _timer(self._options.connect_timeout_ms, self._unreachable)
        client.start_async()

    # What the owner calls
    # ----------------------------------------------------------------------------------------------

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        """Run `ops` as one transaction; where there are roles, each node gets the ACL of its place.
        Over the caps (operations or bytes) it is `Rejected` here with `OTHER`, at the first
        operation too many: the server would drop the connection instead.
        """
        self._check_process()
        if self._options.roles is not None:
            ops = self._options.roles.applied(ops)
        over = _first_over_cap(ops)
        if over is not None:
            log.error(
                "a multi of %d operations and %d bytes is over the caps (%d operations, %d bytes)"
                " and was not sent",
                len(ops),
                sum(map(encoded_bytes, ops)),
                OPS_PER_MULTI_MAX,
                MULTI_BYTES_MAX,
            )
            self._post(partial(done, Rejected(over, ZkError.OTHER)))
            return
        self._way.multi(ops, done)

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        """Run `reads` as one multiRead. Raises `ValueError` for more than
        `READS_PER_REQUEST_MAX`.
        """
        self._check_process()
        if len(reads) > READS_PER_REQUEST_MAX:
            raise ValueError(
                f"{len(reads)} reads in one request: split them at {READS_PER_REQUEST_MAX}"
            )
        self._way.read(reads, done)

    def acls(self, paths: Sequence[str], done: Callable[[AclsResult], None]) -> None:
        """Read the ACLs of these nodes, all at once; ZooKeeper answers in order."""
        self._check_process()
        found: list[AclAnswer | Unanswered] = []

        def answered(answer: AclAnswer | Unanswered) -> None:
            found.append(answer)
            if len(found) == len(paths):
                told = tuple(one for one in found if not isinstance(one, Unanswered))
                done(AclsDone(told) if len(told) == len(paths) else Unanswered())

        for path in paths:
            self._submit(wire_requests.get_acl_request(self.chroot, path), answered)
        if not paths:
            self._post(partial(done, AclsDone(())))

    def sync(self, done: Callable[[ReadResult], None]) -> None:
        """Make the server catch up with the leader; answers `ReadDone(())`."""
        self._check_process()
        self._way.sync(done)

    def watch(self, path: str, mode: WatchMode, done: Callable[[ReadResult], None]) -> None:
        """Add a persistent watch; answers `ReadDone(())`, or one `Denied` if the server will not
        have it.
        """
        self._check_process()
        self._way.watch(path, mode, done)

    def unwatch(self, path: str, done: Callable[[ReadResult], None]) -> None:
        """Remove the watch on a path; answers `ReadDone(())`, or one `Denied` where there is
        none.
        """
        self._check_process()
        self._way.unwatch(path, done)

    def ignore(self, paths: Sequence[str]) -> None:
        """Drop what is told of nodes below these paths while it is still bytes. On a server before
        3.6 every event must be heard: its watch is gone and set again then.
        """
        self._check_process()
        if isinstance(self._way, ModernServer):
            self._client.ignored = tuple(f"{self.chroot}{path}/".encode() for path in paths)

    def ask(self, request: wire_requests.WireRequest, done: Callable[[T], None]) -> None:
        """Send a request that `Port` does not have; `done` gets what it decodes to."""
        self._check_process()
        self._submit(request, done)

    def close(self) -> None:
        """Close the session after the calls under way; `Closed` follows within `close_deadline_ms`.
        Closing twice is closing once.
        """
        self._check_process()
        if self._close_timer is None and not self._client.ended:
            self._close_timer = _timer(self._options.close_deadline_ms, self._close_overdue)
            self._way.closing()
            self._client.shut()

    # What the connection's thread calls (see `zkcoord.zk.kazoo_port.observer.SessionObserver`)
    # -----------------------------------------------------------------------------------

    def connected(
        self, generation: int, session_id: int, password: bytes, timeout_ms: int, server: Server
    ) -> None:
        """The session is usable."""
        self._ensemble.was_reached = True
        if self._connect_timer is not None:
            self._connect_timer.cancel()
        log.info(
            "connected to ZooKeeper at %s:%d, session timeout %d ms",
            server[0],
            server[1],
            timeout_ms,
        )
        self._post(
            partial(
                self._on_connected,
                generation,
                session_id,
                password,
                timeout_ms,
                server,
                self._client.plain,
            )
        )

    def suspended(self, reason: str, answer_too_large: bool) -> None:
        """The connection is lost."""
        log.warning("lost the connection to ZooKeeper: %s", reason)
        self._over(Suspended(answer_too_large))

    def fired(self, events: Sequence[tuple[Change, str]]) -> None:
        """Watch events."""
        chroot = self.chroot
        self._post(
            partial(
                self._on_fired,
                [Fired(change, wire_requests.relative(chroot, path)) for change, path in events],
            )
        )

    def ended(self, end: SessionEnd, reason: str) -> None:
        """The session is over."""
        for timer in (self._connect_timer, self._close_timer):
            if timer is not None:
                timer.cancel()
        log.info("the ZooKeeper session is over: %s%s", end.value, f" ({reason})" if reason else "")
        if end is SessionEnd.REFUSED:
            self._over(Refused(reason))
        else:
            self._over(Closed() if end is SessionEnd.CLOSED else Expired())

    # Within
    # ----------------------------------------------------------------------------------------------

    def _on_connected(
        self,
        generation: int,
        session_id: int,
        password: bytes,
        timeout_ms: int,
        server: Server,
        plain: bool,
    ) -> None:
        self.session_id, self.password, self.timeout_ms, self.connected_server = (
            session_id,
            password,
            timeout_ms,
            server,
        )
        early, self._early = self._early, None
        for end in early or ():
            end()
        self._early, self._generation = [], generation
        self._client.ignored = ()
        self._way = (
            LegacyServer(self.chroot, self._submit_dated, self._on_event)
            if plain
            else ModernServer(self.chroot, self._submit, self._on_event)
        )
        self._on_event(Connected(session_id, timeout_ms))

    def _on_fired(self, events: Sequence[Fired]) -> None:
        for event in events:
            self._way.fired(event)

    def _over(self, event: PortEvent) -> None:
        self._post(partial(self._on_over, event))

    def _on_over(self, event: PortEvent) -> None:
        self._way.lost()
        self._on_event(event)

    def _submit(self, request: wire_requests.WireRequest, done: Callable[[T], None]) -> None:
        post = self._post

        def tell(result: T | None) -> None:
            post(partial(done, Unanswered() if result is None else result))  # type: ignore[arg-type]  # a request's decoder makes its kind

        self._send(request, tell, partial(done, Unanswered()))  # type: ignore[arg-type]  # a request's decoder makes its kind

    def _submit_dated(self, request: wire_requests.WireRequest, done: Answered) -> None:
        """As `_submit`; `done` is told the transaction that the server was at, too."""
        post, client = self._post, self._client

        def tell(result: wire_requests.Result | None) -> None:
            post(partial(done, Unanswered() if result is None else result, client.last_zxid))

        self._send(request, tell, partial(done, Unanswered(), 0))

    def _send(
        self,
        request: wire_requests.WireRequest,
        tell: Callable[[T | None], None],
        lost: Callable[[], None],
    ) -> None:
        if self._client.submit(Call(request, tell), self._generation):  # type: ignore[arg-type]  # a request's decoder makes its kind
            return
        if self._early is None:
            tell(None)
        else:
            self._early.append(lost)

    def _check_process(self) -> None:
        if CurrentProcess.pid != self._pid:
            raise ForkedProcessError(
                "this ZooKeeper session was opened before a fork: open a new one in the child"
                " process"
            )

    def _unreachable(self) -> None:
        if self._client.usable or self._client.ended:
            return
        options = self._options
        last = self._client.last_error
        hint = ""
        if SERVER_CLOSED in last:
            hint = (
                "; a server that closes at once has no quorum, or already serves maxClientCnxns"
                " connections from this address"
            )
        self._client.give_up(
            SessionEnd.REFUSED,
            f"no ZooKeeper server answers at {options.address} within {options.connect_timeout_ms}"
            f" ms (last: {last}{hint}): start it, or correct the address (--zookeeper;"
            " zookeeper_connect of a consumer)",
        )

    def _close_overdue(self) -> None:
        if self._client.ended:
            return
        log.warning(
            "the ZooKeeper session could not be closed within %d ms; the server ends it by its"
            " timeout",
            self._options.close_deadline_ms,
        )
        self._client.give_up(SessionEnd.CLOSED, "")


def _first_over_cap(ops: Sequence[Op]) -> int | None:
    """Index of the first operation that makes a multi too large; None for one that can be sent."""
    total_bytes = 0
    for index, op in enumerate(ops):
        total_bytes += encoded_bytes(op)
        if total_bytes > MULTI_BYTES_MAX or index >= OPS_PER_MULTI_MAX:
            return index
    return None


def _timer(after_ms: int, act: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(after_ms / 1000, act)
    timer.daemon = True
    timer.start()
    return timer
