"""Connecting and waiting below kazoo."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest
from kazoo.exceptions import ConnectionDropped

from zkcoord.zk.kazoo_port.sockets import EdgeHandler, wait_ready

LIMIT_S = 0.2


def test_a_connection_attempt_has_a_limit() -> None:
    """A server that accepts nobody (its backlog is full) does not hold the thread: other servers
    come next.
    """
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        handler = EdgeHandler(None, LIMIT_S, lambda sockets, timeout_s: [])
        with pytest.raises(ConnectionDropped, match="timed out"):
            for _ in range(10):
                stack.enter_context(handler.create_connection(full.getsockname(), timeout=60.0))


def test_waiting_tells_which_socket_is_ready() -> None:
    a, b = socket.socketpair()
    with a, b:
        assert wait_ready([a, b], [], 0) == []
        a.send(b"x")
        assert wait_ready([a, b], [], 1) == [b] and wait_ready([], [a], 1) == [a]
        a.close()
        assert wait_ready([b], [], 1) == [b]
        with pytest.raises(ConnectionDropped):
            wait_ready([a], [], 0)
