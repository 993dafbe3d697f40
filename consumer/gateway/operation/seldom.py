"""What strangers can cause again and again, and is worth a line of the log only now and then."""

from __future__ import annotations

import time
from collections.abc import Callable


class Seldom:
    """Of each name once within `again_s`, of `names_max` names at most: beyond, nothing is said of
    others.
    """

    def __init__(
        self, again_s: float, names_max: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._again_s = again_s
        self._names_max = names_max
        self._clock = clock
        self._said: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._said)

    def is_due(self, name: str) -> bool:
        """Whether it is to be said of this one; then it is said."""
        now = self._clock()
        if now - self._said.get(name, now - self._again_s) < self._again_s:
            return False
        if name not in self._said and len(self._said) >= self._names_max:
            self._said = {n: at for n, at in self._said.items() if now - at < self._again_s}
            if len(self._said) >= self._names_max:
                return False
        self._said[name] = now
        return True
