"""An answer that many ask for and that is made once in a while: everybody who asks meanwhile gets
the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedAnswer(Generic[T]):
    """Calls `make` at most once in `every_ms`, on the thread of one of those who ask; the others
    wait for it, `within_ms` at most. What `make` raises is raised by who called it; the next one
    tries again.
    """

    def __init__(
        self,
        make: Callable[[], T],
        every_ms: int,
        within_ms: int,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._make = make
        self._every_ns = every_ms * 1_000_000
        self._within_s = within_ms / 1000
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._made: tuple[int, T] | None = None

    def get(self) -> T:
        """The answer. Raises `TimeoutError` where others are waiting in vain."""
        made = self._made
        if made is not None and self._clock_ns() - made[0] < self._every_ns:
            return made[1]
        if not self._lock.acquire(timeout=self._within_s):
            raise TimeoutError
        try:
            made = self._made
            if made is not None and self._clock_ns() - made[0] < self._every_ns:
                return made[1]
            value = self._make()
            self._made = (self._clock_ns(), value)
            return value
        finally:
            self._lock.release()
