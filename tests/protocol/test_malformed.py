"""Malformed znodes of every kind under a running group: named, counted, left out; the group goes
on, and no process dies.
"""

from __future__ import annotations

import pytest

from consumer.core import messages as msg
from tests.harness.wait import wait_until
from tests.protocol.rig import GROUP, WAIT_S, Rig, tps
from zkcoord.znodes.paths import Layout

T0, T1 = tps("t", 0, 1)
BAD = (
    b"",
    b"{",
    b"\xff\xfe\x00",
    b"null",
    b"[1]",
    b'{"version":1}',
    b'{"version":1,"option":"start-fetcher"}',
)


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("data", BAD, ids=range(len(BAD)))
def test_malformed_nodes_are_named_and_the_group_goes_on(rig: Rig, data: bytes, late: bool) -> None:
    """A registration, a command, an owner node, a topic, the group's node and a broker-less topic,
    before the coordinator comes or while it leads.
    """
    rig.topic("t", 4)
    m = rig.member("m", "t").joined()
    lay = rig.layout

    def spoil() -> None:
        rig.zk.create(lay.registration(GROUP, "bad"), data, ephemeral=True)
        rig.zk.create(lay.command(GROUP, m.member, "bad"), data)
        instead = rig.zk.transaction()  # nobody may make the node anew in between
        for path, ephemeral in ((lay.owner(GROUP, T0), True), (lay.offset(GROUP, T1), False)):
            rig.zk.ensure_path(path.rsplit("/", 1)[0])
            if late:
                instead.delete(path)
            instead.create(path, data, ephemeral=ephemeral)
        assert not any(isinstance(result, Exception) for result in instead.commit())
        rig.zk.create(lay.topic("bad"), data)
        rig.zk.set(lay.group(GROUP), data)
        rig.zk.create(f"{lay.channels(GROUP)}/ghost-of-nobody", data)

    if not late:
        spoil()
    c = rig.coordinator()
    if late:
        m.fetches(*tps("t", 0, 1, 2, 3))
        m.leave()
        rig.zk.delete(lay.offset(GROUP, T1))
        m = rig.member("n", "t").fetches(*tps("t", 0, 1, 2, 3))
        spoil()
    else:
        # nobody knows where the one with an unreadable offset begins
        m.fetches(*tps("t", 2, 3))
    # a topic without data is not one yet
    expected = {("registration", "bad"), ("command", f"{m.member}/bad"), ("owner", "t-0")} | (
        {("topic", "bad")} if data else set()
    )
    wait_until(
        lambda: {(r["what"], r["name"]) for r in c.records("malformed")} >= expected,
        WAIT_S,
        "the names of what is malformed",
    )
    assert c.ask(lambda: c.driver.status()["malformed"]) == len(expected)
    rig.topic("u", 2)
    other = rig.member("other", "u").fetches(*tps("u", 0, 1))
    assert other.commit({tps("u", 0)[0]: 4}).outcome is msg.CommitOutcome.OK and c.leads
    if not late:
        assert rig.zk.get(lay.offset(GROUP, T1))[0] == data, "nothing is written over it"


def test_a_pattern_that_is_no_pattern_leaves_its_member_out(rig: Rig) -> None:
    rig.topic("t", 2)
    c = rig.coordinator()
    m = rig.member("m", "t").fetches(T0, T1)
    data = b'{"version":1,"subscription":{"(t":1},"pattern":"white_list","timestamp":"1"}'
    rig.zk.create(rig.layout.registration(GROUP, "bad"), data, ephemeral=True)
    c.wait(lambda: c.records("malformed"), "its name")
    assert c.records("malformed")[0]["name"] == "bad" and m.fetching() == [T0, T1]


def test_a_malformed_node_that_is_mended_takes_part(rig: Rig) -> None:
    """An operator corrects it: it is what it is now."""
    rig.zk.create(rig.layout.topic("t"), b"{", makepath=True)
    c = rig.coordinator()
    m = rig.member("m", "t").joined()
    c.wait(lambda: c.records("malformed"), "the topic's name")
    rig.topic("t", 2)
    m.fetches(T0, T1)


def test_an_owner_node_that_cannot_be_read_blocks_its_partition_only(rig: Rig) -> None:
    """It is somebody's, so nobody gets the partition until it is gone."""
    rig.topic("t", 2)
    rig.zk.ensure_path(rig.layout.owner_topic(GROUP, "t"))
    rig.zk.create(rig.layout.owner(GROUP, T0), b"\xff", ephemeral=True)
    rig.coordinator(lease_max_ms=100, lease_margin_ms=0)
    m = rig.member("m", "t").fetches(T1)
    rig.zk.delete(rig.layout.owner(GROUP, T0))
    m.fetches(T0, T1)


def test_the_isolated_layout_leaves_consumers_nodes_alone(isolated_rig: Rig) -> None:
    """Nothing of ours but registrations, owners and offsets under /consumers; the whole life of a
    small group.
    """
    rig = isolated_rig
    assert rig.layout is Layout.ISOLATED
    rig.topic("t", 4)
    c = rig.coordinator()
    a, b = rig.member("a", "t"), rig.member("b", "t")
    c.wait(lambda: len(a.fetching()) == len(b.fetching()) == 2, "half of the partitions each")
    assert a.commit({a.fetching()[0]: 5}).outcome is msg.CommitOutcome.OK
    assert rig.names("/consumers") == [GROUP] and rig.names(f"/consumers/{GROUP}") == [
        "ids",
        "offsets",
        "owners",
    ]
    a.leave()
    b.fetches(*tps("t", 0, 1, 2, 3))
    assert sorted(rig.names("/zkcoord")) == ["coordinator", "groups"]
