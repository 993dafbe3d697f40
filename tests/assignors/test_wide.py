"""Our own assignors beside the thread that decides: one at a time, the newest question of a group,
and an answer whatever happens.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import pytest

from zkcoord.assignors import wide
from zkcoord.assignors.pool import AssignorOptions, AssignorPool
from zkcoord.assignors.wide import WideAssignor
from zkcoord.core.assignment import ASSIGNORS, Assignment, AssignmentInput

PATIENCE_S = 20.0

Answer = tuple[str, Assignment | None, str, int]


def given(partitions: int) -> AssignmentInput:
    return AssignmentInput({"m": {"t": 1}}, {"t": tuple(range(partitions))})


class World:
    """Answers as they are posted."""

    def __init__(self) -> None:
        self.answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self.wide = WideAssignor(lambda thunk: thunk())

    def ask(self, group: str, partitions: int = 3, assignor: str = "sticky") -> None:
        def done(answer: Assignment | None, failure: str, spent_ns: int = 0) -> None:
            self.answers.put((group, answer, failure, spent_ns))

        self.wide.submit(group, assignor, given(partitions), done)

    def answer(self) -> Answer:
        return self.answers.get(timeout=PATIENCE_S)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.wide.close()


def test_the_answer_is_the_assignors_and_says_what_it_took(world: World) -> None:
    world.ask("g", 5_000)
    group, answer, failure, spent_ns = world.answer()
    assert (group, answer, failure) == ("g", ASSIGNORS["sticky"](given(5_000)), "")
    assert spent_ns > 0


def test_a_newer_question_takes_the_place_of_one_that_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(question: AssignmentInput) -> Assignment:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        return ASSIGNORS["sticky"](question)

    monkeypatch.setattr(wide, "ASSIGNORS", {"slow": slow, **ASSIGNORS})
    world.ask("first", assignor="slow")
    assert begun.wait(PATIENCE_S)
    world.ask("a", 1)
    world.ask("b", 2)
    world.ask("a", 3)
    go_on.set()
    found = [world.answer() for _ in range(3)]
    assert [answer[0] for answer in found] == ["first", "a", "b"]
    assert found[1][1] == ASSIGNORS["sticky"](given(3))


def test_a_defect_is_an_answer_and_the_next_question_is_answered(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(question: AssignmentInput) -> Assignment:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(wide, "ASSIGNORS", {"broken": broken, **ASSIGNORS})
    world.ask("g", assignor="broken")
    assert world.answer()[1:3] == (None, wide.DEFECT)
    world.ask("g")
    assert world.answer()[1] is not None and "secret" in caplog.text


def test_after_close_nothing_is_answered(world: World) -> None:
    world.ask("g")
    world.answer()
    world.wide.close()
    world.ask("g")
    assert world.answers.empty()


def test_the_pool_sends_ours_there_and_starts_no_process() -> None:
    answers: queue.SimpleQueue[Assignment | None] = queue.SimpleQueue()
    pool = AssignorPool(AssignorOptions(), lambda thunk: thunk())
    try:
        pool.submit("g", "range", given(4), lambda answer, failure, spent_ns=0: answers.put(answer))
        assert answers.get(timeout=PATIENCE_S) == ASSIGNORS["range"](given(4))
        assert pool.processes() == ()
    finally:
        pool.close()
