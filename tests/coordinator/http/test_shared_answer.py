"""An answer that is made once in a while for everybody who asks."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from zkcoord.coordinator.http.shared_answer import SharedAnswer

PATIENCE_MS = 20_000
ASKERS = 16


def test_it_is_made_once_for_all_who_ask_meanwhile() -> None:
    """Sixteen ask while it is being made, and all get what the first one made."""
    made: list[int] = []
    go_on = threading.Event()

    def make() -> int:
        made.append(len(made))
        assert go_on.wait(PATIENCE_MS / 1000)
        return made[-1]

    shared = SharedAnswer(make, 1_000, PATIENCE_MS, lambda: 0)
    with ThreadPoolExecutor(ASKERS) as asking:
        answers = [asking.submit(shared.get) for _ in range(ASKERS)]
        go_on.set()
        assert {answer.result(PATIENCE_MS / 1000) for answer in answers} == {0}
    assert made == [0]


def test_it_is_made_anew_when_it_is_old() -> None:
    now_ns = 0
    count = iter(range(10))
    shared = SharedAnswer(lambda: next(count), 1_000, PATIENCE_MS, lambda: now_ns)
    assert [shared.get(), shared.get()] == [0, 0]
    now_ns = 999_999_999
    assert shared.get() == 0
    now_ns = 1_000_000_000
    assert [shared.get(), shared.get()] == [1, 1]


def test_who_waits_in_vain_is_told_and_a_failure_is_not_kept() -> None:
    fails = True

    def make() -> str:
        if fails:
            raise TimeoutError
        return "made"

    shared = SharedAnswer(make, 1_000, 10)
    with pytest.raises(TimeoutError):
        shared.get()
    fails = False
    assert shared.get() == "made"
    stuck, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        stuck.set()
        assert go_on.wait(PATIENCE_MS / 1000)
        return "late"

    late = SharedAnswer(slow, 1_000, 10)
    with ThreadPoolExecutor(1) as other:
        first = other.submit(late.get)
        assert stuck.wait(PATIENCE_MS / 1000)
        with pytest.raises(TimeoutError):
            late.get()
        go_on.set()
        assert first.result(PATIENCE_MS / 1000) == "late"
