"""The server does it and the answer never comes: every kind of write of a coordinator and of a
member, behind a proxy that swallows exactly that answer.

Whoever wrote syncs, looks, and goes on from what is there: the same session, the same term, nothing
done twice, nothing left undone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from consumer.core import messages as msg
from tests.harness.proxy import Fault, Proxy
from tests.harness.proxy import Op as ProxyOp
from tests.harness.wait import wait_until
from tests.protocol.rig import GROUP, WAIT_S, Coordinator, Member, Rig, tps
from tests.protocol.spy import When, creates, deletes, renews, starts, stops, stores
from zkcoord.core.model import Command, GroupState, Option, Request, RequestKind
from zkcoord.zk.port import Change, Create, Delete, Op, SetData
from zkcoord.znodes import codec

T0, T1 = tps("t", 0, 1)
GHOST = "g_ghost-1-00000000"
SWIFT = {
    "lease_max_ms": 400,
    "lease_margin_ms": 100,
    "channel_departed_ms": 50,
    "channel_orphan_ms": 1_000,
}


class Loss:
    """The answer to the next multi of one kind gets lost. `of(proc)` arms it; `was_one` says that
    it happened, and that no second multi of that kind followed which happened, too.
    """

    def __init__(self, proxy: Proxy, when: When) -> None:
        self.proxy = proxy
        self.when = when
        self.faults: list[Fault] = []
        self.proc: Coordinator | Member

    def of(self, proc: Coordinator | Member) -> Loss:
        self.proc = proc
        proc.spy.before(
            self.when, lambda: self.faults.append(self.proxy.swallow_replies(1, {ProxyOp.MULTI}))
        )
        return self

    def happened(self) -> bool:
        return bool(self.faults) and self.faults[0].fired == 1

    def was_one(self) -> None:
        wait_until(self.happened, WAIT_S, "the loss")
        assert len(self.proc.sessions) == 1 and not [
            s for s in self.proc.spy.multis(self.when) if s.happened
        ], "the lost one was the only one that happened"


def gone(rig: Rig, path: str) -> None:
    """The node does not exist any more."""
    wait_until(lambda: rig.zk.exists(path) is None, WAIT_S, f"the end of {path}")


def times(rig: Rig, change: Change, part: str) -> int:
    """How often a node whose path contains `part` was created, deleted, set."""
    return sum(c is change and part in path for c, path in rig.trace)


# A coordinator's writes: each arranges what makes the coordinator write, waits for the right end,
# and says what must have happened once


def command(rig: Rig, c: Coordinator) -> None:
    """The first command of a group, with its report."""
    m = rig.member("m", "t").fetches(T0, T1)
    assert (
        times(rig, Change.CREATED, f"/channel/{m.member}/") == 1 and len(m.said(msg.Assigned)) == 1
    )


def stop(rig: Rig, c: Coordinator) -> None:
    """A stop: given up once, and started once at the other one."""
    m = rig.member("m", "t").fetches(T0, T1)
    late = rig.member("late", "t")
    late.wait(lambda: len(late.fetching()) == 1 == len(m.fetching()), "a partition each")
    assert len(m.said(msg.Revoke)) == 1 and times(rig, Change.CREATED, f"/channel/{m.member}/") == 2


def eviction(rig: Rig, c: Coordinator) -> None:
    """Overdue: the registration goes once, its partitions go to another."""
    rig.ghost(GHOST, {"t": 1}, rebalance_timeout_ms=300)
    gone(rig, rig.layout.registration(GROUP, GHOST))
    rig.member("m", "t").fetches(T0, T1)
    assert times(rig, Change.DELETED, f"/ids/{GHOST}") == 1 and rig.commands(GHOST) == []


def cleaning(rig: Rig, c: Coordinator) -> None:
    """A command of a dead coordinator is deleted once, and a new one is sent once."""
    old = rig.ghost(GHOST, {"t": 1})
    assert old.connected
    c.wait(lambda: len(rig.commands(GHOST)) == 1, "the command")
    (node,) = rig.commands(GHOST)
    stale = Command(GHOST, rig.incarnation(GHOST), Option.STOP, 1, 1, 1, {}, (T0,))
    path = rig.zk.create(
        rig.layout.command_prefix(GROUP, GHOST, 1, 1), codec.encode_command(stale), sequence=True
    )
    gone(rig, path)
    assert rig.commands(GHOST) == [node] and times(rig, Change.DELETED, path.rsplit("/", 1)[1]) == 1


def orphans(rig: Rig, c: Coordinator) -> None:
    """The owner node of a session without registration is deleted once, and then started once."""
    m = rig.member("m", "t", "u").fetches(T0, T1)
    rig.owner(rig.client(), tps("u", 0)[0], "nobody-0")
    rig.topic("u", 1)
    m.fetches(T0, T1, *tps("u", 0))
    assert (
        times(rig, Change.DELETED, "/owners/u/0") == 1
        and times(rig, Change.CREATED, "/owners/u/0") == 2
    )


def channel(rig: Rig, c: Coordinator) -> None:
    """The channel of a member that left goes, once."""
    m = rig.member("m", "t").fetches(T0, T1)
    m.leave()
    gone(rig, rig.layout.channel(GROUP, m.member))


def request(rig: Rig, c: Coordinator) -> None:
    """An operator's request is taken up once, and goes."""
    rig.member("m", "t").fetches(T0, T1)
    rig.zk.ensure_path(rig.layout.requests(GROUP))
    path = rig.zk.create(
        rig.layout.request_prefix(GROUP),
        codec.encode_request(Request(RequestKind.REBALANCE, False, "me")),
        sequence=True,
    )
    gone(rig, path)
    assert times(rig, Change.DELETED, "/requests/request-") == 1


def report(rig: Rig, c: Coordinator) -> None:
    """The report of a group at rest."""
    rig.member("m", "t").fetches(T0, T1)

    def stable() -> bool:
        node = rig.node(rig.layout.group(GROUP))
        value = codec.decode_metadata(GROUP, node[0]) if node is not None and node[0] else None
        return getattr(value, "state", None) is GroupState.STABLE

    wait_until(stable, WAIT_S, "the report")


def only_report(ops: Sequence[Op]) -> bool:
    """The report of a group at rest: nothing is created beside it."""
    return any(isinstance(op, SetData) for op in ops) and not any(
        isinstance(op, (Create, Delete)) for op in ops
    )


def drops_channel(ops: Sequence[Op]) -> bool:
    """Deletes a channel, and nothing else."""
    return [type(op).__name__ for op in ops] == ["Check", "Delete"] and ops[1].path.rsplit("/", 2)[
        1
    ] == "channel"


def cleans(ops: Sequence[Op]) -> bool:
    """Deletes commands, and no registration."""
    return deletes("/channel/")(ops) and not deletes("/ids/")(ops) and not drops_channel(ops)


COORDINATORS: dict[str, tuple[When, Callable[[Rig, Coordinator], None]]] = {
    "command": (creates("/channel/"), command),
    "second command": (
        lambda ops: any(isinstance(op, Create) and b"stop-fetcher" in op.data for op in ops),
        stop,
    ),
    "eviction": (deletes("/ids/"), eviction),
    "cleaning": (cleans, cleaning),
    "orphans": (deletes("/owners/"), orphans),
    "channel": (drops_channel, channel),
    "request": (deletes("/requests/"), request),
    "report": (only_report, report),
}


@pytest.mark.parametrize("kind", COORDINATORS)
def test_of_a_coordinator(rig: Rig, kind: str) -> None:
    """The same term and session go on, and the group is served afterwards."""
    when, arranged = COORDINATORS[kind]
    rig.topic("t", 2)
    proxy = rig.proxy()
    c = rig.coordinator(proxy=proxy, **SWIFT)
    loss = Loss(proxy, when).of(c)
    arranged(rig, c)
    wait_until(loss.happened, WAIT_S, "the loss")
    c.wait(
        lambda: c.leads and not c.driver.core.reading and not c.driver.core.writing,
        "its lead again",
    )
    assert len(c.sessions) == 1 and len(c.terms("elected")) == 1 and not c.terms("resigned")
    if kind not in ("command", "second command", "report"):
        loss.was_one()
    rig.topic("last", 3)
    rig.member("last", "last", group="last").fetches(*tps("last", 0, 1, 2))


# A member's writes


def join(rig: Rig, m: Member) -> None:
    """One registration, one channel, under one name."""
    m.subscribe("t").fetches(T0, T1)
    assert (
        rig.names(rig.layout.ids(GROUP)) == [m.member]
        and len(m.names) == 1
        and times(rig, Change.CREATED, f"/ids/{m.member}") == 1
    )


def start_ack(rig: Rig, m: Member) -> None:
    """Adopted: told once, owner nodes made once."""
    m.subscribe("t").fetches(T0, T1)
    assert len(m.said(msg.Assigned)) == 1 and times(rig, Change.CREATED, "/owners/t/0") == 1


def stop_ack(rig: Rig, m: Member) -> None:
    """Given up once, with its position stored once."""
    m.subscribe("t").fetches(T0, T1)
    m.positions.update({T0: 40, T1: 41})
    late = rig.member("late", "t")
    late.wait(lambda: len(late.fetching()) == 1 == len(m.fetching()), "a partition each")
    (moved,) = late.fetching()
    assert (
        late.positions[moved] == 40 + moved.partition
        and not m.said(msg.Resumed)
        and times(rig, Change.DELETED, f"/owners/t/{moved.partition}") == 1
    )
    late.leave({moved: 40 + moved.partition})
    m.fetches(T0, T1)


def commit(rig: Rig, m: Member) -> None:
    """The application is told that the outcome is not known; stored once, and its own value is no
    reset of an operator's: the next commit stands on it.
    """
    m.subscribe("t").fetches(T0, T1)
    assert m.commit({T0: 7}).outcome is msg.CommitOutcome.UNAVAILABLE and rig.offset(T0) == (7, 1)
    m.wait(lambda: m.driver.connected and not m.driver.core.session.doubt, "the end of its doubt")
    assert (
        m.commit({T0: 8}).outcome is msg.CommitOutcome.OK
        and rig.offset(T0) == (8, 2)
        and not m.said(msg.Seek)
    )


def renewal(rig: Rig, m: Member) -> None:
    """The lease lasts, or comes back, and nothing is lost."""
    m.subscribe("t").fetches(T0, T1)
    m.wait(lambda: any(renews(s.ops) for s in m.spy.multis()), "a renewal")
    m.wait(
        lambda: len(m.spy.multis(lambda ops: renews(ops))) >= 2 and m.may_hand_out(), "its lease"
    )


def dropped_owners(rig: Rig, m: Member) -> None:
    """Its offset node is deleted: the owner node is given up once, and the partition started
    anew.
    """
    m.subscribe("t").fetches(T0, T1)
    rig.zk.delete(rig.layout.offset(GROUP, T0))
    m.commit({T0: 9})
    m.wait(lambda: m.said(msg.Lost), "the loss of the partition")
    m.fetches(T0, T1)
    assert (
        times(rig, Change.DELETED, "/owners/t/0") == 1
        and times(rig, Change.CREATED, "/owners/t/0") == 2
        and rig.offset(T0) == (0, 0)
    )


def resubscription(rig: Rig, m: Member) -> None:
    """The registration is made again once, under the same name; what stays is not touched."""
    rig.topic("u", 1)
    m.subscribe("t").fetches(T0, T1)
    m.subscribe("t", "u").fetches(T0, T1, *tps("u", 0))
    assert (
        times(rig, Change.CREATED, f"/ids/{m.member}") == 2
        and len(m.names) == 1
        and times(rig, Change.CREATED, "/owners/t/0") == 1
    )


MEMBERS: dict[str, tuple[When, Callable[[Rig, Member], None]]] = {
    "parents": (lambda ops: len(ops) == 1 and isinstance(ops[0], Create), join),
    "registration": (creates("/ids/"), join),
    "start ack": (starts, start_ack),
    "stop ack": (stops, stop_ack),
    "commit": (stores("/offsets/"), commit),
    "renewal": (renews, renewal),
    "dropped owners": (
        lambda ops: deletes("/owners/")(ops) and not deletes("/channel/")(ops),
        dropped_owners,
    ),
    "resubscription": (lambda ops: deletes("/ids/")(ops) and creates("/ids/")(ops), resubscription),
}


@pytest.mark.parametrize("kind", MEMBERS)
def test_of_a_member(rig: Rig, kind: str) -> None:
    """The same session goes on under the same name, what it holds is what its owner nodes say, and
    it commits and leaves as ever.
    """
    when, arranged = MEMBERS[kind]
    rig.topic("t", 2)
    rig.coordinator(lease_max_ms=2_000)
    proxy = rig.proxy()
    m = rig.member("m", proxy=proxy)
    loss = Loss(proxy, when).of(m)
    arranged(rig, m)
    wait_until(loss.happened, WAIT_S, "the loss")
    if kind not in ("renewal", "parents", "commit"):
        loss.was_one()
    assert len(m.sessions) == 1 == len(m.names)
    m.wait(lambda: m.driver.connected and not m.driver.core.session.doubt, "the end of its doubt")
    assert {n: session for n, (_, session) in rig.owners("t").items()} == dict.fromkeys(
        (0, 1), m.sessions[0]
    )
    assert m.commit({T1: 77}).outcome is msg.CommitOutcome.OK and rig.offset(T1)[0] == 77  # type: ignore[index]
    m.leave({T1: 78})
    assert rig.names(rig.layout.ids(GROUP)) == [] and rig.offset(T1)[0] == 78  # type: ignore[index]


def test_of_a_close(rig: Rig) -> None:
    """The session is closed and the answer lost: its owner nodes and registration are gone at once,
    it ends without waiting for its session timeout, and makes no new session.
    """
    rig.topic("t", 2)
    rig.coordinator()
    proxy = rig.proxy()
    m = rig.member("m", "t", proxy=proxy).fetches(T0, T1)
    fault = proxy.swallow_replies(1, {ProxyOp.CLOSE})
    m.leave({T0: 5})
    wait_until(lambda: fault.fired == 1, WAIT_S, "the loss")
    assert (
        rig.names(rig.layout.ids(GROUP)) == []
        and rig.owners("t") == {}
        and len(m.sessions) == 1
        and rig.offset(T0)[0] == 5
    )  # type: ignore[index]
