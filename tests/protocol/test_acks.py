"""Acks: ONE multi that begins with a check of one's own registration, touches the offsets, leaves
out what cannot be done, and whose lost answer is settled by sync and read.

The test is the coordinator here: commands are nodes that it writes.
"""

from __future__ import annotations

import pytest

from consumer.core import messages as msg
from tests.harness.proxy import Op, Proxy
from tests.protocol.rig import GROUP, Member, Rig, tps
from tests.protocol.spy import starts, stops
from zkcoord.core.model import TopicPartition
from zkcoord.zk.port import Check, Rejected, ZkError

T0, T1, T2 = tps("t", 0, 1, 2)


@pytest.fixture
def m(rig: Rig) -> Member:
    """A member in a group that the test commands."""
    rig.topic("t", 3)
    rig.reign()
    return rig.member("m", "t").joined()


def owning(rig: Rig, m: Member, *partitions: TopicPartition) -> Member:
    """Start these at the member."""
    rig.command(m.member, 1, start=partitions)
    return m.fetches(*partitions)


def test_a_start_ack_is_one_multi_that_begins_with_the_check_of_the_own_registration(
    rig: Rig, m: Member
) -> None:
    """And it holds the deletion of the command, the owner nodes (created, then set: version 1), and
    the offset's touch or creation.
    """
    rig.put_offset(T0, 120)
    node = rig.command(m.member, 1, start=(T0, T1))
    m.fetches(T0, T1)
    (ack,) = m.spy.multis(starts)
    assert ack.ops[0] == Check(rig.layout.registration(GROUP, m.member), 0)
    kinds = [(type(op).__name__, op.path) for op in ack.ops[1:]]
    owner, offset = rig.layout.owner, rig.layout.offset
    assert kinds == [
        ("Delete", rig.layout.command(GROUP, m.member, node)),
        ("Create", owner(GROUP, T0)),
        ("SetData", owner(GROUP, T0)),
        ("SetData", offset(GROUP, T0)),
        ("Create", owner(GROUP, T1)),
        ("SetData", owner(GROUP, T1)),
        ("Create", offset(GROUP, T1)),
    ]
    for tp in (T0, T1):
        found = rig.node(owner(GROUP, tp))
        assert (
            found is not None
            and found[0].decode() == f"{m.member}-0"
            and found[1].ephemeralOwner == m.sessions[-1]
            and found[1].version == 1
        )
    assert rig.commands(m.member) == []


@pytest.mark.parametrize("asked", [True, False])
def test_who_asks_for_that_hears_of_a_start_before_it_is_acked(rig: Rig, asked: bool) -> None:
    rig.topic("t", 3)
    rig.reign()
    m = rig.member("m", "t", tells_starts=asked).joined()
    owning(rig, m, T0, T1)
    told = [one for one in m.heard if isinstance(one, msg.Starting | msg.Assigned)]
    first = told.pop(0) if asked else None
    assert first == (msg.Starting((T0, T1)) if asked else None)
    assert [type(one) for one in told] == [msg.Assigned]


def test_a_start_that_more_comes_after_is_not_told_before(rig: Rig) -> None:
    """Or a gateway would write down all that a client has with each of them."""
    rig.topic("t", 3)
    rig.reign()
    m = rig.member("m", "t", tells_starts=True).joined()
    rig.command(m.member, 1, start=(T0,), more=True)
    m.fetches(T0)
    rig.command(m.member, 2, start=(T1,))
    m.fetches(T0, T1)
    assert [one for one in m.heard if isinstance(one, msg.Starting)] == [msg.Starting((T1,))]


def test_a_start_ack_moves_the_version_of_the_offset_before_the_first_fetch(
    rig: Rig, m: Member
) -> None:
    """So the version that an old owner holds is stale by the time the new one fetches; the value
    stays.
    """
    rig.put_offset(T0, 120)
    before = rig.offset(T0)
    assert before == (120, 0)
    seen: list[tuple[int, int] | None] = []
    hear = m.driver.to_fetcher

    def look(message: msg.ToFetcher) -> None:
        if isinstance(message, msg.Assigned):
            seen.append(rig.offset(T0))
        hear(message)

    m.driver.to_fetcher = look
    owning(rig, m, T0)
    assert seen == [(120, 1)] and m.positions == {T0: 120}


def test_a_start_ack_creates_a_missing_offset_with_the_resolved_value(rig: Rig, m: Member) -> None:
    """Never an empty text; nothing is made before the answer of auto_offset_reset is there."""
    m.resolves_to = None
    rig.command(m.member, 1, start=(T0,))
    m.wait(lambda: m.said(msg.Resolve), "the question where to begin")
    assert rig.offset(T0) is None and rig.owners("t") == {}
    (question,) = m.said(msg.Resolve)
    m.tell(msg.Resolved(question.token, {T0: 77}))
    m.fetches(T0)
    assert rig.offset(T0) == (77, 0) and m.positions == {T0: 77}


def test_the_ack_of_an_evicted_member_fails_as_a_whole(rig: Rig, m: Member) -> None:
    """The registration goes between the member's look and its ack: not one operation of the ack
    happens, and the member comes back under another name.
    """
    rig.put_offset(T0, 120)
    old, session = m.member, m.sessions[-1]
    m.spy.before(starts, lambda: rig.zk.delete(rig.layout.registration(GROUP, old)))
    node = rig.command(old, 1, start=(T0, T1))
    m.wait(
        lambda: len(m.names) == 2 and len(m.notices(msg.NoticeKind.REGISTERED)) == 2,
        "its return under a new name",
    )
    (ack,) = m.spy.multis(starts)
    assert ack.result == Rejected(0, ZkError.NO_NODE)
    assert rig.commands(old) == [node] and rig.offset(T0) == (120, 0) and rig.offset(T1) is None
    assert (
        not any("/owners/t/" in path for path in rig.created("/owners/"))
        and m.said(msg.Assigned) == []
    )
    assert m.sessions[-1] != session


def test_the_stop_ack_of_an_evicted_member_stores_nothing(rig: Rig, m: Member) -> None:
    """The same for a stop: its offset would overwrite that of whoever fetches by now."""
    rig.put_offset(T0, 120)
    owning(rig, m, T0)
    m.positions[T0] = 150
    old = m.member
    m.spy.before(stops, lambda: rig.zk.delete(rig.layout.registration(GROUP, old)))
    rig.command(old, 2, stop=(T0,))
    m.wait(lambda: len(m.notices(msg.NoticeKind.REGISTERED)) == 2, "its return under a new name")
    (ack,) = m.spy.multis(stops)
    assert ack.result == Rejected(0, ZkError.NO_NODE) and rig.offset(T0) == (120, 1)


def test_a_stop_ack_stores_the_position_and_gives_the_owner_node_up_in_one_multi(
    rig: Rig, m: Member
) -> None:
    owning(rig, m, T0, T1)
    m.positions[T0] = 33
    node = rig.command(m.member, 2, stop=(T0,))
    m.fetches(T1)
    (ack,) = m.spy.multis(stops)
    assert ack.ops[0] == Check(rig.layout.registration(GROUP, m.member), 0)
    assert [(type(op).__name__, op.path) for op in ack.ops[1:]] == [
        ("Delete", rig.layout.command(GROUP, m.member, node)),
        ("Delete", rig.layout.owner(GROUP, T0)),
        ("SetData", rig.layout.offset(GROUP, T0)),
    ]
    assert rig.offset(T0) == (33, 1) and list(rig.owners("t")) == [1]


def test_a_start_leaves_out_a_partition_with_a_foreign_owner(rig: Rig, m: Member) -> None:
    """Also when the owner node appears between its look and its ack: the ack is refused as a whole,
    looked at again, and sent without it. An owner is a session, so a text that names this very
    member makes it no less foreign.
    """
    rig.owner(rig.client(), T0, f"{m.member}-0")
    m.spy.before(starts, lambda: rig.owner(rig.client(), T1, "other-0"))
    rig.command(m.member, 1, start=(T0, T1, T2))
    m.fetches(T2)
    first, last = m.spy.multis(starts)
    assert (
        not any(rig.layout.owner(GROUP, T0) == op.path for op in first.ops) and not first.happened
    )
    assert not any(rig.layout.owner(GROUP, T1) == op.path for op in last.ops) and last.happened
    assert rig.commands(m.member) == [] and rig.owners("t")[2][1] == m.sessions[-1]
    assert rig.offset(T0) is None and rig.offset(T1) is None


def test_a_stop_leaves_out_what_the_member_does_not_hold(rig: Rig, m: Member) -> None:
    owning(rig, m, T0, T1)
    rig.owner(rig.client(), T2, "other-0")
    rig.command(m.member, 2, stop=(T0, T2))
    m.fetches(T1)
    assert [r.partitions for r in m.said(msg.Revoke)] == [(T0,)]
    assert sorted(rig.owners("t")) == [1, 2] and rig.commands(m.member) == []


def behind_a_proxy(rig: Rig) -> tuple[Member, Proxy]:
    """A member whose answers and requests can be lost."""
    rig.topic("t", 3)
    rig.reign()
    proxy = rig.proxy()
    return rig.member("m", "t", proxy=proxy).joined(), proxy


def looked_after_a_sync(m: Member) -> None:
    """After its connection came back it synced before it read anything of partitions."""
    calls = [s for s in m.spy.sent]
    last_ack = max(
        i
        for i, s in enumerate(calls)
        if s.kind == "multi" and s.result is not None and not s.happened
    )
    after = [
        s
        for s in calls[last_ack + 1 :]
        if s.kind == "sync" or any("/owners/" in r.path for r in s.reads)
    ]
    assert after and after[0].kind == "sync", after


def test_a_start_ack_that_happened_is_adopted_when_its_answer_was_lost(rig: Rig) -> None:
    """Sync, read: the owner nodes are of its session, so it owns them. Told once, and no second
    ack.
    """
    m, proxy = behind_a_proxy(rig)
    m.spy.before(starts, lambda: proxy.swallow_replies(1, {Op.MULTI}))
    rig.command(m.member, 1, start=(T0, T1))
    m.fetches(T0, T1)
    assert (
        len(m.spy.multis(starts)) == 1 and len(m.said(msg.Assigned)) == 1 and len(m.sessions) == 1
    )
    looked_after_a_sync(m)
    assert m.commit({T0: 9}).outcome is msg.CommitOutcome.OK and rig.offset(T0) == (9, 1)


def test_a_start_ack_that_did_not_happen_is_sent_again(rig: Rig) -> None:
    m, proxy = behind_a_proxy(rig)
    m.spy.before(starts, lambda: proxy.drop_requests(1, {Op.MULTI}))
    rig.command(m.member, 1, start=(T0, T1))
    m.fetches(T0, T1)
    assert len(m.spy.multis(starts)) == 2 and len(m.said(msg.Assigned)) == 1
    looked_after_a_sync(m)


def test_a_start_ack_of_unknown_outcome_whose_partition_went_to_another_is_dropped(
    rig: Rig,
) -> None:
    """While it was away the command was withdrawn and somebody else became the owner: nothing is
    concluded from the command's absence, and nothing is fetched.
    """
    m, proxy = behind_a_proxy(rig)
    # a stop of nothing: the member's first command is only there to be acked
    node = rig.command(m.member, 1, start=())
    m.wait(lambda: rig.commands(m.member) == [], "the ack of an empty command")
    assert node
    m.spy.before(starts, lambda: (proxy.drop_requests(1, {Op.MULTI}), proxy.refuse()))
    node = rig.command(m.member, 2, start=(T0, T1))
    m.wait(lambda: not m.driver.connected, "the loss of its connection")
    rig.zk.delete(rig.layout.command(GROUP, m.member, node))
    rig.owner(rig.client(), T0, "other-0")
    proxy.heal()
    m.wait(
        lambda: (
            m.driver.connected
            and m.driver.core.session.current is None
            and not m.driver.core.session.doubt
        ),
        "its look at what became of the ack",
    )
    assert (
        m.said(msg.Assigned) == []
        and m.driver.core.session.held == {}
        and list(rig.owners("t")) == [0]
    )
    rig.command(m.member, 3, start=(T2,))
    m.fetches(T2)


def test_a_stop_ack_that_happened_is_dropped_when_its_answer_was_lost(rig: Rig) -> None:
    """The owner nodes are gone, so the partitions are: not resumed, not acked again, and a commit
    for them is refused.
    """
    m, proxy = behind_a_proxy(rig)
    owning(rig, m, T0, T1)
    m.positions[T0] = 40
    m.spy.before(stops, lambda: proxy.swallow_replies(1, {Op.MULTI}))
    rig.command(m.member, 2, stop=(T0,))
    m.fetches(T1)
    m.wait(
        lambda: not m.driver.core.session.doubt and m.driver.core.session.current is None,
        "the end of its doubt",
    )
    assert len(m.spy.multis(stops)) == 1 and m.said(msg.Resumed) == [] and rig.offset(T0) == (40, 1)
    looked_after_a_sync(m)
    assert m.commit({T0: 50}).outcome is msg.CommitOutcome.NOT_OWNED and rig.offset(T0) == (40, 1)


def test_a_stop_ack_that_did_not_happen_is_sent_again(rig: Rig) -> None:
    m, proxy = behind_a_proxy(rig)
    owning(rig, m, T0, T1)
    m.positions[T0] = 40
    m.spy.before(stops, lambda: proxy.drop_requests(1, {Op.MULTI}))
    rig.command(m.member, 2, stop=(T0,))
    m.fetches(T1)
    assert (
        len(m.spy.multis(stops)) == 2
        and rig.offset(T0) == (40, 1)
        and list(rig.owners("t")) == [1]
        and m.said(msg.Resumed) == []
    )


def test_a_stop_whose_command_is_gone_while_the_owner_node_remains_is_withdrawn(
    rig: Rig, m: Member
) -> None:
    """The application is still busy giving it up when a new coordinator deletes the command: it
    goes on, with the owner node and the version that it had.
    """
    owning(rig, m, T0, T1)
    m.answers_revokes = False
    node = rig.command(m.member, 2, stop=(T0,))
    m.wait(lambda: m.said(msg.Revoke), "the revocation")
    rig.zk.delete(rig.layout.command(GROUP, m.member, node))
    m.wait(lambda: m.said(msg.Resumed), "the withdrawal")
    assert m.said(msg.Resumed)[0].partitions == (T0,)
    m.fetches(T0, T1)
    m.ask(lambda: m.answer(m.said(msg.Revoke)[0]))
    assert (
        m.commit({T0: 5}).outcome is msg.CommitOutcome.OK
        and rig.offset(T0) == (5, 1)
        and m.spy.multis(stops) == []
    )


def test_a_stop_withdrawn_after_a_lost_request_resumes(rig: Rig) -> None:
    """The ack never arrived, and the command is gone when the connection is back: what it holds is
    what its owner nodes say.
    """
    m, proxy = behind_a_proxy(rig)
    owning(rig, m, T0)
    m.spy.before(stops, lambda: (proxy.drop_requests(1, {Op.MULTI}), proxy.refuse()))
    node = rig.command(m.member, 2, stop=(T0,))
    m.wait(lambda: not m.driver.connected, "the loss of its connection")
    rig.zk.delete(rig.layout.command(GROUP, m.member, node))
    proxy.heal()
    m.wait(lambda: m.said(msg.Resumed), "the withdrawal")
    m.fetches(T0)
    assert len(m.spy.multis(stops)) == 1 and list(rig.owners("t")) == [0]


def test_commands_for_another_incarnation_are_ignored(rig: Rig, m: Member) -> None:
    owning(rig, m, T0)
    rig.command(m.member, 2, stop=(T0,), incarnation=rig.incarnation(m.member) - 1)
    rig.command(m.member, 3, start=(T1,), incarnation=rig.incarnation(m.member) + 1)
    rig.command(m.member, 4, start=(T2,))
    m.fetches(T0, T2)
    assert len(rig.commands(m.member)) == 2 and m.said(msg.Revoke) == []


def test_commands_of_an_older_epoch_than_seen_are_ignored(rig: Rig, m: Member) -> None:
    """Seen under this registration: a command of epoch 6 makes every later one of epoch 5 void,
    wherever ZooKeeper's suffix puts it.
    """
    rig.command(m.member, 1, start=(T0,), epoch=6)
    m.fetches(T0)
    rig.command(m.member, 9, stop=(T0,), epoch=5)
    rig.command(m.member, 2, start=(T1,), epoch=6)
    m.fetches(T0, T1)
    assert m.said(msg.Revoke) == [] and len(rig.commands(m.member)) == 1
