"""Commands for readers: as processes, with an end."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.harness.command import environment
from tests.harness.wait import wait_until
from zkcoord.console.acting import running
from zkcoord.console.acting.running import BusyError, CommandRunner

WAITS = ["groups", "list", "--zookeeper=10.255.255.1:1", "--connect-timeout-ms=0"]


@pytest.fixture
def runner(tmp_path: Path) -> CommandRunner:
    return CommandRunner(environment(tmp_path))


def test_what_it_says(runner: CommandRunner) -> None:
    found = runner.run(["groups", "delete", "--help"], "ann")
    assert found.is_done and found.text.startswith("usage: zkcoord groups delete")
    found = runner.run(["groups", "describe", "--", "--execute"], "ann")
    assert found.status == 2 and "zookeeper" in found.text


def test_a_lot_is_cut(runner: CommandRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "OUTPUT_BYTES_MAX", 100)
    text = runner.run(["groups", "delete", "--help"], "ann").text
    assert len(text) < 150 and text.endswith("bytes more)\n")


def test_one_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    found = CommandRunner(environment(tmp_path), seconds=1).run(WAITS, "ann")
    assert found.status is None and not found.is_done and "Traceback" not in found.text


def test_so_many_at_a_time_and_none_at_the_end(runner: CommandRunner) -> None:
    threads = [threading.Thread(target=runner.run, args=(WAITS, "ann")) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(runner._running) == 2, 60, "two commands")
    with pytest.raises(BusyError, match="try again"):
        runner.run(["--version"], "bob")
    runner.close()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    with pytest.raises(BusyError, match="ends"):
        runner.run(["--version"], "bob")


def test_the_command_knows_who_asked(
    runner: CommandRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from zkcoord.admin.common import BEHALF_CHARS_MAX, ON_BEHALF_OF, whoami

    monkeypatch.setenv(ON_BEHALF_OF, "ann" + "x" * 1_000 + "\x1b[0m")
    assert whoami().startswith("annxxx") and len(whoami()) < BEHALF_CHARS_MAX + 300
    assert " by " in whoami()
    monkeypatch.delenv(ON_BEHALF_OF)
    assert " by " not in whoami()
