"""Every coordinator that a test runs records its inputs, and what it recorded must replay to what
it did: in memory for a driver in the test's own process, from files for a process of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zkcoord.coordinator.input_recorder import end_line, header_line, input_files, step_line
from zkcoord.core.events import Action, Elected, Event
from zkcoord.core.options import CoordinatorOptions
from zkcoord.replay.replay import Recording, Replay


class Tape:
    """What `zkcoord.coordinator.input_recorder.InputLog` is to a driver, without a file."""

    def __init__(self) -> None:
        self.terms: list[list[bytes]] = []

    def step(self, options: CoordinatorOptions, event: Event, actions: Sequence[Action]) -> None:
        """The core took an event and answered."""
        if isinstance(event, Elected):
            self.terms.append([header_line(options, event.epoch, 0)])
        self.terms[-1].append(step_line(event, actions))

    def ended(self, why: str) -> None:
        """The term ended."""
        if self.terms:
            self.terms[-1].append(end_line(why))

    def assert_replays(self) -> None:
        """Each term again."""
        for number, lines in enumerate(self.terms, 1):
            assert_same(Recording(f"term {number}", lines))


def begun(folder: Path) -> list[Recording]:
    """The recordings in a journal's folder that have their first line: a process that was killed
    may have left an empty one.
    """
    files = input_files(folder) if folder.is_dir() else []
    return [Recording(str(file), file) for file in files if b"\n" in file.read_bytes()]


def assert_replays(folder: Path) -> int:
    """The recordings in a journal's folder again, where there are any; returns how many inputs they
    have.
    """
    return sum(map(assert_same, begun(folder)))


def assert_same(recording: Recording) -> int:
    """One recording again; returns how many inputs it has."""
    verdict = Replay(recording).run()
    found = verdict.difference
    assert found is None, (
        f"{recording.name}, line {found.step.line}: {found.step.event} gave {found.recorded}, again"
        f" {found.said}"
    )
    return verdict.inputs
