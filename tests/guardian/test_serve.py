"""One guardian for several processes: sidecar and PID 1."""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.guardian.conftest import PATIENCE_S, ROOT, GuardedApp, Sidecar, alive
from tests.harness.proxy import Proxy
from tests.harness.wait import wait_until
from zkcoord.guardian import cli, handover, link, serve
from zkcoord.guardian.client import SOCKET_VARIABLE
from zkcoord.guardian.handover import Handover

Start = Callable[..., GuardedApp]
SESSION_MS = 60_000


@pytest.fixture
def start_sidecar() -> Iterator[Callable[..., Sidecar]]:
    sidecars: list[Sidecar] = []

    def start(*arguments: str) -> Sidecar:
        sidecars.append(Sidecar(*arguments))
        sidecars[-1].expect("Guarding processes")
        return sidecars[-1]

    yield start
    for sidecar in sidecars:
        sidecar.end()


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A socket path that is short enough."""
    return str(tmp_path_factory.mktemp("g") / "s")


def gone(observer: KazooClient, node: str) -> None:
    wait_until(lambda: observer.exists(node) is None, PATIENCE_S, f"the end of {node}")


def test_a_sidecar_guards_several_processes(
    start_sidecar: Callable[..., Sidecar], start_app: Start, observer: KazooClient, path: str
) -> None:
    sidecar = start_sidecar("serve", "--socket", path)
    first, second = (
        start_app(node=node, timeout_ms=SESSION_MS, socket=path) for node in ("/one", "/two")
    )
    assert first.ready["state"] == "Running"
    assert first.companion is None
    child = first.ask("fork", "forked")
    first.kill()
    gone(observer, "/one")
    said = sidecar.expect(f"Process {first.pid} is gone")
    # this where an attempt was not answered in time: the next one finds what it did
    assert "closed" in said or "expired" in said
    assert alive(child["pid"])
    assert observer.exists("/two") is not None
    sidecar.process.send_signal(signal.SIGTERM)
    assert second.ask("state", "ready")["state"] == "Running"
    assert sidecar.process.poll() is None  # goes on while somebody is guarded
    second.kill()
    gone(observer, "/two")
    assert sidecar.process.wait(PATIENCE_S) == 0
    assert not os.path.exists(path)


def test_a_sidecar_for_one_process_ends_with_it_and_refuses_others(
    start_app: Start, start_sidecar: Callable[..., Sidecar], observer: KazooClient, path: str
) -> None:
    app = start_app(node="/one", timeout_ms=SESSION_MS, socket=path)
    assert app.ready["state"] == "GuardianAway"
    sidecar = start_sidecar("--socket", path, "--pid", str(app.pid))
    wait_until(
        lambda: app.ask("state", "ready")["state"] == "Running",
        PATIENCE_S,
        "the connection to a guardian that came later",
    )
    other = start_app(node="/two", timeout_ms=SESSION_MS, socket=path)
    assert other.ready["state"] == "Off"
    assert str(app.pid) in other.ready["why"]
    app.kill()
    gone(observer, "/one")
    assert sidecar.process.wait(PATIENCE_S) == 0
    assert observer.exists("/two") is not None


def test_a_clean_close_leaves_the_sidecar_nothing_to_do(
    start_sidecar: Callable[..., Sidecar], start_app: Start, path: str
) -> None:
    sidecar = start_sidecar("--socket", path)
    app = start_app(timeout_ms=SESSION_MS, socket=path)
    app.ask("close", "closed")
    sidecar.process.send_signal(signal.SIGTERM)
    assert sidecar.process.wait(PATIENCE_S) == 0
    assert sidecar.process.stderr is not None
    assert "is gone" not in sidecar.process.stderr.read()


def test_a_process_finds_a_restarted_sidecar(
    start_sidecar: Callable[..., Sidecar], start_app: Start, observer: KazooClient, path: str
) -> None:
    first = start_sidecar("--socket", path)
    app = start_app(timeout_ms=SESSION_MS, socket=path)
    first.process.kill()
    assert "started again" in app.expect("log")["line"]
    start_sidecar("--socket", path)  # takes the dead one's socket over
    wait_until(
        lambda: app.ask("state", "ready")["state"] == "Running", PATIENCE_S, "the second sidecar"
    )
    app.kill()
    gone(observer, "/member")


def test_a_sidecar_that_is_interrupted_closes_nothing(
    start_sidecar: Callable[..., Sidecar], start_app: Start, observer: KazooClient, path: str
) -> None:
    sidecar = start_sidecar("--socket", path)
    start_app(timeout_ms=SESSION_MS, socket=path)
    sidecar.process.send_signal(signal.SIGINT)
    assert sidecar.process.wait(PATIENCE_S) == cli.INTERRUPTED_STATUS
    assert observer.exists("/member") is not None


def test_nothing_but_a_dead_guardians_socket_is_ever_removed(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("precious")
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "folder").mkdir()
    for name in ("file", "link", "folder"):
        assert isinstance(refused := serve.listen(str(tmp_path / name)), serve.CannotListen)
        assert "is no socket" in refused.sentence
    assert file.read_text() == "precious"
    assert (tmp_path / "link").is_symlink()
    stream = socket.socket(socket.AF_UNIX)
    stream.bind(str(tmp_path / "stream"))
    stream.listen()
    assert isinstance(serve.listen(str(tmp_path / "stream")), serve.CannotListen)
    stream.close()
    living = serve.listen(str(tmp_path / "living"))
    assert isinstance(living, socket.socket)
    assert (tmp_path / "living").stat().st_mode & 0o777 == 0o600
    assert isinstance(refused := serve.listen(str(tmp_path / "living")), serve.CannotListen)
    assert "Another guardian" in refused.sentence
    living.close()
    again = serve.listen(str(tmp_path / "living"))
    assert isinstance(again, socket.socket)
    again.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--socket PATH"),
        (["--pid", "1"], "--socket PATH"),
        (["--pid", "1", "--", "true"], "not both"),
        (["--socket", "/nowhere/at/all"], "folder"),
        (["--socket", "x" * 200], "shorter"),
        (["--socket", "unused", "--pid", "99999999"], "99999999"),
        (["--socket", "unused", "--pid", "-1"], "-1"),
        (["--pid", "x"], "--help"),
    ],
)
def test_bad_use_is_one_sentence(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = cli.main(arguments)
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_a_process_that_is_younger_than_the_connection_is_not_taken_for_the_peer() -> None:
    ticks = time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")
    child = subprocess.Popen(["sleep", "60"])
    try:
        pidfd = serve.pidfd_of_older(child.pid, ticks + 100 * 3600)
        assert isinstance(pidfd, int)
        os.close(pidfd)
        assert isinstance(serve.pidfd_of_older(child.pid, ticks - 100 * 10), serve.RefusedPeer)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        # a zombie still has its number
        assert isinstance(serve.pidfd_of_older(child.pid, ticks + 100 * 3600), serve.RefusedPeer)
    finally:
        child.kill()
        child.wait()
    assert isinstance(serve.pidfd_of_older(child.pid, ticks + 100 * 3600), serve.RefusedPeer)


def test_where_the_kernel_cannot_say_who_connected(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(serve, "SO_PEERPIDFD", 9999)
    listener = serve.listen(path)
    assert isinstance(listener, socket.socket)
    server = serve.GuardServer(listener, lambda _: None)
    thread = threading.Thread(target=server.run)
    thread.start()
    opened = link.open_socket(path)
    assert isinstance(opened, link.SocketLink)
    assert opened.send(handover.encode_watch(1, Handover(1, b"p" * 16, 1000, [("h", 1)])))
    server.finish()
    thread.join(PATIENCE_S)
    opened.forked()
    listener.close()


def test_messages_of_a_hostile_peer(
    path: str, start_sidecar: Callable[..., Sidecar], start_app: Start, observer: KazooClient
) -> None:
    start_sidecar("--socket", path)
    hostile = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    hostile.connect(path)
    assert hostile.recv(100) == link.WELCOME
    for message in (b"\xff" * 4000, b"watch key=1\n", b"watch" * 700, b"\n" * 4000):
        hostile.send(message)
    app = start_app(timeout_ms=SESSION_MS, socket=path)
    hostile.close()
    app.kill()
    gone(observer, "/member")


def run_guard(*command: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "zkcoord.guardian", "--", *command],
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        **options,
    )


def test_the_status_is_the_commands() -> None:
    assert run_guard("sh", "-c", "echo out; echo err >&2; exit 7").returncode == 7
    assert run_guard("sh", "-c", "kill -9 $$").returncode == 128 + 9
    assert run_guard("true").returncode == 0
    missing = run_guard("there-is-no-such-program")
    assert (missing.returncode, len(missing.stderr.splitlines())) == (127, 1)
    assert run_guard("/").returncode == 126


def test_the_command_gets_its_arguments_its_streams_and_an_address() -> None:
    done = run_guard(
        "sh", "-c", f'cat; echo "$1 ${SOCKET_VARIABLE}"', "sh", "--pid", input="from outside\n"
    )
    assert done.stdout.startswith("from outside\n--pid @zkcoord-guard-")


def test_signals_are_forwarded_and_orphans_reaped() -> None:
    script = (
        "trap 'echo term; exit 3' TERM; (sleep 0.01 &); echo ready; while :; do sleep 0.05; done"
    )
    front = subprocess.Popen(
        [sys.executable, "-m", "zkcoord.guardian", "--", "sh", "-c", script],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    assert front.stdout is not None
    with front.stdout:
        assert front.stdout.readline() == "ready\n"
        os.kill(front.pid, signal.SIGTERM)
        assert front.stdout.readline() == "term\n"
    assert front.wait(PATIENCE_S) == 3


def test_an_interrupt_from_the_terminal_reaches_the_command_once() -> None:
    script = (
        "import signal, sys, time\n"
        "def hit(*_): print('hit', flush=True)\n"
        "def end(*_): print('end', flush=True); sys.exit(6)\n"
        "signal.signal(signal.SIGINT, hit); signal.signal(signal.SIGTERM, end)\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(60)\n"
    )
    try:
        ours, theirs = os.openpty()
    except OSError as error:
        pytest.skip(f"this machine gives no terminal ({error}): mount devpts")
    front = subprocess.Popen(
        [sys.executable, "-m", "zkcoord.guardian", "--", sys.executable, "-c", script],
        cwd=ROOT,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    with open(ours, "r+b", buffering=0) as terminal:
        lines = (line.strip() for line in iter(terminal.readline, b""))
        assert next(lines) == b"ready"
        terminal.write(b"\x03")
        assert next(lines).endswith(b"hit")  # behind the echo of ^C
        os.kill(front.pid, signal.SIGTERM)
        assert next(lines) == b"end"  # and no second hit before
    assert front.wait(PATIENCE_S) == 6


def test_a_child_that_dies_loses_its_session_before_the_front_ends(
    zk_hosts: str, observer: KazooClient
) -> None:
    front = (sys.executable, "-m", "zkcoord.guardian", "--")
    app = GuardedApp(zk_hosts, front, node="/member", timeout_ms=SESSION_MS)
    try:
        assert (app.ready["state"], app.companion) == ("Running", None)
        assert app.pid != app.process.pid
        app.kill()
        assert app.process.wait(PATIENCE_S) == 128 + 9
        assert observer.exists("/member") is None
    finally:
        app.clean_up()


def test_the_front_does_not_end_before_the_session_is_closed(
    zk_hosts: str, observer: KazooClient, zk_proxy: Proxy
) -> None:
    host, _, port = zk_proxy.address.rpartition(":")
    front = (sys.executable, "-m", "zkcoord.guardian", "--")
    app = GuardedApp(
        zk_hosts, front, node="/member", timeout_ms=SESSION_MS, servers=[[host, int(port)]]
    )
    try:
        zk_proxy.black_hole()
        app.kill()
        wait_until(lambda: zk_proxy.links(), PATIENCE_S, "an attempt")
        assert app.process.poll() is None
        zk_proxy.heal()
        assert app.process.wait(PATIENCE_S) == 128 + 9
        assert observer.exists("/member") is None
    finally:
        app.clean_up()


def test_when_the_front_is_killed_the_child_gets_a_companion_of_its_own(
    zk_hosts: str, observer: KazooClient
) -> None:
    front = (sys.executable, "-m", "zkcoord.guardian", "--")
    app = GuardedApp(zk_hosts, front, node="/member", timeout_ms=SESSION_MS)
    try:
        app.process.kill()
        ready = wait_until(
            lambda: (
                (ready := app.ask("state", "ready"))["companion"]
                and ready["state"] == "Running"
                and ready
            ),
            PATIENCE_S,
            "a companion",
        )
        app.kill()
        gone(observer, "/member")
        wait_until(lambda: not alive(ready["companion"]), PATIENCE_S, "the companion's end")
    finally:
        app.clean_up()


def test_the_command_is_offered_to_zkcoords_parser() -> None:
    parser = argparse.ArgumentParser()
    cli.add_parser(parser.add_subparsers())
    args = parser.parse_args(["guard", "--", "sh", "-c", "exit 4"])
    assert args.run is cli.run
    assert args.command == ["--", "sh", "-c", "exit 4"] or args.command == ["sh", "-c", "exit 4"]
