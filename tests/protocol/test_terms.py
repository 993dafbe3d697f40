"""Terms: who leads, what fences a coordinator that was replaced, and what ends a term."""

from __future__ import annotations

import pytest

from tests.harness.proxy import Op
from tests.harness.wait import wait_until
from tests.protocol.rig import GROUP, SHORT_SESSION_MS, WAIT_S, Coordinator, Rig, rigged, tps
from tests.protocol.spy import creates
from zkcoord.zk.clock import wall_ms
from zkcoord.zk.port import Change, Check, Create, Rejected, ZkError
from zkcoord.znodes import codec
from zkcoord.znodes.codec import EpochData
from zkcoord.znodes.paths import Layout

T0, T1 = tps("t", 0, 1)
MARK = "/mark-of-the-session"


def epoch_of(rig: Rig) -> EpochData:
    """What the epoch node says."""
    node = rig.node(rig.layout.epoch)
    assert node is not None
    value = codec.decode_epoch(node[0])
    assert isinstance(value, EpochData), value
    return value


def marked(rig: Rig, c: Coordinator) -> None:
    """An ephemeral node of the coordinator's session: it goes with the session, not with the leader
    node. (The session could live for half a minute, so it goes early only by a close.)
    """
    c.ask(lambda: c.driver.port.multi([Create(MARK, b"", ephemeral=True)], lambda result: None))  # type: ignore[union-attr]
    wait_until(lambda: rig.zk.exists(MARK), WAIT_S, "the mark")


def session_closed(rig: Rig, c: Coordinator, session: int) -> None:
    """The session that made the mark is over at the server, and another one took its place."""
    wait_until(lambda: rig.zk.exists(MARK) is None, WAIT_S, "the end of the marked session")
    c.wait(lambda: c.sessions[-1] != session, "a new session")


def test_a_zombies_write_is_fenced_as_a_whole(rig: Rig) -> None:
    """Another epoch was written while this coordinator was deciding: nothing of its multi happens,
    it drops all state, closes its session, and leads again under a higher epoch.
    """
    rig.topic("t", 2)
    c = rig.coordinator()
    epoch, session = c.driver.core.epoch, c.sessions[-1]
    marked(rig, c)
    c.spy.before(
        creates("/channel/"),
        lambda: rig.zk.set(rig.layout.epoch, codec.encode_epoch(EpochData(epoch + 7, 1, 12_000))),
    )
    m = rig.member("m", "t").fetches(T0, T1)
    session_closed(rig, c, session)
    fenced = c.spy.multis(creates("/channel/"))[0]
    assert isinstance(fenced.ops[0], Check) and fenced.result == Rejected(0, ZkError.BAD_VERSION)
    assert not any(f"/{epoch}-" in path for path in rig.created(f"/channel/{m.member}/")), (
        "a command of the old epoch was written"
    )
    assert "fenced" in str(c.terms("resigned")[0]["reason"]) and c.driver.core.epoch > epoch + 7


def test_the_fence_holds_for_a_paused_leader_that_was_replaced(rig: Rig) -> None:
    """Its loop stands still, its session is kept alive; an operator deletes its leader node,
    another takes over; when it goes on, it has decided on nothing.
    """
    rig.topic("t", 2)
    old = rig.coordinator("old")
    old.stall()
    rig.zk.delete(rig.layout.leader)
    new = rig.coordinator("new")
    m = rig.member("m", "t").fetches(T0, T1)
    old.go()
    old.wait(lambda: old.terms("resigned"), "its resignation")
    assert all(
        path.rsplit("/", 1)[1].startswith(f"{new.driver.core.epoch}-")
        for path in rig.created(f"/channel/{m.member}/")
    )
    assert (
        not any(s.happened for s in old.spy.multis(lambda ops: isinstance(ops[0], Check)))
        and new.leads
    )


def test_a_deleted_leader_node_ends_the_term(rig: Rig) -> None:
    """The operator's way to move the lead: all state is dropped with the session, and it stands
    again.
    """
    rig.topic("t", 2)
    c = rig.coordinator()
    m = rig.member("m", "t").fetches(T0, T1)
    epoch, session = c.driver.core.epoch, c.sessions[-1]
    marked(rig, c)
    rig.zk.delete(rig.layout.leader)
    session_closed(rig, c, session)
    c.wait(lambda: c.leads and c.driver.core.epoch > epoch, "its next term")
    late = rig.member("late", "t")
    late.wait(lambda: len(late.fetching()) == 1, "its partition")
    assert len(m.fetching()) == 1 and epoch_of(rig).epoch == c.driver.core.epoch


def test_a_replaced_leader_node_ends_the_term(rig: Rig) -> None:
    """Deleted and made by somebody else in one multi: it must not go on, and it waits until the
    seat is free.
    """
    c = rig.coordinator()
    session = c.sessions[-1]
    marked(rig, c)
    change = rig.zk.transaction()
    change.delete(rig.layout.leader)
    change.create(rig.layout.leader, b"an operator's")
    assert all(not isinstance(r, Exception) for r in change.commit())
    session_closed(rig, c, session)
    assert not c.driver.core.leading
    rig.zk.delete(rig.layout.leader)
    c.wait(lambda: c.leads, "its next term")
    assert len(c.terms("elected")) == 2


def test_without_contact_it_drops_its_state_before_its_session_can_be_over(rig: Rig) -> None:
    """Nothing comes through: at 2/3 of the session timeout, by its own clock, it is no coordinator
    any more, though nobody told it.
    """
    rig.topic("t", 1)
    proxy = rig.proxy()
    c = rig.coordinator("c", session_ms=4_000, proxy=proxy)
    proxy.black_hole()
    c.wait(lambda: c.terms("resigned"), "its resignation")
    assert "2/3" in str(c.terms("resigned")[0]["reason"]) or "over" in str(
        c.terms("resigned")[0]["reason"]
    )
    assert not c.driver.core.leading
    proxy.heal()
    c.wait(lambda: c.leads and len(c.terms("elected")) >= 2, "its next term")


def test_a_lost_session_ends_the_term(rig: Rig) -> None:
    rig.topic("t", 2)
    proxy = rig.proxy()
    a = rig.coordinator("a", session_ms=SHORT_SESSION_MS, proxy=proxy)
    epoch = a.driver.core.epoch
    b = rig.coordinator("b", lead=False)
    proxy.refuse()
    proxy.cut()
    b.wait(lambda: b.leads, "the lead of the other")
    assert b.driver.core.epoch == epoch + 1
    m = rig.member("m", "t").fetches(T0, T1)
    proxy.heal()
    a.wait(lambda: len(a.sessions) == 2 and a.driver.connected, "its new session")
    assert not a.leads and m.fetching() == [T0, T1] and len(a.terms("resigned")) == 1


def test_a_reconnect_within_the_session_is_the_same_term(rig: Rig) -> None:
    """Suspended it decides nothing; connected again it leads on, reads the world (sync first), and
    serves what happened meanwhile.
    """
    rig.topic("t", 2)
    proxy = rig.proxy()
    c = rig.coordinator(proxy=proxy)
    m = rig.member("m", "t").fetches(T0, T1)
    epoch = c.driver.core.epoch
    proxy.refuse()
    proxy.cut()
    c.wait(lambda: not c.driver.connected, "the loss of its connection")
    late = rig.member("late", "t").joined()
    assert not c.driver.core.ready
    proxy.heal()
    late.wait(lambda: len(late.fetching()) == 1, "its partition")
    assert (
        len(m.fetching()) == 1
        and c.driver.core.epoch == epoch
        and len(c.terms("elected")) == 1
        and len(c.sessions) == 1
    )


@pytest.mark.parametrize("layout", [Layout.DRAFT, Layout.ISOLATED], ids=lambda layout: layout.name)
def test_only_a_coordinator_fills_an_empty_epoch_node_and_epochs_go_on_rising(
    zk_hosts: str, layout: Layout
) -> None:
    """A member makes the node as a parent and leaves it empty. Whatever became of it, the next
    epoch is above every earlier one, because it begins at the wall clock's ms.
    """
    with rigged(zk_hosts, layout) as rig:
        rig.topic("t", 1)
        m = rig.member("m", "t").joined()
        node = rig.node(layout.epoch)
        assert node is not None and node[0] == b""
        before = wall_ms()
        c = rig.coordinator()
        first = epoch_of(rig)
        assert first.epoch > before and first.lease_max_ms == 12_000
        m.fetches(tps("t", 0)[0])
        c.stop()
        rig.zk.set(layout.epoch, b"")
        late = rig.member("late", "t").joined()
        assert rig.node(layout.epoch)[0] == b"" and late.driver.core.session.known_epoch == 0  # type: ignore[index]
        d = rig.coordinator("d")
        assert epoch_of(rig).epoch == d.driver.core.epoch > first.epoch


def test_a_missing_epoch_node_is_made_by_a_coordinator(rig: Rig) -> None:
    c = rig.coordinator()
    first = c.driver.core.epoch
    c.stop()
    rig.zk.delete(rig.layout.epoch, recursive=True)
    d = rig.coordinator("d")
    assert epoch_of(rig).epoch == d.driver.core.epoch > first


def test_a_lease_that_a_new_coordinator_publishes_reaches_the_members(rig: Rig) -> None:
    """They read the epoch node when a command names another epoch."""
    rig.topic("t", 1)
    first = rig.coordinator("first", lease_max_ms=9_000)
    m = rig.member("m", "t").fetches(T0)
    assert m.driver.core.proofs.lease_ms == 9_000
    first.stop()
    rig.coordinator("second", lease_max_ms=4_000)
    rig.topic("t", 2)
    m.fetches(T0, T1)
    m.wait(lambda: m.driver.core.proofs.lease_ms == 4_000, "the new lease")


def test_a_lost_answer_of_the_election_is_no_second_epoch(rig: Rig) -> None:
    """The multi happened, the answer did not come: on reconnect it finds both nodes its own, and
    leads under that epoch.
    """
    rig.coordinator("before").stop()
    first = epoch_of(rig).epoch
    proxy = rig.proxy()
    fault = proxy.swallow_replies(1, {Op.MULTI})
    c = rig.coordinator(proxy=proxy)
    assert (
        fault.fired == 1
        and c.driver.core.epoch == first + 1 == epoch_of(rig).epoch
        and len(c.sessions) == 1
    )
    assert [change for change, path in rig.trace if path == rig.layout.epoch].count(
        Change.DATA
    ) == 2
    rig.topic("t", 1)
    rig.member("m", "t").fetches(T0)
    assert rig.names(rig.layout.ids(GROUP))
