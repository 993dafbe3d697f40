"""A group that somebody filled with nodes is left alone and named; it costs the others nothing, its
members keep what they own, and it is served again when it is small again.
"""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from consumer.core import messages as msg
from tests.harness.wait import wait_until
from tests.protocol.rig import GROUP, WAIT_S, Coordinator, Rig, tps
from tests.protocol.spy import creates
from zkcoord.core.model import Subscription
from zkcoord.zk.kazoo_port import connection
from zkcoord.zk.port import GetChildren
from zkcoord.znodes import codec
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.paths import parents

T0, T1 = tps("t", 0, 1)
LIMIT = 40
SMALL = {
    "registrations_per_group_max": LIMIT,
    "nodes_per_group_max": 3 * LIMIT,
    "left_alone_retry_ms": 200,
}
VALID = codec.encode_registration(
    Subscription({"t": 1}), timestamp_ms=1, assignors=("sticky",), process="p"
)


def fill(
    client: KazooClient,
    parent: str,
    count: int,
    data: bytes = b"junk",
    first: int = 0,
    suffix: str = "",
) -> list[str]:
    """So many ephemeral nodes below one, made by one session; their paths."""
    paths = [f"{parent}/{number}{suffix}" for number in range(first, first + count)]
    done = [client.create_async(path, data, ephemeral=True) for path in paths]
    for one in done:
        one.get(timeout=WAIT_S)
    return paths


def fill_at_once(client: KazooClient, parent: str, count: int, data: bytes) -> list[str]:
    """The same in one transaction: nobody sees a part of them."""
    paths = [f"{parent}/{number}" for number in range(count)]
    transaction = client.transaction()
    for path in paths:
        transaction.create(path, data, ephemeral=True)
    assert all(isinstance(result, str) for result in transaction.commit())
    return paths


def empty(client: KazooClient, paths: list[str]) -> None:
    """Delete them."""
    for one in [client.delete_async(path) for path in paths]:
        one.get(timeout=WAIT_S)


def named(c: Coordinator) -> list[object]:
    """What the journal says is too large."""
    return [r["name"] for r in c.records("malformed") if r["what"] == "group"]


def listed(c: Coordinator, path: str) -> int:
    """How often the coordinator asked for the names below this node."""
    return sum(read == GetChildren(path) for sent in list(c.spy.sent) for read in sent.reads)


@pytest.mark.parametrize("data", [b"junk", VALID], ids=["junk", "valid"])
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_too_many_registrations(rig: Rig, late: bool, data: bytes) -> None:
    """Before the coordinator comes, or while it leads: the group is named once, nothing in it is
    commanded, its member keeps and commits what it owns; another group is served; whatever else
    changes in the large group is not read, and its names are never listed. Small again, it is
    served again.
    """
    rig.topic("t", 2)
    hand = rig.client()
    c = rig.coordinator("c", **SMALL)
    m = rig.member("m", "t").fetches(T0, T1)
    ids = rig.layout.ids(GROUP)
    if not late:
        c.stop()
        junk = fill(hand, ids, LIMIT, data)
        c = rig.coordinator("d", **SMALL)
    else:
        junk = fill_at_once(hand, ids, LIMIT, data)  # of fewer it would make members
    c.wait(lambda: named(c) == [GROUP], "the group's name")
    commands, lists = len(c.spy.multis(creates("/channel/"))), listed(c, ids)
    late_member = rig.member("late", "t").joined()
    junk += fill(hand, ids, LIMIT, data, LIMIT)
    other = rig.member("o", "t", group="other").fetches(T0, T1)
    asked = len(
        [s for s in list(c.spy.sent) for read in s.reads if read.path.startswith(f"{ids}/")]
    )
    junk += fill(hand, ids, LIMIT, data, 2 * LIMIT)
    other.leave()
    rig.member("p", "t", group="other").fetches(T0, T1)
    assert (
        len([s for s in list(c.spy.sent) for read in s.reads if read.path.startswith(f"{ids}/")])
        == asked
    ), "no registration of a large group is read"
    assert listed(c, ids) == lists and named(c) == [GROUP]
    assert (
        len(
            [s for s in c.spy.multis(creates("/channel/")) if creates(f"/{GROUP}/channel/")(s.ops)][
                commands:
            ]
        )
        == 0
    )
    assert (
        m.commit({T0: 7}).outcome is msg.CommitOutcome.OK
        and m.fetching() == [T0, T1]
        and not m.said(msg.Lost)
    )
    assert c.ask(lambda: c.driver.status()["malformed"]) == 1
    empty(hand, junk)
    m.wait(lambda: len(m.fetching()) == len(late_member.fetching()) == 1, "a partition each")
    c.wait(lambda: c.ask(lambda: c.driver.status()["malformed"]) == 0, "its end")
    assert not m.said(msg.Lost)


@pytest.mark.parametrize("where", ["channels", "commands", "owned topics", "owner nodes"])
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_too_many_nodes_of_any_kind(rig: Rig, late: bool, where: str) -> None:
    """Whatever the group is filled with."""
    rig.topic("t", 2)
    hand = rig.client()
    c = rig.coordinator("c", **SMALL)
    m = rig.member("m", "t").fetches(T0, T1)
    parent = {
        "channels": rig.layout.channels(GROUP),
        "commands": rig.layout.channel(GROUP, m.member),
        "owned topics": rig.layout.owners(GROUP),
        "owner nodes": rig.layout.owner_topic(GROUP, "t"),
    }[where]
    if not late:
        c.stop()
    junk = fill(hand, parent, 3 * LIMIT, first=2)
    if not late:
        c = rig.coordinator("d", **SMALL)
    # nothing is ever read of one that holds no partition, before somebody reads the group
    elif where == "owned topics":
        junk += fill(hand, rig.layout.ids(GROUP), LIMIT)
    c.wait(lambda: named(c) == [GROUP], "the group's name")
    rig.member("o", "t", group="other").fetches(T0, T1)
    assert m.fetching() == [T0, T1] and not m.said(msg.Lost)
    empty(hand, junk)
    wait_until(lambda: c.ask(lambda: c.driver.status()["malformed"]) == 0, WAIT_S, "its end")
    rig.member("late", "t")
    m.wait(lambda: len(m.fetching()) == 1, "one partition less")


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_nodes_whose_answers_are_larger_than_any_frame(
    rig: Rig, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registrations so large that their answers together are more than the client takes (here a
    limit of 2 MiB; as shipped, 200 nodes of 1 MB would do): the connection is dropped, what is
    asked for at once becomes less, and the group, its other members and the lead go on.
    """
    monkeypatch.setattr(connection, "FRAME_BYTES_MAX", 2 * 1024 * 1024)
    rig.topic("t", 2)
    hand = rig.client()
    c = rig.coordinator() if late else None
    for path in parents(rig.layout.registration(GROUP, "x")):
        rig.zk.ensure_path(path)
    fill(hand, rig.layout.ids(GROUP), 50, b"x" * 60_000)
    c = c or rig.coordinator()
    rig.member("m", "t").fetches(T0, T1)
    rig.member("o", "t", group="other").fetches(T0, T1)
    c.wait(lambda: len(c.records("malformed")) == 50, "their names")
    assert c.leads and len(c.terms("elected")) == 1


@pytest.mark.parametrize("where", ["ids", "channels", "a channel", "requests of gateways"])
def test_names_that_are_together_larger_than_any_frame(
    rig: Rig, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ZooKeeper says how many children a node has, and not how long their names are (here a limit
    of 2 MiB; as shipped, 140 names of a megabyte would do). Whoever may make them costs no other
    group anything.
    """
    monkeypatch.setattr(connection, "FRAME_BYTES_MAX", 2 * 1024 * 1024)
    rig.topic("t", 2)
    classic = ClassicPaths(rig.layout)
    parent = {
        "ids": rig.layout.ids(GROUP),
        "channels": rig.layout.channels(GROUP),
        "a channel": rig.layout.channel(GROUP, "somebody"),
        "requests of gateways": classic.requests,
    }[where]
    for path in (*parents(rig.layout.registration(GROUP, "x")), *classic.roots(), parent):
        rig.zk.ensure_path(path)
    hand = rig.client()
    for number in range(5):
        hand.create(f"{parent}/{'x' * 500_000}{number}")
    c = rig.coordinator()
    rig.member("o", "t", group="other").fetches(T0, T1)
    assert c.leads and len(c.terms("elected")) == 1
    if where != "a channel":
        assert any("TooLarge" in str(r) or "larger" in str(r) for r in c.records("malformed"))


def test_a_group_with_registrations_in_the_other_layout(rig: Rig) -> None:
    """Both layouts have the same offsets: whoever coordinates leaves such a group alone and says
    why, and serves it when they are gone.
    """
    rig.topic("t", 2)
    hand = rig.client()
    m = rig.member("m", "t").joined()
    other = rig.layout.other_profile()
    hand.ensure_path(other.ids(GROUP))
    foreign = hand.create(other.registration(GROUP, "old_one"), b"{}", ephemeral=True)
    c = rig.coordinator("c", **SMALL)
    c.wait(lambda: named(c) == [GROUP], "the group's name")
    assert any(other.ids(GROUP) in str(r["reason"]) for r in c.records("malformed"))
    late = rig.member("p", "t", group="other").fetches(T0, T1)
    assert not c.spy.multis(creates(f"/{GROUP}/channel/")) and late.name
    hand.delete(foreign)
    m.fetches(T0, T1)


def test_a_group_that_only_its_maker_may_read_is_named(rig: Rig) -> None:
    """Its node, or one that it consists of: what is hidden must not pass for absent. Readable
    again, it is served.
    """
    rig.topic("t", 2)
    m = rig.member("m", "t").joined()
    hidden = [make_acl("world", "anyone", all=False, read=False, admin=True)]
    for path in (rig.layout.group(GROUP), rig.layout.owners(GROUP)):
        rig.zk.set_acls(path, hidden)
        c = rig.coordinator("c", **SMALL)
        c.wait(lambda: named(c) == [GROUP], "the group's name")
        (why,) = [str(r["reason"]) for r in c.records("malformed")]
        assert path in why and "NoAuth" in why
        assert rig.member("p", "t", group="other").joined() and not c.driver.core.groups.get(GROUP)
        rig.zk.set_acls(path, [make_acl("world", "anyone", all=True)])
        c.wait(lambda: GROUP in c.driver.core.groups, "that it is read")
        c.stop()
    rig.coordinator("d", **SMALL)
    m.fetches(T0, T1)


def test_persistent_registrations_in_the_other_layout_keep_nobody_out(rig: Rig) -> None:
    """They outlive whoever made them, so they are no members: new ones join and are served, and
    the coordinator names them.
    """
    rig.topic("t", 2)
    other = rig.layout.other_profile()
    rig.zk.ensure_path(other.ids(GROUP))
    for number in range(3):
        rig.zk.create(other.registration(GROUP, f"old_{number}"), VALID)
    c = rig.coordinator("c", **SMALL)
    m = rig.member("m", "t").fetches(T0, T1)
    c.wait(lambda: c.records("malformed"), "their name")
    (bad,) = c.records("malformed")
    assert bad["name"] == other.ids(GROUP) and "3 nodes" in str(bad["reason"]) and m.name
