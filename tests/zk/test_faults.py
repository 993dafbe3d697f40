"""What the edge does when the network or the server does what it should not: a real server behind a
link that loses, cuts, holds back and forges.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient

from tests.harness.wait import wait_until
from tests.zk.link import Mode
from tests.zk.port_contract import Session
from tests.zk.real import RealFixture
from zkcoord.errors import ForkedProcessError
from zkcoord.zk.port import (
    READS_PER_REQUEST_MAX,
    AclEntry,
    Check,
    Closed,
    Committed,
    Connected,
    Create,
    Created,
    Delete,
    Expired,
    GetData,
    MultiResult,
    Op,
    ReadResult,
    Rejected,
    SetData,
    Suspended,
    Unanswered,
    WatchMode,
    ZkError,
)

WAIT_S = 60.0


@pytest.fixture
def fixture(zk_hosts: str) -> Iterator[RealFixture]:
    with RealFixture(zk_hosts) as real:
        yield real


def reconnected(s: Session) -> None:
    """Wait for the same session's return, and forget the events until then."""
    s.wait(lambda: any(isinstance(e, Connected) for e in s.events), "Connected again")
    assert Connected(s.session_id, 10_000) in s.events, s.events
    del s.events[:]


# The fence
# --------------------------------------------------------------------------------------------------


def elect(s: Session, epoch_version: int) -> Committed:
    return s.do(Create("/leader", b"", ephemeral=True), SetData("/epoch", b"", epoch_version))


def test_fence_rejects_a_zombie(fixture: RealFixture) -> None:
    """A replaced leader whose session still lives: a check of its leader node passes against the
    successor's (both are version 0), a check of the epoch does not, and fails the whole multi.
    """
    zombie, successor = Session(fixture), Session(fixture)
    zombie.do(Create("/epoch", b""), Create("/work", b""))
    elect(zombie, 0)
    successor.sync()
    successor.do(Delete("/leader"))
    elect(successor, 1)
    zombie.do(Check("/leader", 0))
    assert zombie.multi(
        Check("/epoch", 1), SetData("/work", b"zombie", -1), Create("/more", b"")
    ) == Rejected(0, ZkError.BAD_VERSION)
    assert zombie.node("/work").data == b"" and zombie.missing("/more")
    successor.do(Check("/epoch", 2), SetData("/work", b"successor", -1))


# Lost replies
# --------------------------------------------------------------------------------------------------


LOST: dict[str, tuple[list[Op], Callable[[Session], bool]]] = {
    "create": (
        [Create("/new", b"", ephemeral=True)],
        lambda s: s.node("/new").stat.ephemeral_owner == s.session_id,
    ),
    "sequential create": (
        [Create("/a/s-", b"", sequential=True)],
        lambda s: s.names("/a") == ("s-0000000000",),
    ),
    "set": (
        [SetData("/a", b"won", 0)],
        lambda s: (s.node("/a").data, s.node("/a").stat.version) == (b"won", 1),
    ),
    "delete": ([Delete("/b", 0)], lambda s: s.missing("/b")),
    "multi": (
        [Check("/a", 0), SetData("/a", b"won", 0), Delete("/b"), Create("/c", b"")],
        lambda s: s.names("/") == ("a", "c") and s.node("/a").stat.version == 1,
    ),
}


@pytest.mark.parametrize("name", LOST)
def test_lost_reply_is_unanswered_and_happened_once(fixture: RealFixture, name: str) -> None:
    """The server did it, the client never hears: `Unanswered`, and nothing sends it again."""
    ops, happened = LOST[name]
    s = Session(fixture)
    s.do(Create("/a", b""), Create("/b", b""))
    fixture.link(s.port).swallow_next()
    assert s.multi(*ops) == Unanswered()
    assert s.events[0] == Suspended()
    reconnected(s)
    s.sync()
    assert happened(s) and fixture.link(s.port).swallowed == 1


# No hole, nothing late
# --------------------------------------------------------------------------------------------------


def test_no_hole_after_reconnect(fixture: RealFixture) -> None:
    """Of a stream of calls a cut in the middle leaves a prefix: answered ones happened, and after
    the first that did not happen none did. What is submitted after the cut is not sent.
    """
    s = Session(fixture)
    s.do(Create("/d", b""))
    order: list[tuple[int, MultiResult]] = []
    for i in range(300):
        s.port.multi([Create(f"/d/{i:03d}", b"")], lambda r, i=i: order.append((i, r)))  # type: ignore[misc]
        if i == 100:
            fixture.link(s.port).swallow_next()
    s.wait(lambda: len(order) == 300, "every answer")
    answered = sum(isinstance(r, Committed) for _, r in order)
    assert [i for i, _ in order] == list(range(300)), "the order of the calls"
    assert (
        all(isinstance(r, Committed) for _, r in order[:answered])
        and all(r == Unanswered() for _, r in order[answered:])
        and answered < 300
    )
    reconnected(s)
    s.do(Create("/later", b""))
    names = s.names("/d")
    assert names == tuple(f"{i:03d}" for i in range(len(names))) and len(names) > answered


def test_every_call_ends_once_under_flapping(fixture: RealFixture) -> None:
    """Calls all the time while the link flaps: each is told exactly once, in the order of the calls
    on a live connection, and a committed one happened.
    """
    s = Session(fixture)
    s.do(Create("/d", b""))
    told: list[int] = []
    committed: list[str] = []
    count = 0

    def burst() -> None:
        nonlocal count
        for _ in range(20):
            name = f"/d/{count:05d}"

            def done(r: MultiResult, i: int = count, name: str = name) -> None:
                told.append(i)
                if isinstance(r, Committed):
                    committed.append(name[3:])

            s.port.multi([Create(name, b"")], done)
            count += 1

    for _ in range(10):
        burst()
        fixture.cut(s.port)
        burst()
        s.wait(lambda: Suspended() in s.events, "Suspended")
        burst()
        fixture.heal(s.port)
        reconnected(s)
    s.wait(lambda: len(told) >= count, "every answer")
    assert sorted(told) == list(range(count))
    s.sync()
    assert set(committed) <= set(s.names("/d"))


def test_a_call_made_before_the_reconnection_is_seen_is_not_sent(fixture: RealFixture) -> None:
    """The connection is back, but the owner has seen neither its loss nor its return: its call ends
    before `Connected`, because watches and reads of the old connection are void.
    """
    s = Session(fixture)
    order: list[object] = s.events  # type: ignore[assignment]
    client = fixture.ports[0]._client
    fixture.cut(s.port)
    wait_until(lambda: not client.usable, WAIT_S, "the cut")
    fixture.heal(s.port)
    wait_until(lambda: client.usable, WAIT_S, "the reconnection")
    s.port.multi([Create("/a", b"")], order.append)
    s.port.read([GetData("/")], order.append)
    assert not order
    s.wait(lambda: len(order) >= 4, "two events and two answers")
    assert order == [Suspended(), Unanswered(), Unanswered(), Connected(s.session_id, 10_000)]
    assert s.names("/") == ()


def test_a_black_hole_ends_calls_by_the_deadline(zk_hosts: str) -> None:
    """No answer for `request_deadline_ms`: `Unanswered`, and the connection goes with it, so that a
    late answer can hit nobody.
    """
    with RealFixture(zk_hosts) as fixture:
        Session(fixture).do(Create("/a", b""))
        fixture.options["request_deadline_ms"] = 200  # too short for any call that must be answered
        s = Session(fixture)
        fixture.link(s.port).mode = Mode.BLACK_HOLE
        assert s.multi(SetData("/a", b"x", 0)) == Unanswered()
        assert s.events == [Suspended()]
        del s.events[:]
        fixture.heal(s.port)
        reconnected(s)


def test_an_idle_black_hole_is_noticed_and_learnt_to_be_the_end(zk_hosts: str) -> None:
    """Suspended by missing pings; while cut off nothing says expired; after the cut the server
    does. One terminal event.
    """
    with RealFixture(zk_hosts) as fixture:
        other = Session(fixture)
        fixture.options["session_timeout_ms"] = 3_000
        s = Session(fixture)
        s.do(Create("/e", b"", ephemeral=True))
        other.sync()
        other.watch("/e", WatchMode.PERSISTENT)
        fixture.link(s.port).mode = Mode.BLACK_HOLE
        s.wait(lambda: Suspended() in s.events, "Suspended")
        other.wait(lambda: other.fired() == [("DELETED", "/e")], "the ephemeral's end")
        assert s.events == [Suspended()]
        fixture.heal(s.port)
        s.wait(lambda: Expired() in s.events, "Expired")
        assert s.multi(Create("/late", b"")) == Unanswered()
        assert s.events == [Suspended(), Expired()]


# Ends of sessions
# --------------------------------------------------------------------------------------------------


def close_elsewhere(s: Session, fixture: RealFixture) -> None:
    """Close the session as its guardian does: attach with id and password, close."""
    port = s.port
    assert port.servers and port.timeout_ms == 10_000 and port.connected_server is not None  # type: ignore[attr-defined]
    thief = KazooClient("%s:%d" % fixture.server, client_id=(port.session_id, port.password))  # type: ignore[attr-defined]
    thief.start()
    thief.stop()
    thief.close()


def test_a_session_closed_by_somebody_is_expired(fixture: RealFixture) -> None:
    """Never a new session under the same port."""
    s = Session(fixture)
    close_elsewhere(s, fixture)
    s.wait(lambda: Expired() in s.events, "Expired")
    assert s.events == [Suspended(), Expired()]
    s.port.close()
    assert s.multi(Check("/", 0)) == Unanswered() and s.events == [Suspended(), Expired()]


def test_session_id_change_is_an_expiry(fixture: RealFixture) -> None:
    """Some servers hand out a new session on reconnect without a word."""
    s = Session(fixture)
    link = fixture.link(s.port)
    link.on_frame = lambda frame: frame[:12] + struct.pack("!q", 4711) + frame[20:]
    link.mode = Mode.REFUSE
    s.wait(lambda: Suspended() in s.events, "Suspended")
    link.mode = Mode.PASS
    s.wait(lambda: len(s.events) > 1, "the end")
    assert s.events == [Suspended(), Expired()]


def test_stale_own_ephemeral_is_told_by_its_owner(fixture: RealFixture) -> None:
    """The successor's create says NODE_EXISTS; the owner's session id says whose it is."""
    s = Session(fixture)
    s.do(Create("/e", b"", ephemeral=True))
    fixture.link(s.port).mode = Mode.BLACK_HOLE
    successor = Session(fixture)
    successor.sync()
    assert successor.multi(Create("/e", b"", ephemeral=True)) == Rejected(0, ZkError.NODE_EXISTS)
    assert successor.node("/e").stat.ephemeral_owner == s.session_id != successor.session_id


def test_a_change_during_a_cut_is_seen_by_watch_then_read(fixture: RealFixture) -> None:
    """Watches are gone after a cut; adding them and then reading misses nothing, also what was
    deleted and created again meanwhile (another czxid).
    """
    s, other = Session(fixture), Session(fixture)
    s.do(Create("/m", b""))
    s.watch("/m", WatchMode.PERSISTENT)
    before = s.node("/m").stat.czxid
    fixture.cut(s.port)
    s.wait(lambda: Suspended() in s.events, "Suspended")
    other.sync()
    other.do(Delete("/m"))
    other.do(Create("/m", b""))
    fixture.heal(s.port)
    reconnected(s)
    s.watch("/m", WatchMode.PERSISTENT)
    assert s.node("/m").stat.czxid > before and s.fired() == []
    other.do(SetData("/m", b"x", 0))
    s.wait(lambda: s.fired() == [("DATA", "/m")], "the new watch's event")


# Forged answers
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["xid", "body", "length", "unknown event"])
def test_a_garbled_answer_drops_the_connection(fixture: RealFixture, how: str) -> None:
    """What cannot be read is `Unanswered`; the session goes on with a new connection."""
    s = Session(fixture)
    s.do(Create("/a", b""))
    link = fixture.link(s.port)

    def garble(frame: bytes) -> bytes:
        link.on_frame = lambda later: later
        if how == "xid":
            return frame[:4] + struct.pack("!i", 999_999) + frame[8:]
        if how == "length":
            return b"HTTP" + frame[4:]
        if how == "unknown event":
            body = struct.pack("!iqiiii", -1, -1, 0, 77, 3, 0)
            return struct.pack("!i", len(body)) + body
        return frame[:20] + b"\xff" * (len(frame) - 20)

    link.on_frame = garble
    results: list[ReadResult] = []
    s.port.read([GetData("/a")], results.append)
    s.wait(lambda: bool(results), "an answer")
    assert results == [Unanswered()] and s.events[0] == Suspended(answer_too_large=how == "length")
    reconnected(s)
    assert s.node("/a").data == b""


@pytest.mark.parametrize("code", [-112, -118, -122, -127])
def test_an_answer_about_the_session_is_unanswered(fixture: RealFixture, code: int) -> None:
    """Session moved or expired also drops the connection; throttled and timed out do not."""
    s = Session(fixture)
    link = fixture.link(s.port)

    def refuse(frame: bytes) -> bytes:
        link.on_frame = lambda later: later
        header = frame[4:16] + struct.pack("!i", code)
        return struct.pack("!i", len(header)) + header

    link.on_frame = refuse
    assert s.multi(Create("/a", b"")) == Unanswered()
    if code in (-112, -118):
        reconnected(s)
    assert s.names("/") == ("a",) and not s.events


# Closing
# --------------------------------------------------------------------------------------------------


def test_close_in_a_short_cut_still_closes_the_session(fixture: RealFixture) -> None:
    """Closed while suspended: the next connection closes the session, so its ephemerals go at once
    and not after the timeout.
    """
    s, other = Session(fixture), Session(fixture)
    s.do(Create("/e", b"", ephemeral=True))
    other.sync()
    other.watch("/e", WatchMode.PERSISTENT)
    fixture.cut(s.port)
    s.wait(lambda: Suspended() in s.events, "Suspended")
    s.port.close()
    fixture.heal(s.port)
    s.wait(lambda: Closed() in s.events, "Closed")
    assert s.events == [Suspended(), Closed()]
    other.wait(lambda: other.fired() == [("DELETED", "/e")], "the ephemeral's end")


@pytest.mark.parametrize("connected", [True, False])
def test_close_in_a_black_hole_ends_by_its_deadline(zk_hosts: str, connected: bool) -> None:
    """`Closed` follows, and the calls under way are told before it."""
    with RealFixture(zk_hosts, close_deadline_ms=200) as fixture:
        if connected:
            s = Session(fixture)
            s.do(Create("/a", b""))
            fixture.link(s.port).mode = Mode.BLACK_HOLE
            port, events = s.port, s.events
        else:
            events = []
            port = fixture.open(events.append)
            fixture.link(port).mode = Mode.BLACK_HOLE
        order: list[object] = []
        port.multi([Create("/b", b"")], order.append)
        port.close()
        fixture.drain(lambda: Closed() in events, "Closed")
        assert order == [Unanswered()] and [
            e for e in events if not isinstance(e, (Connected, Suspended))
        ] == [Closed()]


# The rest
# --------------------------------------------------------------------------------------------------


def test_a_forked_child_may_not_use_the_port(fixture: RealFixture) -> None:
    """A clear error in the child, and the parent's session is untouched."""
    s = Session(fixture)
    port = s.port
    attempts: list[Callable[[], None]] = [
        lambda: port.multi([Create("/child", b"")], print),
        lambda: port.read([GetData("/")], print),
        lambda: port.sync(print),
        lambda: port.watch("/", WatchMode.PERSISTENT, print),
        port.close,
    ]
    pid = os.fork()
    if pid == 0:
        refused = 0
        for attempt in attempts:
            try:
                attempt()
            except ForkedProcessError:
                refused += 1
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == len(attempts)
    assert s.names("/") == () and not s.events


def test_the_acl_of_a_create_is_applied(fixture: RealFixture) -> None:
    """As given, entry by entry."""
    s = Session(fixture)
    s.do(
        Create("/a", b"", acl=(AclEntry(1, "world", "anyone"), AclEntry(31, "ip", "127.0.0.1"))),
        Create("/open", b""),
    )
    client = KazooClient("%s:%d" % fixture.server)
    client.start()
    found = {(a.perms, a.id.scheme, a.id.id) for a in client.get_acls(fixture.chroot + "/a")[0]}
    everything = {
        (a.perms, a.id.scheme, a.id.id) for a in client.get_acls(fixture.chroot + "/open")[0]
    }
    client.stop()
    client.close()
    assert found == {(1, "world", "anyone"), (31, "ip", "127.0.0.1")} and everything == {
        (31, "world", "anyone")
    }


def test_too_many_reads_are_a_programming_error(fixture: RealFixture) -> None:
    """The full number is answered, one more raises."""
    s = Session(fixture)
    assert len(s.reads(*[GetData("/")] * READS_PER_REQUEST_MAX)) == READS_PER_REQUEST_MAX
    with pytest.raises(ValueError, match="split them"):
        s.port.read([GetData("/")] * (READS_PER_REQUEST_MAX + 1), print)


def test_large_answers_arrive_whole(fixture: RealFixture) -> None:
    """Several megabytes in one answer, between small ones."""
    s = Session(fixture)
    block = bytes(range(256)) * 1_900
    for i in range(8):
        assert s.do(Create(f"/n{i}", block)).results == (Created(f"/n{i}"),)
    answers = s.reads(*[GetData(f"/n{i}") for i in range(8)], GetData("/"))
    assert [getattr(a, "data", None) for a in answers] == [block] * 8 + [b""]


def test_many_large_calls_at_once_are_all_sent(fixture: RealFixture) -> None:
    """More than one batch of the connection, made without waiting: none is left in the queue."""
    s = Session(fixture)
    s.do(Create("/a", b""))
    results: list[MultiResult] = []
    for _ in range(400):
        s.port.multi([SetData("/a", bytes(10_000), -1)], results.append)
    s.wait(lambda: len(results) == 400, "four hundred answers")
    assert all(isinstance(r, Committed) for r in results) and s.node("/a").stat.version == 400


def test_answers_that_arrive_together_are_both_delivered(fixture: RealFixture) -> None:
    """Two answers in one segment, and nothing after them: the second does not wait for more to
    arrive.
    """
    s = Session(fixture)
    link = fixture.link(s.port)
    held: list[bytes] = []

    def together(frame: bytes) -> bytes:
        held.append(frame)
        if len(held) < 2:
            return b""
        link.mode = Mode.BLACK_HOLE
        return b"".join(held)

    link.on_frame = together
    results: list[object] = []
    s.port.multi([Create("/a", b"")], results.append)
    s.port.multi([Create("/b", b"")], results.append)
    s.wait(lambda: len(results) == 2, "two answers")
    assert results == [Committed((Created("/a"),)), Committed((Created("/b"),))] and not s.events


def test_a_reconnection_never_goes_back_in_time(fixture: RealFixture) -> None:
    """The connect request names the last transaction that this session has seen: a server that does
    not have it yet refuses.
    """
    s = Session(fixture)
    s.do(Create("/a", b""))
    seen = s.node("/a").stat.czxid
    fixture.cut(s.port)
    s.wait(lambda: Suspended() in s.events, "Suspended")
    fixture.heal(s.port)
    reconnected(s)
    first, *_, last = fixture.link(s.port).first_bytes
    assert (
        struct.unpack_from("!q", first, 8) == (0,) and struct.unpack_from("!q", last, 8)[0] >= seen
    )
