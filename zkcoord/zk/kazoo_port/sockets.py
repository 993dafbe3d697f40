"""The sockets under kazoo: connecting with the real reason of a failure, and waiting without a
limit on descriptor numbers.

kazoo's handler starts two worker threads and dispatches results and events to them; this one starts
none, because here nothing is dispatched (see `zkcoord.zk.kazoo_port.connection`). kazoo's own
connector retries a failing TLS handshake until a bare timeout, and does not verify host names by
default; this one makes one attempt and says what OpenSSL said.
"""

from __future__ import annotations

import logging
import select
import socket
import ssl
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import SequentialThreadingHandler


class EdgeHandler(SequentialThreadingHandler):
    """kazoo's handler without its two worker threads, and with sockets that say why they failed."""

    def __init__(
        self,
        tls: ssl.SSLContext | None,
        attempt_limit_s: float,
        idle: Callable[[list[Any], float], list[Any]],
    ) -> None:
        super().__init__()
        self._tls = tls
        self._attempt_limit_s = attempt_limit_s
        self._idle = idle

    def start(self) -> None:
        """No workers: nothing is dispatched to them."""

    def stop(self) -> None:
        """See `start`."""

    def select(
        self, rlist: list[Any], wlist: list[Any], xlist: list[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """As `select.select`. Two sockets to read is kazoo's main loop, which waits in
        `EdgeConnection.idle`.
        """
        if len(rlist) == 2:
            return self._idle(rlist, timeout or 0.0), [], []
        ready = wait_ready(rlist, wlist, timeout)
        return [s for s in rlist if s in ready], [s for s in wlist if s in ready], []

    def create_connection(
        self,
        address: tuple[str, int],
        hostname: str | None = None,
        timeout: float | None = None,
        **_: Any,
    ) -> socket.socket:
        """A connected socket, through TLS where it is configured. Raises `ConnectionDropped` with
        the real reason.
        """
        try:
            plain = socket.create_connection(address, self._attempt_limit_s)
        except OSError as e:
            raise ConnectionDropped(f"{e.strerror or e}") from e
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._tls.wrap_socket(plain, server_hostname=hostname) if self._tls else plain
        except OSError as e:
            plain.close()
            raise ConnectionDropped(f"TLS failed: {e.strerror or e}") from e


def wait_ready(readers: list[Any], writers: list[Any], timeout_s: float | None) -> list[Any]:
    """Those of the sockets that are ready (or broken), after at most `timeout_s`. poll() has no
    limit on descriptor numbers.
    """
    poller = select.poll()
    by_fd = {}
    for sock, mask in [(s, select.POLLIN) for s in readers] + [
        (s, select.POLLOUT) for s in writers
    ]:
        fd = sock.fileno()
        if fd < 0:
            raise ConnectionDropped("the socket was closed")
        poller.register(fd, mask)
        by_fd[fd] = sock
    return [
        by_fd[fd]
        for fd, _ in poller.poll(
            None if timeout_s is None else max(0, int(timeout_s * 1000 + 0.999))
        )
    ]


def quiet_logger() -> logging.Logger:
    """A logger that goes nowhere: kazoo's lines hold credentials, session passwords and data at
    debug level, and repeat themselves at the others.
    """
    # Not getLogger: what the application sets for names and levels must not reach it.
    logger = logging.Logger("zkcoord.zk.kazoo", logging.CRITICAL)  # noqa: LOG001
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    return logger
