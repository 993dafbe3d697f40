"""What every request passes, and every answer carries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.console.http.served import Served, served
from tests.console.pictures import ToldPages, line, snapshot
from tests.coordinator.http.test_http_host import FOREIGN
from zkcoord.console.http.guarding import HEADERS, TARGET_BYTES_MAX

NOWHERE = "127.0.0.1.evil.example"


@pytest.fixture(scope="module")
def here() -> Iterator[Served]:
    with served(ToldPages([line("billing")], [snapshot("billing", {"m": {"a": [0]}})])) as found:
        yield found


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/group?name=billing", 200),
        ("/coordinator", 200),
        ("/static/console.js", 200),
        ("/static/none.js", 404),
        ("/static/", 404),
        ("/group?name=nobody", 404),
        ("/nothing/at/all", 404),
        ("/live/nothing", 404),
        ("/group/", 404),
    ],
)
def test_every_answer_has_the_policy(here: Served, path: str, status: int) -> None:
    for method in ("GET", "HEAD"):
        found, headers, body = here.ask(path, method)
        assert found == status, body
        for name, value in HEADERS.items():
            assert headers[name.decode()] == value.decode()
        assert "cache-control" in headers and "server" not in headers
        assert "unsafe" not in headers["content-security-policy"]
        assert bool(body) is (method == "GET")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_nothing_but_reading(here: Served, method: str) -> None:
    status, headers, _ = here.ask("/", method)
    assert (status, headers["allow"]) == (405, "GET, HEAD")
    assert "content-security-policy" in headers


@pytest.mark.parametrize("host", FOREIGN)
def test_a_strangers_name_is_not_answered(here: Served, host: str) -> None:
    for path in ("/", "/live/overview", "/static/console.js"):
        status, headers, body = here.ask(path, Host=host)
        assert status in (400, 421) and "billing" not in body
        assert status == 400 or "content-security-policy" in headers


@pytest.mark.parametrize(
    "host", ["console.example", "Console.Example.:8", "localhost:1", "[::1]:9"]
)
def test_our_names(here: Served, host: str) -> None:
    assert here.ask("/", Host=host)[0] == 200


def test_two_names_are_none(here: Served) -> None:
    answer = here.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n")
    assert answer.split(b" ", 2)[1] in (b"400", b"421")


def test_a_long_address_is_refused(here: Served) -> None:
    long = "x" * (TARGET_BYTES_MAX + 1)
    for path in (f"/{long}", f"/?find={long}", f"/static/{long}"):
        status, headers, _ = here.ask(path)
        assert status == 414 and "content-security-policy" in headers
    assert here.ask(f"/?find={long[:4_000]}")[0] == 200
