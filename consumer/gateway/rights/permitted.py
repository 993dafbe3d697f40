"""What a client of one connection was permitted a moment ago."""

from __future__ import annotations

import time

from consumer.gateway.frames import SASL_AUTHENTICATE, Head
from consumer.gateway.rights.questions import Right

BELIEVED_S = 30.0
NAMES_MAX = 200
"""Of each of 10,000 connections, 400 bytes of the longest."""


class Permitted:
    """Of so many names at most, each for `BELIEVED_S`. What was refused is asked again."""

    def __init__(self) -> None:
        self._until_s: dict[tuple[Right, str], float] = {}

    def knows(self, right: Right, name: str) -> bool:
        """Whether it was permitted."""
        return self._until_s.get((right, name), 0.0) > time.monotonic()

    def passed(self, head: Head) -> None:
        """The client asks this of its broker; who says anew who it is may be somebody else."""
        if head.key == SASL_AUTHENTICATE:
            self._until_s.clear()

    def add(self, right: Right, name: str) -> None:
        """It is permitted now."""
        now_s = time.monotonic()
        if len(self._until_s) >= NAMES_MAX:
            self._until_s = {key: until for key, until in self._until_s.items() if until > now_s}
        if len(self._until_s) < NAMES_MAX:
            self._until_s[right, name] = now_s + BELIEVED_S
