"""A call makes its connection's thread look at the queue, and waits for nobody."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace
from typing import Any

from zkcoord.zk.kazoo_port.connection import EdgeClient

PATIENCE_S = 60.0


def test_more_wakes_than_fit_wait_for_nobody() -> None:
    """The thread that would read them wakes itself, too: it would wait for itself."""
    reader, writer = socket.socketpair()
    client: Any = SimpleNamespace(_connection=SimpleNamespace(_write_sock=writer))
    waking = threading.Thread(
        target=lambda: [EdgeClient.wake(client) for _ in range(20_000)], daemon=True
    )
    waking.start()
    waking.join(PATIENCE_S)
    assert not waking.is_alive() and reader.recv(1) == b"\0"
    for one in (reader, writer):
        one.close()
