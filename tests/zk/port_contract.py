"""The contract of `zkcoord.zk.port`, as one body of tests for every implementation of `Ensemble`.

Each function of `CONTRACT` takes a `PortFixture`. The real session runs them against a real server
(tests/zk/test_port_contract.py), the simulator's model of ZooKeeper against itself: where the two
would differ, the simulator proves something about another system. A test asserts only what both the
documentation of ZooKeeper and a measurement against the server (3.9) say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from zkcoord.zk.port import (
    MULTI_BYTES_MAX,
    OPEN_ACL,
    OPS_PER_MULTI_MAX,
    Acl,
    AclEntry,
    AclsDone,
    AclsResult,
    Check,
    Children,
    Closed,
    Committed,
    Connected,
    Create,
    Created,
    Delete,
    Denied,
    Done,
    Fired,
    GetChildren,
    GetData,
    Missing,
    MultiResult,
    Node,
    Op,
    Port,
    PortEvent,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Rejected,
    SetData,
    Suspended,
    Unanswered,
    WatchMode,
    ZkError,
)
from zkcoord.znodes.stat import Stat

T = TypeVar("T")


class PortFixture(Protocol):
    """What a test needs of an implementation. The tree is empty when a test begins, and its own."""

    def open(self, on_event: Callable[[PortEvent], None]) -> Port:
        """A new session (not connected yet)."""

    def drain(self, predicate: Callable[[], bool], what: str) -> None:
        """Run callbacks and events until `predicate()` is true; fail the test, naming `what`, when
        it does not become true.
        """

    def cut(self, port: Port) -> None:
        """Break the port's connection and let it make no new one. The session lives (for now)."""

    def heal(self, port: Port) -> None:
        """Let it connect again."""


class Session:
    """A connected port with its events, and calls that wait for their answer."""

    def __init__(self, fixture: PortFixture) -> None:
        self.fixture = fixture
        self.events: list[PortEvent] = []
        self.port = fixture.open(self.events.append)
        fixture.drain(lambda: bool(self.events), "the first event of a session")
        assert isinstance(self.events[0], Connected), self.events
        self.session_id = self.events[0].session_id
        del self.events[:]

    def wait(self, predicate: Callable[[], bool], what: str) -> None:
        """Drain until it is true."""
        self.fixture.drain(predicate, what)

    def multi(self, *ops: Op) -> MultiResult:
        """Run one transaction."""
        result: MultiResult = self._call(partial(self.port.multi, ops), "the answer to a multi")
        return result

    def do(self, *ops: Op) -> Committed:
        """Run one transaction that must succeed."""
        result = self.multi(*ops)
        assert isinstance(result, Committed), (ops, result)
        return result

    def reads(self, *reads: Read) -> tuple[ReadAnswer, ...]:
        """One multiRead that must be answered."""
        result = self._call(partial(self.port.read, reads), "the answer to a read")
        assert isinstance(result, ReadDone) and len(result.answers) == len(reads), (reads, result)
        return result.answers

    def node(self, path: str) -> Node:
        """The node, which must exist."""
        (answer,) = self.reads(GetData(path))
        assert isinstance(answer, Node), (path, answer)
        return answer

    def names(self, path: str) -> tuple[str, ...]:
        """The children's names of a node that must exist."""
        (answer,) = self.reads(GetChildren(path))
        assert isinstance(answer, Children), (path, answer)
        return answer.names

    def missing(self, path: str) -> bool:
        """Whether there is no such node."""
        return isinstance(self.reads(GetData(path))[0], Missing)

    def sync(self) -> ReadResult:
        """Catch up with the leader."""
        return self._call(self.port.sync, "the answer to a sync")

    def watch(self, path: str, mode: WatchMode) -> None:
        """Add a watch that must be accepted."""
        assert self._call(
            partial(self.port.watch, path, mode), "the answer to a watch"
        ) == ReadDone(())

    def unwatch(self, path: str) -> ReadResult:
        """Remove a watch."""
        return self._call(partial(self.port.unwatch, path), "the answer to the removal of a watch")

    def acls(self, paths: Sequence[str]) -> AclsResult:
        """Who may do what."""
        return self._call(partial(self.port.acls, paths), "the answer about ACLs")

    def close(self) -> None:
        """Close and wait for `Closed`."""
        self.port.close()
        self.wait(lambda: Closed() in self.events, "Closed")

    def fired(self) -> list[tuple[str, str]]:
        """The watch events until now, as (change, path)."""
        return [(e.change.name, e.path) for e in self.events if isinstance(e, Fired)]

    def seen(self) -> list[tuple[str, str]]:
        """The watch events of everything that happened before this call: a sync is answered after
        them. Forgets them.
        """
        assert self.sync() == ReadDone(())
        fired = self.fired()
        self.events[:] = [e for e in self.events if not isinstance(e, Fired)]
        return fired

    def _call(self, start: Callable[[Callable[[T], None]], None], what: str) -> T:
        answers: list[T] = []
        start(answers.append)
        self.wait(lambda: bool(answers), what)
        assert len(answers) == 1, answers
        return answers[0]


# Transactions
# --------------------------------------------------------------------------------------------------


def multi_results_stand_in_order(fixture: PortFixture) -> None:
    """One result per operation: the path of a create, the new stat of a set, `Done` for a delete
    and a check.
    """
    s = Session(fixture)
    result = s.do(
        Create("/a", b"1"),
        Create("/a/b", b"2"),
        SetData("/a", b"3", 0),
        Check("/a", 1),
        Delete("/a/b", 0),
    )
    created, inner, stat, checked, deleted = result.results
    assert (created, inner, checked, deleted) == (Created("/a"), Created("/a/b"), Done(), Done())
    assert isinstance(stat, Stat) and stat.version == 1 and stat.mzxid == stat.czxid
    assert s.node("/a").data == b"3" and s.missing("/a/b")


def multi_is_all_or_nothing(fixture: PortFixture) -> None:
    """The index names the first operation that failed, wherever it stands, and nothing of the
    others remains.
    """
    s = Session(fixture)
    s.do(Create("/a", b""))
    good: list[Op] = [Create("/x", b""), Create("/y", b""), SetData("/a", b"new", 0)]
    for index in range(len(good) + 1):
        ops = [*good[:index], Check("/a", 7), *good[index:]]
        assert s.multi(*ops) == Rejected(index, ZkError.BAD_VERSION)
        assert (
            s.names("/") == ("a",) and s.node("/a").data == b"" and s.node("/a").stat.version == 0
        )


def every_refusal_has_its_name(fixture: PortFixture) -> None:
    """The reasons that zkcoord tells apart."""
    s = Session(fixture)
    s.do(Create("/a", b""), Create("/a/b", b""), Create("/e", b"", ephemeral=True))
    refused: list[tuple[Op, ZkError]] = [
        (Create("/a", b""), ZkError.NODE_EXISTS),
        (Create("/no/child", b""), ZkError.NO_NODE),
        (Create("/e/child", b""), ZkError.NO_CHILDREN_FOR_EPHEMERALS),
        (SetData("/a", b"", 1), ZkError.BAD_VERSION),
        (SetData("/no", b"", -1), ZkError.NO_NODE),
        (Delete("/a", 3), ZkError.BAD_VERSION),
        (Delete("/a"), ZkError.NOT_EMPTY),
        (Delete("/no"), ZkError.NO_NODE),
        (Check("/a", 1), ZkError.BAD_VERSION),
        (Check("/no", 0), ZkError.NO_NODE),
    ]
    for op, error in refused:
        assert s.multi(op) == Rejected(0, error), op


def later_operations_see_earlier_ones(fixture: PortFixture) -> None:
    """Within a multi: a node created before may be checked, written and deleted; a deleted one
    created again, with version 0.
    """
    s = Session(fixture)
    s.do(Create("/a", b"old"))
    s.do(SetData("/a", b"", 0))
    s.do(
        Delete("/a", 1),
        Create("/a", b"new"),
        Check("/a", 0),
        Create("/a/b", b""),
        Delete("/a/b", 0),
    )
    assert s.node("/a").stat.version == 0 and s.node("/a").data == b"new"
    assert s.multi(Create("/c", b""), Create("/c", b"")) == Rejected(1, ZkError.NODE_EXISTS)


def versions_count_and_minus_one_is_any(fixture: PortFixture) -> None:
    """Data versions count from 0 with every set, also of equal data; -1 matches all; a set by
    another session counts too.
    """
    s, other = Session(fixture), Session(fixture)
    s.do(Create("/a", b"x"))
    for version in range(3):
        (stat,) = s.do(SetData("/a", b"x", version)).results
        assert isinstance(stat, Stat) and stat.version == version + 1
    other.sync()
    other.do(SetData("/a", b"y", -1))
    assert s.multi(SetData("/a", b"z", 3)) == Rejected(0, ZkError.BAD_VERSION)
    s.do(Check("/a", 4), Check("/a", -1), Delete("/a", -1))


def a_recreated_node_is_version_zero_but_another_czxid(fixture: PortFixture) -> None:
    """Why identity is (name, czxid): a check of the version alone passes against the successor."""
    s = Session(fixture)
    s.do(Create("/a", b""))
    first = s.node("/a").stat
    s.do(Delete("/a", 0))
    s.do(Create("/a", b""))
    second = s.node("/a").stat
    assert second.version == first.version == 0 and second.czxid > first.czxid
    s.do(Check("/a", 0))


def stats_tell_owner_children_and_zxids(fixture: PortFixture) -> None:
    """czxid is the creating transaction's, one for a whole multi; mzxid the last set's; cversion
    counts creates and deletes of children.
    """
    s = Session(fixture)
    s.do(Create("/a", b""), Create("/b", b""), Create("/a/e", b"", ephemeral=True))
    a, b, e = s.node("/a").stat, s.node("/b").stat, s.node("/a/e").stat
    assert a.czxid == b.czxid == e.czxid == a.mzxid
    assert (a.ephemeral_owner, e.ephemeral_owner) == (0, s.session_id)
    assert (a.num_children, a.cversion, a.version) == (1, 1, 0)
    s.do(SetData("/b", b"x", 0))
    s.do(Create("/a/f", b""), Delete("/a/e", 0))
    later = s.node("/a").stat
    assert s.node("/b").stat.mzxid > b.mzxid and s.node("/b").stat.czxid == b.czxid
    assert (later.num_children, later.cversion, later.mzxid) == (1, 3, a.mzxid)


def sequential_names_count_the_parents_creates(fixture: PortFixture) -> None:
    """Ten digits; the counter is the parent's, so any create leaves a gap, and it starts again with
    a new parent.
    """
    s = Session(fixture)
    s.do(Create("/a", b""))
    first = s.do(
        Create("/a/x-", b"", sequential=True), Create("/a/y-", b"", sequential=True)
    ).results
    assert first == (Created("/a/x-0000000000"), Created("/a/y-0000000001"))
    s.do(Create("/a/plain", b""))
    assert s.do(Create("/a/x-", b"", sequential=True, ephemeral=True)).results == (
        Created("/a/x-0000000003"),
    )
    s.do(*[Delete(f"/a/{n}") for n in s.names("/a")], Delete("/a"))
    s.do(Create("/a", b""))
    assert s.do(Create("/a/x-", b"", sequential=True)).results == (Created("/a/x-0000000000"),)


def acls_are_accepted_on_create(fixture: PortFixture) -> None:
    """ACLs are a parameter of every create; an open one and a read-only one for the world."""
    s = Session(fixture)
    s.do(Create("/a", b"data", acl=(AclEntry(1, "world", "anyone"),)))
    assert s.node("/a").data == b"data"


def too_large_a_multi_is_refused_by_name(fixture: PortFixture) -> None:
    """Over the caps of operations or bytes nothing happens, and the answer comes (a server would
    drop the connection).
    """
    s = Session(fixture)
    s.do(Create("/a", b""))
    assert isinstance(s.multi(*[Check("/a", 0)] * (OPS_PER_MULTI_MAX + 1)), Rejected)
    assert isinstance(s.multi(Create("/b", bytes(MULTI_BYTES_MAX))), Rejected)
    assert s.names("/") == ("a",) and not s.events


# Reads
# --------------------------------------------------------------------------------------------------


def reads_answer_each_for_itself(fixture: PortFixture) -> None:
    """Data, children (sorted) and missing nodes in one multiRead, in order."""
    s = Session(fixture)
    s.do(Create("/a", b"1"), Create("/a/z", b""), Create("/a/b", b""), Create("/n", b""))
    node, children, missing, missing_children, empty = s.reads(
        GetData("/a"), GetChildren("/a"), GetData("/no"), GetChildren("/no"), GetData("/n")
    )
    assert isinstance(node, Node) and node.data == b"1" and node.stat.num_children == 2
    assert (
        children == Children(("b", "z")) and missing == Missing() and missing_children == Missing()
    )
    assert isinstance(empty, Node) and empty.data == b""
    assert s.reads() == ()


def own_writes_are_read(fixture: PortFixture) -> None:
    """A session reads what it wrote, also when both were sent without waiting, and in the order
    sent.
    """
    s = Session(fixture)
    s.do(Create("/a", b"0"))
    log: list[object] = []
    for i in range(1, 21):
        s.port.multi([SetData("/a", str(i).encode(), i - 1)], log.append)
        s.port.read([GetData("/a")], log.append)
    s.wait(lambda: len(log) == 40, "forty answers")
    for i in range(1, 21):
        written, read = log[2 * i - 2], log[2 * i - 1]
        assert isinstance(written, Committed) and isinstance(read, ReadDone)
        answer = read.answers[0]
        assert (
            isinstance(answer, Node) and answer.data == str(i).encode() and answer.stat.version == i
        )


def after_a_sync_foreign_writes_are_read(fixture: PortFixture) -> None:
    """What was acknowledged to another session before the sync was sent is seen after it."""
    s, other = Session(fixture), Session(fixture)
    for i in range(5):
        other.do(Create(f"/n{i}", b""))
        assert s.sync() == ReadDone(())
        assert not s.missing(f"/n{i}")


# Sessions
# --------------------------------------------------------------------------------------------------


def ephemerals_go_in_one_transaction_on_close(fixture: PortFixture) -> None:
    """A close deletes all of them at one instant: whoever reads sees all or none, and the parents'
    children change once.
    """
    s, other = Session(fixture), Session(fixture)
    s.do(Create("/p", b""), Create("/q", b""))
    s.do(
        *[Create(f"/p/e{i}", b"", ephemeral=True) for i in range(5)],
        Create("/q/e", b"", ephemeral=True),
        Create("/q/stays", b""),
    )
    other.sync()
    other.watch("/", WatchMode.RECURSIVE)
    s.close()
    other.wait(lambda: len(other.fired()) >= 6, "six deletions")
    assert sorted(other.seen()) == sorted(
        [("DELETED", f"/p/e{i}") for i in range(5)] + [("DELETED", "/q/e")]
    )
    p, q = other.node("/p").stat, other.node("/q").stat
    assert (p.num_children, q.num_children) == (0, 1)
    other.do(Create("/p/one", b""))
    assert other.node("/p").stat.czxid < other.node("/p/one").stat.czxid


def a_closed_port_answers_unanswered(fixture: PortFixture) -> None:
    """Calls made before the close are answered; later ones are not sent. `Closed` comes once, and
    last.
    """
    s = Session(fixture)
    log: list[MultiResult] = []
    s.port.multi([Create("/a", b"")], log.append)
    s.port.close()
    s.port.close()
    s.port.multi([Create("/b", b"")], log.append)
    assert not log, "nothing calls back from inside a call"
    s.wait(lambda: Closed() in s.events and len(log) == 2, "Closed and both answers")
    assert sum(isinstance(r, Committed) for r in log) == 1 and log.count(Unanswered()) == 1
    assert s.multi(Create("/b", b"")) == Unanswered() and s.sync() == Unanswered()
    assert s.events == [Closed()]
    other = Session(fixture)
    other.sync()
    assert other.names("/") == ("a",)


def session_ids_differ(fixture: PortFixture) -> None:
    """Every open is another session, with ephemerals of its own."""
    s, other = Session(fixture), Session(fixture)
    assert s.session_id != other.session_id and 0 not in (s.session_id, other.session_id)
    s.do(Create("/e", b"", ephemeral=True))
    other.sync()
    assert other.node("/e").stat.ephemeral_owner == s.session_id
    other.close()
    assert s.node("/e").stat.ephemeral_owner == s.session_id


def while_suspended_nothing_is_sent_or_kept(fixture: PortFixture) -> None:
    """Calls under way end `Unanswered` before the next `Connected`, calls made meanwhile too, and
    none of the latter happens afterwards.
    """
    s, other = Session(fixture), Session(fixture)
    s.do(Create("/a", b""), Create("/e", b"", ephemeral=True))
    s.watch("/", WatchMode.RECURSIVE)
    fixture.cut(s.port)
    s.wait(lambda: Suspended() in s.events, "Suspended")
    order: list[object] = []
    s.port.multi([Create("/never", b"")], order.append)
    s.port.read([GetData("/a")], order.append)
    s.port.sync(order.append)
    s.port.watch("/a", WatchMode.PERSISTENT, order.append)
    assert not order, "nothing calls back from inside a call"
    s.wait(lambda: len(order) == 4, "four answers")
    assert order == [Unanswered()] * 4
    del s.events[:]
    fixture.heal(s.port)
    s.wait(lambda: bool(s.events), "an event after the cut")
    assert isinstance(s.events[0], Connected) and s.events[0].session_id == s.session_id
    del s.events[:]
    s.do(Create("/after", b""))
    assert s.names("/") == (
        "a",
        "after",
        "e",
    ), "the ephemeral lives, the suspended create never happened"
    assert s.seen() == [], "watches are gone after a connection loss"
    other.sync()
    assert other.missing("/never")


# Watches
# --------------------------------------------------------------------------------------------------


def a_persistent_watch_sees_its_node_and_its_children(fixture: PortFixture) -> None:
    """Created, data, deleted of the node; one CHILDREN per child created or deleted; nothing of
    what is below, nothing of a child's data.
    """
    s = Session(fixture)
    s.do(Create("/a", b""))
    s.watch("/a", WatchMode.PERSISTENT)
    s.do(SetData("/a", b"x", 0))
    s.do(Create("/a/b", b""))
    s.do(SetData("/a/b", b"x", 0))
    s.do(Create("/a/b/c", b""))
    s.do(Delete("/a/b/c"))
    s.do(Delete("/a/b"))
    assert s.seen() == [("DATA", "/a"), ("CHILDREN", "/a"), ("CHILDREN", "/a")]
    s.do(Delete("/a"))
    s.do(Create("/a", b""))
    s.do(Create("/a/b", b""))
    assert s.seen() == [
        ("DELETED", "/a"),
        ("CREATED", "/a"),
        ("CHILDREN", "/a"),
    ], "it outlives its node"


def a_recursive_watch_sees_all_below_without_children(fixture: PortFixture) -> None:
    """Created, data, deleted at every depth, never CHILDREN."""
    s = Session(fixture)
    s.do(Create("/a", b""), Create("/ab", b""))
    s.watch("/a", WatchMode.RECURSIVE)
    s.do(Create("/a/b", b""))
    s.do(Create("/a/b/c", b""))
    s.do(SetData("/a/b/c", b"x", 0))
    s.do(SetData("/a", b"x", 0))
    s.do(SetData("/ab", b"x", 0), Create("/ab/c", b""))
    s.do(Delete("/a/b/c"), Delete("/a/b"))
    s.do(Delete("/a"))
    s.do(Create("/a", b""))
    assert s.seen() == [
        ("CREATED", "/a/b"), ("CREATED", "/a/b/c"), ("DATA", "/a/b/c"), ("DATA", "/a"),
        ("DELETED", "/a/b/c"), ("DELETED", "/a/b"), ("DELETED", "/a"), ("CREATED", "/a"),
    ]  # fmt: skip


def a_watch_may_stand_on_a_missing_path(fixture: PortFixture) -> None:
    """Both modes: the path need not exist, not even its parent."""
    s = Session(fixture)
    s.watch("/p", WatchMode.PERSISTENT)
    s.watch("/r/deep", WatchMode.RECURSIVE)
    s.do(Create("/p", b""))
    s.do(Create("/r", b""))
    s.do(Create("/r/deep", b""))
    s.do(Create("/r/deep/er", b""))
    assert s.seen() == [("CREATED", "/p"), ("CREATED", "/r/deep"), ("CREATED", "/r/deep/er")]


def events_of_one_multi_stand_in_its_order(fixture: PortFixture) -> None:
    """Each operation of a multi fires for itself, in order; checks and failed multis fire
    nothing.
    """
    s, other = Session(fixture), Session(fixture)
    other.watch("/", WatchMode.RECURSIVE)
    s.do(
        Create("/a", b""),
        Create("/b", b""),
        SetData("/a", b"x", 0),
        Check("/a", 1),
        Delete("/b", 0),
    )
    s.multi(Create("/c", b""), Check("/a", 9))
    s.do(SetData("/a", b"x", 1))
    other.wait(lambda: len(other.fired()) >= 5, "five events")
    assert other.seen() == [
        ("CREATED", "/a"),
        ("CREATED", "/b"),
        ("DATA", "/a"),
        ("DELETED", "/b"),
        ("DATA", "/a"),
    ]


def a_watch_added_twice_fires_once(fixture: PortFixture) -> None:
    """The server keeps one watch per session, path and mode."""
    s = Session(fixture)
    s.watch("/a", WatchMode.PERSISTENT)
    s.watch("/a", WatchMode.PERSISTENT)
    s.do(Create("/a", b""))
    assert s.seen() == [("CREATED", "/a")]


def a_removed_watch_sees_nothing_more(fixture: PortFixture) -> None:
    """Of either mode, also of a path that is gone; the others stay, another session's on the same
    path, too. Removing none is refused by name, and it can be added again.
    """
    s, other = Session(fixture), Session(fixture)
    s.do(Create("/a", b""), Create("/b", b""))
    other.sync()
    for session in (s, other):
        session.watch("/a", WatchMode.RECURSIVE)
        session.watch("/b", WatchMode.PERSISTENT)
    s.do(Delete("/a"))
    assert s.seen() == [("DELETED", "/a")]
    assert s.unwatch("/a") == ReadDone(())
    s.do(Create("/a", b""), Create("/a/b", b""), SetData("/b", b"x", 0))
    assert s.seen() == [("DATA", "/b")]
    assert s.unwatch("/b") == ReadDone(())
    s.do(SetData("/b", b"x", 1), SetData("/a/b", b"x", 0))
    assert s.seen() == []
    assert s.unwatch("/a") == s.unwatch("/none") == ReadDone((Denied(ZkError.OTHER),))
    s.watch("/a", WatchMode.RECURSIVE)
    s.do(SetData("/a/b", b"y", 1))
    assert s.seen() == [("DATA", "/a/b")]
    other.wait(lambda: len(other.fired()) >= 7, "seven events")
    assert [path for _, path in other.seen()] == ["/a", "/a", "/a/b", "/b", "/b", "/a/b", "/a/b"]


def an_event_comes_before_the_answer_that_shows_it(fixture: PortFixture) -> None:
    """FIFO: a read that sees a change is delivered after the watch event of that change; a write's
    answer after its own events.
    """
    s, other = Session(fixture), Session(fixture)
    s.do(Create("/a", b"0"))
    s.watch("/a", WatchMode.PERSISTENT)
    s.seen()
    for i in range(1, 31):
        finished: list[MultiResult] = []
        other.port.multi([SetData("/a", str(i).encode(), -1)], finished.append)
        while True:
            known = sum(change == "DATA" for change, _ in s.fired())
            got: list[tuple[int, int]] = []
            s.port.read(
                [GetData("/a")],
                lambda r: got.append((_number(r), sum(c == "DATA" for c, _ in s.fired()))),
            )
            s.wait(lambda: bool(got), "the answer to a read")
            value, events = got[0]
            assert events >= value >= known, "an answer overtook its event"
            if value == i:
                break
        s.wait(lambda: bool(finished), "the write's answer")
        assert isinstance(finished[0], Committed)
    s.seen()
    order: list[object] = []
    s.port.multi([SetData("/a", b"own", -1)], lambda r: order.append(s.fired()))
    s.wait(lambda: bool(order), "the answer")
    assert order == [[("DATA", "/a")]]


def nothing_is_told_of_what_is_ignored(fixture: PortFixture) -> None:
    """Below the path, not at it; others as before; again when it is ignored no longer, and on the
    next connection.
    """
    s = Session(fixture)
    s.do(Create("/a", b""), Create("/ab", b""))
    s.watch("/", WatchMode.RECURSIVE)
    s.port.ignore(["/a", "/z"])
    assert s.sync() == ReadDone(())
    s.do(
        Create("/a/x", b""),
        Create("/a/x/y", b""),
        Create("/ab/x", b""),
        SetData("/a", b"", -1),
        Delete("/a/x/y", -1),
    )
    assert s.seen() == [("CREATED", "/ab/x"), ("DATA", "/a")]
    s.port.ignore(["/z"])
    assert s.sync() == ReadDone(())
    s.do(SetData("/a/x", b"1", -1))
    assert s.seen() == [("DATA", "/a/x")]
    s.port.ignore(["/a"])
    fixture.cut(s.port)
    s.wait(lambda: Suspended() in s.events, "Suspended")
    fixture.heal(s.port)
    s.wait(lambda: isinstance(s.events[-1], Connected), "Connected")
    del s.events[:]
    s.watch("/", WatchMode.RECURSIVE)
    s.do(SetData("/a/x", b"2", -1))
    assert s.seen() == [("DATA", "/a/x")]


def _number(result: ReadResult) -> int:
    assert isinstance(result, ReadDone)
    answer = result.answers[0]
    assert isinstance(answer, Node)
    return int(answer.data)


def acls_are_told_in_the_order_of_their_paths(fixture: PortFixture) -> None:
    """Of a node that is there, with how many children it has, and of one that is not."""
    s = Session(fixture)
    s.do(Create("/a", b""), Create("/a/x", b""))
    asked = ["/a/x", "/none", "/a"]
    result = s.acls(asked)
    assert result == AclsDone((Acl(OPEN_ACL, 0), Missing(), Acl(OPEN_ACL, 1)))
    assert s.acls([]) == AclsDone(())
    s.close()
    assert s.acls(asked) == Unanswered()


CONTRACT: Sequence[Callable[[PortFixture], None]] = (
    multi_results_stand_in_order,
    multi_is_all_or_nothing,
    every_refusal_has_its_name,
    later_operations_see_earlier_ones,
    versions_count_and_minus_one_is_any,
    a_recreated_node_is_version_zero_but_another_czxid,
    stats_tell_owner_children_and_zxids,
    sequential_names_count_the_parents_creates,
    acls_are_accepted_on_create,
    acls_are_told_in_the_order_of_their_paths,
    too_large_a_multi_is_refused_by_name,
    reads_answer_each_for_itself,
    own_writes_are_read,
    after_a_sync_foreign_writes_are_read,
    ephemerals_go_in_one_transaction_on_close,
    a_closed_port_answers_unanswered,
    session_ids_differ,
    while_suspended_nothing_is_sent_or_kept,
    a_persistent_watch_sees_its_node_and_its_children,
    a_recursive_watch_sees_all_below_without_children,
    a_watch_may_stand_on_a_missing_path,
    events_of_one_multi_stand_in_its_order,
    a_watch_added_twice_fires_once,
    a_removed_watch_sees_nothing_more,
    an_event_comes_before_the_answer_that_shows_it,
    nothing_is_told_of_what_is_ignored,
)

SINCE_3_6: Sequence[Callable[[PortFixture], None]] = (
    events_of_one_multi_stand_in_its_order,
    an_event_comes_before_the_answer_that_shows_it,
    a_removed_watch_sees_nothing_more,
    nothing_is_told_of_what_is_ignored,
)
"""Watches that fire once, all that older servers have, cannot keep these: what came and went
between two looks is not told, changes that follow closely are told as one, an event is told when
the watch is there again, and every one must be heard.
"""
