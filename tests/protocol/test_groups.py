"""The life of a group as its rules shape it: threads, large assignments, clean ends, lost answers
of the coordinator's writes, ACLs.
"""

from __future__ import annotations

import pytest

from consumer.core import messages as msg
from tests.harness.proxy import Op
from tests.harness.wait import wait_until
from tests.protocol.rig import GROUP, WAIT_S, Rig, tps
from tests.protocol.spy import creates, starts, stops
from zkcoord.zk.port import MULTI_BYTES_MAX, OPS_PER_MULTI_MAX, AclEntry, Create, encoded_bytes

T0, T1 = tps("t", 0, 1)


def test_a_clean_leave_stores_the_positions_and_frees_everything_at_once(rig: Rig) -> None:
    """Commit, then close: registration and owner nodes go in one transaction, half a minute before
    the session would end by itself.
    """
    rig.topic("t", 2)
    rig.coordinator()
    a = rig.member("a", "t").fetches(T0, T1)
    b = rig.member("b")
    a.leave({T0: 17, T1: 0})
    assert rig.owners("t") == {} and rig.names(rig.layout.ids(GROUP)) == []
    b.subscribe("t").fetches(T0, T1)
    assert b.positions == {T0: 17, T1: 0} and rig.offset(T0) == (17, 2)


def test_a_partition_that_moves_between_two_threads_of_a_member_is_stopped_and_started(
    rig: Rig,
) -> None:
    """An owner is a thread."""
    partitions = rig.topic("t", 4)
    rig.coordinator()
    m = rig.member("m", "t").fetches(*partitions)
    assert {thread for thread, _ in rig.owners("t").values()} == {f"{m.member}-0"}
    m.subscribe("t", streams=2)
    m.wait(lambda: len(m.said(msg.Assigned)) == 2, "the start of what moved")
    m.fetches(*partitions)
    threads = [thread for thread, _ in rig.owners("t").values()]
    assert sorted(threads) == [f"{m.member}-0"] * 2 + [f"{m.member}-1"] * 2
    (revoke,) = m.said(msg.Revoke)
    assert len(revoke.partitions) == 2 and set(m.said(msg.Assigned)[1].offsets) == set(
        revoke.partitions
    )


def test_a_large_assignment_comes_in_commands_whose_acks_fit_one_multi(rig: Rig) -> None:
    """Start and stop of 400 partitions."""
    partitions = rig.topic("a-topic-with-a-name-that-is-rather-long-" * 4, 400)
    rig.coordinator()
    m = rig.member("m", partitions[0].topic).fetches(*partitions)
    rig.topic("t", 1)
    m.subscribe("t").fetches(T0)
    acks = m.spy.multis(lambda ops: starts(ops) or stops(ops))
    assert len([a for a in acks if starts(a.ops)]) >= 3 and all(a.happened for a in acks)
    assert all(
        len(a.ops) <= OPS_PER_MULTI_MAX and sum(map(encoded_bytes, a.ops)) <= MULTI_BYTES_MAX
        for a in acks
    )


@pytest.mark.parametrize("lost", ["answer", "request"])
def test_a_command_of_unknown_outcome_is_looked_for_and_not_sent_twice(rig: Rig, lost: str) -> None:
    """The coordinator syncs, reads the group, and decides from what it sees: the same term, one
    command that is carried out once.
    """
    rig.topic("t", 2)
    proxy = rig.proxy()
    c = rig.coordinator(proxy=proxy)
    break_it = proxy.swallow_replies if lost == "answer" else proxy.drop_requests
    c.spy.before(creates("/channel/"), lambda: break_it(1, {Op.MULTI}))
    m = rig.member("m", "t").fetches(T0, T1)
    assert (
        len(m.spy.multis(starts)) == 1
        and len(m.said(msg.Assigned)) == 1
        and len(c.terms("elected")) == 1
    )
    assert len(rig.created(f"/channel/{m.member}/")) == 1
    late = rig.member("late", "t")
    late.wait(lambda: len(late.fetching()) == 1, "its partition")


def test_every_node_carries_the_configured_acl(rig: Rig) -> None:
    """Coordinator and member, from the first parent to the last command."""
    rig.topic("t", 2)
    rig.acl = (AclEntry(31, "world", "anyone"), AclEntry(1, "digest", "auditor:x"))
    c = rig.coordinator()
    m = rig.member("m", "t").fetches(T0, T1)
    m.subscribe("t", "u")
    wait_until(lambda: len(m.spy.multis(creates("/ids/"))) == 2, WAIT_S, "its second registration")
    made = [
        op for spy in (c.spy, m.spy) for s in spy.multis() for op in s.ops if isinstance(op, Create)
    ]
    assert {type(op.acl) for op in made} == {tuple} and all(op.acl == rig.acl for op in made), [
        op.path for op in made if op.acl != rig.acl
    ]
    kinds = {
        part
        for op in made
        for part in ("/ids/", "/owners/", "/channel/", "/offsets/", "/coordinator")
        if part in op.path
    }
    assert len(kinds) == 5 and len(made) >= 15


def test_partitions_that_do_not_move_hear_nothing(rig: Rig) -> None:
    """A join takes from each only what it must; nothing of what stays is revoked, assigned or
    touched again.
    """
    partitions = rig.topic("t", 9)
    rig.coordinator()
    members = [rig.member(f"m{n}", "t") for n in range(2)]
    members[0].wait(
        lambda: sorted(len(m.fetching()) for m in members) == [4, 5], "a balanced group"
    )
    # who was first had to give up what the second got
    before, told = (
        {tp: rig.offset(tp) for tp in partitions},
        {m: len(m.said(msg.Revoke)) for m in members},
    )
    late = rig.member("late", "t")
    late.wait(lambda: len(late.fetching()) == 3, "its part")
    moved = {tp for m in members for r in m.said(msg.Revoke)[told[m] :] for tp in r.partitions}
    assert moved == set(late.fetching()) and len(moved) == 3
    assert all(rig.offset(tp) == before[tp] for tp in partitions if tp not in moved)


def test_a_topic_that_comes_later_is_served_when_it_comes(rig: Rig) -> None:
    """One notice that it is missing, then its partitions."""
    rig.coordinator()
    m = rig.member("m", "t").joined()
    assert [n.detail["topic"] for n in m.notices(msg.NoticeKind.TOPIC_MISSING)] == ["t"]
    partitions = rig.topic("t", 2)
    m.fetches(*partitions)
    rig.topic("t", 3)
    m.fetches(*tps("t", 0, 1, 2))
