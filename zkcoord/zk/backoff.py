"""How long to wait before trying again.

A driver must not sleep; it says when it wants to be woken. There is no jitter, so that a simulated
run repeats; the spread between processes comes from when their sessions ended.
"""

from __future__ import annotations

from zkcoord.core.value_type import value

DOUBLINGS_MAX = 60


@value
class Backoff:
    """The wait doubles from `first_ms` up to `max_ms`. With `at_once` nothing is waited for before
    the first try again.
    """

    first_ms: int
    max_ms: int
    at_once: bool = False

    def delay_ms(self, failures: int) -> int:
        """The wait after `failures` (0 or more) attempts that already failed before this one."""
        if self.at_once and not failures:
            return 0
        return min(self.first_ms << min(failures, DOUBLINGS_MAX), self.max_ms)
