"""Ends of logs for a query: what one partition's leader does not answer hides nothing of the
others. The brokers are a fake here, as their answers are kafka-python's to lose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from consumer.spark import end_offsets
from consumer.spark.end_offsets import EARLIEST, LATEST, EndOffsets
from tests.harness.wait import wait_until
from zkcoord.core.model import TopicPartition

PATIENCE_S = 30.0
ALL = tuple(TopicPartition("orders", n) for n in range(4))
HUNG = ALL[1]
Take = Callable[[dict[TopicPartition, int]], None]


class Data:
    """Answers at once, as kafka-python does: all that was asked for together, or nothing."""

    def __init__(self) -> None:
        self.hung: set[TopicPartition] = set()
        self.silent = False
        self.questions: list[frozenset[TopicPartition]] = []

    def look_up(self, specs: Mapping[TopicPartition, int], done: Take) -> None:
        self.questions.append(frozenset(specs))
        if self.hung.isdisjoint(specs):
            done({tp: 0 if spec == EARLIEST else 7 + tp.partition for tp, spec in specs.items()})
        elif not self.silent:
            done({})


@pytest.fixture
def data() -> Data:
    return Data()


@pytest.fixture
def ends(data: Data, monkeypatch: pytest.MonkeyPatch) -> Iterator[EndOffsets]:
    monkeypatch.setattr(end_offsets, "ANSWER_S", 0.2)
    monkeypatch.setattr(end_offsets, "APART_S", 0.2)
    made = EndOffsets(data, lambda: None)  # type: ignore[arg-type]
    yield made
    made.stop()


@pytest.mark.parametrize("silent", [False, True])
def test_the_others_are_known(ends: EndOffsets, data: Data, silent: bool) -> None:
    """Where it is refused, and where it is not answered at all."""
    data.hung, data.silent = {HUNG}, silent
    expected = {tp: 7 + tp.partition for tp in ALL if tp != HUNG}
    assert ends.ask(dict.fromkeys(ALL, LATEST)) == expected
    ends.want(ALL)
    known = {tp: (0, end) for tp, end in expected.items()}
    wait_until(lambda: ends.known() == known, PATIENCE_S, "the ends of the others")
    data.hung = set()
    wait_until(lambda: len(ends.known()) == len(ALL), PATIENCE_S, "all of them")
    wait_until(lambda: data.questions[-1] == frozenset(ALL), PATIENCE_S, "one question again")


def test_all_at_once_as_long_as_that_is_answered(ends: EndOffsets, data: Data) -> None:
    ends.want(ALL)
    wait_until(lambda: len(ends.known()) == len(ALL), PATIENCE_S, "all ends")
    assert set(data.questions) == {frozenset(ALL)}
