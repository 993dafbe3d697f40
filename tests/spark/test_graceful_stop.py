"""`drain_and_stop` and the source's side of it, without Spark: who is asked, what is waited for,
what is said when it cannot be.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from consumer.spark import graceful_stop as module
from consumer.spark.errors import UndrainedError
from consumer.spark.graceful_stop import GracefulStop, drain_and_stop
from tests.harness.kafka import unique
from tests.harness.wait import wait_until

PATIENCE_S = 60.0


class FakeQuery:
    """A query whose progress names these members, one after the other, the last for good."""

    def __init__(self, *members: str) -> None:
        self._members = list(members)
        self._looks = itertools.count()
        self.isActive = True

    @property
    def lastProgress(self) -> dict[str, Any]:
        member = self._members[min(next(self._looks), len(self._members) - 1)]
        return {"sources": [{"latestOffset": json.dumps({"member": member})}]}

    def awaitTermination(self, timeout: float) -> bool:
        return False

    def stop(self) -> None:
        self.isActive = False


@pytest.fixture
def listening() -> Iterator[tuple[str, GracefulStop]]:
    """A member's name, and its side."""
    name = unique("member")
    side = GracefulStop(lambda: name)
    side.follow()
    yield name, side
    side.close()


def test_the_query_is_stopped_when_the_member_has_stored_everything(
    listening: tuple[str, GracefulStop],
) -> None:
    name, side = listening
    query = FakeQuery(name)
    driver = threading.Thread(target=lambda: drain_and_stop(query), daemon=True)  # type: ignore[arg-type]
    driver.start()
    wait_until(lambda: side.asked, PATIENCE_S, "the question")
    assert query.isActive
    side.drained.set()
    driver.join(PATIENCE_S)
    assert not query.isActive and not driver.is_alive()


def test_a_member_that_has_another_name_by_now_is_asked_when_the_progress_tells_it(
    listening: tuple[str, GracefulStop],
) -> None:
    name, side = listening
    side.drained.set()
    query = FakeQuery(unique("former"), unique("former"), name)
    drain_and_stop(query)  # type: ignore[arg-type]
    assert side.asked and not query.isActive


def test_a_member_that_nobody_answers_for_is_told_and_the_query_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REACH_S", 0.2)
    query = FakeQuery(unique("nobody"))
    with pytest.raises(UndrainedError, match="is this the driver's host"):
        drain_and_stop(query)  # type: ignore[arg-type]
    assert not query.isActive


def test_a_query_that_never_says_who_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    query = SimpleNamespace(
        isActive=True, lastProgress=None, awaitTermination=lambda timeout: False
    )
    query.stop = lambda: setattr(query, "isActive", False)
    with pytest.raises(UndrainedError, match="which members it has"):
        drain_and_stop(query, 0.2)  # type: ignore[arg-type]
    assert not query.isActive
