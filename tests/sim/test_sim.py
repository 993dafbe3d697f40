"""The production drivers keep their promises in simulated worlds: some seeds of every mix, and
every seed that ever found something.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim import coverage
from tests.sim.__main__ import SEEDS_FILE
from tests.sim.mixes import DEFAULT, MIXES
from tests.sim.plan import Plan
from tests.sim.runner import FLOORED_SEEDS_MIN, Totals, run_many, run_seed, work
from tests.sim.world import World

SEEDS = 40
DEFAULT_SEEDS = 80
SEEDS_PER_TEST = 20
ROOT = Path(__file__).parents[2]


def kept_seeds() -> list[tuple[str, int]]:
    """(mix, seed) of every line of seeds.txt; a line without a mix is of the default one."""
    words = [
        line.split()
        for line in SEEDS_FILE.read_text().splitlines()
        if line.strip() and not line.startswith("#")
    ]
    return [(DEFAULT, int(w[0])) if w[0].isdigit() else (w[0], int(w[1])) for w in words]


def _slices() -> list[tuple[str, int]]:
    return [
        (mix, start)
        for mix in MIXES
        for start in range(
            0,
            DEFAULT_SEEDS if mix == DEFAULT else SEEDS // 4 if mix == "wide" else SEEDS,
            SEEDS_PER_TEST,
        )
    ]


@pytest.mark.parametrize(("mix", "start"), _slices())
def test_seeds(mix: str, start: int) -> None:
    for seed in range(start, start + (SEEDS // 4 if mix == "wide" else SEEDS_PER_TEST)):
        result = run_seed(seed, mix=mix)
        assert not result.violations, (
            f"{mix} {seed}: {result.violations[0]} (python -m tests.sim --mix {mix} --trace {seed})"
        )


@pytest.mark.parametrize(("mix", "seed"), kept_seeds())
def test_kept_seeds(mix: str, seed: int) -> None:
    result = run_seed(seed, mix=mix)
    assert not result.violations, f"{mix} {seed}: {result.violations[0]}"


def test_a_run_that_misses_a_floor_says_which() -> None:
    totals = Totals("storm", seeds=FLOORED_SEEDS_MIN - 1)
    assert not totals.missed(), "too few seeds to say"
    totals.seeds = FLOORED_SEEDS_MIN
    assert any(line.startswith("burst: 0, at least") for line in totals.missed())
    totals.faults.update(dict.fromkeys(MIXES["storm"].faults, 10**6))
    totals.happened.update(dict.fromkeys(MIXES["storm"].floors, 10**6))
    totals.covered.update(row for rows in coverage.tables().values() for row in rows)
    totals.commands = totals.evictions = 10**6
    assert not totals.missed()


def test_a_quiet_world_settles_with_few_commands() -> None:
    """No faults: every member gets its share, the checkers are silent, and a coordinator's death
    costs nothing.
    """
    result = World(
        1, plan=Plan(coordinators=2, consumers=3, topics=1, partitions_max=6, safety_ms=6_000)
    ).run()
    assert not result.violations and not result.evictions
    assert 0 < result.commands <= 12


@pytest.mark.parametrize(
    ("mix", "start", "seeds"), [("default", 7, 4), ("wire", 9, 1), ("led", 7, 2), ("moments", 1, 1)]
)
def test_a_seed_is_the_same_run_whatever_the_hash_seed(mix: str, start: int, seeds: int) -> None:
    """Seed 9 of wire files a burdened group in portions, which are the same ones each time. In seed
    1 of moments one member goes and another comes in one reading.
    """
    asked = ["--mix", mix, "--seeds", str(seeds), "--start", str(start)]
    digests = []
    for hash_seed in ("1", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        run = subprocess.run(
            [sys.executable, "-m", "tests.sim", "--digest", *asked],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        digests.append(run.stdout)
    assert digests[0] == digests[1] and len(digests[0].splitlines()) == seeds


def test_workers_and_totals() -> None:
    totals = Totals()
    for result, took_ms, covered in run_many([3, 4], "", 2):
        totals.add(result, took_ms, covered)
    assert totals.seeds == 2 and totals.commands > 0 and sum(totals.faults.values()) > 0
    assert any(row.startswith("group:") for row in totals.covered) and any(
        row.startswith("member:") for row in totals.covered
    )


def test_every_covered_row_is_a_row_of_a_table() -> None:
    _, _, covered = work(("default", 5, "", False))
    rows = {row for table in coverage.tables().values() for row in table}
    assert covered and set(covered) <= rows
