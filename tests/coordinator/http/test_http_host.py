"""DNS rebinding: a request that takes the server for somebody else is not answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.coordinator.http.test_http import raw, respond, status_of
from tests.harness.command import Running
from zkcoord.config.option_spec import Use
from zkcoord.config.settings import coordinator_settings
from zkcoord.config.sources import resolve
from zkcoord.coordinator.http.host_names import HostNames
from zkcoord.coordinator.http.server import HttpServer

OURS = (
    "127.0.0.1",
    "127.0.0.1:9405",
    "10.1.2.3:9405",
    "[::1]",
    "[::1]:9405",
    "localhost",
    "LOCALHOST:1",
    "localhost.",
    "a.localhost:80",
    "zk.example",
    "Zk.Example.:9405",
    "node7",
)
FOREIGN = (
    "evil.example",
    "evil.example:9405",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "zk.example.evil",
    "notlocalhost",
    "",
    "[::1].evil.example",
    "127.0.0.1@evil.example",
    "1.2.3",
    "0x7f.1",
    "a b",
)


@pytest.fixture
def server() -> Iterator[HttpServer]:
    made = HttpServer("127.0.0.1", 0, respond, names=("zk.example", "node7"))
    made.start()
    yield made
    made.stop()


@pytest.mark.parametrize("host", OURS)
def test_our_names(server: HttpServer, host: str) -> None:
    request = f"GET /live HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    assert status_of(raw(server, request)) == 200


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("path", ["/groups", "/live", "/x"])
def test_foreign_names(server: HttpServer, host: str, path: str) -> None:
    answer = raw(server, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert status_of(answer) == 421 and b"--http-names" in answer and b"groups" not in answer


def test_two_names_and_none(server: HttpServer) -> None:
    twice = b"GET /live HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
    assert status_of(raw(server, twice)) == 421
    assert status_of(raw(server, b"GET /live HTTP/1.0\r\n\r\n")) == 200, "it is no browser"


def test_the_address_served_on_is_a_name() -> None:
    assert HostNames(("coord1",)).serve(["coord1:80"])
    assert not HostNames(()).serve(["coord1:80"])


def test_names_are_an_option(tmp_path: Path) -> None:
    given = {"zookeeper": "h:1", "http_names": " a.example, b ,"}
    settings = resolve(Use.COORDINATOR, given, {})
    found = coordinator_settings(settings, ("range", "sticky"), {"HOME": str(tmp_path)})
    assert found.http is not None and found.http.names == ("a.example", "b")


def test_a_real_coordinator(tmp_path: Path, zk_hosts: str) -> None:
    arguments = ("--zookeeper", zk_hosts, "--host", "node7", "--http-names", "zk.example")
    with Running(tmp_path / "c", *arguments) as process:
        process.ready("leading")
        for host, status in (("node7", 200), ("zk.example:1", 200), ("evil.example", 421)):
            assert process.get("/groups", host)[0] == status, host
