"""The two clocks of a process.

Rights (leases, deadlines, a session's contact) are counted on a clock that never goes back and goes
on while the machine sleeps: CLOCK_BOOTTIME. A laptop that was suspended for an hour must find its
lease over, and CLOCK_MONOTONIC would not say so. Where there is no such clock the monotonic one has
to do. The wall clock is for people and for names only.
"""

from __future__ import annotations

import sys
import time

NS_PER_MS = 1_000_000

if sys.platform == "linux":

    def boot_ns() -> int:
        """Nanoseconds since the machine started, sleep included; never goes back."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def boot_ms() -> int:
        """Milliseconds of the same clock. (Read with each record of an iteration, so without a call
        of the other.)
        """
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // NS_PER_MS

else:

    def boot_ns() -> int:
        """Nanoseconds of a clock that never goes back."""
        return time.monotonic_ns()

    def boot_ms() -> int:
        """Milliseconds of the same clock."""
        return time.monotonic_ns() // NS_PER_MS


def wall_ms() -> int:
    """Milliseconds since 1970, for people, names and records; it may jump."""
    return time.time_ns() // NS_PER_MS
