"""A name means one session; an owner node belongs to its session; a change of mind keeps name,
owner nodes and positions; two layouts do not meet.
"""

from __future__ import annotations

import pytest

from consumer.core import messages as msg
from consumer.member.joining import registration as joining
from tests.harness.wait import wait_until
from tests.protocol.rig import GROUP, SHORT_SESSION_MS, WAIT_S, Rig, rigged, tps
from tests.protocol.spy import creates, deletes, shape
from zkcoord.core.model import TopicPartition
from zkcoord.zk.port import GetChildren
from zkcoord.znodes.paths import Layout

T0, T1 = tps("t", 0, 1)


@pytest.mark.parametrize("layout", [Layout.DRAFT, Layout.ISOLATED], ids=lambda layout: layout.name)
def test_a_coordinator_waits_for_the_other_layouts(zk_hosts: str, layout: Layout) -> None:
    """It says so once, and leads when that one has gone."""
    with rigged(zk_hosts, layout) as rig:
        first = rig.coordinator("first")
        late = rig.coordinator("late", layout=layout.other_profile(), lead=False)
        late.wait(lambda: late.records("waiting"), "that it waits")
        assert f"--layout {layout.name} leads" in late.driver.obstacles.waiting
        assert late.driver.status()["waiting"] == late.driver.obstacles.waiting
        assert rig.node(layout.other_profile().leader) is None and first.leads
        first.stop()
        late.wait(lambda: late.leads, "the lead")
        assert not late.driver.obstacles.waiting and len(late.records("waiting")) == 1


@pytest.mark.parametrize("layout", [Layout.DRAFT, Layout.ISOLATED], ids=lambda layout: layout.name)
def test_a_consumer_refuses_a_coordinator_of_the_other_layout(
    zk_hosts: str, layout: Layout
) -> None:
    with rigged(zk_hosts, layout) as rig:
        rig.coordinator()
        m = rig.member("m", "t", layout=layout.other_profile())
        m.wait(lambda: m.driver.finished, "its refusal")
        (failed,) = m.said(msg.Failed)
        assert failed.code is msg.FailureCode.OTHER_LAYOUT and layout.name in failed.message
        assert rig.names(layout.other_profile().ids(GROUP)) == []


@pytest.mark.parametrize("layout", [Layout.DRAFT, Layout.ISOLATED], ids=lambda layout: layout.name)
def test_a_consumer_refuses_a_group_with_members_in_the_other_layout(
    zk_hosts: str, layout: Layout
) -> None:
    """No coordinator runs; under `isolated` the members may as well be old consumers."""
    with rigged(zk_hosts, layout) as rig:
        there = rig.member("there", "t").joined()
        m = rig.member("m", "t", layout=layout.other_profile())
        m.wait(lambda: m.driver.finished, "its refusal")
        (failed,) = m.said(msg.Failed)
        assert failed.code is msg.FailureCode.OTHER_LAYOUT and rig.names(layout.ids(GROUP)) == [
            there.member
        ]
        assert rig.names(layout.other_profile().ids(GROUP)) == []


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, None),
        ({"consumer_id": "mine"}, msg.FailureCode.REFUSED),
        ({"instance": "i"}, msg.FailureCode.REFUSED),
    ],
    ids=["any name", "own name", "static"],
)
def test_a_flooded_group_is_not_listed(
    rig: Rig,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, object],
    code: msg.FailureCode | None,
) -> None:
    """Millions of names are no answer for anybody. Who need not know them joins; who must know them
    says what to do. Nor is the other layout's group listed to see that it is not empty.
    """
    monkeypatch.setattr(joining, "REGISTRATIONS_LISTED_MAX", 3)
    for name in ("a", "b", "c"):
        rig.zk.create(f"{rig.layout.ids(GROUP)}/{name}", b"", makepath=True)
    few = rig.member("few", "t", consumer_id="another").joined()
    m = rig.member("m", "t", **options)
    m.wait(lambda: m.said(msg.Failed) or m.notices(msg.NoticeKind.REGISTERED), "what becomes of it")
    assert [f.code for f in m.said(msg.Failed)] == ([] if code is None else [code]) and all(
        "4 registrations" in f.message for f in m.said(msg.Failed)
    )
    listed = [
        {
            r.path
            for s in list(member.spy.sent)
            for r in s.reads
            if isinstance(r, GetChildren) and "/channel/" not in r.path
        }
        for member in (m, few)
    ]
    assert listed == [set(), {rig.layout.ids(GROUP)}]


def test_a_new_session_after_expiry_has_a_new_name(rig: Rig) -> None:
    """It returns with another name and session, and takes its partitions up from the stored
    offsets.
    """
    rig.topic("t", 2)
    rig.coordinator()
    proxy = rig.proxy()
    m = rig.member("m", "t", session_ms=SHORT_SESSION_MS, proxy=proxy).fetches(T0, T1)
    assert m.commit({T0: 12}).outcome is msg.CommitOutcome.OK
    first = m.member
    proxy.black_hole()
    wait_until(lambda: rig.names(rig.layout.ids(GROUP)) == [], WAIT_S, "the end of its session")
    proxy.heal()
    proxy.cut()
    m.wait(lambda: len(m.notices(msg.NoticeKind.REGISTERED)) == 2, "its return")
    m.fetches(T0, T1)
    assert m.names == [first, m.member] and first != m.member and len(set(m.sessions)) == 2
    assert {s for _, s in rig.owners("t").values()} == {m.sessions[-1]} and m.positions == {
        T0: 12,
        T1: 0,
    }
    assert first not in " ".join(rig.names(rig.layout.ids(GROUP)))


def test_an_evicted_member_closes_its_session_and_returns_under_a_new_name(rig: Rig) -> None:
    """Its session could live for half a minute: the owner nodes go at once, because it closes the
    session itself; it deletes none of them by path.
    """
    rig.topic("t", 2)
    rig.coordinator()
    m = rig.member("m", "t").fetches(T0, T1)
    first, session = m.member, m.sessions[-1]
    rig.zk.delete(rig.layout.registration(GROUP, first))
    m.wait(lambda: len(m.notices(msg.NoticeKind.REGISTERED)) == 2, "its return")
    m.fetches(T0, T1)
    assert m.member != first and m.sessions[-1] != session and m.spy.count("close") == 1
    assert m.spy.multis(deletes("/owners/")) == [] and [
        lost.partitions for lost in m.said(msg.Lost)
    ] == [(T0, T1)]


def test_an_owner_node_belongs_to_its_session_whatever_its_text_says(rig: Rig) -> None:
    """A node of a session without registration is an orphan, also when its text names a live
    member: left alone for the lease and its margin, then removed, and only then given to that
    member.
    """
    rig.topic("t", 2)
    m = rig.member("m", "t").joined()
    rig.owner(rig.client(), T0, f"{m.member}-0")
    c = rig.coordinator(lease_max_ms=300, lease_margin_ms=100)
    m.fetches(T0, T1)
    (freed,) = c.spy.multis(deletes("/owners/"))
    assert freed.happened and shape(freed.ops)[1:] == ["Delete t/0@1"]
    assert {s for _, s in rig.owners("t").values()} == {m.sessions[-1]}


def test_a_text_that_names_another_member_does_not_take_a_partition_from_its_session(
    rig: Rig,
) -> None:
    """The other way round: an operator overwrites the text. The thread's name is the session's, so
    the partition stays where it is.
    """
    rig.topic("t", 2)
    c = rig.coordinator()
    a, b = rig.member("a", "t"), rig.member("b", "t")
    c.wait(lambda: len(a.fetching()) == len(b.fetching()) == 1, "one partition each")
    tp = a.fetching()[0]
    sent, asked = len(c.spy.multis(creates("/channel/"))), a.said(msg.Revoke)
    rig.zk.set(rig.layout.owner(GROUP, tp), f"{b.member}-0".encode())
    third = rig.member("third", "t").joined()
    c.wait(
        lambda: (
            third.member in c.driver.core.groups[GROUP].view.members
            and c.driver.core.groups[GROUP].deadlines.assign_at_ms is None
        ),
        "a decision with three members",
    )
    c.wait(lambda: not c.driver.core.writing, "the end of its write")
    assert (
        len(c.spy.multis(creates("/channel/"))) == sent
        and a.fetching() == [tp]
        and a.said(msg.Revoke) == asked
    )


def resubscribed(rig: Rig, created: int) -> None:
    """The registration was made anew so many times."""
    wait_until(
        lambda: len(rig.created("/ids/")) == created, WAIT_S, f"registration number {created}"
    )


def test_a_changed_subscription_is_one_multi_in_the_same_session(rig: Rig) -> None:
    """Same name, same owner nodes, same positions: what stays subscribed does not stop; what does
    not is given up; what is new is started.
    """
    t, u, v = rig.topic("t", 2), rig.topic("u", 2), rig.topic("v", 1)
    rig.coordinator()
    m = rig.member("m", "t", "v").fetches(*t, *v)
    m.commit({T0: 50})
    czxid, owner = rig.incarnation(m.member), rig.node(rig.layout.owner(GROUP, T0))
    assert owner is not None
    m.subscribe("t", "u").fetches(*t, *u)
    (change,) = m.spy.multis(lambda ops: deletes("/ids/")(ops) and creates("/ids/")(ops))
    path = rig.layout.registration(GROUP, m.member)
    assert [(type(op).__name__, op.path) for op in change.ops] == [
        ("Check", path),
        ("Delete", path),
        ("Create", path),
    ]
    after = rig.node(rig.layout.owner(GROUP, T0))
    assert (
        after is not None
        and after[1].czxid == owner[1].czxid
        and len(m.names) == len(m.sessions) == 1
    )
    assert rig.incarnation(m.member) > czxid and m.positions[T0] == 0 and rig.offset(T0) == (50, 1)
    assert {tp for r in m.said(msg.Revoke) for tp in r.partitions} == set(v) and m.said(
        msg.Lost
    ) == []
    assert m.commit({T0: 51}).outcome is msg.CommitOutcome.OK


@pytest.mark.parametrize("begun", [True, False], ids=["begun", "waiting"])
def test_a_changed_subscription_deletes_the_commands_of_the_old_one(rig: Rig, begun: bool) -> None:
    """In the same multi: also the command that is being carried out. Otherwise its deadline could
    evict the successor of the registration that it was meant for.
    """
    rig.topic("t", 2), rig.topic("u", 1)
    rig.reign()
    m = rig.member("m", "t").joined()
    rig.command(m.member, 1, start=(T0, T1))
    m.fetches(T0, T1)
    m.answers_revokes = False
    rig.command(m.member, 2, stop=(T0,))
    m.wait(lambda: m.said(msg.Revoke), "the revocation")
    if not begun:
        rig.command(m.member, 3, stop=(T1,))
        m.wait(lambda: m.driver.core.session.pending, "the second command")
    nodes = rig.commands(m.member)
    m.subscribe("t", "u")
    resubscribed(rig, 2)
    m.wait(lambda: m.said(msg.Resumed), "the end of the revocation")
    (change,) = m.spy.multis(creates("/ids/"))[1:]
    assert sorted(op.path.rsplit("/", 1)[1] for op in change.ops if "/channel/" in op.path) == nodes
    assert rig.commands(m.member) == [] and m.driver.core.session.held.keys() == {T0, T1}


def test_two_changes_of_mind_at_once_end_with_the_last(rig: Rig) -> None:
    t, u, v = rig.topic("t", 1), rig.topic("u", 1), rig.topic("v", 1)
    rig.coordinator()
    m = rig.member("m", "t").fetches(*t)
    m.subscribe("t", "u")
    m.subscribe("t", "v")
    m.fetches(*t, *v)
    registration = rig.node(rig.layout.registration(GROUP, m.member))
    assert registration is not None and b'"v"' in registration[0] and b'"u"' not in registration[0]
    # it may have been started and stopped in between
    assert rig.owners("u") == {} and u[0] not in m.fetching()
    assert TopicPartition("t", 0) not in {tp for r in m.said(msg.Revoke) for tp in r.partitions}


def test_a_chosen_consumer_id_is_for_one_process_at_a_time(rig: Rig) -> None:
    first = rig.member("one", "t", consumer_id="one").joined()
    second = rig.member("one", "t", consumer_id="one")
    second.wait(lambda: second.said(msg.Failed), "its refusal")
    (failed,) = second.said(msg.Failed)
    assert (
        failed.code is msg.FailureCode.DUPLICATE_CONSUMER_ID
        and first.member in failed.message
        and rig.names(rig.layout.ids(GROUP)) == [first.member]
    )
