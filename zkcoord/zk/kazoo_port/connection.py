"""kazoo's client and connection, taken at the lowest place: with the other modules of this room
and `zkcoord.zk.acl.client` the only use of kazoo's private API.

Why: kazoo completes results on one thread, watch events on another, and state changes on a third,
so the order in which the server spoke is lost; it queues calls while disconnected and runs them on
whatever session comes next; it opens a new session by itself when one has expired; and it has no
persistent watches. Here everything stays on kazoo's connection thread, which reads the socket frame
by frame, and each frame becomes one call of the `SessionObserver` or of a `Call` before the next
frame is looked at (watch events that arrived right behind each other become one). That is the whole
ordering guarantee: what the observer and the calls are told is in the order of the bytes on the
wire, so a watch event that the server sent before an answer is told before it.

* The gate (`_gate`) makes "usable" and the queue one thing: `submit` puts a call into the queue
  only while the session is usable, and losing the connection empties queue and pending calls under
  the same gate. `generation` makes it true for the owner too, who learns of a reconnection later
  than this thread: a call made before that is not sent on a connection its maker does not know of.
  So no call is sent on another connection than the one it was made on, and nothing is sent again.
* `usable` begins when the session is established, authenticated and, the first time, the chroot has
  been seen; it ends with the connection.
* Every end of a session is told once, as an `SessionEnd`; after it the thread ends and the sockets
  are closed. A session id that changed on reconnect is an expiry: some servers hand out a new
  session silently.
* `plain` says that a server of this ensemble knew no multiRead: from then on the session is served
  by what every server knows (see `zkcoord.zk.kazoo_port.legacy_server`). Such a server answers a
  request that it does not know, and closes the connection; the session lives, and is found again on
  the next connection.
* A call without an answer for `request_deadline_ms` drops the connection. It is checked only where
  the socket has nothing to read, so a process that was stopped for a while first reads what has
  arrived.
* kazoo's own log is not used: at debug level it prints requests with their data, credentials and
  session passwords.
"""

from __future__ import annotations

import logging
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionDropped,
    SASLException,
    SessionExpiredError,
    ZookeeperError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.connection import CLOSE_RESPONSE, ConnectionHandler
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from zkcoord.zk.kazoo_port import wire_requests
from zkcoord.zk.kazoo_port.call import Call
from zkcoord.zk.kazoo_port.observer import SessionEnd, SessionObserver
from zkcoord.zk.kazoo_port.sockets import EdgeHandler, quiet_logger, wait_ready
from zkcoord.zk.kazoo_port.too_large import refusal_instead
from zkcoord.zk.kazoo_port.watch_events import events_together
from zkcoord.zk.kazoo_port.wire_requests import CLOSE_REQUEST, Result, WireRequest
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import Change, GetData

log = logging.getLogger(__name__)

FRAME_BYTES_MAX = 128 * 1024 * 1024
# more than a TLS record (16 KiB): nothing stays behind in OpenSSL, where waiting would not see it
RECEIVE_BYTES = 64 * 1024
SEND_BATCH_BYTES = 64 * 1024

CONNECT_ATTEMPT_MIN_MS = 250
CONNECT_ATTEMPT_MAX_MS = 5_000
RECONNECT_DELAY_MIN_MS = 50
RECONNECT_DELAY_MAX_MS = 1_000
NO_ATTEMPT = "no attempt was made yet"
SERVER_CLOSED = "the server closed the connection"
GARBAGE = (ValueError, struct.error, IndexError, RuntimeError, KeyError, TypeError)
"""What decoding bytes that ZooKeeper would never send may raise."""


class _Refusal(AuthFailedError):
    """Ends the session with a sentence; kazoo stops connecting on its base class."""


class EdgeConnection(ConnectionHandler):
    """kazoo's connection thread with one place where bytes become values."""

    def __init__(self, client: EdgeClient, sasl_options: dict[str, str] | None) -> None:
        super().__init__(
            client, client._conn_retry.copy(), logger=client.logger, sasl_options=sasl_options
        )
        self.last_error = NO_ATTEMPT
        self.answer_too_large = False
        self._received = bytearray()
        self._seen_chroot = False
        self._xid: int

    @contextmanager
    def _socket_error_handling(self) -> Iterator[None]:
        try:
            yield
        except (ConnectionResetError, BrokenPipeError) as e:
            raise self._drop(SERVER_CLOSED) from e
        except OSError as e:
            raise self._drop(f"{e.strerror or e}") from e

    def _drop(self, reason: str) -> ConnectionDropped:
        self.last_error = reason
        return ConnectionDropped(reason)

    def zk_loop(self) -> None:
        """The thread's main."""
        try:
            super().zk_loop()
        except Exception:  # thread main
            log.exception("the ZooKeeper connection's thread stopped")
        finally:
            self.client.thread_over()
            self.close()

    def _expand_client_hosts(self) -> list[tuple[str, str, int]]:
        found: list[tuple[str, str, int]] = super()._expand_client_hosts()
        if not found:
            self.last_error = "none of the host names can be resolved"
        return found

    def _connect_attempt(self, host: str, hostip: str, port: int, retry: Any) -> Any:
        self._received.clear()
        if self.last_error == NO_ATTEMPT:
            self.last_error = f"{host}:{port} has not answered yet"
        return super()._connect_attempt(host, hostip, port, retry)

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        client = self.client
        before = client._session_id or 0
        try:
            read_timeout_ms, connect_timeout_ms = super()._connect(host, hostip, port)
            if before and client._session_id != before:
                raise SessionExpiredError("the server handed out another session")
            if not self._seen_chroot:
                self._look_at_chroot(read_timeout_ms / 1000)
                self._seen_chroot = True
        except (ConnectionDropped, KazooTimeoutError) as e:
            self.last_error = f"{host}:{port}: {e}"
            raise
        except SASLException as e:
            client.refuse(
                f"SASL authentication at {host}:{port} cannot be done ({e}): install pure-sasl and"
                " check mechanism, name and password"
            )
            raise AuthFailedError() from e
        except _Refusal as e:
            client.refuse(str(e))
            raise
        except SessionExpiredError:
            raise
        except ZookeeperError as e:
            if isinstance(e.__cause__, ConnectionDropped) and self._seen_chroot:
                raise self._drop(f"{host}:{port}: {e.__cause__}") from e
            client.refuse(
                f"the ZooKeeper at {host}:{port} refused the credentials ({type(e).__name__}):"
                " correct scheme, user name and password"
            )
            raise AuthFailedError() from e
        except GARBAGE as e:
            self.last_error = f"{host}:{port} does not answer like a ZooKeeper server"
            raise ConnectionDropped(self.last_error) from e
        self.last_error = f"{host}:{port} stopped answering"
        self.answer_too_large = False
        client.established(round(read_timeout_ms * 1.5), (hostip, port))
        return read_timeout_ms, connect_timeout_ms

    def _look_at_chroot(self, timeout_s: float) -> None:
        """The first request of a port; raises `_Refusal` when its answer says that this ensemble
        cannot be used. A chroot is only missing if it is after a sync, too.
        """
        options = self.client.options
        root = GetData(options.chroot or "/")
        look = (
            wire_requests.single_request("", root)
            if self.client.plain
            else wire_requests.read_request("", [root])
        )
        err, result = self._ask(look, timeout_s)
        if err == wire_requests.UNIMPLEMENTED and not self.client.plain:
            self.client.plain = True
            raise ConnectionDropped("it is older than 3.6, and is asked in the old way")
        refusal = wire_requests.refusal_of_first_look(options, err, result)
        if refusal.startswith("the chroot"):
            self._ask(wire_requests.sync_request(options.chroot), timeout_s)
            refusal = wire_requests.refusal_of_first_look(options, *self._ask(look, timeout_s))
        if refusal:
            raise _Refusal(refusal)

    def _ask(self, request: WireRequest, timeout_s: float) -> tuple[int, Result]:
        self._xid += 1
        self._submit(request, timeout_s, self._xid)
        header, body, offset = self._read_header(timeout_s)
        return header.err, request.decode(header.err, body, offset)

    def idle(self, sockets: list[Any], timeout_s: float) -> list[Any]:
        """Wait in the main loop for the server, a call to send, or `timeout_s`. Raises
        `ConnectionDropped` when the oldest call is overdue.
        """
        server = sockets[0]
        if self._received:
            return [server, *wait_ready(sockets[1:], [], 0)]
        until = time.monotonic() + timeout_s
        while True:
            pending = self.client._pending
            overdue = (
                pending[0][1].queued_s + self.client.request_deadline_s
                if pending and pending[0][1]
                else until
            )
            ready = wait_ready(sockets, [], min(until, overdue) - time.monotonic())
            now = time.monotonic()
            if server not in ready and pending and now >= overdue and overdue != until:
                raise self._drop(f"no answer for {round(self.client.request_deadline_s * 1000)} ms")
            if ready or now >= until:
                return ready

    def _read(self, length: int, timeout: float) -> bytes:
        """The next `length` bytes. Reads ahead: `idle` knows what is left over."""
        if length > FRAME_BYTES_MAX:
            refusal = refusal_instead(
                length, self.client._pending, lambda count: self._read(count, timeout)
            )
            if refusal:
                return refusal
        if not 0 <= length <= FRAME_BYTES_MAX:
            self.answer_too_large = length > FRAME_BYTES_MAX
            raise self._drop(
                f"a frame of {length} bytes is not ZooKeeper's (or is more than {FRAME_BYTES_MAX})"
            )
        received = self._received
        if len(received) < length:
            self._receive(length, timeout)
        out = bytes(received[:length])
        del received[:length]
        return out

    def _receive(self, length: int, timeout: float) -> None:
        received = self._received
        with self._socket_error_handling():
            while len(received) < length:
                try:
                    chunk = self._socket.recv(
                        max(RECEIVE_BYTES, min(length - len(received), 1 << 20))
                    )
                except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    if not wait_ready([self._socket], [], timeout):
                        raise KazooTimeoutError(
                            "the server stopped in the middle of an answer"
                        ) from None
                    continue
                if not chunk:
                    raise self._drop(SERVER_CLOSED)
                received += chunk

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        """Send what is queued, in order, up to a batch; each call is pending before its first byte
        leaves, so that a failing send loses none.
        """
        client = self.client
        with self._socket_error_handling():
            self._read_sock.recv(RECEIVE_BYTES)
        frames = bytearray()
        while client._queue and len(frames) < SEND_BATCH_BYTES:
            request, call = client._queue.popleft()
            self._xid = (self._xid % 2147483647) + 1
            client._pending.append((request, call, self._xid))
            frames += (
                struct.pack("!iii", 8 + len(request.payload), self._xid, request.type)
                + request.payload
            )
        if client._queue:
            client.wake()
        if frames:
            self._write(frames, connect_timeout)

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        """Tell a watch event together with those right behind it."""
        events: list[tuple[Change, str]] = []
        try:
            for event in events_together(
                buffer,
                offset,
                self._received,
                lambda size: self._read(size, 0),
                self.client.ignored,
            ):
                events.append(event)
        except GARBAGE as e:
            raise self._drop(
                "the server sent a watch event that is not known, so watches are added again"
            ) from e
        finally:
            if events:
                self.client.observer.fired(events)

    def _read_response(self, header: Any, buffer: bytes, offset: int) -> Any:
        client = self.client
        if not client._pending:
            raise self._drop("the server answered what was not asked")
        request, call, xid = client._pending.popleft()
        if header.zxid and header.zxid > 0:
            client.last_zxid = header.zxid
        if request.type == wire_requests.CLOSE:
            return CLOSE_RESPONSE
        if header.err == wire_requests.UNIMPLEMENTED and request.type in wire_requests.SINCE_3_6:
            client.plain = True
            client._pending.appendleft((request, call, xid))
            raise self._drop(
                "this server is older than 3.6, and is asked in the old way from now on"
            )
        try:
            if header.xid != xid:
                raise ValueError(f"answer {header.xid} instead of {xid}")
            call.answer(header.err, buffer, offset)
        except GARBAGE as e:
            client._pending.appendleft((request, call, xid))
            raise self._drop(f"the server's answer cannot be read: {e}") from e
        if header.err in wire_requests.CONNECTION_OVER_CODES:
            raise self._drop(f"the server answered with error {header.err}")
        return None


class EdgeClient(KazooClient):
    """kazoo's client as one session: see the module's text. `submit` and `shut` may be called from
    any thread.
    """

    def __init__(
        self, options: ZkOptions, tls: ssl.SSLContext | None, observer: SessionObserver
    ) -> None:
        self.options = options
        self.observer = observer
        self.usable = False
        self.plain = False
        self.generation = 0
        self.ignored: tuple[bytes, ...] = ()
        self.request_deadline_s = (
            options.request_deadline_ms or options.session_timeout_ms / 2
        ) / 1000
        self._gate = threading.RLock()
        self.ended = False
        self._closing = False
        self._end: tuple[SessionEnd, str] = (SessionEnd.EXPIRED, "")
        attempt_ms = min(
            CONNECT_ATTEMPT_MAX_MS,
            max(CONNECT_ATTEMPT_MIN_MS, options.session_timeout_ms / len(options.servers)),
        )
        handler = EdgeHandler(
            tls,
            attempt_ms / 1000,
            self._idle,
        )
        retry = KazooRetry(
            max_tries=-1,
            delay=RECONNECT_DELAY_MIN_MS / 1000,
            backoff=2,
            max_jitter=0.4,
            max_delay=RECONNECT_DELAY_MAX_MS / 1000,
            sleep_func=handler.sleep_func,
        )
        super().__init__(
            hosts=",".join(f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in options.servers),
            timeout=options.session_timeout_ms / 1000,
            handler=handler,
            auth_data=(
                {("digest", f"{options.digest.username}:{options.digest.password}")}
                if options.digest
                else None
            ),
            connection_retry=retry,
            use_ssl=tls is not None,
            logger=quiet_logger(),
        )
        self._connection = EdgeConnection(self, options.sasl.arguments() if options.sasl else None)

    def _idle(self, sockets: list[Any], timeout_s: float) -> list[Any]:
        """What the handler asks while it waits: the connection is made after the handler."""
        return self._connection.idle(sockets, timeout_s)

    @property
    def last_error(self) -> str:
        """Why the last attempt to connect failed, as text for a sentence."""
        return str(self._connection.last_error)

    def submit(self, call: Call, generation: int) -> bool:
        """Queue a call on the connection that is the owner's latest (`generation`), or tell it
        lost. False: the owner has not seen the latest yet; the call is neither queued nor told.
        """
        with self._gate:
            if generation != self.generation:
                return False
            if self.usable:
                self._queue.append((call.request, call))
                self.wake()
            else:
                call.set_exception(ConnectionDropped("not connected"))
        return True

    def wake(self) -> None:
        """Make the connection's thread look at the queue."""
        # so many wakes are waiting already that no more fit (kazoo's socket would block, and the
        # thread that reads them wakes itself, too), or the thread is over
        with suppress(OSError, AttributeError):
            self._connection._write_sock.send(b"\0", socket.MSG_DONTWAIT)

    def shut(self) -> None:
        """Close the session after the calls under way. Without a connection, the next one closes
        it.
        """
        with self._gate:
            self._closing = True
            self._end = (SessionEnd.CLOSED, "")
            if self.usable:
                self.usable = False
                self._queue.append((CLOSE_REQUEST, None))
                self.wake()
            elif not self._session_id:
                self._stopped.set()
                self._cut()

    def give_up(self, end: SessionEnd, reason: str) -> None:
        """End now, whatever the connection's thread is doing; it ends by itself as soon as it
        can.
        """
        with self._gate:
            self._stopped.set()
            self._end = (end, reason)
            self.usable = False
            self._notify_pending(KeeperState.CONNECTING)
            self._tell_end()
            self._cut()

    def _cut(self) -> None:
        sock = self._connection._socket
        if sock is not None:
            with suppress(OSError):  # it is closed already, which was the wish
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def established(self, timeout_ms: int, server: tuple[str, int]) -> None:
        """The session is there (connection's thread)."""
        with self._gate:
            self.request_deadline_s = (self.options.request_deadline_ms or timeout_ms / 2) / 1000
            if self._closing or self._stopped.is_set():
                self._queue.append((CLOSE_REQUEST, None))
                self.wake()
                return
            self.usable = True
            self.generation += 1
            self.observer.connected(
                self.generation, self._session_id, self._session_passwd, timeout_ms, server
            )

    def _session_callback(self, state: str) -> None:
        with self._gate:
            if state == self._state:
                return
            if state not in (KeeperState.CONNECTED, KeeperState.CONNECTED_RO) and self.usable:
                self.usable = False
                self.observer.suspended(self.last_error, self._connection.answer_too_large)
            super()._session_callback(state)
            if state == KeeperState.EXPIRED_SESSION:
                self._stopped.set()

    def refuse(self, reason: str) -> None:
        """The session ends as refused when the thread is over."""
        with self._gate:
            if not self._closing:
                self._end = (SessionEnd.REFUSED, reason)

    def thread_over(self) -> None:
        """The connection's thread is done: tell the end, once."""
        with self._gate:
            self._notify_pending(KeeperState.CONNECTING)
            self._tell_end()

    def _tell_end(self) -> None:
        if not self.ended:
            self.ended = True
            self.observer.ended(*self._end)
