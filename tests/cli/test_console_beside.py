"""`zkcoord coordinator --console`: pages from a process beside the coordinator."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.harness.wait import wait_until
from zkcoord.cli.console_beside import environment
from zkcoord.config.option_spec import Use
from zkcoord.config.sources import resolve

PATIENCE_S = 60.0


@pytest.fixture
def coordinator(zk_hosts: str, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process; what it says is in `said`."""
    flags = ["--zookeeper", zk_hosts, "--journal-dir", str(tmp_path / "journal")]
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"ann {'t' * 32}\n")
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(
            [
                sys.executable,
                *("-m", "zkcoord.cli.main", "coordinator", *flags),
                *("--console", "--console-listen", "127.0.0.1:0"),
                *("--console-actions-token-file", str(tokens)),
            ],
            stderr=said,
        )
    yield process
    if process.poll() is None:
        process.kill()
    process.wait()


def addresses(folder: Path) -> list[str]:
    """Of each console that was started, the oldest first."""
    text = (folder / "said").read_text()
    return re.findall(r"^zkcoord console: (http://\S+)", text, re.MULTILINE)


def answer(address: str) -> str:
    with urllib.request.urlopen(address + "coordinator", timeout=PATIENCE_S) as found:
        return str(found.read().decode())


def consoles(of: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return [child for child in of.children() if "console" in child.cmdline()]
    return []


def test_its_pages_tell_of_this_coordinator_and_end_with_it(
    coordinator: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    wait_until(lambda: addresses(tmp_path), PATIENCE_S, "a console")
    wait_until(
        lambda: "elected" in answer(addresses(tmp_path)[0]), PATIENCE_S, "its journal on a page"
    )
    assert "act?do=step-down" in answer(addresses(tmp_path)[0]), "its readers may act"
    process = psutil.Process(coordinator.pid)
    (first,) = consoles(process)
    first.kill()
    wait_until(lambda: len(addresses(tmp_path)) == 2, PATIENCE_S, "another console")
    assert "elected" in answer(addresses(tmp_path)[1])
    (second,) = consoles(process)
    os.kill(coordinator.pid, signal.SIGKILL)
    coordinator.wait()
    wait_until(lambda: not second.is_running(), PATIENCE_S, "the console's end")


def test_a_signal_ends_both(coordinator: subprocess.Popen[bytes], tmp_path: Path) -> None:
    wait_until(lambda: addresses(tmp_path), PATIENCE_S, "a console")
    (console,) = consoles(psutil.Process(coordinator.pid))
    coordinator.send_signal(signal.SIGTERM)
    assert coordinator.wait(PATIENCE_S) == 0
    assert not console.is_running()


def test_it_is_told_the_coordinators_options_where_nobody_else_reads_them() -> None:
    given = {"zookeeper": "h:1", "zookeeper_user": "u", "zookeeper_password": "p", "tls": False}
    settings = resolve(Use.COORDINATOR, given, {})
    found = environment(settings, {"PATH": "/bin", "ZKCOORD_LAYOUT": "isolated"})
    assert found["ZKCOORD_ZOOKEEPER_PASSWORD"] == "p" and found["ZKCOORD_TLS"] == "off"
    assert found["PATH"] == "/bin" and found["ZKCOORD_LAYOUT"] == "draft", "what counts there"
    assert "ZKCOORD_TLS_CA_FILE" not in found
