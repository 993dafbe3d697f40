"""Deaths and what only looks like one: real processes with a Guardian, killed, stopped, forked,
ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.guardian.conftest import PATIENCE_S, GuardedApp, alive, closed, reported
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from zkcoord.guardian import client, companion, handover, link
from zkcoord.guardian.client import Guardian, Off, OffReason, Running, TlsOptions
from zkcoord.stack.ports import HOST, free_port
from zkcoord.stack.servers import ZooKeeperServer

Start = Callable[..., GuardedApp]
SESSION_MS = 60_000  # so long that only a guardian can be the reason


def until_gone(observer: KazooClient, node: str = "/member") -> float:
    """Wait for the node's end; how long it took, in seconds, for the printed record."""
    started = time.monotonic()
    wait_until(lambda: observer.exists(node) is None, PATIENCE_S, f"the end of {node}")
    took = time.monotonic() - started
    print(f"{node} gone after {took * 1000:.0f} ms")
    return took


def test_a_kill_9_is_noticed_long_before_the_session_timeout(
    start_app: Start, observer: KazooClient, report: Path
) -> None:
    app = start_app(timeout_ms=SESSION_MS, report=str(report))
    assert app.ready["state"] == "Running"
    app.kill()
    until_gone(observer)
    (line,) = wait_until(lambda: reported(report), PATIENCE_S, "the report")
    assert closed(line)
    assert int(line["session"], 16) == app.ready["session"]
    wait_until(lambda: not alive(app.companion), PATIENCE_S, "the companion's end")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_signals_end_the_application_and_not_its_guardian(
    start_app: Start, observer: KazooClient, number: signal.Signals
) -> None:
    app = start_app(timeout_ms=SESSION_MS)
    os.kill(app.companion, number)
    assert alive(app.companion)
    os.killpg(app.process.pid, signal.SIGKILL)
    os.kill(app.companion, number)
    until_gone(observer)


def test_the_companion_is_outside_of_the_applications_group_and_session(start_app: Start) -> None:
    app = start_app()
    assert os.getpgid(app.companion) != os.getpgid(app.pid)
    assert os.getsid(app.companion) != os.getsid(app.pid)


def test_a_forked_child_lives_on_and_the_session_ends_all_the_same(
    start_app: Start, observer: KazooClient
) -> None:
    app = start_app(timeout_ms=SESSION_MS)
    child = app.ask("fork", "forked")
    assert (child["state"], child["reason"]) == ("Off", "FORKED")
    assert app.ask("state", "ready")["state"] == "Running"
    app.kill()
    until_gone(observer)
    assert alive(child["pid"])


def test_the_death_of_a_forked_child_is_not_the_death_of_its_parent(
    start_app: Start, observer: KazooClient, report: Path
) -> None:
    app = start_app(timeout_ms=SESSION_MS, report=str(report))
    child = app.ask("fork", "forked")
    os.kill(child["pid"], signal.SIGKILL)
    wait_until(lambda: not alive(child["pid"]), PATIENCE_S, "the child's end")
    assert app.ask("state", "ready")["companion"] == app.companion
    assert observer.exists("/member") is not None
    assert reported(report) == []


def test_a_new_session_is_guarded_and_the_old_one_found_closed(
    start_app: Start, observer: KazooClient, report: Path
) -> None:
    app = start_app(timeout_ms=SESSION_MS, report=str(report))
    later = app.ask("session", "ready")
    assert later["session"] != app.ready["session"]
    app.kill()
    until_gone(observer, "/memberx")
    lines = wait_until(
        lambda: len(found := reported(report)) == 2 and found, PATIENCE_S, "both reports"
    )
    by_session = {int(line["session"], 16): line for line in lines}
    assert by_session.keys() == {later["session"], app.ready["session"]}
    assert (
        closed(by_session[later["session"]])
        and by_session[app.ready["session"]]["outcome"] == "expired"
    )


def test_a_process_killed_while_it_changes_its_session_leaves_neither(
    start_app: Start, observer: KazooClient
) -> None:
    app = start_app(timeout_ms=SESSION_MS)
    app.ask("both", "ready")  # the new one is there, the old one not closed yet
    assert observer.exists("/member") is not None
    app.kill()
    until_gone(observer, "/memberx")
    until_gone(observer)


def test_only_the_latest_sessions_are_kept_and_each_can_be_forgotten() -> None:
    guardian = Guardian.start()
    for session_id in (1, 2, 3, 2, -4):
        guardian.watch(session_id, b"p" * 16, 1000, [(HOST, free_port())])
    (keeper,) = client._keepers.values()
    assert isinstance(keeper, client._Keeper)

    def kept() -> set[int]:
        inbox = handover.Inbox()
        for message in keeper._messages.values():
            inbox.feed(message)
        return {session.session_id for session in inbox.sessions.values()}

    assert kept() == {2, 2**64 - 4}
    guardian.forget(3)
    assert len(kept()) == client.SESSIONS_KEPT
    guardian.forget(-4)
    assert kept() == {2}
    guardian.stop()
    assert kept() == set()


def test_after_a_clean_close_there_is_nothing_to_do(
    start_app: Start, observer: KazooClient, report: Path
) -> None:
    app = start_app(timeout_ms=SESSION_MS, report=str(report))
    app.ask("close", "closed")
    wait_until(lambda: not alive(app.companion), PATIENCE_S, "the companion's end")
    app.kill()
    app.process.wait()
    assert reported(report) == []


def test_a_forgotten_session_is_left_alone(
    start_app: Start, observer: KazooClient, report: Path
) -> None:
    app = start_app(timeout_ms=SESSION_MS, report=str(report))
    app.ask("forget", "forgotten")
    app.kill()
    wait_until(lambda: not alive(app.companion), PATIENCE_S, "the companion's end")
    assert observer.exists("/member") is not None
    assert reported(report) == []


def test_a_stopped_process_keeps_its_session(
    start_app: Start, observer: KazooClient, report: Path
) -> None:
    app = start_app(timeout_ms=SESSION_MS, report=str(report))
    os.kill(app.pid, signal.SIGSTOP)
    wait_until(
        lambda: Path(f"/proc/{app.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T",
        PATIENCE_S,
        "the stop",
    )
    # its companion is awake and has looked: a signal that it ignores would have ended its poll
    # otherwise
    os.kill(app.companion, signal.SIGTERM)
    assert observer.exists("/member") is not None
    os.kill(app.pid, signal.SIGCONT)
    assert app.ask("state", "ready")["session"] == app.ready["session"]
    assert observer.exists("/member") is not None
    assert reported(report) == []
    os.kill(app.pid, signal.SIGSTOP)
    app.kill()
    until_gone(observer)


@pytest.mark.parametrize("first", ["process", "other"])
def test_a_session_that_another_process_can_go_on_with_is_closed_when_both_are_gone(
    start_app: Start, observer: KazooClient, report: Path, first: str
) -> None:
    other = subprocess.Popen(["sleep", "600"])
    try:
        app = start_app(timeout_ms=SESSION_MS, report=str(report), also=other.pid)
        if first == "process":
            app.kill()
            wait_until(lambda: not alive(app.pid), PATIENCE_S, "the end of the process")
        else:
            other.kill()
            other.wait()
        os.kill(app.companion, signal.SIGTERM)  # it ignores that, and has looked
        assert (
            alive(app.companion)
            and observer.exists("/member") is not None
            and reported(report) == []
        )
        if first == "process":
            other.kill()
            other.wait()
        else:
            app.kill()
        until_gone(observer)
        wait_until(lambda: len(reported(report)) == 1, PATIENCE_S, "the report")
        assert closed(reported(report)[0])
    finally:
        other.kill()
        other.wait()


def test_an_unreaped_zombie_is_dead(start_app: Start, observer: KazooClient) -> None:
    app = start_app(timeout_ms=SESSION_MS)
    app.kill()
    until_gone(observer)
    assert app.process.returncode is None  # nobody has waited for it
    assert Path(f"/proc/{app.pid}/stat").exists()


def test_a_killed_guardian_is_started_again_and_told_again(
    start_app: Start, observer: KazooClient
) -> None:
    app = start_app(timeout_ms=SESSION_MS)
    os.kill(app.companion, signal.SIGKILL)
    assert "started again" in app.expect("log")["line"]
    second = wait_until(
        lambda: (ready := app.ask("state", "ready"))["state"] == "Running" and ready,
        PATIENCE_S,
        "another companion",
    )
    assert second["companion"] not in (None, app.companion)
    app.ready = second
    app.kill()
    until_gone(observer)


def test_a_guardian_that_does_not_read_is_replaced(start_app: Start, observer: KazooClient) -> None:
    app = start_app(timeout_ms=SESSION_MS)
    os.kill(app.companion, signal.SIGSTOP)
    app.tell("flood")
    second = wait_until(
        lambda: (
            (ready := app.ask("state", "ready"))["companion"] not in (None, app.companion)
            and ready["state"] == "Running"
            and ready
        ),
        PATIENCE_S,
        "another companion",
    )
    assert observer.exists("/member") is not None
    app.ready = second
    app.kill()
    until_gone(observer)


def test_a_process_that_just_ends_leaves_no_session_behind(
    start_app: Start, observer: KazooClient
) -> None:
    app = start_app(timeout_ms=SESSION_MS)
    app.tell("return")
    until_gone(observer)


def test_exec_keeps_the_process_and_so_its_guard(
    start_app: Start, observer: KazooClient, report: Path
) -> None:
    app = start_app(timeout_ms=SESSION_MS, report=str(report))
    app.ask("exec", "exec")
    wait_until(
        lambda: b"sleep" in Path(f"/proc/{app.pid}/cmdline").read_bytes(),
        PATIENCE_S,
        "the new program",
    )
    assert alive(app.companion)
    assert observer.exists("/member") is not None
    assert reported(report) == []
    app.kill()
    until_gone(observer)


def test_a_dead_server_first_in_the_list(
    start_app: Start, observer: KazooClient, zk_server: ZooKeeperServer
) -> None:
    app = start_app(timeout_ms=SESSION_MS, servers=[[HOST, free_port()], [HOST, zk_server.port]])
    app.kill()
    until_gone(observer)


def test_what_was_said_before_the_companion_ran_counts(
    zk_hosts: str, observer: KazooClient, zk_server: ZooKeeperServer
) -> None:
    victim = connect(zk_hosts)
    victim.create("/member", b"", ephemeral=True)
    process = subprocess.Popen(["sleep", "60"])
    pidfd = os.pidfd_open(process.pid)
    read_end, write_end = os.pipe()
    session_id, password = victim.client_id
    # unfinished: what a killed writer could leave, were a message not written in one piece
    os.write(write_end, b"watch key=")
    os.write(
        write_end,
        b"\n"
        + handover.encode_watch(
            2, handover.Handover(session_id, password, SESSION_MS, [(HOST, zk_server.port)])
        ),
    )
    process.kill()
    process.wait()
    companion.Companion(process.pid, (pidfd,), read_end).run()
    assert observer.exists("/member") is None
    for descriptor in (pidfd, read_end, write_end):
        os.close(descriptor)
    disconnect(victim)


def test_an_expired_session_ends_the_guardian_quietly(
    start_app: Start, observer: KazooClient, zk_server: ZooKeeperServer, report: Path
) -> None:
    app = start_app(timeout_ms=SESSION_MS, report=str(report))
    session = client.Handover(
        app.ready["session"],
        bytes.fromhex(app.ready["password"]),
        SESSION_MS,
        [(HOST, zk_server.port)],
    )
    os.kill(app.pid, signal.SIGSTOP)  # so that its client does not come back with another session
    client.wire.Closer(lambda: True).close_all([session])
    app.kill()
    (line,) = wait_until(lambda: reported(report), PATIENCE_S, "the report")
    assert line["outcome"] == "expired"
    wait_until(lambda: not alive(app.companion), PATIENCE_S, "the companion's end")


def test_the_password_is_nowhere_to_be_read(start_app: Start, report: Path) -> None:
    app = start_app(report=str(report))
    for name in ("cmdline", "environ"):
        shown = Path(f"/proc/{app.companion}/{name}").read_bytes()
        assert app.ready["password"].encode() not in shown
        assert bytes.fromhex(app.ready["password"]) not in shown
    app.kill()
    wait_until(lambda: reported(report), PATIENCE_S, "the report")
    assert app.ready["password"] not in report.read_text()


def test_the_guardian_holds_nothing_of_the_applications(start_app: Start) -> None:
    app = start_app()
    assert os.readlink(f"/proc/{app.companion}/cwd") == "/"
    wait_until(
        lambda: _descriptors(app.companion) == ["/dev/null", "/dev/null", "pidfd", "pipe"],
        PATIENCE_S,
        "a started companion with nothing else open",
    )
    environment = Path(f"/proc/{app.companion}/environ").read_text().split("\0")
    assert {entry.partition("=")[0] for entry in environment} <= {"", *link.ENVIRONMENT_KEPT}


def _descriptors(pid: int) -> list[str]:
    """What a process has open, by kind; files that it closes meanwhile (a starting Python reads
    some) are left out.
    """
    kinds = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except FileNotFoundError:
            continue
        kinds.append("pidfd" if "pidfd" in target else target.partition(":")[0])
    return sorted(kinds)


def test_a_reader_of_the_applications_output_sees_its_end(
    start_app: Start, observer: KazooClient, own_zk_server: ZooKeeperServer
) -> None:
    app = start_app(hosts=own_zk_server.address, timeout_ms=SESSION_MS)
    own_zk_server.pause()  # the guardian cannot get rid of the session, so it stays
    app.kill()
    assert app.process.stdout is not None
    assert app.process.stdout.read() == ""  # returns at all: nobody else holds the pipe
    assert alive(app.companion)
    own_zk_server.resume()
    wait_until(lambda: not alive(app.companion), PATIENCE_S, "the companion's end")


def test_the_companion_stays_small() -> None:
    program = (
        "import sys; sys.path.append(sys.argv[1]); import zkcoord.guardian.companion; "
        "print(len(sys.modules), *sorted(name for name in sys.modules if not name.startswith('_')))"
    )
    root = str(Path(client.__file__).parents[2])
    count, *names = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, root],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert int(count) < 80
    assert not {
        "ssl",
        "json",
        "typing",
        "dataclasses",
        "threading",
        "subprocess",
        "kazoo",
        "re",
        "logging",
    } & set(names)


def test_off_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said: list[str] = []
    assert Guardian.start(log=said.append, enabled=False).state == Off(OffReason.DISABLED)
    assert said == []
    assert isinstance(state := Guardian.start(log=said.append, sasl_demanded=True).state, Off)
    assert state.reason is OffReason.SASL
    state = Guardian.start(TlsOptions(ca_file=str(tmp_path / "missing.pem")), said.append).state
    assert isinstance(state, Off)
    assert state.reason is OffReason.TLS_FILES
    monkeypatch.setattr(link.sys, "executable", "")
    assert Guardian.start(log=said.append).state == Off(OffReason.NO_INTERPRETER)
    monkeypatch.undo()

    def no_pidfd(_: int) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "pidfd_open", no_pidfd)
    guardian = Guardian.start(log=said.append)
    assert isinstance(guardian.state, Off)
    assert guardian.state.reason is OffReason.NO_PIDFD
    assert len(said) == 4
    assert all(line.startswith("The guardian is off: ") for line in said)
    guardian.watch(1, b"p", 1000, [("h", 1)])
    guardian.forget()
    guardian.stop()


def test_guardians_of_one_process_share_a_companion_and_the_last_one_ends_it() -> None:
    first, second = Guardian.start(), Guardian.start()
    assert first.state == second.state == Running()
    (keeper,) = client._keepers.values()
    assert isinstance(keeper._link, link.CompanionLink)
    pid = keeper._link.pid
    first.watch(1, b"p" * 16, 1000, [(HOST, free_port())])
    first.stop()
    assert first.state == Off(OffReason.STOPPED)
    assert alive(pid)
    second.stop()
    assert not Path(f"/proc/{pid}").exists()  # ended, and reaped
    third = Guardian.start()
    assert third.state == Running()
    third.stop()


def test_a_session_that_cannot_be_guarded_is_named() -> None:
    said: list[str] = []
    guardian = Guardian.start(log=said.append)
    guardian.watch(1, b"secret-password!", 1000, [])
    guardian.stop()
    (line,) = said
    assert "at least one host" in line
    assert "secret" not in line
