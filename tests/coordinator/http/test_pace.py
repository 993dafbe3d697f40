"""Who asks again at once is answered at a pace, by the server too."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

import pytest

from tests.coordinator.http.test_http import PATIENCE_S, raw, status_of
from tests.harness.wait import wait_until
from zkcoord.coordinator.http import parked, places
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


def test_more_than_may_wait_do_not_pass() -> None:
    """They would ask again at once, all of them."""
    clock = Time()
    pace = AnswerPace(20, 3, lambda: clock.ns, clock.sleep)
    assert [pace.turn() for _ in range(6)] == [True] * 4 + [False] * 2
    assert clock.slept == pytest.approx([0.02, 0.04, 0.06])
    clock.ns += 20_000_000
    assert pace.turn()


@pytest.mark.parametrize(
    ("request_line", "status", "every_ms"),
    [
        ("GET /groups HTTP/1.1", 200, places.OTHERS_EVERY_MS),
        ("GET /metrics HTTP/1.1", 200, places.OTHERS_EVERY_MS),
        ("GET /live HTTP/1.1", 200, places.PROBED_EVERY_MS),
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
@pytest.mark.parametrize("path", ["/metrics", "/nothing"])
def test_many_clients_that_ask_again_at_once_are_answered_no_more_often(
    monkeypatch: pytest.MonkeyPatch, path: str, asking: int
) -> None:
    """Whether more of them ask than may wait for a turn, or fewer; whatever they are answered. And
    /live is answered beside them, each time.
    """
    monkeypatch.setattr(places, "OTHERS_TURNS_MAX", 8)
    monkeypatch.setattr(places, "REFUSED_TURNS_MAX", 8)
    made = HttpServer("127.0.0.1", 0, _respond)
    made.start()
    answered: list[int] = []
    over = threading.Event()

    def again() -> None:
        while not over.is_set():
            answer = raw(made, f"GET {path} HTTP/1.1\r\n\r\n".encode())
            answered.append(status_of(answer) if answer else 0)

    with ThreadPoolExecutor(asking) as clients:
        began = time.monotonic()
        for _ in range(asking):
            clients.submit(again)
        wait_until(lambda: len([a for a in answered if a]) >= 40, PATIENCE_S, "forty answers")
        took_ms = (time.monotonic() - began) * 1000
        found = list(answered)
        probes = [raw(made, b"GET /live HTTP/1.1\r\n\r\n") for _ in range(ASKED)]
        over.set()
    made.stop()
    assert {status_of(one) for one in probes} == {200}
    good = found.count(200)
    assert good <= took_ms / places.OTHERS_EVERY_MS + 1
    assert len(found) - good - found.count(0) <= took_ms / places.REFUSED_EVERY_MS + 1


def test_who_hears_nothing_is_kept_for_a_while_without_a_thread(
    monkeypatch: pytest.MonkeyPatch, server: HttpServer
) -> None:
    """And of too many the first is closed earlier."""
    monkeypatch.setattr(server.places, "refuses", lambda: False)
    monkeypatch.setattr(parked, "PARKED_MS", 3_600_000)
    monkeypatch.setattr(parked, "PARKED_MAX", 2)
    threads = threading.active_count()
    address = ("127.0.0.1", server.port)
    held = [socket.create_connection(address, timeout=PATIENCE_S) for _ in range(3)]
    for number, client in enumerate(held):
        client.sendall(b"GET /nothing HTTP/1.1\r\n\r\n")
        wait_until(
            lambda count=min(number + 1, 2): len(server.parked._until_ms) == count,
            PATIENCE_S,
            "that it is parked",
        )
    assert held[0].recv(1) == b""
    wait_until(lambda: threading.active_count() <= threads, PATIENCE_S, "the ends of threads")
    server.parked._until_ms = dict.fromkeys(server.parked._until_ms, 0)
    assert held[1].recv(1) == b"" and held[2].recv(1) == b""
    for client in held:
        client.close()


def test_a_connection_without_a_thread_waits_no_more(
    monkeypatch: pytest.MonkeyPatch, server: HttpServer
) -> None:
    def no_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as without:
        without.setattr(threading.Thread, "start", no_thread)
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as client:
            assert client.recv(1) == b""
    assert not server.places._waiting
    assert status_of(raw(server, b"GET /live HTTP/1.1\r\n\r\n")) == 200


def test_the_end_closes_those_who_hear_nothing(
    monkeypatch: pytest.MonkeyPatch, server: HttpServer
) -> None:
    monkeypatch.setattr(server.places, "refuses", lambda: False)
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as client:
        client.sendall(b"GET /nothing HTTP/1.1\r\n\r\n")
        wait_until(lambda: server.parked._until_ms, PATIENCE_S, "that it is parked")
        server.stop()
        assert client.recv(1) == b""


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
