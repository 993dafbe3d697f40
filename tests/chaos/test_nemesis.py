"""When faults come, on a clock that only moves when somebody waits or works."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.chaos import nemesis
from tests.chaos.nemesis import Nemesis
from tests.chaos.rig import Rig
from tests.chaos.schedule import BROKER, Happening, Kind

STEP_S = 0.125
BROKER_STARTS_S = 20.0


class Machine:
    """A rig whose broker takes its time. `done`: what was done, and when (s)."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.done: list[tuple[float, str]] = []
        self.broker = SimpleNamespace(kill=lambda: self.note("broker killed"))

    def note(self, text: str) -> None:
        self.done.append((self.now_s, text))

    def broker_again(self) -> Any:
        def result() -> None:
            self.now_s += BROKER_STARTS_S
            self.note("broker up")

        return SimpleNamespace(result=result)

    def kill(self, slot: str) -> None:
        self.note(f"{slot} killed")

    def start_process(self, slot: str) -> None:
        self.note(f"{slot} started")

    def wait(self, condition: Callable[[], bool], _what: str, _timeout_s: float) -> None:
        while not condition():
            self.now_s += STEP_S


def test_what_the_schedule_keeps_apart_stays_apart_when_a_fault_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    monkeypatch.setattr(nemesis, "time", SimpleNamespace(monotonic=lambda: machine.now_s))
    schedule = (Happening(1_000, BROKER, Kind.BROKER_KILLED, 12_000), Happening(16_000, "a1", Kind.CONSUMER_KILLED, 2_000))
    Nemesis(cast(Rig, machine), lambda _: None).play(schedule)
    assert machine.done == [(1.0, "broker killed"), (13.0 + BROKER_STARTS_S, "broker up"), (16.0 + BROKER_STARTS_S, "a1 killed"), (18.0 + BROKER_STARTS_S, "a1 started")]
