"""A bell may be rung by a signal handler at any instruction of the thread that waits for it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from zkcoord.zk import bell as bell_module
from zkcoord.zk.bell import Bell

PATIENCE_S = 30.0


def test_it_is_a_flag_that_others_wait_for() -> None:
    bell = Bell()
    assert not bell.is_set() and not bell.wait(0) and not bell.wait(-1)
    waiting = [threading.Thread(target=bell.wait) for _ in range(3)]
    for thread in waiting:
        thread.start()
    bell.set()
    bell.set()
    for thread in waiting:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in waiting) and bell.wait(0) and bell.is_set()
    bell.clear()
    assert not bell.is_set() and not bell.wait(0.01)


def test_what_was_rung_before_it_was_cleared_wakes_nobody_later() -> None:
    bell = Bell()
    for _ in range(100):
        bell.set()
        bell.clear()
    assert not bell.wait(0.01)
    bell.set()
    assert bell.wait(PATIENCE_S)


def at_each_instruction(work: Callable[[], Any], then: Callable[[], Any]) -> int:
    """Run `work` once for each instruction that it executes in the bell's module, with `then`
    before that one, as a signal handler would come; how many there were.
    """
    seen, wanted = 0, 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_filename != bell_module.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen += 1
            if seen == wanted:
                sys.settrace(None)
                then()
        return trace

    while True:
        seen, wanted = 0, wanted + 1
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(None)
        if seen < wanted:
            return wanted - 1


def test_at_each_instruction_of_a_wait_it_may_be_rung() -> None:
    bell = Bell()

    def work() -> None:
        bell.clear()
        # what is rung before it is cleared does not count
        threading.Timer(0.002, bell.set).start()
        assert bell.wait(PATIENCE_S)

    assert at_each_instruction(work, bell.set) > 25


@pytest.mark.parametrize("place", ["set", "clear", "wait"])
def test_it_may_be_rung_within_each_of_its_own_methods(place: str) -> None:
    bell = Bell()

    def work() -> None:
        if place == "wait":
            bell.set()
        getattr(bell, place)()

    def ring() -> None:
        bell.set()
        assert bell.is_set()

    assert at_each_instruction(work, ring) > 2
    bell.set()
    assert bell.wait(0)


def test_a_handler_that_raises_leaves_it_usable() -> None:
    class Raised(Exception):
        pass

    def handle(*_: object) -> None:
        raise Raised

    before = signal.signal(signal.SIGALRM, handle)
    bell = Bell()
    try:
        for _ in range(20):
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            with pytest.raises(Raised):
                while True:
                    bell.wait(0.0005)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    ringing = threading.Thread(target=bell.set, daemon=True)
    ringing.start()
    ringing.join(PATIENCE_S)
    assert not ringing.is_alive() and bell.wait(PATIENCE_S)
