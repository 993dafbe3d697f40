"""The demo on Spark: whole runs, clean and broken, with real servers and real JVMs; and the
example's own words.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.demo.faults import each_fault
from tests.harness.wait import wait_until
from zkcoord.demo.processes import environment
from zkcoord.demo.spark.application import PIPELINE
from zkcoord.demo.spark.command import main

RUN_TIMEOUT_S = 3_000.0
END_TIMEOUT_S = 60.0
HELP_TIMEOUT_S = 120.0


def run(tmp_path: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """One run, after which nothing of it is left."""
    command = [
        sys.executable,
        "-m",
        "zkcoord.demo.spark",
        "--dir",
        str(tmp_path / "demo"),
        "--reports",
        str(tmp_path / "reports"),
        *flags,
    ]
    answer = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
        env={**environment(), "ZKCOORD_TEST_RUN": str(tmp_path)},
    )
    wait_until(lambda: not left(tmp_path), END_TIMEOUT_S, "the end of all processes")
    return answer


def left(tmp_path: Path) -> list[int]:
    """Processes that name the run's folder."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if str(tmp_path / "demo") in " ".join(process.info["cmdline"] or [])
    ]


@pytest.mark.nightly
def test_a_run_with_every_step_is_clean(tmp_path: Path) -> None:
    answer = run(tmp_path, "--fast")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.splitlines()[-1] == "VERDICT: clean"
    report = json.loads((tmp_path / "reports" / "demo-spark.json").read_text())
    assert report["clean"] and len(report["consumers"]) >= 3
    expected = sum(partition["expected"] for partition in report["partitions"].values())
    assert (
        expected > 0
        and sum(partition["found"] for partition in report["partitions"].values()) == expected
    )


@pytest.mark.nightly
@each_fault
def test_a_broken_run_is_found_out(tmp_path: Path, fault: str, named: str) -> None:
    answer = run(tmp_path, "--tiny", "--break", fault)
    assert answer.returncode == 1, answer.stdout + answer.stderr
    last = answer.stdout.splitlines()[-1]
    assert last.startswith("VERDICT: not clean") and named in last


def test_what_cannot_be_used_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "something").touch()
    assert main(["--dir", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["--break", "nothing"])
    assert ended.value.code == 2 and capsys.readouterr().err.count("\n") == 1


def test_the_example_says_what_it_takes() -> None:
    answer = subprocess.run(
        [sys.executable, str(PIPELINE), "ingest", "--help"],
        capture_output=True,
        text=True,
        timeout=HELP_TIMEOUT_S,
        check=True,
        env=dict(environment()),
    )
    assert all(
        f"--{name}" in answer.stdout
        for name in ("zookeeper", "group", "topic", "orders", "checkpoint", "journal")
    )
