"""Pools of real processes, and what they answered."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.assignors import installed
from zkcoord.assignors.pool import AssignorOptions, AssignorPool
from zkcoord.core.assignment import Assignment, AssignmentInput

PATIENCE_S = 120.0
PATIENT = AssignorOptions(processes_max=2, deadline_ms=60_000, slice_ms=60_000)


class Asker:
    """A pool whose thunks a test runs, one by one."""

    def __init__(self, options: AssignorOptions) -> None:
        self.thunks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.pool = AssignorPool(options, self.thunks.put)
        self.heard: list[tuple[str, Assignment | None, str]] = []

    def submit(self, group: str, assignor: str, given: AssignmentInput) -> None:
        """Ask; what is answered goes into `heard` under the group's name."""
        self.pool.submit(
            group,
            assignor,
            given,
            lambda answer, failure: self.heard.append((group, answer, failure)),
        )

    def hear(self, count: int = 1) -> list[tuple[str, Assignment | None, str]]:
        """Wait for so many answers more."""
        for _ in range(count):
            self.thunks.get(timeout=PATIENCE_S)()
        return self.heard[-count:]

    def ask(
        self, assignor: str, given: AssignmentInput, group: str = "g"
    ) -> tuple[Assignment | None, str]:
        """Ask and wait."""
        self.submit(group, assignor, given)
        ((_, answer, failure),) = self.hear()
        return answer, failure


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All assignors of `installed` on the path of this process, and so of its children."""
    for entry in reversed(installed.path(tmp_path / "site")):
        monkeypatch.syspath_prepend(entry)
    assert sys.path[0] == str(tmp_path / "site")


@pytest.fixture
def asker(packages: None) -> Iterator[Callable[[AssignorOptions], Asker]]:
    """Makes pools; they are closed after the test."""
    made: list[Asker] = []

    def make(options: AssignorOptions = PATIENT) -> Asker:
        made.append(Asker(options))
        return made[-1]

    yield make  # type: ignore[misc]
    for each in made:
        each.pool.close()
