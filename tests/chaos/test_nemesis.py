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
WAIT_S = 120.0


class Machine:
    """A rig whose broker takes its time. `done`: what was done, and when (s)."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.done: list[tuple[float, str]] = []
        self.seen = SimpleNamespace(registered=set())
        self.broker = SimpleNamespace(
            kill=lambda: self.note("broker killed"),
            pause=lambda: self.note("broker stopped"),
            resume=self.resume,
        )

    def note(self, text: str) -> None:
        self.done.append((self.now_s, text))

    def broker_again(self) -> Any:
        def result() -> None:
            self.now_s += BROKER_STARTS_S
            self.note("broker up")

        return SimpleNamespace(done=lambda: False, result=result)

    def resume(self) -> None:
        """Only now those that have started become members."""
        self.note("broker goes on")
        self.seen.registered |= {
            text.partition(" ")[0] for _, text in self.done if text.endswith(" started")
        }

    def leave(self, slot: str) -> None:
        self.note(f"{slot} leaves")

    def kill(self, slot: str) -> None:
        self.note(f"{slot} killed")

    def start_process(self, slot: str) -> Any:
        self.note(f"{slot} started")
        return SimpleNamespace(name=slot)

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
        until_s = self.now_s + timeout_s
        while not condition():
            assert self.now_s < until_s, f"waited in vain for {what}"
            self.now_s += STEP_S


def played(monkeypatch: pytest.MonkeyPatch, *schedule: Happening) -> list[tuple[float, str]]:
    """What was done, and when."""
    machine = Machine()
    monkeypatch.setattr(nemesis, "time", SimpleNamespace(monotonic=lambda: machine.now_s))
    Nemesis(cast(Rig, machine), lambda _: None).play(schedule)
    return machine.done


def test_what_the_schedule_keeps_apart_stays_apart_when_a_fault_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = played(
        monkeypatch,
        Happening(1_000, BROKER, Kind.BROKER_KILLED, 12_000),
        Happening(16_000, "a1", Kind.CONSUMER_KILLED, 2_000),
    )
    assert done == [
        (1.0, "broker killed"),
        (13.0 + BROKER_STARTS_S, "broker up"),
        (16.0 + BROKER_STARTS_S, "a1 killed"),
        (18.0 + BROKER_STARTS_S, "a1 started"),
    ]


def test_what_is_waited_for_may_need_the_end_of_another_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A consumer is asked to leave once it is a member; it cannot be one before the broker goes on,
    which the schedule has later. Nothing else begins until then.
    """
    done = played(
        monkeypatch,
        Happening(1_000, "b9", Kind.CONSUMER_VISITS, 4_000),
        Happening(3_000, BROKER, Kind.BROKER_STOPPED, 5_000),
        Happening(6_000, "a1", Kind.CONSUMER_KILLED, 2_000),
    )
    assert done == [
        (1.0, "b9 started"),
        (3.0, "broker stopped"),
        (8.0, "broker goes on"),
        (8.0, "b9 leaves"),
        (9.0, "a1 killed"),
        (11.0, "a1 started"),
    ]
