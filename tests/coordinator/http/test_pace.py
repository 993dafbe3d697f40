"""Who asks again at once is answered at a pace, by the server too."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus

import pytest

from tests.coordinator.http.test_http import PATIENCE_S, raw, status_of
from tests.harness.wait import wait_until
from zkcoord.coordinator.http import places
from zkcoord.coordinator.http.pace import AnswerPace
from zkcoord.coordinator.http.server import HttpAnswer, HttpServer, sentence

ASKED = 16


class Time:
    """A clock that goes on by sleeping."""

    def __init__(self) -> None:
        self.ns = 1
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
def server() -> Iterator[HttpServer]:
    """One that answers all of its paths."""
    made = HttpServer("127.0.0.1", 0, _respond)
    made.start()
    yield made
    made.stop()


def _respond(path: str) -> HttpAnswer:
    return sentence(HTTPStatus.OK, path)


def test_who_comes_alone_waits_for_nothing() -> None:
    clock = Time()
    pace = AnswerPace(20, 3, lambda: clock.ns, clock.sleep)
    pace.turn()
    clock.ns += 20_000_000
    pace.turn()
    clock.ns += 3_600_000_000_000
    pace.turn()
    assert clock.slept == []


def test_those_who_come_at_once_go_one_after_the_other() -> None:
    clock = Time()
    pace = AnswerPace(20, 3, lambda: clock.ns, clock.sleep)
    for _ in range(4):
        pace.turn()
    clock.ns += 65_000_000
    pace.turn()
    assert clock.slept == pytest.approx([0.02, 0.04, 0.06, 0.015])


def test_more_than_may_wait_wait_as_long_and_do_not_pass() -> None:
    """They would ask again at once, all of them."""
    clock = Time()
    pace = AnswerPace(20, 3, lambda: clock.ns, clock.sleep)
    assert [pace.turn() for _ in range(6)] == [True] * 4 + [False] * 2
    assert clock.slept == pytest.approx([0.02, 0.04, 0.06, 0.06, 0.06])
    clock.ns += 20_000_000
    assert pace.turn()


@pytest.mark.parametrize(
    ("request_line", "status", "every_ms"),
    [
        ("GET /groups HTTP/1.1", 200, places.EVERY_MS[""]),
        ("GET /metrics HTTP/1.1", 200, places.EVERY_MS[""]),
        ("GET /live HTTP/1.1", 200, places.EVERY_MS["/live"]),
        ("GET /nothing HTTP/1.1", 404, places.REFUSED_EVERY_MS),
        ("POST /groups HTTP/1.1", 405, places.REFUSED_EVERY_MS),
        ("GET /groups HTTP/1.1\r\nHost: elsewhere", 421, places.REFUSED_EVERY_MS),
    ],
)
def test_many_who_ask_are_answered_at_a_pace(
    server: HttpServer, request_line: str, status: int, every_ms: int
) -> None:
    request = f"{request_line}\r\n\r\n".encode()
    began = time.monotonic()
    with ThreadPoolExecutor(4) as asking:
        answers = list(asking.map(lambda _: raw(server, request), range(ASKED)))
    took_ms = (time.monotonic() - began) * 1000
    assert [status_of(answer) for answer in answers] == [status] * ASKED
    assert took_ms >= (ASKED - 1) * every_ms


@pytest.mark.parametrize("asking", [40, 100])
def test_many_clients_that_ask_again_at_once_are_answered_no_more_often(
    monkeypatch: pytest.MonkeyPatch, asking: int
) -> None:
    """Whether more of them ask than may wait for a turn, or fewer; whatever they are answered."""
    monkeypatch.setattr(places, "TURNS_MAX", 8)
    made = HttpServer("127.0.0.1", 0, _respond)
    made.start()
    answered: list[int] = []
    over = threading.Event()

    def again() -> None:
        while not over.is_set():
            answer = raw(made, b"GET /metrics HTTP/1.1\r\n\r\n")
            answered.extend([status_of(answer)] if answer else [])

    with ThreadPoolExecutor(asking) as clients:
        began = time.monotonic()
        for _ in range(asking):
            clients.submit(again)
        wait_until(lambda: answered.count(200) >= 20, PATIENCE_S, "twenty answers")
        took_ms = (time.monotonic() - began) * 1000
        found = list(answered)
        over.set()
    made.stop()
    assert set(found) <= {200, 503}
    assert found.count(200) <= took_ms / places.EVERY_MS[""] + 1
    assert found.count(503) <= took_ms / places.REFUSED_EVERY_MS + 1


def test_of_too_many_that_are_connected_one_more_is_closed_at_once(
    monkeypatch: pytest.MonkeyPatch, server: HttpServer
) -> None:
    """Each has a thread. When one of them goes, another may come."""
    monkeypatch.setattr(places, "OPEN_PER_ADDRESS_MAX", 3)
    request = b"GET /live HTTP/1.1\r\n\r\n"
    address = ("127.0.0.1", server.port)
    held = [socket.create_connection(address, timeout=PATIENCE_S) for _ in range(3)]
    wait_until(lambda: server.places._open.total() == 3, PATIENCE_S, "all to be there")
    with socket.create_connection(address, timeout=PATIENCE_S) as one_more:
        assert one_more.recv(1) == b""
    held.pop().close()
    wait_until(lambda: _answers(server, request), PATIENCE_S, "room for another")
    for client in held:
        client.close()


def _answers(server: HttpServer, request: bytes) -> bool:
    with suppress(OSError):
        return raw(server, request) != b""
    return False


@pytest.mark.parametrize("path", ["/live", "/ready"])
def test_who_asks_beside_many_that_ask_again_at_once_is_answered(
    server: HttpServer, path: str
) -> None:
    """Otherwise a probe would take a healthy process for dead."""
    request = f"GET {path} HTTP/1.1\r\n\r\n".encode()
    over = threading.Event()

    def again() -> None:
        while not over.is_set():
            raw(server, request)

    with ThreadPoolExecutor(2 * places.PLACES[path]) as asking:
        for _ in range(2 * places.PLACES[path]):
            asking.submit(again)
        answers = [raw(server, request) for _ in range(ASKED)]
        over.set()
    assert [status_of(answer) for answer in answers] == [200] * ASKED
