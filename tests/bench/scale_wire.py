"""Thousands of ZooKeeper sessions in one thread: `Port`s without a thread each.

The shipped session (`zkcoord.zk.kazoo_port.session`) has a thread per session, which is right for a
consumer and too much for 30,000 of them on one machine. Here a session is a socket in a selector
and speaks the same bytes (`zkcoord.zk.kazoo_port.wire_requests`), so whatever is written against
`Port`, the consumer's driver among it, runs on it unchanged. Nothing is repaired: a lost connection
is the end of the session (`Expired`), and a refused one raises. Callbacks are called one at a time,
never from inside a call.

`abandon` drops the connection and leaves the session: its ephemeral nodes stay until its timeout,
as those of a process that is cut off. That is how 30,000 members fit into one machine: ZooKeeper
keeps their sessions, and nobody has to ping for them.
"""

from __future__ import annotations

import heapq
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from zkcoord.zk.clock import boot_ms
from zkcoord.zk.kazoo_port import wire_requests
from zkcoord.zk.kazoo_port.wire_requests import Result, WireRequest
from zkcoord.zk.port import (
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
    Unanswered,
    WatchMode,
)

RECEIVE_BYTES = 256 * 1024
CONNECT_DEADLINE_S = 60.0
PING_XID, WATCH_XID = -2, -1
PING = struct.pack(">iii", 8, PING_XID, 11)
TURN_S_MAX = 0.5

Answer = Callable[[Result], None]


class Driven(Protocol):
    """What has times of its own, as the drivers have."""

    def tick(self) -> None: ...

    def next_wake_ms(self) -> int | None: ...


class Hub:
    """All sessions of this process; an `Ensemble`. Single-threaded: everything happens inside
    `turn` and `run_until`.
    """

    def __init__(self, address: str, timeout_ms: int) -> None:
        host, _, port = address.partition("/")[0].rpartition(":")
        self.server = (host, int(port))
        self.chroot = address[address.index("/") :] if "/" in address else ""
        self.timeout_ms = timeout_ms
        self.selector = selectors.DefaultSelector()
        self.thunks: deque[tuple[Driven | None, Callable[[], None]]] = deque()
        self.ports: set[WirePort] = set()
        self.wakes: list[tuple[int, int, Driven]] = []
        self.wake_of: dict[Driven, int] = {}
        self.driving: Driven | None = None
        self.count = 0
        self.ping_at = time.monotonic() + timeout_ms / 3000

    def open(self, on_event: Callable[[PortEvent], None]) -> WirePort:
        """A new session, on behalf of the driver that is being run."""
        port = WirePort(self, on_event, self.driving)
        self.ports.add(port)
        return port

    def drive(self, driver: Driven, act: Callable[[], None]) -> None:
        """Run `act` on behalf of a driver, soon: sessions that it opens belong to it, and it is
        asked for its times whenever something happens on them.
        """
        self.thunks.append((driver, act))

    def post(self, act: Callable[[], None]) -> None:
        """Run `act` soon, on behalf of whom is being driven now."""
        self.thunks.append((self.driving, act))

    def forget(self, driver: Driven) -> None:
        """Ask it no more."""
        self.wake_of.pop(driver, None)

    def close(self) -> None:
        """Drop every connection; sessions end by their timeout."""
        for port in list(self.ports):
            port.abandon()
        self.selector.close()

    def run_until(self, condition: Callable[[], object], timeout_s: float, what: str) -> None:
        """Turn until it holds; AssertionError when it does not in time."""
        until = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < until, f"waited {timeout_s:.0f} s in vain for {what}"
            self.turn(0.05)

    def run_for(self, seconds: float) -> None:
        """Turn for a time."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.turn(left)

    def turn(self, wait_s: float) -> None:
        """What has arrived, what was posted, what is due."""
        if self.thunks:
            wait_s = 0.0
        elif self.wakes:
            wait_s = min(wait_s, max(0.0, (self.wakes[0][0] - boot_ms()) / 1000))
        for key, ready in self.selector.select(min(wait_s, TURN_S_MAX)):
            key.data.ready(ready)
        for _ in range(len(self.thunks)):
            driver, act = self.thunks.popleft()
            self._run(driver, act)
        now = boot_ms()
        while self.wakes and self.wakes[0][0] <= now:
            at_ms, _, driver = heapq.heappop(self.wakes)
            if self.wake_of.get(driver) == at_ms:
                del self.wake_of[driver]
                self._run(driver, driver.tick)
        if time.monotonic() >= self.ping_at:
            self.ping_at = time.monotonic() + self.timeout_ms / 3000
            for port in list(self.ports):
                port.ping()

    def _run(self, driver: Driven | None, act: Callable[[], None]) -> None:
        self.driving = driver
        act()
        self.driving = None
        if driver is None:
            return
        at_ms = driver.next_wake_ms()
        if at_ms is None:
            self.wake_of.pop(driver, None)
        elif self.wake_of.get(driver) != at_ms:
            self.wake_of[driver] = at_ms
            self.count += 1
            heapq.heappush(self.wakes, (at_ms, self.count, driver))


class WirePort:
    """One session: see `Port`. `session_id` and `password` are known once it is connected."""

    def __init__(
        self, hub: Hub, on_event: Callable[[PortEvent], None], driver: Driven | None
    ) -> None:
        self.hub = hub
        self.on_event = on_event
        self.driver = driver
        self.session_id = 0
        self.connected = False
        self.over = False
        self.xid = 0
        self.pending: deque[tuple[WireRequest, Answer]] = deque()
        self.received = bytearray()
        self.unsent = bytearray()
        self.sock = socket.create_connection(hub.server, CONNECT_DEADLINE_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        hub.selector.register(self.sock, selectors.EVENT_READ, self)
        self._send(struct.pack(">iqiqi", 0, 0, hub.timeout_ms, 0, 16) + b"\0" * 17)

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        """See `Port`."""
        self._ask(wire_requests.multi_request(self.hub.chroot, ops), done)  # type: ignore[arg-type]

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self._ask(wire_requests.read_request(self.hub.chroot, reads), done)  # type: ignore[arg-type]

    def sync(self, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self._ask(wire_requests.sync_request(self.hub.chroot), done)  # type: ignore[arg-type]

    def watch(self, path: str, mode: WatchMode, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self._ask(wire_requests.watch_request(self.hub.chroot, path, mode), done)  # type: ignore[arg-type]

    def unwatch(self, path: str, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self._ask(wire_requests.unwatch_request(self.hub.chroot, path), done)  # type: ignore[arg-type]

    def ignore(self, paths: Sequence[str]) -> None:
        """Nobody here asks for it."""

    def close(self) -> None:
        """See `Port`."""
        if self.connected:
            self._ask(wire_requests.CLOSE_REQUEST, lambda result: None)
        elif not self.over:
            self._end(Closed())

    def abandon(self) -> None:
        """Drop the connection and keep the session; no event follows."""
        if not self.over:
            self._drop()

    def ping(self) -> None:
        """Keep the session alive."""
        if self.connected:
            self._send(PING[4:])

    # within

    def _post(self, act: Callable[[], None]) -> None:
        self.hub.thunks.append((self.driver, act))

    def _ask(self, request: WireRequest, done: Answer) -> None:
        if not self.connected:
            self._post(partial(done, Unanswered()))
            return
        self.xid += 1
        self.pending.append((request, done))
        self._send(struct.pack(">ii", self.xid, request.type) + request.payload)

    def _send(self, body: bytes) -> None:
        self.unsent += struct.pack(">i", len(body)) + body
        self._flush()

    def _flush(self) -> None:
        try:
            del self.unsent[: self.sock.send(self.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            return self._end(Expired())
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.unsent else 0)
        self.hub.selector.modify(self.sock, wanted, self)

    def ready(self, what: int) -> None:
        """The selector says so."""
        if self.over:
            return
        if what & selectors.EVENT_WRITE:
            self._flush()
        if what & selectors.EVENT_READ and not self.over:
            self._receive()

    def _receive(self) -> None:
        try:
            chunk = self.sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            return self._end(
                Closed()
                if self.pending and self.pending[0][0] is wire_requests.CLOSE_REQUEST
                else Expired()
            )
        self.received += chunk
        at = 0
        while len(self.received) >= at + 4:
            size = struct.unpack_from(">i", self.received, at)[0]
            if len(self.received) < at + 4 + size:
                break
            frame = bytes(self.received[at + 4 : at + 4 + size])
            at += 4 + size
            self._frame(frame)
            if self.over:
                return
        del self.received[:at]

    def _frame(self, frame: bytes) -> None:
        if not self.connected:
            _, timeout_ms, self.session_id = struct.unpack_from(">iiq", frame)
            if timeout_ms <= 0:
                return self._end(Expired())
            self.connected = True
            return self._post(partial(self.on_event, Connected(self.session_id, timeout_ms)))
        xid, _, err = struct.unpack_from(">iqi", frame)
        if xid == PING_XID:
            return
        if xid == WATCH_XID:
            kind, _, size = struct.unpack_from(">iii", frame, 16)
            path = frame[28 : 28 + size].decode()
            return self._post(
                partial(
                    self.on_event,
                    Fired(Change(kind), wire_requests.relative(self.hub.chroot, path)),
                )
            )
        request, done = self.pending.popleft()
        if request is wire_requests.CLOSE_REQUEST:
            return self._end(Closed())
        self._post(partial(done, request.decode(err, frame, 16)))

    def _drop(self) -> None:
        self.over, self.connected = True, False
        self.hub.ports.discard(self)
        self.hub.selector.unregister(self.sock)
        self.sock.close()

    def _end(self, event: PortEvent) -> None:
        if self.over:
            return
        self._drop()
        for _, done in self.pending:
            self._post(partial(done, Unanswered()))
        self.pending.clear()
        self._post(partial(self.on_event, event))
