"""Connections of those who are not answered: kept open for a while, without a thread, so that
whoever asks again at once can do so only then.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from zkcoord.zk.clock import boot_ms

PARKED_MS = 1_000
PARKED_MAX = 256


class ParkedConnections:
    """At most `PARKED_MAX`: of more the one that was parked first is closed. Any thread."""

    def __init__(self, close: Callable[[socket.socket], None]) -> None:
        self._close = close
        self._lock = threading.Lock()
        self._until_ms: dict[socket.socket, int] = {}
        self._parked: set[socket.socket] = set()
        self._over = False

    def was_parked(self, connection: socket.socket) -> bool:
        """Whether it is closed here, or was; its own thread asks, once, when it ends."""
        with self._lock:
            found = connection in self._parked
            self._parked.discard(connection)
            return found

    @property
    def are_many(self) -> bool:
        """Whether there is room for no other one."""
        with self._lock:
            return len(self._until_ms) >= PARKED_MAX

    def park(self, connection: socket.socket) -> None:
        """It is closed here, and by nobody else: for its own thread, at the end of that."""
        with self._lock:
            if self._over:
                return
            self._parked.add(connection)
            first = next(iter(self._until_ms)) if len(self._until_ms) >= PARKED_MAX else None
            if first is not None:
                del self._until_ms[first]
            self._until_ms[connection] = boot_ms() + PARKED_MS
        if first is not None:
            self._close(first)

    def close_due(self) -> None:
        """Close those whose time is over."""
        now = boot_ms()
        with self._lock:
            due = [one for one, until_ms in self._until_ms.items() if until_ms <= now]
            for one in due:
                del self._until_ms[one]
        for one in due:
            self._close(one)

    def close_all(self) -> None:
        """The server ends."""
        with self._lock:
            self._over = True
            left, self._until_ms = list(self._until_ms), {}
        for one in left:
            self._close(one)
