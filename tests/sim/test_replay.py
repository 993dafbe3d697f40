"""I12 on the coordinator's side: a simulator run's journals replay, wherever they are replayed, and
a core that is not a function of its inputs is seen.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sim import replay
from tests.sim.runner import run_many, run_seed
from tests.sim.world import World
from zkcoord.core.coordinator import Coordinator

ROOT = Path(__file__).parents[2]
UNSAMPLED_SEED = 3


def test_any_seed_can_be_replayed() -> None:
    assert run_seed(UNSAMPLED_SEED).replayed is None
    ((result, _, _),) = run_many([UNSAMPLED_SEED], "", 1, replaying=True)
    assert (
        result.replayed is not None
        and result.replayed.terms > 0
        and result.replayed.writes > 5
        and not result.replayed.differences
    )


FORGETS_EVERY = 40


def _forgets(
    original: Callable[[Coordinator, Any], list[Any]], lives: list[int]
) -> Callable[[Coordinator, Any], list[Any]]:
    def step(self: Coordinator, event: Any) -> list[Any]:
        lives[0] += 1
        return original(self, event) if lives[0] % FORGETS_EVERY else []

    return step


def test_a_coordinator_that_remembers_other_lives_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    lives = [0]
    monkeypatch.setattr(Coordinator, "step", _forgets(Coordinator.step, lives))
    with replay.recording() as journals:
        World(0).run()
    # a run often ends with what it forgot: going on from there would forget the same ones again
    lives[0] = FORGETS_EVERY // 2
    found = replay.replayed(journals)
    assert found.differences and "Coordinator, line " in found.differences[0]


def test_a_recording_replays_in_another_process_whatever_the_hash_seed(tmp_path: Path) -> None:
    """Sets and mappings are made anew from text there: the core must not depend on their order."""
    with replay.recording() as journals:
        World(UNSAMPLED_SEED).run()
    terms = [
        term
        for journal in journals.values()
        if isinstance(journal.core, Coordinator)
        for term in replay.terms(journal)
    ]
    for number, term in enumerate(terms):
        assert isinstance(term.source, list)
        (tmp_path / f"inputs-{number}.jsonl").write_bytes(b"".join(term.source))
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        run = subprocess.run(
            [sys.executable, "-m", "zkcoord.cli.main", "replay", "-q", str(tmp_path)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert run.returncode == 0 and run.stdout.endswith(f"in {len(terms)} terms: identical\n"), (
            run.stdout + run.stderr
        )
