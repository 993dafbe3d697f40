"""The server: slow strangers, many of them, and where it listens."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.console.http.served import PATIENCE_S, Served, Stream, rest, served
from tests.console.pictures import ToldPages, line
from tests.harness.wait import wait_until
from zkcoord.console.http import serving
from zkcoord.console.http.serving import CONNECTIONS_MAX, Lobby, listener, parse_listen
from zkcoord.errors import ConfigurationError, UnavailableError

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def here() -> Iterator[Served]:
    with served(ToldPages([line("billing")])) as found:
        yield found


def one_answer(client: socket.socket) -> bytes:
    """Until the page is over; the connection stays."""
    found = b""
    while b"</html>" not in found:
        more = client.recv(65_536)
        assert more, found
        found += more
    return found


@pytest.mark.parametrize("first", [b"", GET])
def test_a_head_that_does_not_end_is_cut_off(first: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HEAD_DEADLINE_S", 0.3)
    monkeypatch.setattr(serving, "KEEP_ALIVE_S", 0.3)
    with served() as here, here.connect() as client:
        if first:
            client.sendall(first)
            one_answer(client)
        client.settimeout(0.05)

        def is_over() -> bool:
            with contextlib.suppress(TimeoutError):
                try:
                    client.sendall(b"G")
                    return client.recv(1_000) == b""
                except ConnectionError:
                    return True
            return False

        wait_until(is_over, PATIENCE_S, "the end of a connection that sends byte by byte")
        assert here.ask("/")[0] == 200


def test_a_request_that_takes_long_is_no_head_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HEAD_DEADLINE_S", 0.1)
    monkeypatch.setattr(serving, "KEEP_ALIVE_S", 0.1)
    told = ToldPages([line("billing")])
    with served(told) as here, Stream(here.port, "/live/overview") as stream:
        stream.next()
        with served() as other, other.connect() as idle:
            assert rest(idle) == b"", "so long that an idle one has ended meanwhile"
        told.picture = type(told.picture)()
        here.newsroom.tell()
        assert stream.next()


def test_requests_may_follow_each_other(here: Served) -> None:
    with here.connect() as client:
        for _ in range(3):
            client.sendall(GET)
            assert b"billing" in one_answer(client)
        client.sendall(GET * 2)
        found = one_answer(client)
        while found.count(b"</html>") < 2:
            found += client.recv(65_536)


def test_strangers_that_wait_keep_no_reader_out(here: Served) -> None:
    with Stream(here.port, "/live/overview") as stream, ExitStack() as stack:
        stream.next()
        idle = [stack.enter_context(here.connect()) for _ in range(CONNECTIONS_MAX + 88)]
        assert here.ask("/")[0] == 200
        here.told.picture = type(here.told.picture)()
        here.newsroom.tell()
        assert stream.next(), "who is served stays"
        assert rest(idle[0]) == b"", "who waited longest has gone"


@pytest.mark.parametrize(
    "junk",
    [b"\r\n\r\n", b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET\r\n\r\n",
     b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 20_000,
     b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", b"\xff" * 99 + b"\r\n\r\n",
     b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n"],
)  # fmt: skip
def test_junk_is_answered_without_a_trace(here: Served, junk: bytes) -> None:
    answer = here.raw(junk)
    assert b"Traceback" not in answer and b"File" not in answer
    assert not answer or answer.split(b" ", 2)[1] in (b"400", b"404", b"421"), answer
    assert here.ask("/")[0] == 200


def test_the_lobby_drops_each_once() -> None:
    lobby, dropped = Lobby(), list[Any]()
    for number in range(CONNECTIONS_MAX + 3):
        lobby.comes(number, dropped.append)
    assert dropped == [0, 1, 2], "also when they are not gone yet"
    lobby.is_served(3)
    lobby.goes(0)
    lobby.comes("new", dropped.append)
    assert dropped[3:] == [4], "who is served stays"
    for number in (1, 2, 4, "new"):
        lobby.goes(number)
    lobby.comes("newer", dropped.append)
    assert len(dropped) == 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9407", ("127.0.0.1", 9407)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:65535", ("localhost", 65_535)),
    ],
)
def test_where_it_listens(text: str, expected: tuple[str, int]) -> None:
    assert parse_listen(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", ":", "9407", ":9407", "h:", "h:x", "h:-1", "h:65536", "h:0000000999999", "h:٣", "[]:1"],
)
def test_where_it_cannot_listen(text: str) -> None:
    with pytest.raises(ConfigurationError, match="write ADDRESS:PORT"):
        parse_listen(text)


@pytest.mark.parametrize(
    "address", ["no.such.host.invalid", "x" * 70 + ".example", "192.0.2.1", "::z"]
)
def test_addresses_that_cannot_be_had(address: str) -> None:
    with pytest.raises(UnavailableError, match="cannot be listened on") as error:
        listener(address, 0)
    assert "\n" not in str(error.value)


def test_a_port_that_is_taken() -> None:
    with contextlib.closing(listener("127.0.0.1", 0)) as taken:
        taken.listen()
        with pytest.raises(UnavailableError, match="choose another with --listen"):
            listener("127.0.0.1", taken.getsockname()[1])
