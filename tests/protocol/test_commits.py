"""The version fence of offsets: what is stored is stored by the owner of now, an operator
overrules, and a deleted offset is never made again from memory.
"""

from __future__ import annotations

import pytest

from consumer.core import messages as msg
from tests.protocol.rig import GROUP, Member, Rig, tps
from tests.protocol.spy import shape, starts, stores
from zkcoord.zk.port import Check, Rejected, ZkError

T0, T1 = tps("t", 0, 1)


@pytest.fixture
def m(rig: Rig) -> Member:
    """A member that fetches both partitions from 100, told so by hand."""
    rig.topic("t", 2)
    rig.reign()
    for tp in (T0, T1):
        rig.put_offset(tp, 100)
    made = rig.member("m", "t").joined()
    rig.command(made.member, 1, start=(T0, T1))
    return made.fetches(T0, T1)


def test_a_commit_is_one_multi_with_the_check_and_the_versions_held(rig: Rig, m: Member) -> None:
    assert m.commit({T0: 110, T1: 111}).outcome is msg.CommitOutcome.OK
    (commit,) = m.spy.multis(stores("/offsets/"))
    assert commit.ops[0] == Check(rig.layout.registration(GROUP, m.member), 0)
    assert shape(commit.ops[1:]) == ["SetData t/0@1", "SetData t/1@1"]
    assert rig.offset(T0) == (110, 2) and rig.offset(T1) == (111, 2)


def test_a_zombies_commit_fails_by_the_version(rig: Rig, m: Member) -> None:
    """Its session and registration live, but the partition is another's, which has committed 520:
    the older 120 never lands, and the zombie hears that it lost the partition.
    """

    def taken_over() -> None:
        rig.zk.delete(rig.layout.owner(GROUP, T0))
        rig.owner(rig.client(), T0, "other-0")
        rig.put_offset(T0, 520)

    m.spy.before(stores("/offsets/"), taken_over)
    done = m.commit({T0: 120})
    assert done.outcome is msg.CommitOutcome.NOT_OWNED and done.partitions == (T0,)
    assert m.spy.multis(stores("/offsets/"))[0].result == Rejected(1, ZkError.BAD_VERSION)
    m.fetches(T1)
    assert (
        rig.offset(T0) == (520, 2)
        and [lost.partitions for lost in m.said(msg.Lost)] == [(T0,)]
        and T0 not in m.positions
    )


def test_the_takers_touch_alone_fences_the_zombie(rig: Rig, m: Member) -> None:
    """The new owner has committed nothing yet: its start ack moved the version all the same."""
    taker = rig.member("taker", "t").joined()

    def taken_over() -> None:
        rig.zk.delete(rig.layout.owner(GROUP, T0))
        rig.command(taker.member, 2, start=(T0,))
        taker.fetches(T0)

    m.spy.before(stores("/offsets/"), taken_over)
    assert m.commit({T0: 90}).outcome is msg.CommitOutcome.NOT_OWNED
    assert rig.offset(T0) == (100, 2) and taker.positions == {T0: 100}


def test_an_operators_reset_leads_there(rig: Rig, m: Member) -> None:
    """The value differs from all that this member sent since the version it held, and it still owns
    the partition: it continues where the operator said, and its own value is void.
    """
    rig.put_offset(T0, 7)
    done = m.commit({T0: 120, T1: 130})
    assert done.outcome is msg.CommitOutcome.OVERRULED and done.partitions == (T0,)
    assert [(s.partition, s.offset) for s in m.said(msg.Seek)] == [(T0, 7)]
    assert rig.offset(T0) == (7, 2) and rig.offset(T1) == (130, 2) and m.said(msg.Lost) == []
    assert m.commit({T0: 8}).outcome is msg.CommitOutcome.OK and rig.offset(T0) == (8, 3)


def test_a_commit_made_before_the_application_heard_of_the_reset_does_not_overrule_it(
    rig: Rig, m: Member
) -> None:
    before = m.assignment_epoch
    rig.put_offset(T0, 7)
    m.commit({T0: 120})
    m.wait(lambda: m.said(msg.Seek), "the order to seek")
    assert m.commit(
        {T0: 121}, assignment_epoch=before
    ).outcome is msg.CommitOutcome.OVERRULED and rig.offset(T0) == (7, 2)


def test_a_value_of_ones_own_is_no_reset(rig: Rig) -> None:
    """The answer of a commit is lost: the version moved, but to what this member wrote."""
    rig.topic("t", 1)
    rig.reign()
    proxy = rig.proxy()
    m = rig.member("m", "t", proxy=proxy).joined()
    rig.command(m.member, 1, start=(T0,))
    m.fetches(T0)
    m.spy.before(stores("/offsets/"), lambda: proxy.swallow_replies(1))
    # it may have happened: the application may try again
    assert m.commit({T0: 60}).outcome is msg.CommitOutcome.UNAVAILABLE
    m.wait(
        lambda: (
            m.driver.connected
            and not m.driver.core.session.doubt
            and m.driver.core.session.in_flight is None
        ),
        "its look at what became of the commit",
    )
    assert m.commit({T0: 61}).outcome is msg.CommitOutcome.OK
    assert rig.offset(T0) == (61, 2) and m.said(msg.Seek) == [] and m.said(msg.Lost) == []


def test_an_offset_that_somebody_deleted_is_lost_and_never_made_again_from_memory(
    rig: Rig, m: Member
) -> None:
    """A version that starts again at 0 is no fence. The owner node goes, the position is dropped,
    and only a new start makes the node again, with what auto_offset_reset says.
    """
    m.resolves_to = 3
    rig.zk.delete(rig.layout.offset(GROUP, T0))
    assert m.commit({T0: 120}).outcome is msg.CommitOutcome.NOT_OWNED
    m.wait(lambda: list(rig.owners("t")) == [1], "the end of its owner node")
    assert rig.offset(T0) is None and [lost.partitions for lost in m.said(msg.Lost)] == [(T0,)]
    rig.command(m.member, 2, start=(T0,))
    m.fetches(T0, T1)
    assert rig.offset(T0) == (3, 0) and m.positions[T0] == 3
    assert len(m.spy.multis(starts)) == 2


def test_a_coordinator_starts_anew_what_lost_its_offset(rig: Rig) -> None:
    """The whole way: deleted, lost, owner node dropped, started again by the coordinator from the
    resolved offset.
    """
    rig.topic("t", 1)
    rig.put_offset(T0, 100)
    rig.coordinator()
    m = rig.member("m", "t").fetches(T0)
    m.resolves_to = 42
    rig.zk.delete(rig.layout.offset(GROUP, T0))
    m.commit({T0: 120})
    m.wait(lambda: m.positions.get(T0) == 42, "the fresh start")
    assert rig.offset(T0) == (42, 0)


def test_a_commit_for_what_is_not_owned_stores_nothing(rig: Rig, m: Member) -> None:
    other = tps("t", 5)[0]
    done = m.commit({T0: 110, other: 4})
    assert (
        done.outcome is msg.CommitOutcome.NOT_OWNED
        and done.partitions == (other,)
        and rig.offset(T0) == (100, 1)
        and rig.offset(other) is None
    )


def test_a_commit_of_an_evicted_member_stores_nothing(rig: Rig, m: Member) -> None:
    m.spy.before(
        stores("/offsets/"), lambda: rig.zk.delete(rig.layout.registration(GROUP, m.member))
    )
    assert m.commit({T0: 120}).outcome is msg.CommitOutcome.NO_LONGER_MEMBER
    assert m.spy.multis(stores("/offsets/"))[0].result == Rejected(
        0, ZkError.NO_NODE
    ) and rig.offset(T0) == (100, 1)
