"""Whoever makes a node chooses its ACL, also the one that it should have, and so does whoever makes
a user of the coordinators' name: what was written by such is not believed either, and where it may
be the coordinator's own word nobody else is let in.
"""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient
from kazoo.security import ACL, make_acl, make_digest_acl_credential

from consumer.core import messages as msg
from tests.protocol.rig import GROUP, Rig, tps
from tests.security.older import BOTH, OPEN, above, acl_of, apply, made_by, named, older
from zkcoord.core.classic.requests import (
    ClassicJoin,
    ClassicLeave,
    ClassicRequest,
    ClassicSync,
    Leaver,
)
from zkcoord.core.classic.state import ClassicMember, ClassicPhase, ClassicState
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import GroupMode, Malformed, Mode, Subscription
from zkcoord.zk.classic.finding import GENERATIONS_UNWRITTEN
from zkcoord.zk.clock import wall_ms
from zkcoord.znodes import codec
from zkcoord.znodes.classic.documents import (
    ClassicAnswer,
    ClassicAsk,
    decode_answer,
    decode_state,
    encode_ask,
    encode_state,
)
from zkcoord.znodes.classic.paths import ClassicPaths, request_name
from zkcoord.znodes.classic.pin import Machine, Pin, encode_pin
from zkcoord.znodes.codec import EpochData, LeaderData
from zkcoord.znodes.paths import Layout, parents

T0, T1 = tps("t", 0, 1)
SAME_NAME = make_acl("digest", make_digest_acl_credential("coord", "another password"), all=True)
NO_ADMIN = 31 & ~16
CLIENTS_LEAD = encode_pin(Pin(Machine.CLIENT_LED))


def asked(rig: Rig, app: KazooClient, request: ClassicRequest) -> ClassicAnswer:
    """What the coordinator answers to a gateway."""
    name = request_name(GROUP)
    path = ClassicPaths(rig.layout).request(name)
    app.create(path, encode_ask(ClassicAsk(GROUP, request))[0], acl=acl_of("r"), ephemeral=True)
    found: list[ClassicAnswer] = []

    def answered() -> bool:
        answer = decode_answer(name, rig.zk.get(path)[0])
        assert not isinstance(answer, Malformed), answer
        found.extend([answer] if answer is not None else [])
        return bool(found)

    rig.procs[0].wait(answered, "an answer")
    app.delete(path)
    return found[0]


def a_client_leads(rig: Rig, app: KazooClient) -> str:
    """One joins and syncs, as through a gateway; its id."""
    offered = (("own", b"x"),)
    first: list[ClassicAnswer] = []

    def is_served() -> bool:
        """Clients ask again: what was mended is seen at the next look."""
        first[:] = [asked(rig, app, ClassicJoin("", "fresh", "connect", offered, 60_000, 60_000))]
        return first[0].code is not WireCode.COORDINATOR_NOT_AVAILABLE

    rig.procs[0].wait(is_served, "that client-led groups are served")
    (new,) = first
    joined = asked(
        rig, app, ClassicJoin(new.member_id, "other", "connect", offered, 60_000, 60_000)
    )
    shares = ((new.member_id, b"all of t"),)
    asked(rig, app, ClassicSync(new.member_id, joined.generation, None, "connect", "own", shares))
    said = decode_state(GROUP, rig.zk.get(ClassicPaths(rig.layout).state(GROUP))[0])
    assert isinstance(said, ClassicState)
    assert said.phase is ClassicPhase.STABLE and len(said.members) == 1
    return new.member_id


def refused_beside_clients(rig: Rig) -> None:
    """Nobody else owns what is theirs."""
    m = rig.member("late", "t")
    m.wait(lambda: m.said(msg.Failed), "that it is refused")
    assert "is led by one of its 1 clients" in m.said(msg.Failed)[0].message


@BOTH
def test_clients_lead_no_group_while_others_may_write_what_is_above(
    rig: Rig, app: KazooClient
) -> None:
    """Then anybody could say who is in it; members are served. They lead once that is mended."""
    rig.topic("t", 2)
    paths = ClassicPaths(rig.layout)
    older(rig)
    made_by(app, rig)
    for path in above(rig):
        app.create(path, b"", acl=acl_of("rcd" if path == paths.requests else "rc"))
    c = rig.coordinator()
    c.wait(lambda: named(c, "client-led groups"), "that none is served")
    m = rig.member("m", "t").fetches(T0, T1)
    m.end()
    rig.procs.remove(m)
    assert apply(rig) == 0
    a_client_leads(rig, app)
    refused_beside_clients(rig)


@BOTH
def test_a_client_led_group_of_which_others_may_say_what_it_is_is_left_alone(
    rig: Rig, app: KazooClient
) -> None:
    """What was said of it until it is mended counts for nothing, afterwards neither."""
    rig.topic("t", 2)
    paths = ClassicPaths(rig.layout)
    rig.coordinator().stop()
    client = ClassicMember("m", None, "c", "h", 30_000, 30_000, (("own", b""),))
    forged = ClassicState(ClassicPhase.STABLE, 7, "connect", "own", "m", (client,))
    for path in (*paths.parts(GROUP), paths.state(GROUP)):
        rig.zk.create(path, b"", acl=OPEN)
    app.set(paths.state(GROUP), encode_state(forged))
    rig.procs.clear()
    c = rig.coordinator()
    c.wait(lambda: named(c, "client-led group"), "that it is left alone")
    join = ClassicJoin("", "fresh", "connect", (("own", b"x"),), 60_000, 60_000)
    assert asked(rig, app, join).code is WireCode.COORDINATOR_NOT_AVAILABLE
    m = rig.member("m", "t").fetches(T0, T1)
    m.end()
    rig.procs.remove(m)
    assert apply(rig) == 0
    c.wait(lambda: asked(rig, app, join).code is WireCode.MEMBER_ID_REQUIRED, "that it is served")
    a_client_leads(rig, app)
    said = decode_state(GROUP, rig.zk.get(paths.state(GROUP))[0])
    assert isinstance(said, ClassicState) and said.generation > GENERATIONS_UNWRITTEN
    refused_beside_clients(rig)


@BOTH
def test_who_registers_beside_clients_without_looking_is_assigned_nothing(
    rig: Rig, app: KazooClient
) -> None:
    """As members of before there were such groups do."""
    rig.topic("t", 2)
    c = rig.coordinator()
    m = rig.member("first", "t").fetches(T0, T1)
    m.end()
    rig.procs.remove(m)
    member_id = a_client_leads(rig, app)
    channel = rig.layout.channel(GROUP, "old")
    app.create(channel, b"", acl=acl_of("rd"))
    document = codec.encode_registration(
        Subscription({"t": 1}), timestamp_ms=wall_ms(), assignors=("sticky",), process="p"
    )
    registration = rig.layout.registration(GROUP, "old")
    app.create(registration, document, acl=acl_of("r"), ephemeral=True)
    c.wait(lambda: named(c, "group"), "that nothing is assigned")
    assert "one of its 1 clients leads it" in named(c, "group")[0]
    assert not rig.zk.get_children(channel)
    asked(rig, app, ClassicLeave((Leaver(member_id, None, ""),)))
    c.wait(lambda: rig.zk.get_children(channel), "a command, when no client leads it any more")


@BOTH
def test_a_pin_that_was_made_in_the_open_and_closed_is_nobodys_word(
    rig: Rig, app: KazooClient
) -> None:
    """What could make the highest of these nodes can have closed all of them since."""
    rig.topic("t", 2)
    older(rig)
    made_by(app, rig)
    paths = ClassicPaths(rig.layout)
    for path in above(rig):
        app.create(path, b"", acl=OPEN)
    app.create(paths.pin(GROUP), CLIENTS_LEAD, acl=OPEN)
    for path in (paths.pin(GROUP), *reversed(above(rig))):
        app.set_acls(path, acl_of("rcd" if path == paths.requests else "r"))
    rig.coordinator()
    m = rig.member("m", "t").fetches(T0, T1)
    assert not m.said(msg.Failed)


@BOTH
def test_so_is_a_mode_and_who_mends_the_roots_is_told_of_it(
    rig: Rig, app: KazooClient, capsys: pytest.CaptureFixture[str]
) -> None:
    rig.topic("t", 2)
    older(rig)
    made_by(app, rig, OPEN)
    layout = rig.layout
    app.create(layout.mode(GROUP), codec.encode_mode(Mode(GroupMode.LEGACY)), acl=OPEN)
    closed = dict.fromkeys((layout.mode(GROUP), *reversed(layout.above_parts(GROUP))), "r")
    closed |= dict.fromkeys((layout.channels(GROUP), layout.offsets(GROUP)), "rc")
    closed |= {layout.ids(GROUP): "rcd", layout.owners(GROUP): "rc"}
    for path in sorted(closed, key=len, reverse=True):
        app.set_acls(path, acl_of(closed[path]))
    c = rig.coordinator()
    m = rig.member("m", "t").fetches(T0, T1)
    c.wait(lambda: named(c, "mode"), "its name")
    assert not m.said(msg.Failed)
    assert apply(rig) == 0
    said = capsys.readouterr().out
    assert layout.mode(GROUP) in said and "others than coordinators could make it" in said


@BOTH
@pytest.mark.parametrize("seen", ["whole", "masked"])
def test_a_user_of_the_coordinators_name_is_no_coordinator(
    rig: Rig, app: KazooClient, seen: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever may not change an ACL is shown `x` for the hash of each password: members always,
    coordinators where somebody has kept that from them.
    """
    rig.topic("t", 2)
    older(rig)
    made_by(app, rig)
    paths = ClassicPaths(rig.layout)
    mine = [SAME_NAME, *acl_of("r")]
    if seen == "masked":
        mine[1] = ACL(NO_ADMIN, mine[1].id)
    for path in above(rig):
        app.create(path, b"", acl=OPEN)
    app.create(paths.pin(GROUP), CLIENTS_LEAD, acl=mine)
    for path in reversed(above(rig)):
        app.set_acls(path, mine)
    rig.zk.set_acls(rig.layout.epoch, acl_of("r"))  # the root alone is mended
    c = rig.coordinator()
    m = rig.member("m", "t").fetches(T0, T1)
    c.wait(lambda: named(c, "pin of a group"), "its name")
    assert not m.said(msg.Failed)
    status, said = apply(rig), capsys.readouterr()
    if seen == "masked":  # who may not change it cannot mend it, and says so
        assert status == 1 and "does not let this client change" in said.err
    else:
        assert status == 0 and rig.zk.get_acls(paths.pin(GROUP))[0] == acl_of("r")


@BOTH
def test_a_channel_of_such_a_user_is_not_used(rig: Rig, app: KazooClient) -> None:
    """Commands could be made in it by whoever that is."""
    rig.topic("t", 2)
    rig.coordinator()
    rig.member("other", "t").fetches(T0, T1)
    m = rig.member("m")
    m.names.append("g_m-1-00000000")
    m.driver.new_id = lambda: m.member
    app.create(rig.layout.channel(GROUP, m.member), b"", acl=[SAME_NAME, *acl_of("rd")])
    m.subscribe("t")
    m.wait(lambda: m.said(msg.Failed), "that it is refused")
    assert "two users coord:x" in m.said(msg.Failed)[0].message


@pytest.mark.parametrize("layout", [Layout.DRAFT], ids=["draft"])
def test_a_members_node_in_the_coordinators_seat_keeps_none_from_leading(
    rig: Rig, app: KazooClient
) -> None:
    """It is as ephemeral as a coordinator's, and lasts as long as the member likes."""
    rig.topic("t", 2)
    older(rig)
    seat = rig.layout.leader
    app.create(
        seat,
        codec.encode_leader(LeaderData("", "h", 1, 5, 1)),
        ephemeral=True,
        makepath=False,
        acl=acl_of("r"),
    )
    c = rig.coordinator()
    c.wait(lambda: c.leads, "that it leads")
    assert rig.zk.exists(seat).ephemeralOwner != app.client_id[0]
    rig.member("m", "t").fetches(T0, T1)


@BOTH
@pytest.mark.parametrize("epoch", ["none", "older"])
def test_nor_does_one_in_the_other_layouts_seat_that_was_closed_since(
    rig: Rig, app: KazooClient, epoch: str
) -> None:
    """Who sees its ACL takes it for a coordinator's; it came without an epoch."""
    rig.topic("t", 2)
    other = rig.layout.other_profile()
    older(rig)
    for path in parents(other.leader):
        if rig.zk.exists(path) is None:
            rig.zk.create(path, b"", acl=acl_of("rc"))
        rig.zk.set_acls(path, acl_of("rc"))
    if epoch == "older":
        rig.zk.create(other.epoch, codec.encode_epoch(EpochData(4, 1, 3_000)), acl=acl_of("r"))
    app.create(
        other.leader,
        codec.encode_leader(LeaderData("", "h", 1, 5, 1)),
        ephemeral=True,
        acl=acl_of("r"),
    )
    for path in parents(other.leader):
        rig.zk.set_acls(path, acl_of("r"))
    c = rig.coordinator(lead=False)
    c.wait(lambda: c.leads or c.records("waiting"), "lead or not")
    assert c.leads, c.records("waiting")
    rig.member("m", "t").fetches(T0, T1)
