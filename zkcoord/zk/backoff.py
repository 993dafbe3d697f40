"""How long to wait before trying again: tenacity's wait policies, asked for a number instead of
being slept on.

A driver must not sleep; it says when it wants to be woken. The policies have no jitter, so that a
simulated run repeats; the spread between processes comes from when their sessions ended.
"""

from __future__ import annotations

from tenacity import RetryCallState, Retrying, wait_chain, wait_exponential, wait_none
from tenacity.wait import wait_base


def growing(first_ms: int, max_ms: int) -> wait_base:
    """Doubles from `first_ms` up to `max_ms`."""
    return wait_exponential(multiplier=first_ms / 1000, max=max_ms / 1000)


def at_once_then(first_ms: int, max_ms: int) -> wait_base:
    """Nothing before the first try again, then as `growing`."""
    return wait_chain(wait_none(), growing(first_ms, max_ms))


def delay_ms(policy: wait_base, failures: int) -> int:
    """The wait after `failures` (0 or more) attempts that already failed before this one."""
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = min(failures, ATTEMPTS_COUNTED_MAX) + 1
    return round(policy(state) * 1000)


ATTEMPTS_COUNTED_MAX = 60
