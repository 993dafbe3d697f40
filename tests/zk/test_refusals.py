"""An ensemble that cannot be used as configured: one sentence that says what to do, one terminal
event, no thread left, and never a secret in a log.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import psutil
import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from tests.harness.wait import wait_until
from tests.zk.link import Link, Mode
from tests.zk.port_contract import Session
from tests.zk.real import RealFixture
from zkcoord.zk.options import Digest, Sasl
from zkcoord.zk.port import Check, Closed, Connected, Create, PortEvent, Refused, Unanswered

WAIT_S = 60.0


@pytest.fixture
def fixture(zk_hosts: str) -> Iterator[RealFixture]:
    with RealFixture(zk_hosts) as real:
        yield real


@pytest.fixture
def link(fixture: RealFixture) -> Iterator[Link]:
    with Link(fixture.server) as link:
        yield link


def outcome(fixture: RealFixture, link: Link, **options: object) -> list[PortEvent]:
    """Open a port and wait for its first event; the port is closed if it is connected."""
    events: list[PortEvent] = []
    port = fixture.ensemble(link, **options).open(events.append)
    fixture.drain(lambda: bool(events), "the first event")
    if isinstance(events[0], Connected):
        port.close()
        fixture.drain(lambda: Closed() in events, "Closed")
    else:
        answers: list[object] = []
        port.multi([Check("/", 0)], answers.append)
        fixture.drain(lambda: bool(answers), "an answer of a dead port")
        assert answers == [Unanswered()] and len(events) == 1
    return events


def refusal(fixture: RealFixture, link: Link, **options: object) -> str:
    """The sentence of a port that must be refused."""
    (event,) = outcome(fixture, link, **options)
    assert isinstance(event, Refused), event
    assert "\n" not in event.reason and ":" in event.reason
    return event.reason


def answer_with(code: int, number: int) -> Callable[[bytes], bytes]:
    """Forge the error code of the server's frame `number` (0 is the answer to connect)."""
    frames = iter(range(1_000_000))

    def forge(frame: bytes) -> bytes:
        if next(frames) != number:
            return frame
        header = frame[4:16] + struct.pack("!i", code)
        return struct.pack("!i", len(header)) + header

    return forge


def test_a_missing_chroot_says_how_to_create_it(fixture: RealFixture, link: Link) -> None:
    fixture.chroot += "/not/there"
    reason = refusal(fixture, link)
    assert f"the chroot {fixture.chroot} does not exist" in reason and "create it with" in reason


def test_no_server_is_refused_after_the_connect_timeout(fixture: RealFixture, link: Link) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        link.target = taken.getsockname()
    reason = refusal(fixture, link, connect_timeout_ms=1_000)
    assert (
        "no ZooKeeper server answers at " + link.address in reason
        and "start it, or correct the address (--zookeeper" in reason
    )
    assert "maxClientCnxns" in reason and "quorum" in reason, (
        "the link accepts and closes, as a server does at its connection limit"
    )


def test_a_closed_port_and_an_unknown_host_say_why(fixture: RealFixture, link: Link) -> None:
    with Link(fixture.server) as gone:
        pass
    assert "refused" in refusal(fixture, gone, connect_timeout_ms=1_000)
    assert "resolve" in refusal(fixture, _At("no-such-host.invalid:2181"), connect_timeout_ms=2_000)  # type: ignore[arg-type]


class _At:
    """Stands where a link would: an address only."""

    def __init__(self, address: str) -> None:
        self.address = address


def test_a_black_hole_is_refused_after_the_connect_timeout(
    fixture: RealFixture, link: Link
) -> None:
    link.mode = Mode.BLACK_HOLE
    assert "no ZooKeeper server answers" in refusal(fixture, link, connect_timeout_ms=300)


def test_only_the_first_connection_has_a_timeout(fixture: RealFixture, link: Link) -> None:
    """Once the ensemble was reached, a later port keeps trying."""
    ensemble = fixture.ensemble(link, connect_timeout_ms=1_500)  # six attempts take longer
    first: list[PortEvent] = []
    port = ensemble.open(first.append)
    fixture.drain(lambda: bool(first), "Connected")
    link.mode = Mode.REFUSE
    second: list[PortEvent] = []
    late = ensemble.open(second.append)
    accepted = link.accepted
    fixture.tasks.put(lambda: None)
    wait_until(lambda: link.accepted >= accepted + 6, WAIT_S, "six attempts")
    link.mode = Mode.PASS
    fixture.drain(lambda: bool(second), "the second port's first event")
    assert isinstance(second[0], Connected)
    for p, events in ((port, first), (late, second)):
        p.close()
        fixture.drain(lambda events=events: Closed() in events, "Closed")  # type: ignore[misc]


def test_something_else_than_zookeeper_is_refused(fixture: RealFixture, link: Link) -> None:
    """A web server's answer is not read as a frame of a gigabyte."""
    link.on_frame = lambda frame: b"HTTP/1.1 400 Bad Request\r\n\r\n"
    assert "a frame of 1213486160 bytes is not ZooKeeper's" in refusal(
        fixture, link, connect_timeout_ms=1_500
    )


def test_a_server_that_cannot_even_read_is_refused(fixture: RealFixture, link: Link) -> None:
    """Before 3.6 the first multiRead is answered Unimplemented; then a node is read by itself."""
    answers = [answer_with(-6, 1), answer_with(-6, 3)]
    link.on_frame = lambda frame: answers[1](answers[0](frame))
    assert "does not know how to read a node" in refusal(fixture, link)


def test_demanded_sasl_is_said(fixture: RealFixture, link: Link) -> None:
    link.on_frame = answer_with(-124, 1)
    assert "demands SASL" in refusal(fixture, link)


def test_failed_authentication_is_said(fixture: RealFixture, link: Link) -> None:
    link.on_frame = answer_with(-115, 1)
    assert "refused the credentials" in refusal(fixture, link, digest=Digest("u", "secret-word"))


def test_sasl_without_its_package_is_said(
    fixture: RealFixture, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the package vanishes after the options were checked."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr("kazoo.protocol.connection.PURESASL_AVAILABLE", False)
    assert "pure-sasl" in refusal(fixture, link, sasl=Sasl("DIGEST-MD5", "u", "p"))


@pytest.fixture
def locked(fixture: RealFixture) -> str:
    """A chroot that only `u` with the password `right` may touch."""
    client = KazooClient("%s:%d" % fixture.server)
    client.start()
    client.create(fixture.chroot + "/locked", b"", acl=[make_digest_acl("u", "right", all=True)])
    client.stop()
    client.close()
    fixture.chroot += "/locked"
    return fixture.chroot


def test_a_wrong_password_is_said(fixture: RealFixture, link: Link, locked: str) -> None:
    """The server accepts any digest; the chroot's ACL does not."""
    reason = refusal(fixture, link, digest=Digest("u", "wrong-word"))
    assert (
        f"the chroot {locked}" in reason
        and "may not be read with these credentials" in reason
        and "wrong-word" not in reason
    )


def test_the_right_password_works_again_after_a_reconnect(
    fixture: RealFixture, locked: str
) -> None:
    fixture.options["digest"] = Digest("u", "right")
    s = Session(fixture)
    fixture.cut(s.port)
    s.wait(lambda: bool(s.events), "Suspended")
    fixture.heal(s.port)
    s.wait(lambda: len(s.events) == 2, "Connected")
    s.do(Create("/a", b""))
    assert s.names("/") == ("a",)


def test_no_log_holds_a_secret(
    fixture: RealFixture, locked: str, caplog: pytest.LogCaptureFixture
) -> None:
    """At the lowest level of every logger: no password, no session password, no session id."""
    caplog.set_level(1)
    logging.getLogger("kazoo").setLevel(1)
    fixture.options["digest"] = Digest("u", "right")
    s = Session(fixture)
    s.do(Create("/a", b"payload-of-a-node"))
    fixture.cut(s.port)
    s.wait(lambda: bool(s.events), "Suspended")
    fixture.heal(s.port)
    s.wait(lambda: len(s.events) == 2, "Connected")
    port = fixture.ports[0]
    s.close()
    assert "connected to ZooKeeper" in caplog.text
    for secret in (
        "right",
        port.password.hex(),
        repr(port.password),
        str(port.session_id),
        f"{port.session_id:x}",
        "payload-of-a-node",
    ):
        assert secret not in caplog.text
    assert "right" not in repr(port) + repr(fixture.ensemble(fixture.link(port)).options)


def open_files() -> dict[int, str]:
    """What this process has open, by number."""
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the list's own
            found[int(fd)] = os.readlink(f"/proc/self/fd/{fd}")
    return found


def new_files(link: Link, before: set[str]) -> set[str]:
    """What is open and was not, but connections to others than the link, and pipes, which a port
    has none of: clients that another test has left behind connect when they like.
    """
    own = int(link.address.rpartition(":")[2])
    others = {c.fd for c in psutil.Process().net_connections() if c.raddr and own != c.raddr.port}
    found = {what for fd, what in open_files().items() if fd not in others}
    return {what for what in found - before if not what.startswith("pipe:")}


def test_ports_leave_no_thread_and_no_descriptor(fixture: RealFixture, link: Link) -> None:
    """One thread per port while it lives; nothing after its end, whichever end."""
    outcome(fixture, link)
    before, threads = set(open_files().values()), threading.active_count()
    for _ in range(5):
        outcome(fixture, link)
    chroot, fixture.chroot = fixture.chroot, "/nope"
    refusal(fixture, link)
    fixture.chroot = chroot
    link.mode = Mode.REFUSE
    refusal(fixture, link, connect_timeout_ms=100)
    wait_until(lambda: threading.active_count() <= threads, WAIT_S, "the threads to end")
    try:
        wait_until(lambda: not new_files(link, before), WAIT_S, "the descriptors to be closed")
    except AssertionError as error:
        raise AssertionError(f"{error} New are {new_files(link, before)}.") from None
