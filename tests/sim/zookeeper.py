"""A model of a ZooKeeper ensemble behind `zkcoord.zk.port`: what the real servers promise, and no
more.

One leader orders transactions; every server (the leader's own too) holds a tree that lags by a
random number of them. A session is served by one server: reads and watch events come from ITS tree,
writes and syncs travel to the leader and are answered only after that server caught up with them,
and requests of one connection are handled in order. A session that reconnects never goes back in
time (the new server must hold what the client has seen), and what its server had read of its old
connection still happens unless the session has moved to another server meanwhile. A session dies on
the leader when nothing was heard of it for its timeout, rounded up to a tick; a paused process, a
stalled or cut link and a server that cannot reach the leader are all "nothing heard", and the last
thing heard is up to a third of the timeout old. Close and expiry are one transaction each.

Faults are methods: stall and cut a link, lose a request or a reply, isolate a server. A client
hears of a lost connection late; it hears of an expiry only after reconnecting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.sim.client import SimPort
from tests.sim.kernel import Host, Kernel
from tests.sim.rights import Rights
from tests.sim.tree import Rec, Tree, Txn, parent_of
from zkcoord.zk.port import (
    AclsDone,
    Change,
    Committed,
    Denied,
    MultiResult,
    Op,
    PortEvent,
    ReadDone,
    Rejected,
    WatchMode,
    ZkError,
)

# a follower that has not heard of its leader for so long drops its clients
FOLLOWER_PATIENCE_MS = 5_000

Observer = Callable[[Txn, Tree], None]


@dataclass(slots=True)
class Weather:
    """How bad the network and the servers are, in milliseconds and probabilities; changed while a
    run goes on.
    """

    latency_max_ms: int = 2
    tail_chance: float = 0.0
    tail_max_ms: int = 300
    lag_max_ms: int = 3
    lag_tail_chance: float = 0.0
    lag_tail_max_ms: int = 800
    lose_request_chance: float = 0.0
    lose_reply_chance: float = 0.0
    lose_other_request_chance: float = 0.0  # of reads, syncs, watches and closes
    lose_other_reply_chance: float = 0.0
    # of the answer to a connection: a new session exists that nobody knows of
    lose_welcome_chance: float = 0.0
    refuse_chance: float = 0.0
    tick_ms: int = 500

    def clear(self) -> None:
        """Fine again."""
        fresh = Weather(tick_ms=self.tick_ms)
        for name in self.__slots__:
            setattr(self, name, getattr(fresh, name))


@dataclass(slots=True)
class Session:
    """A session as the leader knows it."""

    id: int
    timeout_ms: int
    host: Host
    owned: dict[str, None]
    conn: Connection | None = None
    latest: Connection | None = None  # the last one that it was served on, also when that is broken
    moves: int = 0  # how often it has come to another server
    last_heard_ms: int = 0
    alive: bool = True
    silent: bool = False
    watchdog: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All nodes and sessions at one moment."""

    zxid: int
    nodes: dict[str, Rec]
    children: dict[str, dict[str, None]]
    sessions: dict[int, tuple[str, ...]]


class Connection:
    """A TCP connection between a port and a server; each end may believe in it longer than the
    other.
    """

    def __init__(self, port: SimPort, server: Server) -> None:
        self.port = port
        self.server = server
        self.broken = False
        self.deaf = False
        self.queue: deque[tuple[str, object, Callable[[object], None], bool]] = deque()
        self.busy = False
        self.up_next_ms = 0
        self.down_next_ms = 0
        self.lose_next_reply = False
        self.moves = 0  # of its session, when it was made
        self.watches: dict[str, WatchMode] = {}


class Server:
    """One server: a tree that follows the log, the connections it serves and their watches."""

    def __init__(self, ensemble: SimEnsemble, name: str, leading: bool) -> None:
        self.ensemble = ensemble
        self.name = name
        self.leading = leading
        self.tree = Tree(ensemble.rights)
        self.zxid = 0
        self.isolated_until_ms = 0
        self.to_leader_next_ms = 0
        self.conns: dict[Connection, None] = {}
        self._applied = 0
        self._applying = False
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._exact: dict[str, dict[Connection, None]] = {}
        self._below: dict[str, dict[Connection, None]] = {}

    def log_grew(self) -> None:
        """The leader committed something: apply it later (the leader itself: at once)."""
        if self.leading:
            self._apply_all()
        elif not self._applying:
            self._applying = True
            self.ensemble.kernel.at(
                max(self.ensemble.kernel.now + self.ensemble.lag_ms(), self.isolated_until_ms),
                self._catch_up,
            )

    def _catch_up(self) -> None:
        self._applying = False
        if self.isolated_until_ms > self.ensemble.kernel.now:
            self._applying = True
            self.ensemble.kernel.at(self.isolated_until_ms, self._catch_up)
            return
        self._apply_all()

    def _apply_all(self) -> None:
        log = self.ensemble.log
        while self._applied < len(log):
            txn = log[self._applied]
            self._applied += 1
            self.tree.apply(txn.changes)
            self.zxid = txn.zxid
            for change, path in txn.events:
                self._fire(change, path)
            if txn.kind in ("close", "expire"):
                for conn in [c for c in self.conns if c.port.session_id == txn.session]:
                    self.ensemble.break_conn(conn, polite=True)
            self.release()

    def start_from(self, zxid: int) -> None:
        """The server starts with an empty log and a tree that was put there."""
        self.zxid = zxid
        self._applied = 0
        self._waiting.clear()

    def release(self) -> None:
        """Answer the writes and syncs whose moment this server has reached."""
        ready = [thunk for zxid, thunk in self._waiting if zxid <= self.zxid]
        self._waiting = [(zxid, thunk) for zxid, thunk in self._waiting if zxid > self.zxid]
        for thunk in ready:
            thunk()

    def when_applied(self, zxid: int, thunk: Callable[[], None]) -> None:
        """Run `thunk` once this server holds transaction `zxid`."""
        if zxid <= self.zxid:
            thunk()
        else:
            self._waiting.append((zxid, thunk))

    def _fire(self, change: Change, path: str) -> None:
        hit: dict[Connection, None] = dict(self._exact.get(path, {}))
        if change is not Change.CHILDREN and self._below:
            above = path
            while True:
                hit.update(self._below.get(above, {}))
                if above == "/":
                    break
                above = parent_of(above)
        for conn in hit:
            self.ensemble.send_event(conn, change, path)

    def add_watch(self, conn: Connection, path: str, mode: WatchMode) -> None:
        """Add a persistent watch for a connection; the later mode of a path replaces the
        earlier.
        """
        old = conn.watches.get(path)
        if old is not None:
            (self._exact if old is WatchMode.PERSISTENT else self._below)[path].pop(conn, None)
        conn.watches[path] = mode
        (self._exact if mode is WatchMode.PERSISTENT else self._below).setdefault(path, {})[
            conn
        ] = None

    def remove_watch(self, conn: Connection, path: str) -> bool:
        """Remove a connection's watch of a path; whether there was one."""
        mode = conn.watches.pop(path, None)
        if mode is None:
            return False
        (self._exact if mode is WatchMode.PERSISTENT else self._below)[path].pop(conn, None)
        return True

    def forget(self, conn: Connection) -> None:
        """A connection is gone, and its watches."""
        self.conns.pop(conn, None)
        for path, mode in conn.watches.items():
            (self._exact if mode is WatchMode.PERSISTENT else self._below)[path].pop(conn, None)


class SimEnsemble:
    """The ensemble: the leader's tree and log, sessions, servers, and the network between them and
    the hosts.
    """

    def __init__(
        self,
        kernel: Kernel,
        servers: int = 3,
        weather: Weather | None = None,
        rights: Rights | None = None,
    ) -> None:
        self.kernel = kernel
        self.weather = weather or Weather()
        self.rights = rights
        self.tree = Tree(rights)
        self.log: list[Txn] = []
        self.zxid = 0
        self.frozen_until_ms = 0
        self.broke_ms: dict[str, int] = {}  # when the weather last broke a connection of a host
        self.sessions: dict[int, Session] = {}
        self.observers: list[Observer] = []
        self.refusals: list[str] = []
        self.servers = [Server(self, f"zk{i}", i == 0) for i in range(servers)]
        self._session_ids = 0x1000

    # ---- the network ----

    def latency_ms(self) -> int:
        """How long one message takes."""
        w = self.weather
        if self.kernel.chance(w.tail_chance):
            return self.kernel.between(w.latency_max_ms, w.tail_max_ms)
        return self.kernel.between(0, w.latency_max_ms)

    def lag_ms(self) -> int:
        """How long a follower takes to apply a transaction."""
        w = self.weather
        if self.kernel.chance(w.lag_tail_chance):
            return self.kernel.between(w.lag_max_ms, w.lag_tail_max_ms)
        return self.kernel.between(0, w.lag_max_ms)

    def send_up(
        self, conn: Connection, kind: str, what: object, reply: Callable[[object], None]
    ) -> None:
        """A request leaves the client: it reaches the server in order, or is lost with the
        connection.
        """
        if conn.broken:
            return
        host, w = conn.port.host, self.weather
        arrival = max(
            conn.up_next_ms,
            host.link_stalled_until,
            host.link_mute_until,
            self.kernel.now + self.latency_ms(),
        )
        conn.up_next_ms = arrival
        write = kind == "multi"
        if self.kernel.chance(w.lose_request_chance if write else w.lose_other_request_chance):
            self.kernel.fault("lost_request" if write else f"lost_{kind}", host.name)
            self.broke_ms[host.name] = self.kernel.now
            self.break_conn(conn)
            return
        lose_reply = self.kernel.chance(w.lose_reply_chance if write else w.lose_other_reply_chance)
        self.kernel.at(arrival, lambda: self._arrived(conn, kind, what, reply, lose_reply))

    def _arrived(
        self,
        conn: Connection,
        kind: str,
        what: object,
        reply: Callable[[object], None],
        lose_reply: bool,
    ) -> None:
        if (
            self._superseded(conn)
            or conn.deaf
            or (conn.broken and conn.port.host.alive and self.kernel.chance(0.5))
        ):
            conn.deaf = True  # what a broken connection lost, it lost from there on
            return
        if lose_reply and kind == "multi":
            conn.lose_next_reply = True
        conn.queue.append((kind, what, reply, lose_reply and kind != "multi"))
        self._serve(conn)

    def _superseded(self, conn: Connection) -> bool:
        """Whether the session came again on another connection: a server closes the older one,
        wherever it is, and what it has not read from it by then it never reads.
        """
        session = self.sessions.get(conn.port.session_id)
        return (
            session is not None
            and session.latest is not None
            and session.latest is not conn
            and conn.broken
        )

    def send_down(self, conn: Connection, thunk: Callable[[], None], zxid: int) -> None:
        """Something leaves the server for the client: it arrives in order, unless the connection
        breaks first.
        """
        if conn.broken:
            return
        arrival = max(
            conn.down_next_ms,
            conn.port.host.link_stalled_until,
            conn.port.host.link_deaf_until,
            self.kernel.now + self.latency_ms(),
        )
        conn.down_next_ms = arrival
        self.kernel.at(arrival, lambda: conn.port.received(conn, thunk, zxid))

    def send_event(self, conn: Connection, change: Change, path: str) -> None:
        """A watch fired."""
        self.send_down(conn, lambda: conn.port.fired(change, path), conn.server.zxid)

    def break_conn(self, conn: Connection, polite: bool = False) -> None:
        """The connection is gone for both ends; the client hears of it (soon when the server closed
        it, later otherwise).
        """
        if conn.broken:
            return
        conn.broken = True
        conn.server.forget(conn)
        session = self.sessions.get(conn.port.session_id)
        if session is not None and session.conn is conn:
            session.conn = None
            self.check_silence(session)
        notice = max(
            conn.down_next_ms,
            self.kernel.now + (self.latency_ms() if polite else self.kernel.between(0, 100)),
        )
        self.kernel.at(notice, lambda: conn.port.dropped(conn))

    # ---- a server at work ----

    def _serve(self, conn: Connection) -> None:
        if self._superseded(conn):
            conn.queue.clear()
        while conn.queue and not conn.busy:
            kind, what, reply, lose = conn.queue.popleft()
            server = conn.server
            if lose:
                reply = self._lost(conn, kind, reply)
            if kind == "read":
                assert isinstance(what, tuple)
                host = conn.port.host.name
                answers = tuple(server.tree.answer(read, host) for read in what)
                self._reply(conn, reply, ReadDone(answers))
            elif kind == "acls":
                assert isinstance(what, tuple)
                found = tuple(server.tree.acl(path, conn.port.host.name) for path in what)
                self._reply(conn, reply, AclsDone(found))
            elif kind == "watch":
                assert isinstance(what, tuple)
                if not conn.broken:
                    server.add_watch(conn, what[0], what[1])
                self._reply(conn, reply, ReadDone(()))
            elif kind == "unwatch":
                assert isinstance(what, str)
                self._reply(
                    conn,
                    reply,
                    (
                        ReadDone(())
                        if server.remove_watch(conn, what)
                        else ReadDone((Denied(ZkError.OTHER),))
                    ),
                )
            else:
                conn.busy = True
                self._forward(conn, kind, what, reply)

    def _lost(
        self, conn: Connection, kind: str, reply: Callable[[object], None]
    ) -> Callable[[object], None]:
        """What becomes of a reply that breaks off with the connection: it does not arrive, and the
        client hears of that instead.
        """

        def broken(_result: object) -> None:
            self.kernel.fault(f"lost_{kind}_reply", conn.port.host.name)
            self.break_conn(conn)

        return broken if not conn.broken else reply

    def _reply(self, conn: Connection, reply: Callable[[object], None], result: object) -> None:
        self.send_down(conn, lambda: reply(result), conn.server.zxid)

    def _forward(
        self, conn: Connection, kind: str, what: object, reply: Callable[[object], None]
    ) -> None:
        server = conn.server
        hop = 0 if server.leading else self.latency_ms()
        arrival = max(server.to_leader_next_ms, server.isolated_until_ms, self.kernel.now + hop)
        server.to_leader_next_ms = arrival
        self.kernel.at(arrival, lambda: self._at_leader(conn, kind, what, reply))

    def _at_leader(
        self, conn: Connection, kind: str, what: object, reply: Callable[[object], None]
    ) -> None:
        server = conn.server
        reachable_ms = max(server.isolated_until_ms, self.frozen_until_ms)
        if reachable_ms > self.kernel.now:
            self.kernel.at(reachable_ms, lambda: self._at_leader(conn, kind, what, reply))
            return
        session = self.sessions[conn.port.session_id]
        # the leader remembers that it moved, also while nobody serves it; what was under way on a
        # server's link arrives before the news that the session came back to that server
        if not session.alive or conn.moves != session.moves:
            self.break_conn(conn, polite=True)
            return
        self.heard(session)
        result: object = ReadDone(())
        if kind == "multi":
            assert isinstance(what, tuple)
            result = self.commit(what, session.id, conn.port.host.name)
        elif kind == "close":
            self._end(session, "close")
        server.when_applied(self.zxid, lambda: self._written(conn, reply, result))

    def _written(self, conn: Connection, reply: Callable[[object], None], result: object) -> None:
        conn.busy = False
        if conn.lose_next_reply and not conn.broken:
            conn.lose_next_reply = False
            self.kernel.fault("lost_reply", conn.port.host.name)
            self.broke_ms[conn.port.host.name] = self.kernel.now
            self.break_conn(conn)
            return
        self._reply(conn, reply, result)
        self._serve(conn)

    # ---- the leader ----

    def commit(self, ops: Sequence[Op], session: int, host: str) -> MultiResult:
        """Run a multi on the leader. Session 0 is an operator or a foreign tool."""
        self.zxid += 1
        if self.rights is not None:
            ops = self.rights.applied(host, ops)
        txn = Txn(self.zxid, self.kernel.now, session, host, "multi", tuple(ops))
        result = self.tree.execute(ops, session, txn)
        if isinstance(result, Rejected):
            self.kernel.trace(host, f"refused {result.error.value}@{result.index} {_brief(ops)}")
        else:
            for path, before, after in txn.changes:
                if before is None and after is not None and after.owner:
                    self.sessions[after.owner].owned[path] = None
                elif after is None and before is not None and before.owner:
                    self.sessions[before.owner].owned.pop(path, None)
            self.kernel.trace(host, f"multi zxid={txn.zxid} {_brief(ops)}")
        self._append(txn)
        return result if isinstance(result, Rejected) else Committed(result)

    def _append(self, txn: Txn) -> None:
        self.log.append(txn)
        for observer in self.observers:
            observer(txn, self.tree)
        for server in self.servers:
            server.log_grew()

    def _end(self, session: Session, kind: str) -> None:
        """Close or expire a session: all of its ephemeral nodes in one transaction."""
        if not session.alive:
            return
        session.alive = False
        self.zxid += 1
        txn = Txn(self.zxid, self.kernel.now, session.id, session.host.name, kind)
        self.tree.close_session(session.id, list(session.owned), txn)
        session.owned.clear()
        self.kernel.trace(
            session.host.name,
            f"session {session.id:x} {kind} zxid={txn.zxid}: {len(txn.changes)} changes",
        )
        self._append(txn)

    def end_session(self, session_id: int) -> None:
        """Somebody who knows the session's password closes it (a guardian)."""
        if session_id in self.sessions:
            self._end(self.sessions[session_id], "close")

    @property
    def weather_is_fine(self) -> bool:
        """Whether nothing is lost or late by chance now."""
        w = self.weather
        return not (
            w.tail_chance
            or w.lag_tail_chance
            or w.lose_request_chance
            or w.lose_reply_chance
            or w.lose_other_request_chance
            or w.lose_other_reply_chance
        )

    # ---- sessions ----

    def heard(self, session: Session) -> None:
        """Something of the session reached the leader."""
        session.last_heard_ms = self.kernel.now

    def check_silence(self, session: Session) -> None:
        """Is the leader still hearing of this session? If that changed, start or stop waiting for
        its expiry.
        """
        host, conn, now = session.host, session.conn, self.kernel.now
        reachable = (
            conn is not None
            and not conn.broken
            and conn.server.isolated_until_ms <= now
            and max(host.link_stalled_until, host.link_mute_until) <= now
        )
        silent = not (reachable and host.alive and not host.paused)
        if silent and not session.silent:
            session.silent = True
            last_ping = now - self.kernel.between(0, session.timeout_ms // 3)
            session.last_heard_ms = max(session.last_heard_ms, last_ping)
            self._arm(session)
        elif not silent and session.silent:
            session.silent = False
            session.watchdog += 1
            self.heard(session)

    def _arm(self, session: Session) -> None:
        session.watchdog += 1
        token, tick = session.watchdog, self.weather.tick_ms
        due = ((session.last_heard_ms + session.timeout_ms) // tick + 1) * tick
        self.kernel.at(due, lambda: self._expire(session, token))

    def _expire(self, session: Session, token: int) -> None:
        if token != session.watchdog or not session.alive or not session.silent:
            return
        # a new leader starts every session's clock again, however the outage grew meanwhile
        session.last_heard_ms = max(session.last_heard_ms, self.frozen_until_ms)
        if (
            (session.last_heard_ms + session.timeout_ms) // self.weather.tick_ms
        ) * self.weather.tick_ms >= self.kernel.now:
            self._arm(session)
            return
        self.kernel.faults["session_expired"] += 1
        self._end(session, "expire")

    def reachable_server(self, seen_zxid: int) -> Server | None:
        """A random server that can take a client which has seen `seen_zxid`."""
        now = self.kernel.now
        if self.frozen_until_ms > now:
            return None
        able = [s for s in self.servers if s.isolated_until_ms <= now and s.zxid >= seen_zxid]
        return self.kernel.rng.choice(able) if able else None

    def new_session(self, port: SimPort, server: Server, timeout_ms: int) -> Session:
        """Create a session (a transaction of its own)."""
        self._session_ids += 1
        session = Session(
            self._session_ids, timeout_ms, port.host, {}, last_heard_ms=self.kernel.now
        )
        self.sessions[session.id] = session
        port.host.on_state.append(lambda: self.check_silence(session))
        self.zxid += 1
        self._append(Txn(self.zxid, self.kernel.now, session.id, port.host.name, "open"))
        return session

    def attach(self, session: Session, port: SimPort, server: Server) -> Connection:
        """The session is served by `server` from now on."""
        old = session.conn
        conn = Connection(port, server)
        server.conns[conn] = None
        if session.latest is not None and session.latest.server is not server:
            session.moves += 1
        conn.moves = session.moves
        session.conn = session.latest = conn
        self.heard(session)
        if old is not None:
            self.break_conn(old)
        self.check_silence(session)
        for until in (
            port.host.link_stalled_until,
            port.host.link_mute_until,
            server.isolated_until_ms,
        ):
            if until > self.kernel.now:
                self.kernel.at(until, lambda: self.check_silence(session))
        return conn

    # ---- faults ----

    def stall_link(self, host: Host, duration_ms: int) -> None:
        """Nothing passes between a host and the servers for a while; TCP delivers it afterwards
        unless the client gave up.
        """
        host.link_stalled_until = max(host.link_stalled_until, self.kernel.now + duration_ms)
        for session in [s for s in self.sessions.values() if s.host is host and s.alive]:
            self.check_silence(session)
            if session.conn is not None:
                self._give_up_later(session.conn, session, host.link_stalled_until)
            self.kernel.at(
                host.link_stalled_until, lambda session=session: self.check_silence(session)
            )  # type: ignore[misc]

    def _give_up_later(self, conn: Connection, session: Session, until_ms: int) -> None:
        patience = self.kernel.between(session.timeout_ms // 3, session.timeout_ms * 2 // 3)
        if self.kernel.now + patience < until_ms:
            self.kernel.after(patience, lambda: self.break_conn(conn, polite=True))

    def half_link(self, host: Host, duration_ms: int, up: bool) -> None:
        """One direction of a link is a black hole for a while: with `up` nothing reaches the
        servers, else nothing comes from them.
        """
        until = self.kernel.now + duration_ms
        if up:
            host.link_mute_until = max(host.link_mute_until, until)
        else:
            host.link_deaf_until = max(host.link_deaf_until, until)
        for session in [s for s in self.sessions.values() if s.host is host and s.alive]:
            self.check_silence(session)
            if session.conn is not None:
                self._give_up_later(session.conn, session, until)
            self.kernel.at(until, lambda session=session: self.check_silence(session))  # type: ignore[misc]

    def cut_link(self, host: Host, duration_ms: int) -> None:
        """The connections of a host break now and cannot be made again for a while."""
        host.link_cut_until = max(host.link_cut_until, self.kernel.now + duration_ms)
        for server in self.servers:
            for conn in [c for c in server.conns if c.port.host is host]:
                self.break_conn(conn)

    def isolate(self, server: Server, duration_ms: int) -> None:
        """A follower loses the leader for a while: it answers reads from what it holds, and nothing
        of its clients reaches the leader.
        """
        assert not server.leading
        server.isolated_until_ms = max(server.isolated_until_ms, self.kernel.now + duration_ms)
        ids = [c.port.session_id for c in server.conns]
        for session in [self.sessions[i] for i in ids if i in self.sessions]:
            self.check_silence(session)
            self.kernel.at(
                server.isolated_until_ms, lambda session=session: self.check_silence(session)
            )  # type: ignore[misc]
        self.kernel.after(FOLLOWER_PATIENCE_MS, lambda: self._drop_clients(server))

    def _drop_clients(self, server: Server) -> None:
        if server.isolated_until_ms > self.kernel.now:
            for conn in list(server.conns):
                self.break_conn(conn, polite=True)

    def outage(self, duration_ms: int) -> None:
        """The quorum is gone for a while (or elects a leader): every connection breaks, no session
        can expire, and their clocks start again.
        """
        self.frozen_until_ms = max(self.frozen_until_ms, self.kernel.now + duration_ms)
        for server in self.servers:
            for conn in list(server.conns):
                self.break_conn(conn, polite=True)

    def new_leader(self, duration_ms: int) -> Server:
        """The leader is lost: nobody is served for a while, then another server leads (the same one
        where there is only one). It holds everything that was committed.
        """
        old = next(s for s in self.servers if s.leading)
        new = self.kernel.rng.choice([s for s in self.servers if s is not old] or [old])
        self.outage(duration_ms)
        new.isolated_until_ms = 0
        old.leading, new.leading = False, True
        new.log_grew()
        return new

    def snapshot(self) -> Snapshot:
        """What an operator's backup would hold now."""
        living = {s.id: tuple(s.owned) for s in self.sessions.values() if s.alive}
        return Snapshot(
            self.zxid,
            dict(self.tree.nodes),
            {path: dict(names) for path, names in self.tree.children.items()},
            living,
        )

    def restore(self, old: Snapshot) -> None:
        """Every server starts from an old snapshot: what happened since never did. Clients that
        have seen more are refused; sessions of the snapshot that nobody takes up again expire.
        """
        self.outage(0)
        self.zxid = old.zxid
        self.log.clear()
        for tree in (self.tree, *(server.tree for server in self.servers)):
            tree.nodes = dict(old.nodes)
            tree.children = {path: dict(names) for path, names in old.children.items()}
        for server in self.servers:
            server.start_from(old.zxid)
        for session in self.sessions.values():
            session.alive = session.id in old.sessions
            session.owned = dict.fromkeys(old.sessions.get(session.id, ()))
            session.silent = False
            self.check_silence(session)

    def open_for(self, host: Host, timeout_ms: int) -> HostEnsemble:
        """The `Ensemble` that a process of this host uses."""
        return HostEnsemble(self, host, timeout_ms)


class HostEnsemble:
    """`zkcoord.zk.port.Ensemble` for one process."""

    def __init__(self, ensemble: SimEnsemble, host: Host, timeout_ms: int) -> None:
        self._ensemble = ensemble
        self._host = host
        self._timeout_ms = timeout_ms
        self.ports: list[SimPort] = []

    def open(self, on_event: Callable[[PortEvent], None]) -> SimPort:
        """Start a new session."""
        port = SimPort(self._ensemble, self._host, self._timeout_ms, on_event)
        self.ports.append(port)
        return port


def _brief(ops: Sequence[Op]) -> str:
    parts = []
    for op in ops:
        version = f"@{op.version}" if hasattr(op, "version") else ""
        data = f"={op.data.decode('utf-8', 'replace')[:700]}" if hasattr(op, "data") else ""
        parts.append(f"{type(op).__name__} {op.path}{version}{data}")
    return "; ".join(parts)
