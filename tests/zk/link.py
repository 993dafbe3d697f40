"""A network between one client and one server that a test can break: one thread, whole ZooKeeper
frames in the server's direction, raw bytes in the client's.

Modes: PASS; REFUSE (existing connections are closed, new ones at once after accept); BLACK_HOLE
(nothing is forwarded, nothing is closed). `swallow_next` drops the next answer to a request (not
pings, not watch events) and closes the connection: the server has done it, the client never hears.
`on_frame` may rewrite a frame of the server.
"""

from __future__ import annotations

import enum
import selectors
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field


class Mode(enum.Enum):
    """What the link does with bytes."""

    PASS = "pass"
    REFUSE = "refuse"
    BLACK_HOLE = "black hole"


@dataclass(eq=False)
class _Pair:
    client: socket.socket
    server: socket.socket
    from_server: bytearray = field(default_factory=bytearray)
    frames: int = 0
    spoke: bool = False


class Link:
    """Listens on a port of its own (`address`) in front of `target`; a context manager.
    `first_bytes` are the connect requests, one per connection that made one.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.accepted = 0
        self.swallowed = 0
        self.first_bytes: list[bytes] = []
        self._swallow = 0
        self.on_frame: Callable[[bytes], bytes] = lambda frame: frame
        self._mode = Mode.PASS
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self._wake_read, self._wake_write = socket.socketpair()
        self._pairs: list[_Pair] = []
        self._running = True
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run, name="link", daemon=True)
        self._thread.start()

    @property
    def mode(self) -> Mode:
        """What the link does now; setting it takes effect at once."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._mode = mode
        self._wake_write.send(b"x")

    def swallow_next(self) -> None:
        """Drop the next answer and the connection with it."""
        self._swallow += 1

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self._running = False
        self._wake_write.send(b"x")
        self._thread.join(5)
        for sock in (self._listener, self._wake_read, self._wake_write):
            sock.close()
        self._selector.close()

    def _run(self) -> None:
        while self._running:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._wake_read:
                    self._wake_read.recv(4096)
                elif self._mode is not Mode.BLACK_HOLE and key.data in self._pairs:
                    self._forward(key.data, key.fileobj)  # type: ignore[arg-type]
            if self._mode is Mode.REFUSE:
                for pair in list(self._pairs):
                    self._close(pair)
            self._listen_to_pairs(self._mode is not Mode.BLACK_HOLE)
        for pair in list(self._pairs):
            self._close(pair)

    def _listen_to_pairs(self, wanted: bool) -> None:
        registered = self._selector.get_map()
        for pair in self._pairs:
            for sock in (pair.client, pair.server):
                if wanted and sock not in registered:
                    self._selector.register(sock, selectors.EVENT_READ, pair)
                elif not wanted and sock in registered:
                    self._selector.unregister(sock)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        self.accepted += 1
        if self._mode is Mode.REFUSE:
            client.close()
            return
        try:
            server = socket.create_connection(self.target, 5)
        except OSError:
            client.close()
            return
        for sock in (client, server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pairs.append(_Pair(client, server))

    def _close(self, pair: _Pair) -> None:
        self._pairs.remove(pair)
        for sock in (pair.client, pair.server):
            if sock in self._selector.get_map():
                self._selector.unregister(sock)
            sock.close()

    def _forward(self, pair: _Pair, source: socket.socket) -> None:
        try:
            data = source.recv(65536)
            if not data:
                self._close(pair)
            elif source is pair.client:
                if not pair.spoke:
                    pair.spoke = True
                    self.first_bytes.append(data)
                pair.server.sendall(data)
            else:
                pair.from_server += data
                self._send_frames(pair)
        except OSError:
            if pair in self._pairs:
                self._close(pair)

    def _send_frames(self, pair: _Pair) -> None:
        buffer = pair.from_server
        while len(buffer) >= 4 and len(buffer) >= 4 + (size := struct.unpack_from("!i", buffer)[0]):
            frame = bytes(buffer[: 4 + size])
            del buffer[: 4 + size]
            pair.frames += 1
            is_answer = pair.frames > 1 and struct.unpack_from("!i", frame, 4)[0] > 0
            if is_answer and self._swallow:
                self._swallow -= 1
                self.swallowed += 1
                self._close(pair)
                return
            pair.client.sendall(self.on_frame(frame))
