"""The production drivers keep their promises in simulated worlds: 200 seeds, and every seed that ever found something."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim import coverage
from tests.sim.__main__ import SEEDS_FILE
from tests.sim.runner import Totals, run_many, run_seed, work
from tests.sim.world import Plan, World

SEEDS = 200
SEEDS_PER_TEST = 25
ROOT = Path(__file__).parents[2]


def _kept_seeds() -> list[int]:
    return [int(line.split()[0]) for line in SEEDS_FILE.read_text().splitlines() if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("start", range(0, SEEDS, SEEDS_PER_TEST))
def test_seeds(start: int) -> None:
    for seed in range(start, start + SEEDS_PER_TEST):
        result = run_seed(seed)
        assert not result.violations, f"seed {seed}: {result.violations[0]} (python -m tests.sim --trace {seed})"


@pytest.mark.parametrize("seed", _kept_seeds())
def test_kept_seeds(seed: int) -> None:
    result = run_seed(seed)
    assert not result.violations, f"seed {seed}: {result.violations[0]}"


def test_a_quiet_world_settles_with_few_commands() -> None:
    """No faults: every member gets its share, the checkers are silent, and a coordinator's death costs nothing."""
    result = World(1, plan=Plan(coordinators=2, consumers=3, topics=1, partitions_max=6, safety_ms=6_000)).run()
    assert not result.violations and not result.evictions
    assert 0 < result.commands <= 12


def test_a_seed_is_the_same_run_whatever_the_hash_seed() -> None:
    digests = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        run = subprocess.run([sys.executable, "-m", "tests.sim", "--digest", "--seeds", "4", "--start", "7"], cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=300)
        digests.append(run.stdout)
    assert digests[0] == digests[1] and len(digests[0].splitlines()) == 4


def test_workers_and_totals() -> None:
    totals = Totals()
    for result, took_ms, covered in run_many([3, 4], "", 2):
        totals.add(result, took_ms, covered)
    assert totals.seeds == 2 and totals.commands > 0 and sum(totals.faults.values()) > 0
    assert any(row.startswith("group:") for row in totals.covered) and any(row.startswith("agent:") for row in totals.covered)


def test_every_covered_row_is_a_row_of_a_table() -> None:
    _, _, covered = work((5, ""))
    rows = {row for table in coverage.tables().values() for row in table}
    assert covered and set(covered) <= rows
