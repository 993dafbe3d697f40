"""The HTTP server: four paths, GET only, and clients that do not behave."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from http import HTTPStatus

import pytest

from tests.harness.wait import wait_until
from zkcoord.coordinator.http import places as http_places
from zkcoord.coordinator.http import server as http_module
from zkcoord.coordinator.http.server import HttpAnswer, HttpServer, document, sentence
from zkcoord.errors import ConfigurationError, UnavailableError

PATIENCE_S = 20.0


def respond(path: str) -> HttpAnswer:
    """What this server answers."""
    if path == "/groups":
        return document({"groups": [{"group": '<script>"\n'}]})
    if path == "/ready":
        raise CancelledError
    if path == "/metrics":
        raise RuntimeError("secret detail")
    return sentence(HTTPStatus.OK, "live")


@pytest.fixture
def server() -> Iterator[HttpServer]:
    """A running server on a free port."""
    made = HttpServer("127.0.0.1", 0, respond, names=("x",))
    made.start()
    yield made
    made.stop()


def raw(server: HttpServer, data: bytes, half_close: bool = False) -> bytes:
    """Send bytes, read until the end."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as client:
        client.sendall(data)
        if half_close:
            client.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while more := client.recv(65_536):
                answer += more
        return answer


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_a_get_is_answered_and_the_connection_ends(server: HttpServer) -> None:
    answer = raw(server, b"GET /live HTTP/1.1\r\nHost: x\r\n\r\nGET /live HTTP/1.1\r\n\r\n")
    assert (
        answer.startswith(b"HTTP/1.1 200 OK")
        and answer.endswith(b"live\n")
        and answer.count(b"HTTP/1.1") == 1
    )
    with urllib.request.urlopen(
        f"http://127.0.0.1:{server.port}/live?x=1", timeout=PATIENCE_S
    ) as found:
        assert found.read() == b"live\n"


def test_answers_do_not_break_out_of_json(server: HttpServer) -> None:
    answer = raw(server, b"GET /groups HTTP/1.0\r\n\r\n")
    assert b"application/json" in answer and b"nosniff" in answer and b'"<script>\\"\\n"' in answer


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/live/",
        "/live/../groups",
        "/%2e%2e/etc/passwd",
        "/groups/x",
        "/LIVE",
        "*",
        "http://x/live",
        "/\x00",
        "/ü",
    ],
)
def test_other_paths_are_not_found(server: HttpServer, path: str) -> None:
    answer = raw(server, f"GET {path} HTTP/1.1\r\n\r\n".encode())
    assert status_of(answer) in (400, 404), answer


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "CONNECT", "get", "X" * 100]
)
def test_other_methods_are_refused(server: HttpServer, method: str) -> None:
    answer = raw(server, f"{method} /live HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello".encode())
    assert status_of(answer) == 405 and b"only GET" in answer


@pytest.mark.parametrize(
    "junk",
    [
        b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /live HTTP/9.9\r\n\r\n",
        b"GET /live HTTP/1.1\r\nno colon\r\n\r\n",
        b"\xff" * 100 + b"\r\n\r\n",
        b"GET /a b c HTTP/1.1\r\n\r\n",
    ],
)
def test_junk_is_answered_without_a_trace(server: HttpServer, junk: bytes) -> None:
    answer = raw(server, junk)
    assert b"Traceback" not in answer and b"File" not in answer
    assert status_of(raw(server, b"GET /live HTTP/1.1\r\n\r\n")) == 200


def test_a_head_beyond_the_limit_is_refused_before_it_is_parsed(server: HttpServer) -> None:
    for head in (
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /live HTTP/1.1\r\nX: " + b"a" * 9_000 + b"\r\n\r\n",
        b"a" * 20_000,
    ):
        with contextlib.suppress(BrokenPipeError):
            answer = raw(server, head)
            assert not answer or status_of(answer) == 431
    assert status_of(raw(server, b"GET /live HTTP/1.1\r\n\r\n")) == 200


def test_a_client_that_sends_byte_by_byte_ends_by_the_deadline_of_the_whole_head(
    monkeypatch: pytest.MonkeyPatch, server: HttpServer
) -> None:
    monkeypatch.setattr(http_module, "REQUEST_DEADLINE_MS", 300)
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as client:
        client.settimeout(0.02)
        answer, until = b"", time.monotonic() + PATIENCE_S
        while not answer and time.monotonic() < until:
            with contextlib.suppress(OSError):
                client.sendall(b"G")
            with contextlib.suppress(TimeoutError):
                answer = client.recv(1_000)
        assert status_of(answer) == 408


def test_a_client_that_says_nothing_ends_by_the_deadline(
    monkeypatch: pytest.MonkeyPatch, server: HttpServer
) -> None:
    monkeypatch.setattr(http_module, "REQUEST_DEADLINE_MS", 200)
    assert status_of(raw(server, b"")) == 408


def test_a_client_that_goes_away_leaves_nothing_behind(server: HttpServer) -> None:
    for _ in range(2 * http_places.WAITING_MAX):
        assert raw(server, b"GET /li", half_close=True) == b""
    assert status_of(raw(server, b"GET /live HTTP/1.1\r\n\r\n")) == 200


def test_slow_connections_keep_nobody_from_an_answer(server: HttpServer) -> None:
    """200 connections that never finish their head: of too many the longest is dropped."""
    held = [
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) for _ in range(200)
    ]
    try:
        for client in held:
            with contextlib.suppress(OSError):
                client.sendall(b"GET /groups HTTP/1.1\r\n")
        for _ in range(40):
            assert status_of(raw(server, b"GET /live HTTP/1.1\r\n\r\n")) == 200
        assert held[0].recv(1) == b"", "the one that waited longest was dropped"
    finally:
        for client in held:
            client.close()


def test_answers_that_take_long_have_places_and_others_have_theirs() -> None:
    """While /groups is being answered for everybody that it may be, one more is turned away, and
    /live and /ready are answered.
    """
    go_on, begun = threading.Event(), list[str]()

    def answer(path: str) -> HttpAnswer:
        if path == "/groups":
            begun.append(path)
            assert go_on.wait(PATIENCE_S)
        return sentence(HTTPStatus.OK, path)

    made = HttpServer("127.0.0.1", 0, answer)
    made.start()
    asking = ThreadPoolExecutor(http_places.PER_ADDRESS_MAX)
    try:
        request = b"GET /groups HTTP/1.1\r\n\r\n"
        answers = [asking.submit(raw, made, request) for _ in range(http_places.PER_ADDRESS_MAX)]
        wait_until(lambda: len(begun) == len(answers), PATIENCE_S, "all to be at it")
        turned_away = raw(made, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert b"ask again" in turned_away
        assert status_of(turned_away) == 503
        for path in (b"/live", b"/ready"):
            assert status_of(raw(made, b"GET " + path + b" HTTP/1.1\r\n\r\n")) == 200
        go_on.set()
        assert {status_of(one.result(PATIENCE_S)) for one in answers} == {200}
        assert status_of(raw(made, request)) == 200
    finally:
        go_on.set()
        asking.shutdown()
        made.stop()


def test_a_process_that_does_not_answer_is_unavailable_and_a_defect_shows_no_detail(
    server: HttpServer,
) -> None:
    answer = raw(server, b"GET /ready HTTP/1.1\r\n\r\n")
    assert status_of(answer) == 503 and b"about to end" in answer
    assert b"secret" not in raw(server, b"GET /metrics HTTP/1.1\r\n\r\n")
    assert status_of(raw(server, b"GET /live HTTP/1.1\r\n\r\n")) == 200


def test_an_address_that_cannot_be_served_is_one_sentence(server: HttpServer) -> None:
    for host in ("192.0.2.1", "no.such.host.invalid", "a..b"):
        with pytest.raises(ConfigurationError, match="--http-port"):
            HttpServer(host, 0, respond)
    with pytest.raises(UnavailableError, match="--http-port"):
        HttpServer("127.0.0.1", server.port, respond)


def test_ipv6_loopback_is_served() -> None:
    try:
        made = HttpServer("::1", 0, respond)
    except ConfigurationError:
        pytest.skip("this machine has no IPv6")
    made.start()
    try:
        with urllib.request.urlopen(f"http://[::1]:{made.port}/live", timeout=PATIENCE_S) as found:
            assert found.status == 200
    finally:
        made.stop()
