"""The demo's command line, and whole runs of it: clean, broken, interrupted, killed. Runs are real
ones, in their smallest form.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.demo.faults import each_fault
from tests.harness.tape import assert_replays
from tests.harness.wait import wait_until
from zkcoord.cli.main import main
from zkcoord.demo.processes import environment

RUN_TIMEOUT_S = 240.0
END_TIMEOUT_S = 60.0


def hear_ctrl_c() -> None:
    """A test run in the background of a shell ignores SIGINT, and its children would, too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(tmp_path: Path, *flags: str, **more: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "zkcoord.cli.main",
        "demo",
        "--tiny",
        "--dir",
        str(tmp_path / "demo"),
        "--reports",
        str(tmp_path / "reports"),
        *flags,
    ]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment(), **more},
        start_new_session=True,
        preexec_fn=hear_ctrl_c,
    )


def of_run(tmp_path: Path) -> list[psutil.Process]:
    """Processes that belong to the run: they name its folder or a server of it, or descend from
    it.
    """
    found = []
    for process in psutil.process_iter():
        try:
            if str(tmp_path / "demo") in " ".join(process.cmdline()) or process.environ().get(
                "ZKCOORD_TEST_RUN"
            ) == str(tmp_path):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def test_a_folder_that_is_not_empty_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_text("mine")
    assert main(["demo", "--dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("flags", [["--break", "everything"], ["--dire", "x"], ["--seed", "x"]])
def test_bad_options_are_refused_in_one_line(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", *flags]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and flags[0] in err


@pytest.mark.kafka
@pytest.mark.slow
def test_a_clean_run(tmp_path: Path) -> None:
    process = start(tmp_path, ZKCOORD_JOURNAL_INPUTS="on")
    output, errors = process.communicate(timeout=RUN_TIMEOUT_S)
    assert process.returncode == 0, output[-3000:] + errors
    inputs = [
        assert_replays(tmp_path / "demo" / "run" / "coordinators" / name)
        for name in ("coordinator-A", "coordinator-B")
    ]
    assert sum(inputs) > 10, "whoever led has recorded, and it replays to what it did"
    assert output.splitlines()[-1] == "VERDICT: clean" and errors == ""
    report = json.loads((tmp_path / "reports" / "demo.json").read_text())
    assert report["clean"] is True and report["records"]["produced"] > 1_000
    assert (tmp_path / "reports" / "demo-timeline.png").stat().st_size > 10_000
    wait_until(lambda: of_run(tmp_path) == [], END_TIMEOUT_S, "the end of all processes")


@pytest.mark.kafka
@pytest.mark.slow
@each_fault
def test_an_injected_fault_is_found_and_named(tmp_path: Path, fault: str, named: str) -> None:
    process = start(tmp_path, "--break", fault)
    output, errors = process.communicate(timeout=RUN_TIMEOUT_S)
    last = output.splitlines()[-1]
    assert process.returncode == 1 and last.startswith("VERDICT: not clean: ") and named in last, (
        output[-3000:] + errors
    )
    assert json.loads((tmp_path / "reports" / "demo.json").read_text())["clean"] is False


def await_group(process: subprocess.Popen[str]) -> None:
    """Until the group works."""
    assert process.stdout is not None
    for line in process.stdout:
        if "> a consumer joins" in line:
            return
    raise AssertionError("the run ended before the group had formed")


@pytest.mark.kafka
@pytest.mark.slow
def test_ctrl_c_says_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZKCOORD_TEST_RUN", str(tmp_path))
    process = start(tmp_path)
    await_group(process)
    assert len(of_run(tmp_path)) > 8
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=END_TIMEOUT_S)
    assert process.returncode == 130
    assert errors == "Interrupted: everything that was started is stopped.\n"
    wait_until(lambda: of_run(tmp_path) == [], END_TIMEOUT_S, "the end of all processes")


@pytest.mark.kafka
@pytest.mark.slow
def test_nothing_survives_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZKCOORD_TEST_RUN", str(tmp_path))
    process = start(tmp_path)
    await_group(process)
    process.kill()
    process.communicate(timeout=END_TIMEOUT_S)
    wait_until(lambda: of_run(tmp_path) == [], END_TIMEOUT_S, "the end of all processes")
