"""Waiting for a condition instead of for a time.

A test never sleeps: it says what it waits for and for how long at most. The limit is generous,
because it is only spent when the test fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.01


def wait_until(predicate: Callable[[], T], timeout_s: float, what: str) -> T:
    """Ask `predicate` until its answer is true and return that answer; AssertionError with `what`
    and the last answer when it is not within `timeout_s`.
    """
    started = time.monotonic()
    while True:
        answer = predicate()
        if answer:
            return answer
        waited = time.monotonic() - started
        if waited >= timeout_s:
            raise AssertionError(
                f"Waited {waited:.1f} s in vain for {what}; the last answer was {answer!r}."
            )
        time.sleep(POLL_S)
