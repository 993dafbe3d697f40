"""One process: its identity, and that an owned one is gone when its owner is, however that
ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.wait import wait_until
from zkcoord.errors import ServerNotReadyError
from zkcoord.stack.process import ProcessId, ServerProcess, identify, last_line

LIMIT_S = 30.0
# An owner that starts a long sleep, tells its pid, and then waits.
OWNER = """
import sys, time
from pathlib import Path
from zkcoord.stack.process import ServerProcess
print(ServerProcess.start(["sleep", "600"], Path(sys.argv[1]), owned=True).id.pid, flush=True)
time.sleep(600)
"""


def start(folder: Path, command: list[str], owned: bool = True) -> ServerProcess:
    return ServerProcess.start(command, folder / "log", owned)


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in text.split()]


def test_a_pid_that_was_given_again_is_another_process() -> None:
    own = identify(os.getpid())
    assert own is not None and own.alive()
    assert not ProcessId(own.pid, own.started - 1).alive()
    assert identify(2**22 + 1) is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_owned_process_dies_with_its_owner(tmp_path: Path, number: int) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.DEVNULL,
    )
    assert owner.stdout is not None
    server = identify(int(owner.stdout.readline()))
    assert server is not None and server.alive()
    watcher = wait_until(lambda: children(server.pid), LIMIT_S, "the watcher")[0]
    watcher_id = identify(watcher)
    owner.send_signal(number)
    owner.wait(LIMIT_S)
    owner.stdout.close()
    wait_until(lambda: not server.alive(), LIMIT_S, "the server to be gone")
    wait_until(
        lambda: watcher_id is None or not watcher_id.alive(), LIMIT_S, "the watcher to be gone"
    )


def test_the_watcher_ends_with_the_server(tmp_path: Path) -> None:
    server = start(tmp_path, ["sleep", "600"])
    watcher = identify(wait_until(lambda: children(server.id.pid), LIMIT_S, "the watcher")[0])
    assert watcher is not None
    server.kill()
    wait_until(lambda: not watcher.alive(), LIMIT_S, "the watcher to be gone")


def test_stop_kills_what_does_not_listen(tmp_path: Path) -> None:
    server = start(
        tmp_path, ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"], owned=False
    )
    wait_until(
        lambda: "ready" in server.log.read_text(encoding="utf-8"), LIMIT_S, "the trap to be set"
    )
    server.stop(0.2)
    assert not server.alive()
    server.stop(0.2)


def test_a_paused_process_can_be_stopped(tmp_path: Path) -> None:
    server = start(tmp_path, ["sleep", "600"], owned=False)
    server.signal(signal.SIGSTOP)
    server.stop(LIMIT_S)
    assert not server.alive()


def test_one_that_ends_while_it_starts_is_quoted(tmp_path: Path) -> None:
    server = start(tmp_path, ["sh", "-c", "echo the port is taken; exit 3"])
    with pytest.raises(
        ServerNotReadyError,
        match=r"Thing ended while it was starting, see .*log: the port is taken",
    ):
        server.wait_ready(lambda: False, LIMIT_S, "Thing")


def test_one_that_is_never_ready_is_named(tmp_path: Path) -> None:
    server = start(tmp_path, ["sleep", "600"])
    with pytest.raises(ServerNotReadyError, match=r"Thing was not ready within 0 s"):
        server.wait_ready(lambda: False, 0.1, "Thing")
    server.kill()


def test_the_last_line_of_a_stack_trace_is_its_reason(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_line(log) == "it printed nothing"
    log.write_text("java.net.BindException: in use\n\tat a.b.C\n\tat d.e.F\n\n", encoding="utf-8")
    assert last_line(log) == "java.net.BindException: in use"
