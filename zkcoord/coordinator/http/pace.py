"""One after the other, at a pace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from zkcoord.zk.clock import NS_PER_MS


class AnswerPace:
    """Lets one pass every `every_ms`, at once where nobody came within that time before. At most
    `waiting_max` wait for that: one more does not pass. Any thread; who waits holds no lock
    meanwhile.
    """

    def __init__(
        self,
        every_ms: int,
        waiting_max: int,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._every_ns = every_ms * NS_PER_MS
        self._most_ns = self._every_ns * waiting_max
        self._clock_ns = clock_ns
        self._sleep = sleep
        self._lock = threading.Lock()
        self._next_ns = clock_ns()

    def turn(self) -> bool:
        """Return when it is the caller's turn; False: too many are before it."""
        with self._lock:
            now = self._clock_ns()
            at = max(now, self._next_ns)
            passes = at - now <= self._most_ns
            if passes:
                self._next_ns = at + self._every_ns
        if passes and at > now:
            self._sleep((at - now) / 1e9)
        return passes
