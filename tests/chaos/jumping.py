"""A coordinator or consumer whose wall clock jumps by an hour at each SIGUSR2, forward and back:
`python -m tests.chaos.jumping coordinator|consumer options...`. What a consumer prints keeps the
machine's time, by which the checker merges.
"""

from __future__ import annotations

import importlib
import signal
import sys
from types import FrameType

from zkcoord.zk import clock

HOUR_MS = 3_600_000


class WallClock:
    """The machine's, and what it has jumped."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self.real = clock.wall_ms

    def jump(self, _number: int, _frame: FrameType | None) -> None:
        """SIGUSR2: an hour forward; from there, two back; and so on."""
        self.ahead_ms = -HOUR_MS if self.ahead_ms > 0 else HOUR_MS

    def now_ms(self) -> int:
        """In place of `wall_ms`."""
        return self.real() + self.ahead_ms


def main(argv: list[str]) -> int:
    """Run; the exit status of what was asked for. Everything that takes the clock by its name is
    imported after it was put in place.
    """
    wall = WallClock()
    clock.wall_ms = wall.now_ms
    signal.signal(signal.SIGUSR2, wall.jump)
    what, *options = argv
    if what == "consumer":
        return int(importlib.import_module("consumer.verifiable").main(options))
    return int(importlib.import_module("zkcoord.cli.main").main(argv))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
