"""A console's server on a thread, with pages that a test says, and requests byte by byte."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from tests.console.pictures import ToldPages
from tests.harness.wait import wait_until
from zkcoord.console.http.guarding import Guarded
from zkcoord.console.http.live import Newsroom
from zkcoord.console.http.serving import listener, server
from zkcoord.console.http.web import ConsoleAddresses, application
from zkcoord.coordinator.http.host_names import HostNames

PATIENCE_S = 60.0


class Served:
    """A running server."""

    def __init__(
        self, told: ToldPages, pages: Any = None, acting: Callable[[Any], Any] | None = None
    ) -> None:
        self.told = told
        self.newsroom = Newsroom()
        self.addresses = ConsoleAddresses(pages or told.pages, self.newsroom)
        self.socket = listener("127.0.0.1", 0)
        self.port: int = self.socket.getsockname()[1]
        at = acting(pages or told.pages) if acting is not None else None
        app = Guarded(
            application(self.addresses, self.newsroom, at),
            HostNames(["console.example"]),
            at is not None,
        )
        self.server = server(app, self.addresses.end)
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],), daemon=True)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def ask(
        self, path: str, method: str = "GET", body: str | None = None, **headers: str
    ) -> tuple[int, dict[str, str], str]:
        """Status, headers and body. A `_` in a header's name is a dash."""
        asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        with contextlib.closing(asked):
            said = {name.replace("_", "-"): value for name, value in headers.items()}
            asked.request(method, path, body, said)
            answer = asked.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, answer.read().decode()

    def raw(self, data: bytes) -> bytes:
        """What comes until the end; the request says `Connection: close`, or is refused."""
        with self.connect() as client:
            client.sendall(data)
            return rest(client)


def rest(client: socket.socket) -> bytes:
    """Until the other side closes, in whichever way."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while more := client.recv(65_536):
            found += more
    return found


@contextlib.contextmanager
def served(
    told: ToldPages | None = None,
    pages: Any = None,
    acting: Callable[[Any], Any] | None = None,
) -> Iterator[Served]:
    """It runs within the block."""
    found = Served(told or ToldPages(), pages, acting)
    found.thread.start()
    wait_until(lambda: found.server.started, PATIENCE_S, "the server")
    try:
        yield found
    finally:
        found.addresses.end()
        found.server.should_exit = True
        found.thread.join(PATIENCE_S)
        found.socket.close()
        assert not found.thread.is_alive()


class Stream:
    """An open page's events. `parts`: what it shows by now."""

    def __init__(self, port: int, path: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        self.connection.request("GET", path)
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.status
        self.parts: dict[str, str] = {}

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.answer.close()
        self.connection.close()

    def next(self) -> dict[str, str] | None:
        """The parts of the next event; None: the stream has ended."""
        while line := self.answer.readline():
            if line.startswith(b"data: "):
                found: dict[str, str] = json.loads(line[6:])
                self.parts.update(found)
                return found
        return None


def counting_pages(told: ToldPages) -> SimpleNamespace:
    """Pages with one part, `n`, that says what a test has set; how often it was rendered."""
    found = SimpleNamespace(of=told.pages.of, text="0", rendered=0, trouble=told.pages.trouble)
    gate = threading.Lock()

    def parts(name: str, query: dict[str, str]) -> dict[str, str]:
        with gate:
            found.rendered += 1
            return {"n": found.text, "same": "always"}

    found.parts = parts
    found.whole = told.pages.whole
    return found
