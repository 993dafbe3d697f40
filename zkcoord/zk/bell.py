"""A flag to wait for that a signal handler may set, whatever it interrupts.

`threading.Event` has a lock. A handler that sets an event while the thread that it interrupts is
about to wait for that event, or has just done so, waits for a lock which its own thread holds: for
ever. And a handler that raises there leaves the lock taken, so that whoever sets the event next
waits for ever. `queue.SimpleQueue`, made for this, may be entered again at any point, and so may
this.
"""

from __future__ import annotations

import math
import queue
import threading
import time


class Bell:
    """As `threading.Event`. Any thread, signal handlers and finalizers may call any method."""

    def __init__(self) -> None:
        self._rung = False
        # Wakes who waits; what counts is the flag.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()

    def is_set(self) -> bool:
        """Has it been set since it was cleared?"""
        return self._rung

    def set(self) -> None:
        """Let go on who waits, and who will."""
        if not self._rung:
            self._rung = True
            self._wake.put(None)

    def clear(self) -> None:
        """Who waits from now on waits for the next `set`."""
        self._rung = False
        try:
            while True:
                self._wake.get_nowait()
        except queue.Empty:
            return

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is set, for so long at most (None: without a limit); whether it is."""
        until = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while not self._rung:
            left = min(until - time.monotonic(), threading.TIMEOUT_MAX)
            if left <= 0:
                return False
            try:
                self._wake.get(timeout=left)
            except queue.Empty:
                continue
            if self._rung:
                self._wake.put(None)  # for others who wait
        return True
