"""Whole runs on real servers and processes: short schedules, and one death at each named step, of
which a few are no nightly ones. `make chaos` has many of each.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.newer import NEXT_VERSION
from tests.chaos.rig import Shape
from tests.chaos.run import BOUND_MS, play
from tests.chaos.schedule import DISKS, SERVERS_CLOCKS, Kind
from tests.chaos.steps import DEPOSED, SCENARIOS, ZOMBIES, play_steps
from tests.chaos.stopping import BETWEEN
from tests.chaos.upgrade import COORDINATORS_FIRST, ORDERS, play_upgrade
from zkcoord.demo.processes import environment
from zkcoord.stack.java import Java

SEED = 0
WEAK_SEED = 0
DISKS_SEED = 5
SMALL = Shape(members=2, partitions=4, rate=100)
OFTEN = (BETWEEN, DEPOSED)
STEPS = [
    name if name in OFTEN else pytest.param(name, marks=pytest.mark.nightly) for name in SCENARIOS
]


def test_a_schedule_of_faults_breaks_nothing(tmp_path: Path, java: Java) -> None:
    outcome = play(SEED, 30, tmp_path, java, print)
    assert outcome.found.clean, (outcome.text, outcome.found.examples)
    assert outcome.faults and 0 < outcome.recovered_ms <= BOUND_MS


@pytest.mark.nightly
def test_a_fresh_schedule_of_faults_breaks_nothing(tmp_path: Path, java: Java) -> None:
    outcome = play(random.randrange(10**6), 30, tmp_path, java, print)
    assert outcome.found.clean, (outcome.text, outcome.found.examples)
    assert outcome.faults and 0 < outcome.recovered_ms <= BOUND_MS


@pytest.mark.nightly
def test_full_disks_and_clocks_of_servers_that_jump_break_nothing(tmp_path: Path) -> None:
    """By the command line: only there a process has mounts of its own."""
    kinds = [f"--kind={kind.name}" for kind in (*DISKS, *SERVERS_CLOCKS, Kind.COORDINATOR_KILLED)]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.chaos",
            "--seed",
            str(DISKS_SEED),
            "--seconds",
            "40",
            "--keep",
            str(tmp_path),
            *kinds,
        ],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    said = "".join(
        path.read_text(encoding="utf-8", errors="replace") for path in tmp_path.rglob("*.log")
    )
    assert "No space left on device" in said or "LEFT OUT" in done.stdout


@pytest.mark.parametrize("name", STEPS)
def test_a_coordinator_that_dies_at_a_step_takes_nothing_with_it(
    tmp_path: Path, java: Java, name: str
) -> None:
    seen = play_steps(name, 1, tmp_path, java, print)
    assert seen.found.clean, seen.found.examples
    assert seen.deaths == 1 and seen.commands_to_quiet == [0]
    assert name not in ZOMBIES or (seen.late and not seen.late.get("OK"))
    assert name != DEPOSED or seen.late["FENCED"]


@pytest.mark.nightly
@pytest.mark.parametrize("order", ORDERS)
def test_a_rolling_upgrade_loses_nothing(tmp_path: Path, java: Java, order: str) -> None:
    """Either kind of process may be the newer one, and a group of both is served."""
    upgraded = play_upgrade(order, tmp_path, java, print, SMALL)
    assert upgraded.found.clean, upgraded.found.examples
    old, new, count = NEXT_VERSION - 1, NEXT_VERSION, 2 * SMALL.members
    first_done = (new, (old,) * count) if order == COORDINATORS_FIRST else (old, (new,) * count)
    assert first_done in upgraded.versions and upgraded.versions[-1] == (
        new,
        (new,) * count,
    ), upgraded.versions
    assert any(set(registered) == {old, new} for _, registered in upgraded.versions)


@pytest.mark.nightly
def test_members_without_a_lease_are_found(tmp_path: Path, java: Java) -> None:
    outcome = play(
        WEAK_SEED,
        25,
        tmp_path,
        java,
        print,
        weakened="no_lease",
        kinds=(Kind.CONSUMER_UNREACHED, Kind.CONSUMER_STOPPED_LONG),
    )
    assert outcome.found.amounts["I3"], outcome.text
