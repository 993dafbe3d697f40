"""What the connection's thread makes of bytes: watch events that arrived together are told
together, and in the order of the wire.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence

import pytest
from kazoo.exceptions import ConnectionDropped

from zkcoord.zk.kazoo_port import wire_requests
from zkcoord.zk.kazoo_port.call import Call
from zkcoord.zk.kazoo_port.connection import EdgeClient, EdgeConnection
from zkcoord.zk.kazoo_port.observer import SessionEnd
from zkcoord.zk.kazoo_port.watch_events import AT_ONCE_MAX
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import Change, Denied, GetChildren, ReadDone, ZkError

READ_S = 5.0
DATA = Change.DATA.value


class Told:
    """An observer that writes down what it is told."""

    def __init__(self) -> None:
        self.of: list[str] = []

    def connected(
        self,
        generation: int,
        session_id: int,
        password: bytes,
        timeout_ms: int,
        server: tuple[str, int],
    ) -> None:
        """See `Observer`."""

    def suspended(self, reason: str, answer_too_large: bool) -> None:
        """See `Observer`."""

    def fired(self, events: Sequence[tuple[Change, str]]) -> None:
        """See `Observer`."""
        self.of += [path for _, path in events]

    def ended(self, end: SessionEnd, reason: str) -> None:
        """See `Observer`."""


def frame(xid: int, body: bytes) -> bytes:
    """Length, header, body."""
    return struct.pack("!iiqi", 16 + len(body), xid, 7, 0) + body


def event(path: str, kind: int = DATA) -> bytes:
    """A watch event."""
    return frame(-1, struct.pack("!iii", kind, 3, len(path)) + path.encode())


@pytest.fixture
def wire() -> Iterator[tuple[EdgeConnection, socket.socket, Told]]:
    """A connection, the other end of its socket, and what it tells."""
    told = Told()
    client = EdgeClient(ZkOptions("localhost:1"), None, told)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    client._connection._socket = ours
    yield client._connection, theirs, told
    ours.close()
    theirs.close()


def asked(connection: EdgeConnection, told: Told, xid: int) -> None:
    """A sync is under way."""
    connection.client._pending.append(
        (
            wire_requests.sync_request(""),
            Call(wire_requests.sync_request(""), lambda result: told.of.append(f"answer {xid}")),
            xid,
        )
    )


def test_events_that_arrived_together_are_told_together_and_an_answer_keeps_its_place(
    wire: tuple[EdgeConnection, socket.socket, Told],
) -> None:
    connection, server, told = wire
    asked(connection, told, 5)
    last = event("/late")
    server.sendall(
        event("/a") + event("/b") + event("") + frame(5, b"\0\0\0\0") + event("/c") + last[:13]
    )
    connection._read_socket(READ_S)
    assert told.of == ["/a", "/b", ""]
    connection._read_socket(READ_S)
    assert told.of[3:] == ["answer 5"]
    connection._read_socket(READ_S)
    assert told.of[4:] == ["/c"], "half an event is none yet"
    server.sendall(last[13:])
    connection._read_socket(READ_S)
    assert told.of[5:] == ["/late"]


def test_a_flood_of_events_leaves_room_for_what_is_to_be_sent(
    wire: tuple[EdgeConnection, socket.socket, Told],
) -> None:
    connection, server, told = wire
    server.sendall(b"".join(event(f"/{number}") for number in range(AT_ONCE_MAX + 3)))
    connection._read_socket(READ_S)
    assert told.of == [f"/{number}" for number in range(AT_ONCE_MAX)]
    connection._read_socket(READ_S)
    assert len(told.of) == AT_ONCE_MAX + 3


def test_what_nobody_wants_to_hear_of_is_left_out(
    wire: tuple[EdgeConnection, socket.socket, Told],
) -> None:
    """First, between others, and alone; a name that only begins alike is another."""
    connection, server, told = wire
    connection.client.ignored = (b"/g/a/", b"/h/b/")
    server.sendall(
        b"".join(
            map(
                event,
                ("/g/a/1", "/g/ab/1", "/h/b/2/3", "/g/a", "/g/c/g/a/1", "/g/a/2", "/h/b/", "/z"),
            )
        )
    )
    connection._read_socket(READ_S)
    assert told.of == ["/g/ab/1", "/g/a", "/g/c/g/a/1", "/z"]
    server.sendall(
        b"".join(event(f"/g/a/{number}") for number in range(2 * AT_ONCE_MAX))
        + frame(5, b"\0\0\0\0")
    )
    asked(connection, told, 5)
    connection._read_socket(READ_S)
    connection._read_socket(READ_S)
    assert told.of[4:] == ["answer 5"]
    connection.client.ignored = ()
    server.sendall(event("/g/a/1"))
    connection._read_socket(READ_S)
    assert told.of[5:] == ["/g/a/1"]


@pytest.mark.parametrize(
    "bad",
    [
        event("/x", 99),
        frame(-1, b"\0\0\0\3"),
        struct.pack("!ii", 3, -1) + b"\0" * 12,
        struct.pack("!ii", -9, -1) + b"\0" * 12,
    ],
)
def test_what_is_no_event_drops_the_connection_after_those_before_it_are_told(
    wire: tuple[EdgeConnection, socket.socket, Told], bad: bytes
) -> None:
    connection, server, told = wire
    server.sendall(event("/a") + bad)
    with pytest.raises((ConnectionDropped, struct.error)):
        for _ in range(2):
            connection._read_socket(READ_S)
    assert told.of == ["/a"]


@pytest.mark.parametrize("reads", [1, 2])
def test_an_answer_that_is_too_large_and_cannot_be_asked_for_in_parts_is_passed_over(
    wire: tuple[EdgeConnection, socket.socket, Told], reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several reads less is asked for at once. What comes behind is heard."""
    monkeypatch.setattr("zkcoord.zk.kazoo_port.connection.FRAME_BYTES_MAX", 1_000)
    monkeypatch.setattr("zkcoord.zk.kazoo_port.too_large.BYTES_AT_ONCE", 500)
    connection, server, told = wire
    request = wire_requests.read_request("", [GetChildren("/names")] * reads)
    found: list[object] = []
    connection.client._pending.append((request, Call(request, found.append), 5))
    server.sendall(frame(5, b"x" * 5_000) + event("/behind"))
    if reads > 1:
        with pytest.raises(ConnectionDropped):
            connection._read_socket(READ_S)
        assert connection.answer_too_large and not found
        return
    connection._read_socket(READ_S)
    assert found == [ReadDone((Denied(ZkError.TOO_LARGE),))]
    connection._read_socket(READ_S)
    assert told.of == ["/behind"]
