"""The HTTP server: uvicorn, with what it leaves to a proxy in front of it. A connection that does
not finish its request's head in time is closed, and there is a limit of connections, beyond which
those that have waited longest for a request go first: slow strangers take no reader's place.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from zkcoord.errors import ConfigurationError, UnavailableError
from zkcoord.terminal import shown

log = logging.getLogger(__name__)

HEAD_DEADLINE_S = 5.0
CONNECTIONS_MAX = 512
KEEP_ALIVE_S = 10
BACKLOG = 128
SHUTDOWN_S = 2
ENDING = (signal.SIGINT, signal.SIGTERM)
HEAD_BYTES_MAX = 16 * 1024


class Lobby:
    """Connections that have no request under way, the longest waiting first."""

    def __init__(self) -> None:
        self.open = 0
        self._waiting: dict[Any, None] = {}

    def comes(self, connection: Any, drop: Callable[[Any], None]) -> None:
        """A connection was accepted; `drop` closes one that has to go for it."""
        self.open += 1
        self.waits(connection)
        if self.open > CONNECTIONS_MAX:
            longest = next(iter(self._waiting))
            del self._waiting[longest]  # it is gone a moment later, and others may come before
            drop(longest)

    def waits(self, connection: Any) -> None:
        """It has no request."""
        self._waiting[connection] = None

    def is_served(self, connection: Any) -> None:
        """Its request is here."""
        self._waiting.pop(connection, None)

    def goes(self, connection: Any) -> None:
        """It is over."""
        self.open -= 1
        self._waiting.pop(connection, None)


def protocol_of(lobby: Lobby) -> type[asyncio.Protocol]:
    """uvicorn's protocol, with deadlines, for connections that wait in this lobby."""

    class DeadlinedProtocol(H11Protocol):
        """A connection. One method of uvicorn's makes it known that a head is complete."""

        head_deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._await_head(HEAD_DEADLINE_S)
            lobby.comes(self, lambda one: one.transport.abort())

        def _await_head(self, seconds: float) -> None:
            self.head_deadline = self.loop.call_later(seconds, self.transport.abort)

        def handle_events(self) -> None:
            super().handle_events()
            if self.cycle is not None and not self.cycle.response_complete:
                self._heard()

        def _heard(self) -> None:
            if self.head_deadline is not None:
                self.head_deadline.cancel()
                self.head_deadline = None
            lobby.is_served(self)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            is_idle = self.cycle is None or self.cycle.response_complete
            if is_idle and self.head_deadline is None and not self.transport.is_closing():
                # longer than uvicorn waits for the first byte of the next head
                self._await_head(KEEP_ALIVE_S + HEAD_DEADLINE_S)
                lobby.waits(self)

        def connection_lost(self, exc: Exception | None) -> None:
            self._heard()
            lobby.goes(self)
            super().connection_lost(exc)

    return DeadlinedProtocol


class ConsoleServer(uvicorn.Server):
    """Ends its streams when it is told to exit, so that open pages hold nobody up."""

    def __init__(self, config: uvicorn.Config, ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._ending = ending

    def handle_exit(self, sig: int, frame: Any) -> None:
        """A signal; a second one does not wait. (uvicorn would raise it again at its end.)"""
        self._ending()
        self.force_exit = self.should_exit
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but for what comes after: a signal that has ended this server is dealt with
        by that, and not raised again.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in ENDING}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def end_with_parent(serving: ConsoleServer) -> None:
    """Have it end when nobody holds the other end of standard input any more."""

    def wait() -> None:
        while os.read(0, 1024):
            pass
        serving.handle_exit(signal.SIGTERM, None)

    threading.Thread(target=wait, name="zkcoord-console-parent", daemon=True).start()


def listener(address: str, port: int) -> socket.socket:
    """The socket to listen on. Raises `UnavailableError` where it cannot be had."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address, port))
        found.listen(BACKLOG)  # who comes before it serves waits
    except (OSError, UnicodeError) as error:
        found.close()
        why = getattr(error, "strerror", None) or str(error)
        raise UnavailableError(
            f"{shown(address)}:{port} cannot be listened on ({why}): choose another with --listen"
        ) from error
    return found


def parse_listen(text: str) -> tuple[str, int]:
    """`127.0.0.1:9407` or `[::1]:9407`. Raises `ConfigurationError`."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (
        colon
        and host
        and port.isascii()
        and port.isdigit()
        and len(port) < 6
        and int(port) < 65_536
    ):
        raise ConfigurationError(
            f"--listen is {shown(text)}: write ADDRESS:PORT, as 127.0.0.1:9407"
        )
    return host, int(port)


def server(app: ASGIApp, ending: Callable[[], None]) -> ConsoleServer:
    """Not started yet."""
    return ConsoleServer(
        uvicorn.Config(
            app,
            http=protocol_of(Lobby()),
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=SHUTDOWN_S,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        ),
        ending,
    )
