"""What ZooKeeper and its client do that one would not expect, and coordinator and member all the
same do right. The list is in docs/design.md.
"""

from __future__ import annotations

from kazoo.client import KazooClient

from consumer.core import messages as msg
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect, since_3_6
from tests.protocol.rig import GROUP, SESSION_MS, SHORT_SESSION_MS, WAIT_S, Rig, tps
from tests.zk.link import Mode
from tests.zk.port_contract import Session
from tests.zk.real import RealFixture
from zkcoord.core.model import Command, Option, Subscription, Thread
from zkcoord.zk.port import Create, WatchMode
from zkcoord.znodes import codec

T0, T1 = tps("t", 0, 1)
NAME = "g_ghost-1-00000000"


def registered(rig: Rig) -> KazooClient:
    """A session that holds a registration under a name that was used before."""
    client = connect(rig.hosts, SESSION_MS / 1000)
    rig.ghosts.append(client)
    data = codec.encode_registration(
        Subscription({"t": 1}), timestamp_ms=1, assignors=("sticky",), process="p"
    )
    client.create(rig.layout.registration(GROUP, NAME), data, ephemeral=True)
    return client


def test_a_name_that_went_and_came_while_nobody_looked_is_another_member(rig: Rig) -> None:
    """The list of names is the same before and after the coordinator's disconnection, only the
    transaction that made the registration differs: the command for the old one is deleted, and a
    new one names the new one.
    """
    rig.topic("t", 2)
    proxy = rig.proxy()
    c = rig.coordinator(proxy=proxy)
    first = rig.ghost(NAME, {"t": 1})
    c.wait(lambda: len(rig.commands(NAME)) == 1, "its command")
    (old,), before = rig.commands(NAME), rig.incarnation(NAME)
    proxy.refuse()
    proxy.cut()
    c.wait(lambda: not c.driver.connected, "the loss of its connection")
    first.stop()
    registered(rig)
    proxy.heal()
    c.wait(lambda: rig.commands(NAME) not in ([old], []), "another command")
    (new,) = rig.commands(NAME)
    node = rig.node(rig.layout.command(GROUP, NAME, new))
    assert node is not None
    command = codec.decode_command(NAME, new, node[0])
    assert (
        isinstance(command, Command)
        and command.incarnation == rig.incarnation(NAME) > before
        and len(c.sessions) == 1
    )


def test_a_group_that_an_operator_deletes_is_served_when_it_is_made_again(rig: Rig) -> None:
    """A watch of a node's children that stands on a deleted node hears nothing for ever; ours
    stands above.
    """
    rig.topic("t", 2)
    c = rig.coordinator()
    m = rig.member("m", "t").fetches(T0, T1)
    m.leave({T0: 5, T1: 6})
    rig.zk.delete(rig.layout.group(GROUP), recursive=True)
    c.wait(lambda: GROUP not in c.driver.core.groups, "the end of the group")
    again = rig.member("n", "t").fetches(T0, T1)
    assert again.positions == {T0: 5, T1: 6}
    late = rig.member("late", "t")
    late.wait(lambda: len(late.fetching()) == 1, "its partition")


def test_a_channel_made_again_counts_from_zero_and_orders_nothing(rig: Rig) -> None:
    """ZooKeeper's suffix is the parent's counter: after an operator deleted the channel and made it
    again, a later command has the smaller suffix. The payload's order counts: the start first, then
    the stop of the same partition, though their suffixes say the opposite.
    """
    rig.topic("t", 2)
    rig.reign()
    m = rig.member("m", "t").joined()
    for seq in (1, 2):
        node = rig.command(m.member, seq, start=(T0,))
        m.wait(lambda: rig.commands(m.member) == [], "the ack")
    assert node.endswith("-0000000001")
    m.fetches(T0)
    path = rig.layout.channel(GROUP, m.member)
    transaction = rig.zk.transaction()
    transaction.delete(path)
    transaction.create(path, b"")
    later = Command(m.member, rig.incarnation(m.member), Option.STOP, 5, 4, 1, {}, (T1,))
    earlier = Command(
        m.member, rig.incarnation(m.member), Option.START, 5, 3, 1, {T1: Thread(m.member, 0)}, ()
    )
    for number, command in enumerate((later, earlier)):
        prefix = rig.layout.command_prefix(GROUP, m.member, command.epoch, command.seq)
        transaction.create(
            f"{prefix}{number:010d}",
            codec.encode_command(command),
        )
    assert all(not isinstance(result, Exception) for result in transaction.commit())
    m.wait(lambda: rig.commands(m.member) == [], "both acks")
    m.wait(lambda: len(m.said(msg.Revoke)) == 1, "the stop")
    m.fetches(T0)
    assert sorted(rig.owners("t")) == [0] and [set(a.offsets) for a in m.said(msg.Assigned)][
        -1
    ] == {T1}


@since_3_6("changes that follow closely upon one another are told as one")
def test_an_owner_that_is_busy_keeps_its_session_and_the_order_of_what_it_hears(
    zk_hosts: str,
) -> None:
    """The thread that decides stands still for longer than a session lasts (proved by another
    session of the same length that is cut off and expires): the connection's thread goes on by
    itself, so the session lives, and afterwards everything is heard, in order, as if nothing had
    been.
    """
    with RealFixture(zk_hosts, session_timeout_ms=SHORT_SESSION_MS) as fixture:
        busy, measure = Session(fixture), Session(fixture)
        busy.do(Create("/busy", b"", ephemeral=True))
        measure.do(Create("/measure", b"", ephemeral=True))
        busy.watch("/", WatchMode.PERSISTENT)
        client = connect(zk_hosts)
        fixture.link(measure.port).mode = Mode.BLACK_HOLE
        # nothing is taken from the owner's queue meanwhile
        wait_until(
            lambda: client.exists("/measure") is None,
            WAIT_S,
            "the end of a session as long as the busy one's",
        )
        assert client.exists("/busy") is not None
        for name in ("/x", "/y"):
            client.create(name)
        disconnect(client)
        assert (
            busy.seen() == [("CHILDREN", "/")] * 3
            and busy.events == []
            and busy.node("/busy").stat.ephemeral_owner == busy.session_id
        )
