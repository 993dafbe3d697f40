"""Whom a guardian serves, and which files it opens: those of its own configuration, whatever the
processes say that connect to it. Companions are another matter: they are started by the process
that they guard, with its rights.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.guardian.conftest import PATIENCE_S, ROOT, GuardedApp, Sidecar, closed, reported
from tests.guardian.test_tls import CERTIFICATE, KEY, TlsFront
from tests.harness.wait import wait_until
from zkcoord.guardian import cli, companion, handover, link, serve
from zkcoord.guardian.handover import Handover, TlsOptions
from zkcoord.stack.servers import ZooKeeperServer

Start = Callable[..., GuardedApp]
SESSION_MS = 60_000
STRANGER = 65_534
FRONT = (sys.executable, "-m", "zkcoord.guardian")
ASKS = (
    "import sys; from zkcoord.guardian import link; found = link.open_socket(sys.argv[1]);"
    " print(type(found).__name__, getattr(found, 'detail', ''))"
)


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A socket path that is short enough."""
    return str(tmp_path_factory.mktemp("g") / "s")


@pytest.fixture
def served(path: str) -> Iterator[Callable[..., list[str]]]:
    """Serve at the path with a policy; what the guardian says."""
    ends: list[Callable[[], None]] = []

    def start(policy: serve.GuardPolicy | None = None) -> list[str]:
        listener = serve.listen(path)
        assert isinstance(listener, socket.socket)
        said: list[str] = []
        server = serve.GuardServer(listener, said.append, policy=policy)
        thread = threading.Thread(target=server.run)
        thread.start()
        ends.extend((server.finish, lambda: thread.join(PATIENCE_S), listener.close))
        return said

    yield start
    for end in ends:
        end()


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


def test_only_named_users_are_served(served: Callable[..., list[str]], path: str) -> None:
    """Root is no exception: neither who connects as root, nor a guardian that is."""
    said = served(serve.GuardPolicy(uids=frozenset({os.geteuid() + 1})))
    refused = link.open_socket(path)
    assert isinstance(refused, link.OpenFailure) and not refused.retriable
    assert f"it runs as user {os.geteuid()}" in refused.detail and "--uid" in refused.detail
    assert len(said) == 1


def test_its_own_user_is_served_where_none_is_named(
    served: Callable[..., list[str]], path: str
) -> None:
    assert serve.GuardPolicy().uids == {os.geteuid()}
    served()
    opened = link.open_socket(path)
    assert isinstance(opened, link.SocketLink)
    opened.forked()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a process as somebody else")
@pytest.mark.parametrize(
    ("options", "answer"), [((), "OpenFailure"), (("--uid", "65534"), "Socket")]
)
@pytest.mark.parametrize("as_pid_1", [False, True])
def test_a_guardian_that_is_root_serves_no_stranger(
    start_sidecar: Callable[..., Sidecar], options: tuple[str, ...], answer: str, as_pid_1: bool
) -> None:
    """The sidecar at an abstract address, and in front of a command that gave up its rights."""
    name = f"@zkcoord-test-{os.getpid()}-{as_pid_1}-{len(options)}"
    if not as_pid_1:
        start_sidecar("--socket", name, *options)
    ask = [sys.executable, "-c", ASKS, name]
    drop = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    command = [*FRONT, "--socket", name, *options, "--", *drop] if as_pid_1 else drop
    done = subprocess.run(
        [*command, *ask],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    if "Permission" in done.stderr and "link" not in done.stdout:
        pytest.skip("that user cannot read this checkout")
    assert done.stdout.startswith(answer), done


def test_who_may_connect_to_the_socket(tmp_path: Path) -> None:
    """Its mode lets nobody else in, unless others are served."""
    assert not serve.GuardPolicy().has_others
    assert serve.GuardPolicy(uids=frozenset({STRANGER})).has_others
    for mode in (serve.SOCKET_MODE, serve.SOCKET_MODE_OTHERS):
        listener = serve.listen(str(tmp_path / str(mode)), mode)
        assert isinstance(listener, socket.socket)
        assert (tmp_path / str(mode)).stat().st_mode & 0o777 == mode
        listener.close()


def test_a_clients_report_is_not_written(
    start_sidecar: Callable[..., Sidecar],
    start_app: Start,
    observer: KazooClient,
    path: str,
    tmp_path: Path,
) -> None:
    own, theirs = tmp_path / "own.jsonl", tmp_path / "theirs.jsonl"
    sidecar = start_sidecar("--socket", path, "--report", str(own))
    app = start_app(timeout_ms=SESSION_MS, socket=path, report=str(theirs))
    app.kill()
    wait_until(lambda: observer.exists("/member") is None, PATIENCE_S, "the end of /member")
    (line,) = wait_until(lambda: reported(own), PATIENCE_S, "the guardian's own report")
    assert closed(line) and not theirs.exists()
    sidecar.process.send_signal(signal.SIGTERM)
    assert sidecar.process.wait(PATIENCE_S) == 0


def test_as_the_first_process_it_writes_no_clients_report(
    zk_hosts: str, observer: KazooClient, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs.jsonl"
    app = GuardedApp(
        zk_hosts, (*FRONT, "--"), node="/member", timeout_ms=SESSION_MS, report=str(theirs)
    )
    try:
        app.kill()
        assert app.process.wait(PATIENCE_S) == 128 + 9
        assert observer.exists("/member") is None and not theirs.exists()
    finally:
        app.clean_up()


@pytest.mark.parametrize("named", ["ca_file", "cert_file", "key_file"])
def test_a_clients_tls_files_are_not_opened(
    served: Callable[..., list[str]], path: str, tmp_path: Path, named: str
) -> None:
    """Not even looked at; and the client is told, because its session is not guarded."""
    secret = tmp_path / "secret.pem"
    os.mkfifo(secret)  # whoever opened it would stand still
    said = served()
    opened = link.open_socket(path)
    assert isinstance(opened, link.SocketLink)
    tls = TlsOptions(**{named: str(secret)})
    watch = handover.encode_watch(1, Handover(1, b"p" * 16, 1000, [("h", 1)], tls))
    assert opened.send(watch)
    gone = opened.wait_gone()
    assert isinstance(gone, link.OpenFailure) and not gone.retriable
    assert "--tls-file" in gone.detail and "names the TLS file" in gone.detail
    assert len(said) == 1 and "is not guarded" in said[0]


def test_a_refused_process_is_told_once_and_goes_on_without(
    start_sidecar: Callable[..., Sidecar], start_app: Start, path: str
) -> None:
    start_sidecar("--socket", path)
    app = start_app(timeout_ms=SESSION_MS, socket=path, tls={"ca_file": CERTIFICATE})
    ready = wait_until(
        lambda: (ready := app.ask("state", "ready"))["state"] == "Off" and ready,
        PATIENCE_S,
        "the refusal",
    )
    assert ready["why"].startswith("The guardian is off") and "--tls-file" in ready["why"]


def test_tls_files_of_its_own_are_opened(
    zk_server: ZooKeeperServer,
    start_sidecar: Callable[..., Sidecar],
    start_app: Start,
    observer: KazooClient,
    path: str,
) -> None:
    front = TlsFront(zk_server.port, ask_client=True)
    try:
        files = [word for file in (CERTIFICATE, KEY) for word in ("--tls-file", file)]
        start_sidecar("--socket", path, *files)
        app = start_app(
            timeout_ms=SESSION_MS,
            socket=path,
            servers=[["localhost", front.port]],
            tls={"ca_file": CERTIFICATE, "cert_file": CERTIFICATE, "key_file": KEY},
        )
        assert app.ready["state"] == "Running"
        app.kill()
        wait_until(lambda: observer.exists("/member") is None, PATIENCE_S, "the end of /member")
    finally:
        front.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--uid", "no-such-user"], "there is no user"),
        (["--tls-file", "/no/such.pem"], "cannot be read"),
        (["--uid", "-1"], "there is no user"),
    ],
)
def test_bad_options_are_one_sentence(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["--socket", "unused", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_a_report_follows_no_link(tmp_path: Path) -> None:
    """A link that somebody has put where a report goes leads nowhere."""
    target = tmp_path / "target"
    (tmp_path / "report").symlink_to(target)
    companion.report(str(tmp_path / "report"), 1, "closed", 1, None, 1, 1.0)
    assert not target.exists()
