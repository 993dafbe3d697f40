"""Waits double, and are bounded."""

from __future__ import annotations

from zkcoord.zk.backoff import Backoff


def test_growing_doubles_up_to_its_limit() -> None:
    """50, 100, 200 ... 5,000 ms, however often it failed."""
    policy = Backoff(first_ms=50, max_ms=5_000)
    assert [policy.delay_ms(n) for n in (0, 1, 2, 6, 7, 1_000_000)] == [
        50,
        100,
        200,
        3_200,
        5_000,
        5_000,
    ]


def test_the_first_try_again_may_be_at_once() -> None:
    """A member that was evicted comes back immediately; one that keeps failing does not hammer the
    ensemble.
    """
    policy = Backoff(first_ms=100, max_ms=5_000, at_once=True)
    waits = [policy.delay_ms(n) for n in range(12)]
    assert waits[0] == 0
    assert waits[1] >= 100
    assert waits == sorted(waits) and waits[-1] == 5_000
