"""Where a coordinator dies: the trap, on writes that nobody sends."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from tests.chaos import stopping
from tests.chaos.rig import Seen
from tests.chaos.stopping import BEFORE_CLEAN_UP, BEFORE_STOP, BETWEEN, TAKEOVER, Trap
from zkcoord.core.events import DeleteChannel, Send, Write
from zkcoord.core.model import Command, Option, Thread, TopicPartition
from zkcoord.zk.term.writer import TermWriter

AT = TopicPartition("orders", 0)
WRITER = cast(TermWriter, object())


def command(**fields: Any) -> Write:
    option = Option.STOP if "stop" in fields else Option.START
    return Write("a", 1, (Send(Command("m", 1, option, 1, 1, 1, **fields)),))


STOP = command(stop=(AT,))
START = command(start={AT: Thread("m", 0)})
CLEAN_UP = Write("a", 1, (DeleteChannel("m"),))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps at which the process would have died."""
    steps: list[str] = []
    monkeypatch.setattr(
        stopping,
        "tell",
        lambda event, **fields: steps.append(fields["step"]) if event == "step-reached" else None,
    )
    monkeypatch.setattr(stopping.os, "kill", lambda pid, number: None)
    return steps


def armed(tmp_path: Path, step: str) -> Trap:
    file = tmp_path / "step"
    file.write_text(f"{step} kill\n", encoding="utf-8")
    trap = Trap(file)
    trap.arm(0, None)
    return trap


@pytest.mark.parametrize(("step", "writes"), [(BEFORE_STOP, 1), (BETWEEN, 2), (BEFORE_CLEAN_UP, 3)])
def test_each_step_is_met_once_and_not_before(
    tmp_path: Path, sent: list[str], step: str, writes: int
) -> None:
    trap = armed(tmp_path, step)
    for number, write in enumerate((STOP, START, CLEAN_UP, STOP, START, CLEAN_UP), 1):
        trap.write(WRITER, write)
        assert sent == ([step] if number >= writes else [])


def test_a_start_without_a_stop_is_not_between_the_two(tmp_path: Path, sent: list[str]) -> None:
    trap = armed(tmp_path, BETWEEN)
    trap.write(WRITER, START)
    assert not sent


def test_the_takeover_is_met_at_the_election(tmp_path: Path, sent: list[str]) -> None:
    trap = armed(tmp_path, TAKEOVER)
    trap.write(WRITER, STOP)
    assert not sent
    trap.won()
    assert sent == [TAKEOVER]


def test_a_coordinator_that_is_not_armed_goes_on(tmp_path: Path, sent: list[str]) -> None:
    trap = Trap(tmp_path / "step")
    trap.won()
    trap.write(WRITER, STOP)
    assert not sent


def test_a_process_that_is_armed_again_has_been_at_no_step() -> None:
    """One that was stopped lives on: what it did the last time would be taken for what it is to do
    now.
    """
    seen = Seen()
    for line in (
        {"event": "armed"},
        {"event": "step-reached", "t": 1},
        {"event": "late-write", "outcome": "FENCED"},
    ):
        for name in ("k1-1", "k2-1"):
            seen.line(name, line)
    seen.forget_steps("k1-1")
    assert (seen.armed, set(seen.at), seen.late, seen.outcomes["FENCED"]) == (
        {"k2-1"},
        {"k2-1"},
        {"k2-1"},
        2,
    )
