"""Children that are started, followed and ended, with real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.harness.wait import wait_until
from zkcoord.demo import processes
from zkcoord.demo.processes import DemoProcesses, Line, environment, parsed, signal_name
from zkcoord.errors import ChildEndedError, ConditionTimeoutError

PATIENCE_S = 60.0


class Stage:
    """Children, and the lines they told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told: list[tuple[str, str]] = []
        self.children = DemoProcesses(self._line)

    def _line(self, name: str, line: Line) -> None:
        self.told.append((name, line["event"]))

    def start(self, name: str, what: str) -> processes.DemoProcess:
        return self.children.start(
            name,
            ["tests.demo.talker", what],
            self.folder / f"{name}.jsonl",
            self.folder / f"{name}.log",
        )

    def await_hello(self, name: str) -> None:
        self.children.wait_for(
            lambda: (name, "hello") in self.told, PATIENCE_S, f"{name}'s first line"
        )


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    found = Stage(tmp_path)
    yield found
    found.children.close()


def test_lines_are_followed_and_what_is_no_line_is_left_out(stage: Stage) -> None:
    stage.start("a", "stay")
    stage.start("b", "stay")
    stage.await_hello("a")
    stage.await_hello("b")
    assert sorted(stage.told) == [("a", "hello"), ("b", "hello")]
    assert (
        parsed(b"this is not JSON") is None
        and parsed(b"[1]") is None
        and parsed(b'{"a":1}') == {"a": 1}
    )


def test_a_child_that_ends_by_itself_is_told_with_its_last_words(stage: Stage) -> None:
    stage.start("a", "fail")
    with pytest.raises(ChildEndedError, match="a ended by itself with status 3: something broke"):
        stage.children.wait_for(lambda: False, PATIENCE_S, "nothing")


def test_a_condition_that_never_comes_is_named(stage: Stage) -> None:
    stage.start("a", "stay")
    with pytest.raises(ConditionTimeoutError, match="waited 0 s in vain for rain"):
        stage.children.wait_for(lambda: False, 0.05, "rain")


def test_kill_and_terminate(stage: Stage) -> None:
    killed, asked = stage.start("a", "stay"), stage.start("b", "stay")
    stage.await_hello("a")
    stage.await_hello("b")
    before_ns = time.time_ns()
    killed_ns = stage.children.kill(killed)
    assert (
        before_ns <= killed_ns == stage.children.last_sign_ns(killed)
        and killed.process.returncode == -signal.SIGKILL
    )
    stage.children.terminate(asked)
    assert stage.children.wait_gone(asked) == 0
    stage.children.check()
    assert signal_name(-9) == "killed by SIGKILL" and signal_name(3) == "exit status 3"


def test_a_child_that_wrote_after_the_kill_was_alive_then(stage: Stage) -> None:
    child = stage.start("a", "stay")
    stage.await_hello("a")
    stage.children.kill(child)
    with child.lines.open("a") as file:
        file.write(f'{{"event":"late","t":{(child.killed_ns or 0) + 5}}}\n')
    assert stage.children.last_sign_ns(child) == (child.killed_ns or 0) + 5


def test_close_ends_also_a_deaf_child(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "TERM_TIMEOUT_S", 0.2)
    child = stage.start("a", "deaf")
    stage.await_hello("a")
    stage.children.close()
    assert not child.alive
    stage.children.close()


def test_a_folder_is_followed_with_files_that_come_later(stage: Stage) -> None:
    folder = stage.folder / "journal"
    stage.children.follow_folder("k", folder)
    folder.mkdir()
    (folder / "1.jsonl").write_text('{"event":"one","t":1}\n{"event":"half"')
    stage.children.wait_for(lambda: ("k", "one") in stage.told, PATIENCE_S, "the first file")
    with (folder / "1.jsonl").open("a") as file:
        file.write(',"t":2}\n')
    (folder / "2.jsonl").write_text('{"event":"two","t":1}\n')
    stage.children.wait_for(lambda: len(stage.told) == 3, PATIENCE_S, "the rest")
    assert sorted(event for _, event in stage.told) == ["half", "one", "two"]


def test_a_sink_that_fails_ends_the_waiting(tmp_path: Path) -> None:
    def fail(name: str, line: Line) -> None:
        raise KeyError(name)

    children = DemoProcesses(fail)
    try:
        children.start("a", ["tests.demo.talker", "stay"], tmp_path / "a.jsonl", tmp_path / "a.log")
        with pytest.raises(processes.ScenarioError, match="KeyError"):
            children.wait_for(lambda: False, PATIENCE_S, "nothing")
    finally:
        children.close()


def test_children_die_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from zkcoord.demo.processes import"
        " DemoProcesses\nfolder = Path(sys.argv[1]); c = DemoProcesses(lambda n, l: None)\nchild ="
        " c.start('a', ['tests.demo.talker', 'deaf'], folder / 'a.jsonl', folder /"
        " 'a.log')\nprint(child.pid, flush=True); time.sleep(600)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, env=environment()
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    wait_until(
        lambda: (tmp_path / "a.jsonl").exists() and "hello" in (tmp_path / "a.jsonl").read_text(),
        PATIENCE_S,
        "the child's first line",
    )
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: ended(child), PATIENCE_S, "the end of the child")


def ended(process: psutil.Process) -> bool:
    """Gone, or waiting to be reaped."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it went in between
        return True
