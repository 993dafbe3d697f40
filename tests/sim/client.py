"""The client side of the ZooKeeper model: a `Port` of one process.

It keeps the seam's contracts: everything arrives through the host (so it waits while the process is
paused), in the order in which the server sent it; calls under way when a connection breaks end with
`Unanswered` before the next `Connected`; a call made while not connected ends with `Unanswered`,
never re-entrantly; after a break it reconnects to a random server that holds what it has seen, and
learns only there that its session is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.sim.kernel import Host
from zkcoord.zk.port import (
    MULTI_BYTES_MAX,
    OPS_PER_MULTI_MAX,
    READS_PER_REQUEST_MAX,
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

if TYPE_CHECKING:
    from tests.sim.zookeeper import Connection, SimEnsemble

RECONNECT_MIN_MS = 5
RECONNECT_MAX_MS = 400
CLOSE_DEADLINE_MS = 1_000


class SimPort:
    """One session of one process."""

    def __init__(
        self,
        ensemble: SimEnsemble,
        host: Host,
        timeout_ms: int,
        on_event: Callable[[PortEvent], None],
    ) -> None:
        self.host = host
        self.session_id = 0
        self._ensemble = ensemble
        self._timeout_ms = timeout_ms
        self._on_event = on_event
        self._conn: Connection | None = None
        self._connected = False
        self._dead = False
        self._closing = False
        self._ignored: tuple[str, ...] = ()
        self._seen_zxid = 0
        self._calls = 0
        self._pending: dict[int, Callable[[Unanswered], None]] = {}
        host.after(ensemble.latency_ms(), self._connect)

    # ---- Port ----

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        """Run `ops` as one transaction."""
        if len(ops) > OPS_PER_MULTI_MAX or sum(encoded_bytes(op) for op in ops) > MULTI_BYTES_MAX:
            self._ensemble.refusals.append(
                f"{self.host.name}: a multi of {len(ops)} operations and"
                f" {sum(encoded_bytes(op) for op in ops)} bytes"
            )
            self.host.after(0, lambda: done(Rejected(0, ZkError.OTHER)))
            return
        self._call("multi", tuple(ops), done)

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        """Run `reads` as one multiRead."""
        if len(reads) > READS_PER_REQUEST_MAX:
            self._ensemble.refusals.append(f"{self.host.name}: a multiRead of {len(reads)} reads")
        self._call("read", tuple(reads), done)

    def acls(self, paths: Sequence[str], done: Callable[[AclsResult], None]) -> None:
        """Read who may do what."""
        self._call("acls", tuple(paths), done)

    def sync(self, done: Callable[[ReadResult], None]) -> None:
        """Make the serving server catch up with the leader."""
        self._call("sync", None, done)

    def watch(self, path: str, mode: WatchMode, done: Callable[[ReadResult], None]) -> None:
        """Add a persistent watch."""
        self._call("watch", (path, mode), done)

    def unwatch(self, path: str, done: Callable[[ReadResult], None]) -> None:
        """Remove a watch."""
        self._call("unwatch", path, done)

    def ignore(self, paths: Sequence[str]) -> None:
        """Events below these paths are not taken."""
        self._ignored = tuple(f"{path}/" for path in paths)

    def close(self) -> None:
        """Close the session; `Closed` follows, whatever happens."""
        if self._closing or self._dead:
            return
        self._closing = True
        if self._connected and self._conn is not None:
            self._ensemble.send_up(self._conn, "close", None, lambda _result: self._closed())
            self.host.after(CLOSE_DEADLINE_MS, self._closed, timer=True)
        else:
            self.host.after(0, self._closed)

    # ---- calls ----

    def _call(self, kind: str, what: object, done: Callable[..., None]) -> None:
        if not self._connected or self._closing or self._conn is None:
            self.host.after(0, lambda: done(Unanswered()))
            return
        self._calls += 1
        number = self._calls
        self._pending[number] = done

        def answered(result: object) -> None:
            if self._pending.pop(number, None) is not None:
                done(result)

        self._ensemble.send_up(self._conn, kind, what, answered)

    def _closed(self) -> None:
        if not self._dead:
            self._die(Closed())

    def _die(self, event: PortEvent) -> None:
        self._dead = True
        self._connected = False
        conn, self._conn = self._conn, None
        self._fail_pending()
        if conn is not None:
            self._ensemble.break_conn(conn)
        self._on_event(event)

    def _fail_pending(self) -> None:
        pending, self._pending = self._pending, {}
        for done in pending.values():
            done(Unanswered())

    # ---- what the network brings (called by the ensemble, outside the process) ----

    def received(self, conn: Connection, thunk: Callable[[], None], zxid: int) -> None:
        """A reply or an event reached the socket; the process takes it when it runs."""
        self.host.do(lambda: self._take(conn, thunk, zxid))

    def _take(self, conn: Connection, thunk: Callable[[], None], zxid: int) -> None:
        if conn is self._conn and not self._dead:
            self._seen_zxid = max(self._seen_zxid, zxid)
            thunk()

    def fired(self, change: Change, path: str) -> None:
        """A watch event is taken by the process."""
        if not self._closing and not path.startswith(self._ignored):
            self._on_event(Fired(change, path))

    def dropped(self, conn: Connection) -> None:
        """The socket reports that the connection is gone."""
        self.host.do(lambda: self._suspend(conn))

    def _suspend(self, conn: Connection) -> None:
        if conn is not self._conn or self._dead:
            return
        self._conn = None
        self._connected = False
        if self._closing:
            self._closed()
            return
        if self._ensemble.kernel.chance(0.5):
            self._on_event(Suspended())
            self._fail_pending()
        else:
            self._fail_pending()
            self._on_event(Suspended())
        self._later()

    def _later(self) -> None:
        self.host.after(
            self._ensemble.kernel.between(RECONNECT_MIN_MS, RECONNECT_MAX_MS),
            self._connect,
            timer=True,
        )

    # ---- connecting ----

    def _connect(self) -> None:
        if self._dead or self._closing or self._conn is not None:
            return
        ensemble, kernel = self._ensemble, self._ensemble.kernel
        if self.session_id == 0 and kernel.chance(ensemble.weather.refuse_chance):
            kernel.fault("refused", self.host.name)
            self._die(Refused("the ensemble cannot be used as configured"))
            return
        server = ensemble.reachable_server(self._seen_zxid)
        if server is None or self.host.link_bad_until() > kernel.now:
            self._later()
            return
        kernel.after(ensemble.latency_ms(), lambda: self._handshake(server.name))

    def _handshake(self, server_name: str) -> None:
        """The server asks the leader about the session (outside the process)."""
        ensemble, kernel, host = self._ensemble, self._ensemble.kernel, self.host
        server = next(s for s in ensemble.servers if s.name == server_name)
        if not host.alive or self._dead or self._closing:
            return
        if (
            server.isolated_until_ms > kernel.now
            or ensemble.frozen_until_ms > kernel.now
            or host.link_cut_until > kernel.now
            or max(host.link_mute_until, host.link_deaf_until) > kernel.now
        ):
            host.after(0, self._later)
            return
        must_hold, fresh = 0, self.session_id == 0
        if fresh:
            session = ensemble.new_session(self, server, self._timeout_ms)
            self.session_id = session.id
            # a session begins with a transaction that its server has applied
            must_hold = ensemble.zxid
        else:
            session = ensemble.sessions[self.session_id]
        if not session.alive:
            host.after(ensemble.latency_ms(), self._expired)
            return
        conn = ensemble.attach(session, self, server)
        if kernel.chance(ensemble.weather.lose_welcome_chance):
            kernel.fault("lost_welcome", host.name)
            ensemble.break_conn(conn)
            self.session_id = 0 if fresh else self.session_id
            host.after(ensemble.latency_ms(), self._later)
            return
        server.when_applied(must_hold, lambda: self._welcome(conn))

    def _welcome(self, conn: Connection) -> None:
        kernel = self._ensemble.kernel
        arrival = max(
            conn.down_next_ms,
            kernel.now + self._ensemble.latency_ms(),
            self.host.link_stalled_until,
        )
        conn.down_next_ms = arrival
        kernel.at(arrival, lambda: self.host.do(lambda: self._connected_to(conn)))

    def _connected_to(self, conn: Connection) -> None:
        if self._dead or self._closing:
            self._ensemble.break_conn(conn)
            return
        if conn.broken:
            self._later()
            return
        self._conn, self._ignored = conn, ()
        self._connected = True
        self._seen_zxid = max(self._seen_zxid, conn.server.zxid)
        self._on_event(Connected(self.session_id, self._timeout_ms))

    def _expired(self) -> None:
        if not self._dead:
            self._die(Expired())
