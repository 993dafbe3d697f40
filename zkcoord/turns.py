"""Whose turn it is in a process with several threads that compute."""

from __future__ import annotations

import sys

SWITCH_INTERVAL_S = 0.001


def take_short_turns() -> None:
    """A thread that computes lets one that waits go on after a millisecond, not after five, as
    Python has it: a rebalance passes through several threads of a process, one after the other.
    Call once, when the process begins.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
