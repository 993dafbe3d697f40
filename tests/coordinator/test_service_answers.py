"""What a coordinator answers to very many who ask: made once a second, off the thread that decides.
Its loop runs, and ZooKeeper is never called.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.config.test_sources import settled
from zkcoord.coordinator import service as service_module
from zkcoord.coordinator.service import CoordinatorService

PATIENCE_S = 20.0
ASKERS, ASKED = 16, 10


class World:
    """A service whose loop runs, and on which thread what was called, how often."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # as long as a test lasts
        monkeypatch.setattr(service_module, "ANSWER_EVERY_MS", 600_000)
        self.calls: Counter[tuple[str, bool]] = Counter()
        for holder, name in (
            (CoordinatorService, "_summaries"),
            (service_module.CoordinatorDriver, "status"),
            (service_module.Metrics, "text"),
        ):
            monkeypatch.setattr(holder, name, self._counted(name, getattr(holder, name)))
        monkeypatch.setattr(
            service_module, "document", self._counted("document", service_module.document)
        )
        self.service = CoordinatorService(
            settled({"http": False, "journal": False, "guardian": False})
        )
        self.service.loop.start()

    def _counted(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.calls[name, threading.current_thread().name.endswith("coordinator")] += 1
            return original(*arguments)

        return call

    def asked(self, path: str) -> set[bytes]:
        """All answers to very many who ask at once."""
        with ThreadPoolExecutor(ASKERS) as asking:
            answers = [asking.submit(self.service.respond, path) for _ in range(ASKERS * ASKED)]
            return {answer.result(PATIENCE_S).body for answer in answers}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(monkeypatch)
    yield made
    made.service.loop.stop()
    assert made.service.loop.join(PATIENCE_S)
    made.service.assignors.close()


def test_groups_are_told_once_a_second_however_many_ask(world: World) -> None:
    (answer,) = world.asked("/groups")
    assert json.loads(answer) == {
        "leading": False,
        "epoch": 0,
        "waiting": "",
        "groups": [],
        "left_off": 0,
        "client_led": [],
        "client_led_left_off": 0,
    }
    assert world.calls == {("_summaries", True): 1, ("document", False): 1}


def test_so_are_the_metrics(world: World) -> None:
    (answer,) = world.asked("/metrics")
    assert b"zkcoord_leader 0.0" in answer
    assert world.calls == {("status", True): 1, ("text", False): 1}
