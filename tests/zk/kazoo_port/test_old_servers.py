"""A server of 3.4, which knows neither multiRead nor persistent watches: the port serves its owner
all the same, by single reads and by watches that fire once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.harness.zookeeper import fresh_chroot
from tests.zk.port_contract import CONTRACT, SINCE_3_6, PortFixture, Session
from tests.zk.real import RealFixture
from zkcoord.stack.servers import ZooKeeperServer
from zkcoord.zk.port import (
    Children,
    Connected,
    Create,
    Delete,
    Denied,
    GetChildren,
    GetData,
    Node,
    ReadDone,
    SetData,
    Suspended,
    Unanswered,
    WatchMode,
    ZkError,
)


@pytest.fixture
def fixture(old_zk_server: ZooKeeperServer) -> Iterator[RealFixture]:
    with RealFixture(fresh_chroot(old_zk_server.address)) as real:
        yield real


@pytest.mark.parametrize(
    "rule", [rule for rule in CONTRACT if rule not in SINCE_3_6], ids=lambda f: f.__name__
)
def test_contract(rule: Callable[[PortFixture], None], fixture: RealFixture) -> None:
    rule(fixture)


def test_a_removed_watch_sees_nothing_more(fixture: RealFixture) -> None:
    """Of either mode; the others stay. Removing none is refused by name, and it can be added
    again.
    """
    s = Session(fixture)
    s.do(Create("/a", b""), Create("/b", b""))
    s.watch("/a", WatchMode.RECURSIVE)
    s.watch("/b", WatchMode.PERSISTENT)
    assert s.unwatch("/a") == ReadDone(())
    s.do(Create("/a/b", b""), SetData("/b", b"x", 0))
    assert s.seen() == [("DATA", "/b")]
    assert s.unwatch("/b") == ReadDone(())
    s.do(SetData("/b", b"x", 1), SetData("/a/b", b"x", 0))
    assert s.seen() == []
    assert s.unwatch("/a") == ReadDone((Denied(ZkError.OTHER),))
    s.watch("/a", WatchMode.RECURSIVE)
    s.do(SetData("/a/b", b"y", 1))
    assert s.seen() == [("DATA", "/a/b")]


def test_a_node_made_again_between_two_looks_is_told_as_gone_and_made(fixture: RealFixture) -> None:
    """Its data changes, and before the owner hears of it the node is deleted and made again: one
    multi of another session.
    """
    s, other = Session(fixture), Session(fixture)
    s.do(Create("/a", b""))
    other.sync()
    s.watch("/", WatchMode.RECURSIVE)
    for i in range(20):
        del s.events[:]
        other.do(SetData("/a", b"x", -1), Delete("/a"), Create("/a", b""))
        s.wait(lambda: ("CREATED", "/a") in s.fired(), "the creation")
        told = s.seen()
        assert ("DELETED", "/a") in told and told.index(("DELETED", "/a")) < told.index(
            ("CREATED", "/a")
        )


def test_the_question_does_not_cost_the_session(fixture: RealFixture) -> None:
    """The server closes the connection after a request that it does not know; the same session goes
    on, with one connection more and nothing told of it.
    """
    s = Session(fixture)
    s.do(Create("/e", b"", ephemeral=True))
    assert s.node("/e").stat.ephemeral_owner == s.session_id and not s.events
    assert fixture.link(s.port).accepted == 2


def test_a_watched_tree_that_changes_all_the_time_holds_up_no_sync(fixture: RealFixture) -> None:
    """Another session writes the next as soon as the one before it is there: a sync waits for what
    was before it, not for rest.
    """
    s, other = Session(fixture), Session(fixture)
    s.do(Create("/a", b""))
    other.sync()
    s.watch("/", WatchMode.RECURSIVE)
    going, written = [True], [0]

    def write(_result: object) -> None:
        written[0] += 1
        if going:
            other.port.multi(
                [SetData("/a", b"", -1), Create(f"/n{written[0]}", b"", ephemeral=True)], write
            )

    write(None)
    for _ in range(20):
        before = written[0]
        assert s.sync() == ReadDone(())
        s.wait(lambda: written[0] > before, "another write")
    going.clear()
    last = written[0] - 1
    s.wait(lambda: ("CREATED", f"/n{last}") in s.fired(), "the last but one")


def test_what_waits_for_a_walk_and_what_does_not(fixture: RealFixture) -> None:
    """A read below a new watch comes after all below it is watched, and so does what was asked
    after that. The leader's node, which a coordinator reads to see that its session lives, is read
    at once.
    """
    s = Session(fixture)
    s.do(
        Create("/deep", b""),
        Create("/deep/er", b""),
        Create("/deep/er/still", b""),
        Create("/lead", b""),
    )
    s.watch("/lead", WatchMode.PERSISTENT)
    order: list[str] = []
    s.port.watch("/deep", WatchMode.RECURSIVE, lambda _: order.append("walked"))
    s.port.read([GetData("/deep/er/still")], lambda _: order.append("below"))
    s.port.read([GetData("/lead")], lambda _: order.append("the leader"))
    s.port.multi([SetData("/deep", b"", -1)], lambda _: order.append("a write"))
    s.port.read([GetData("/lead")], lambda _: order.append("the leader after it"))
    s.wait(lambda: len(order) == 5, "five answers")
    assert order == ["the leader", "walked", "below", "a write", "the leader after it"]


def test_what_waits_is_unanswered_when_the_connection_goes(fixture: RealFixture) -> None:
    """In the midst of a walk, with calls that wait for it and more reads than are sent at once: all
    of them end before the session goes on, and on the new connection everything works.
    """
    s = Session(fixture)
    many = [f"/w/n{i}" for i in range(300)]
    s.do(Create("/w", b""), *(Create(path, b"", ephemeral=True) for path in many))
    ends: list[object] = []
    s.port.watch("/w", WatchMode.RECURSIVE, ends.append)
    s.port.read([GetData(path) for path in many], ends.append)
    s.port.sync(ends.append)
    s.port.multi([Create("/w/never", b"")], ends.append)
    fixture.cut(s.port)
    s.wait(lambda: bool(s.events), "the loss")
    assert s.events == [Suspended()]
    fixture.heal(s.port)
    s.wait(lambda: len(s.events) > 1, "the connection")
    assert ends == [Unanswered()] * 4 and isinstance(s.events[1], Connected)
    del s.events[:]
    s.watch("/w", WatchMode.RECURSIVE)
    s.do(Create("/w/now", b""), Delete(many[0]))
    assert sorted(s.seen()) == [("CREATED", "/w/now"), ("DELETED", many[0])] and s.missing(
        "/w/never"
    )


def test_more_reads_than_are_sent_at_once(fixture: RealFixture) -> None:
    """As many as one request may hold, while another session writes to them: each is answered, in
    order, and what is answered is told.
    """
    s, other = Session(fixture), Session(fixture)
    paths = [f"/n{i:04d}" for i in range(1_000)]
    for at in range(0, len(paths), 250):
        s.do(*(Create(path, b"0", ephemeral=True) for path in paths[at : at + 250]))
    other.sync()
    s.watch("/", WatchMode.RECURSIVE)
    written: list[object] = []
    for path in paths[::50]:
        other.port.multi([SetData(path, b"1", -1)], written.append)
    answers = s.reads(*(GetData(path) for path in paths))
    assert len(answers) == 1_000 and all(
        isinstance(answer, Node) and answer.data in (b"0", b"1") for answer in answers
    )
    other.wait(lambda: len(written) == 20, "every write")
    assert {path for _, path in s.seen()} == set(paths[::50])


def test_no_end_of_a_node_is_missed_that_the_owner_has_read(fixture: RealFixture) -> None:
    """Another session makes and deletes nodes all the time, while the owner lists them: whatever it
    has seen is told as deleted in the end.
    """
    s, other = Session(fixture), Session(fixture)
    s.do(Create("/d", b""))
    other.sync()
    s.watch("/d", WatchMode.RECURSIVE)
    seen: set[str] = set()

    def listed(result: object) -> None:
        assert isinstance(result, ReadDone) and isinstance(result.answers[0], Children)
        seen.update(result.answers[0].names)

    answered: list[object] = []
    for i in range(200):
        other.port.multi([Create(f"/d/n{i}", b"")], answered.append)
        s.port.read([GetChildren("/d")], listed)
        if i:
            other.port.multi([Delete(f"/d/n{i - 1}")], answered.append)
    other.wait(lambda: len(answered) == 399, "every write")
    other.do(Delete("/d/n199"))
    s.sync()
    s.wait(
        lambda: (
            seen <= {path.rsplit("/", 1)[1] for change, path in s.fired() if change == "DELETED"}
        ),
        "the end of each node that was seen",
    )


def test_what_was_read_last_is_what_is_there(fixture: RealFixture) -> None:
    """An owner that reads only where an event sends it, and takes an event as told before an answer
    where it comes before it, ends with what is there.
    """
    s, other = Session(fixture), Session(fixture)
    paths = [f"/n{i}" for i in range(8)]
    s.do(*[Create(path, b"0") for path in paths])
    other.sync()
    s.watch("/", WatchMode.RECURSIVE)
    held: dict[str, bytes] = {}
    under_way: set[str] = set()
    marked: set[str] = set(paths)

    def ask() -> None:
        if marked and not under_way:
            asked = sorted(marked)
            marked.clear()
            under_way.update(asked)
            s.port.read([GetData(path) for path in asked], lambda result: answered(asked, result))

    def answered(asked: list[str], result: object) -> None:
        assert isinstance(result, ReadDone)
        under_way.clear()
        held.update((path, answer.data) for path, answer in zip(asked, result.answers))  # type: ignore[union-attr]

    def step() -> bool:
        for change, path in s.fired():
            if path not in under_way:
                marked.add(path)
        del s.events[:]
        ask()
        return not marked and not under_way

    written: list[object] = []
    for i in range(1, 400):
        other.port.multi([SetData(paths[i % 8], b"%d" % i, -1)], written.append)
        if i % 7 == 0:
            other.port.multi([SetData(path, b"%d" % i, -1) for path in paths[:3]], written.append)
    s.wait(lambda: step() and len(written) == 399 + 57, "every write")
    s.sync()
    s.sync()
    s.wait(step, "rest")
    assert held == {path: s.node(path).data for path in paths}
