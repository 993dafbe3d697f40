"""Who could have made a node decides whether it is believed: what members and strangers made where
an older version let them, on a real server, before and after `zkcoord acl apply`.
"""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import ACL, make_acl, make_digest_acl_credential

from consumer.core import messages as msg
from consumer.member.joining import group_nodes, whose_group
from tests.harness.zookeeper import disconnect
from tests.protocol.rig import GROUP, Coordinator, Rig, tps
from tests.security.older import BOTH, OPEN, acl_of, apply, made_by, named, older
from tests.security.principals import PASSWORDS, ROLES, STRANGER, client_as, digest
from zkcoord.coordinator.acl_check import look_at_acls
from zkcoord.core.classic.state import ClassicMember, ClassicPhase, ClassicState
from zkcoord.core.model import GroupMode, Mode, Request, RequestKind
from zkcoord.errors import RefusedError
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes import codec
from zkcoord.znodes.classic.documents import (
    ClassicRound,
    decode_state,
    encode_round,
    encode_state,
)
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.classic.pin import Machine, Pin, encode_pin
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.paths import Layout

T0, T1 = tps("t", 0, 1)


@BOTH
def test_a_group_that_a_stranger_may_use_is_left_alone_until_it_is_mended(
    rig: Rig, app: KazooClient
) -> None:
    """Another application made it, open to everybody, before its members came: they wait, nobody
    can take their channel, and coordinator and members say why.
    """
    rig.topic("t", 2)
    older(rig)
    made_by(app, rig, OPEN)
    c = rig.coordinator(left_alone_retry_ms=200)
    m = rig.member("m", "t")
    m.wait(lambda: m.notices(msg.NoticeKind.GROUP_NOT_READY), "that it waits")
    assert "world:anyone" in str(m.notices(msg.NoticeKind.GROUP_NOT_READY)[0].detail["reason"])
    c.wait(lambda: named(c, "group"), "the group's name")
    assert "world:anyone" in named(c, "group")[0] and "zkcoord acl apply" in named(c, "group")[0]
    assert rig.names(rig.layout.ids(GROUP)) == [] and not m.said(msg.Failed)
    assert apply(rig) == 0
    m.fetches(T0, T1)
    stranger = client_as(rig.hosts, STRANGER)
    with pytest.raises(NoAuthError):
        stranger.delete(rig.layout.channel(GROUP, m.member))
    disconnect(stranger)


@BOTH
@pytest.mark.parametrize("acl", [OPEN, acl_of("r")], ids=["open", "as it should be"])
def test_a_mode_that_a_member_can_have_made_is_nobodys_word(
    rig: Rig, app: KazooClient, acl: list[ACL], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever makes a node chooses its ACL, so that of the node above counts, too. Else it would
    throw all members out; `acl apply` names it, since from then on it is believed.
    """
    rig.topic("t", 2)
    older(rig)
    made_by(app, rig)
    legacy = codec.encode_mode(Mode(GroupMode.LEGACY))
    app.create(rig.layout.mode(GROUP), legacy, acl=acl)
    c = rig.coordinator()
    a = rig.member("a", "t").fetches(T0, T1)
    c.wait(lambda: named(c, "mode"), "its name")
    b = rig.member("b", "t").joined()
    b.wait(lambda: len(b.fetching()) == 1, "its share")
    assert not a.said(msg.Failed) and not b.said(msg.Failed)
    report = codec.decode_metadata(GROUP, rig.node(rig.layout.group(GROUP))[0])  # type: ignore[index]  # it is there
    assert any("mode" in problem for problem in report.problems)  # type: ignore[union-attr]  # a report
    assert apply(rig) == 0
    said = capsys.readouterr().out
    assert rig.layout.mode(GROUP) in said and "others than coordinators could make it" in said


@BOTH
def test_a_request_that_a_member_can_have_made_is_not_taken_up(rig: Rig, app: KazooClient) -> None:
    """Neither before the coordinator came nor after; an operator's is, once the group is closed."""
    rig.topic("t", 2)
    older(rig)
    made_by(app, rig)
    ask = codec.encode_request(Request(RequestKind.REBALANCE, True, "operator"))
    app.create(rig.layout.requests(GROUP), b"", acl=[*acl_of("r"), OPEN[0]])
    app.create(rig.layout.request_prefix(GROUP), ask, acl=acl_of("r"), sequence=True)
    c = rig.coordinator()
    rig.member("m", "t").fetches(T0, T1)
    c.wait(lambda: named(c, "request"), "its name")
    app.create(rig.layout.request_prefix(GROUP), ask, acl=acl_of("r"), sequence=True)
    c.wait(lambda: len(named(c, "request")) == 2, "the name of the later one")
    assert len(rig.names(rig.layout.requests(GROUP))) == 2
    assert not [r for r in c.records("rebalance") if r.get("cause") == "operator asked for it"]
    for node in rig.names(rig.layout.requests(GROUP)):
        rig.zk.delete(rig.layout.request(GROUP, node))
    assert apply(rig) == 0
    rig.zk.create(rig.layout.request_prefix(GROUP), ask, acl=acl_of("r"), sequence=True)
    c.wait(lambda: rig.names(rig.layout.requests(GROUP)) == [], "that it is taken up")


@BOTH
def test_who_may_not_make_requests_pauses_and_evicts_nobody(rig: Rig, app: KazooClient) -> None:
    """A member that could make both nodes of its group; an operator's words count, once it is
    closed.
    """
    rig.topic("t", 2)
    older(rig)
    made_by(app, rig)
    app.create(rig.layout.requests(GROUP), b"", acl=[*acl_of("r"), OPEN[0]])
    c = rig.coordinator()
    m = rig.member("m", "t").fetches(T0, T1)
    evict = codec.encode_request(
        Request(RequestKind.EVICT, False, "operator", m.member, m.sessions[-1])
    )
    pause = codec.encode_mode(Mode(GroupMode.COORDINATED, by="operator", paused=True))
    app.create(rig.layout.request_prefix(GROUP), evict, acl=acl_of("r"), sequence=True)
    c.wait(lambda: named(c, "request"), "its name")
    app.create(rig.layout.mode(GROUP), pause, acl=acl_of("r"))
    c.wait(lambda: named(c, "mode"), "its name")
    late = rig.member("late", "t")
    late.wait(lambda: len(late.fetching()) == 1, "its share")
    assert m.names == [m.member] and not c.records("evicted") and not c.records("paused")
    for node in rig.names(rig.layout.requests(GROUP)):
        rig.zk.delete(rig.layout.request(GROUP, node))
    rig.zk.delete(rig.layout.mode(GROUP))
    assert apply(rig) == 0
    rig.zk.create(rig.layout.request_prefix(GROUP), evict, acl=acl_of("r"), sequence=True)
    m.wait(lambda: len(m.notices(msg.NoticeKind.REGISTERED)) == 2, "its return")
    rig.zk.create(rig.layout.mode(GROUP), pause, acl=acl_of("r"))
    c.wait(lambda: not (m.fetching() or late.fetching()), "empty hands")


@BOTH
def test_a_pin_that_a_member_can_have_made_is_nobodys_word(
    rig: Rig, app: KazooClient, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who runs a group is an operator's word, too: else clients would be refused, or sent over."""
    older(rig)
    paths = ClassicPaths(rig.layout)
    for path in (*paths.above_pins(), paths.groups, paths.requests):
        app.create(path, b"", acl=acl_of("rc"))
    said = encode_pin(Pin(Machine.COORDINATED, "operator"))
    app.create(paths.pin("before"), said, acl=acl_of("r"))
    c = rig.coordinator()
    c.wait(lambda: len(named(c, "pin of a group")) == 1, "its name")
    app.create(paths.pin("after"), said, acl=acl_of("r"))
    c.wait(lambda: len(named(c, "pin of a group")) == 2, "the name of the later one")
    assert not any(c.ask(lambda name=name: pin_of(c, name)) for name in ("before", "after"))
    assert apply(rig) == 0
    told = capsys.readouterr().out
    assert paths.pin("before") in told and "others than coordinators could make it" in told
    rig.zk.set(paths.pin("after"), said)
    c.wait(lambda: c.ask(lambda: pin_of(c, "after")) is Machine.COORDINATED, "that it counts")


@BOTH
def test_what_a_member_can_have_said_of_a_client_led_group_is_not_believed(
    rig: Rig, app: KazooClient
) -> None:
    """Its members would be nobody's, who are waited for; nor is it believed once it is mended."""
    older(rig)
    paths = ClassicPaths(rig.layout)
    for path in (*paths.above_groups(), paths.pins, paths.requests):
        app.create(path, b"", acl=acl_of("rc"))
    nobody = ClassicMember("m", None, "c", "h", 30_000, 30_000, (("own", b""),))
    stable = ClassicState(ClassicPhase.STABLE, 7, "consumer", "own", "m", (nobody,))
    for path in paths.parts("g"):
        said = encode_round(ClassicRound(8)) if path == paths.round("g") else b""
        app.create(path, said, acl=acl_of("rc"))
    app.create(paths.state("g"), encode_state(stable), acl=acl_of("r"))
    c = rig.coordinator("first")
    c.wait(lambda: named(c, "client-led group"), "its name")
    assert "zkcoord acl apply" in named(c, "client-led group")[0]
    assert c.ask(lambda: members_of(c, "g")) is None, "it is not served"
    c.wait(lambda: state_of(rig, "g").phase is ClassicPhase.EMPTY, "what it is said to be instead")
    assert state_of(rig, "g").generation > 7
    assert apply(rig) == 0
    c.stop()
    second = rig.coordinator("second")
    second.wait(lambda: second.ask(lambda: members_of(second, "g")) is not None, "the group")
    assert second.ask(lambda: members_of(second, "g")) == (ClassicPhase.EMPTY, 0)
    assert not named(second, "client-led group")


@BOTH
@pytest.mark.parametrize("said", ["pin", "state"])
def test_what_a_member_can_have_said_of_who_leads_a_group_keeps_nobody_out(
    rig: Rig, app: KazooClient, said: str
) -> None:
    """A word that clients lead it, an operator's or a coordinator's, would refuse every member:
    now, and in what it reads after it has registered.
    """
    rig.topic("t", 2)
    older(rig)
    made_by(app, rig)
    paths = ClassicPaths(rig.layout)
    for path in dict.fromkeys((*paths.above_pins(), *paths.above_groups(), paths.requests)):
        app.create(path, b"", acl=acl_of("rc"))
    client = ClassicMember("m", None, "c", "h", 30_000, 30_000, (("own", b""),))
    stable = ClassicState(ClassicPhase.STABLE, 7, "connect", "own", "m", (client,))
    if said == "state":
        app.create(paths.group(GROUP), b"", acl=acl_of("rc"))
        app.create(paths.state(GROUP), encode_state(stable), acl=acl_of("r"))
    else:
        app.create(paths.pin(GROUP), encode_pin(Pin(Machine.CLIENT_LED)), acl=acl_of("r"))
    rig.coordinator()
    m = rig.member("m", "t").fetches(T0, T1)
    assert not m.said(msg.Failed)


def forged(rig: Rig, app: KazooClient) -> str:
    """A state that a member can have written, of a client that there is not: its path."""
    older(rig)
    made_by(app, rig)
    paths = ClassicPaths(rig.layout)
    for path in dict.fromkeys((*paths.above_groups(), paths.group(GROUP))):
        app.create(path, b"", acl=acl_of("rc"))
    client = ClassicMember("m", None, "c", "h", 30_000, 30_000, (("own", b""),))
    stable = ClassicState(ClassicPhase.STABLE, 7, "connect", "own", "m", (client,))
    app.create(paths.state(GROUP), encode_state(stable), acl=acl_of("r"))
    return paths.state(GROUP)


@BOTH
def test_a_member_waits_for_a_coordinator_to_take_back_what_others_can_have_said(
    rig: Rig, app: KazooClient
) -> None:
    """It came before any, or in the moment before one had done it: it is not refused for good."""
    rig.topic("t", 2)
    forged(rig, app)
    m = rig.member("m", "t")
    m.wait(lambda: m.notices(msg.NoticeKind.GROUP_NOT_READY), "that it waits")
    said = str(m.notices(msg.NoticeKind.GROUP_NOT_READY)[0].detail["reason"])
    assert "is led by one of its 1 clients" in said
    assert "others can have written it" in said and "zkcoord acl apply" in said
    rig.coordinator()
    m.fetches(T0, T1)
    assert not m.said(msg.Failed)


@BOTH
def test_one_that_registered_meanwhile_waits_unregistered(
    rig: Rig, app: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was said between its look and its registration, it reads afterwards."""
    rig.topic("t", 2)
    forged(rig, app)
    real, looks = whose_group.led_by_clients, iter(["not yet"])

    def blind_once(*args: object, **more: object) -> str:
        return "" if next(looks, None) else real(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(whose_group, "led_by_clients", blind_once)
    m = rig.member("m", "t")
    m.wait(lambda: m.notices(msg.NoticeKind.GROUP_NOT_READY), "that it waits")
    assert next(looks, None) is None and rig.names(rig.layout.ids(GROUP)) == []
    rig.coordinator()
    m.fetches(T0, T1)


@BOTH
def test_nobody_takes_it_back_so_a_member_is_refused_in_the_end(
    rig: Rig, app: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words say who leads it, as where there is no doubt."""
    monkeypatch.setattr(group_nodes, "DOUBTED_MAX", 2)
    forged(rig, app)
    m = rig.member("m", "t")
    m.wait(lambda: m.said(msg.Failed), "that it is refused")
    assert m.said(msg.Failed)[0].code is msg.FailureCode.REJECTED
    assert "is led by one of its 1 clients" in m.said(msg.Failed)[0].message
    assert len(m.notices(msg.NoticeKind.GROUP_NOT_READY)) == 1


@BOTH
def test_an_operators_word_that_clients_lead_keeps_members_out(rig: Rig) -> None:
    """With roles, as without: nobody else could have said it."""
    rig.topic("t", 2)
    c = rig.coordinator()
    c.wait(lambda: rig.zk.exists(ClassicPaths(rig.layout).pins) is not None, "the root of pins")
    rig.zk.create(
        ClassicPaths(rig.layout).pin(GROUP), encode_pin(Pin(Machine.CLIENT_LED)), acl=acl_of("r")
    )
    m = rig.member("m", "t")
    m.wait(lambda: m.said(msg.Failed), "that it is refused")
    assert "an operator has said that clients lead" in m.said(msg.Failed)[0].message


def members_of(c: Coordinator, group: str) -> tuple[ClassicPhase, int] | None:
    """A client-led group as a coordinator knows it; None: not yet."""
    services = c.driver.services
    found = None if services is None else services.classic.group(group)
    return None if found is None else (found.phase, found.members)


def state_of(rig: Rig, group: str) -> ClassicState:
    """What is written of it."""
    said = decode_state(group, rig.zk.get(ClassicPaths(rig.layout).state(group))[0])
    assert isinstance(said, ClassicState)
    return said


def pin_of(c: Coordinator, group: str) -> Machine | None:
    """What a coordinator takes to be said of a group."""
    assert c.driver.services is not None
    return c.driver.services.classic._pins.of(group)


@BOTH
def test_a_group_that_keeps_coordinators_out_keeps_none_from_starting(
    rig: Rig, app: KazooClient
) -> None:
    """Only ZooKeeper's superuser can mend it: `acl apply` does the rest, and names it."""
    rig.topic("t", 2)
    older(rig)
    mine = [make_acl("digest", make_digest_acl_credential("app", PASSWORDS["app"]), all=True)]
    app.create(rig.layout.group("evil"), b"", acl=mine)
    app.create(f"{rig.layout.group('evil')}/x", b"", acl=mine)
    app.create(rig.layout.group("worse"), b"", acl=mine + OPEN)
    zk = ZkOptions(rig.hosts, digest=digest("coord"), roles=ROLES)
    with pytest.raises(RefusedError, match="above all groups"):
        look_at_acls(zk, rig.layout, secure=True)
    assert apply(rig) == 1
    look_at_acls(zk, rig.layout, secure=True)
    first = rig.coordinator("first")
    m = rig.member("m", "t").fetches(T0, T1)
    second = rig.coordinator("second", lead=False)
    first.stop()
    second.wait(lambda: second.leads, "the lead")
    assert any("evil" in why for why in named(second, "group"))
    assert m.commit({T0: 1}).outcome is msg.CommitOutcome.OK


@pytest.mark.parametrize("layout", [Layout.ISOLATED])
@pytest.mark.parametrize("hidden", [False, True], ids=["seen", "hidden"])
def test_a_members_node_in_the_other_layouts_seat_keeps_nobody_from_leading(
    rig: Rig, app: KazooClient, hidden: bool
) -> None:
    """Where an older version let members create below /consumers: a persistent node, or one that
    lives and says what a leader's does.
    """
    rig.topic("t", 2)
    older(rig)
    mine = [make_acl("digest", make_digest_acl_credential("app", PASSWORDS["app"]), all=True)]
    path = rig.layout.other_profile().leader
    leader = codec.encode_leader(codec.LeaderData("", "h", 1, 5, 1))
    app.create(path, leader, ephemeral=not hidden, acl=mine if hidden else acl_of("r"))
    first = rig.coordinator("first")
    assert named(first, "leader")
    rig.member("m", "t").fetches(T0, T1)
    second = rig.coordinator("second", lead=False)
    first.stop()
    second.wait(lambda: second.leads, "the lead")


@BOTH
@pytest.mark.parametrize("acl", [OPEN, acl_of("rd")], ids=["open", "as it should be"])
def test_a_channel_under_a_members_name_is_used_only_if_nobody_else_may_command_in_it(
    rig: Rig, app: KazooClient, acl: list[ACL]
) -> None:
    """Somebody guessed the name that it would draw. With the ACL of its place whoever made it can
    do no more with it than the member.
    """
    rig.topic("t", 2)
    rig.coordinator()
    rig.member("other", "t").fetches(T0, T1)
    m = rig.member("m")
    m.names.append("g_m-1-00000000")
    m.driver.new_id = lambda: m.member
    app.create(rig.layout.channel(GROUP, m.member), b"", acl=acl)
    m.subscribe("t")
    if acl is OPEN:
        m.wait(lambda: m.said(msg.Failed), "that it refuses it")
        assert "somebody else made" in m.said(msg.Failed)[0].message
        assert m.member not in rig.names(rig.layout.ids(GROUP))
    else:
        m.wait(lambda: len(m.fetching()) == 1, "its share")


@BOTH
def test_topics_that_a_stranger_may_write_keep_a_secure_coordinator_from_starting(
    rig: Rig, app: KazooClient
) -> None:
    """Whoever can make `source` there has everybody read topics from it."""
    older(rig)
    look_at_acls(_as_coordinator(rig), rig.layout, secure=False)
    assert apply(rig) == 0
    look_at_acls(_as_coordinator(rig), rig.layout, secure=True)
    coordinator = rig.coordinator()
    coordinator.stop()
    rig.zk.ensure_path(CLUSTER_TREE.root, acl=OPEN)
    rig.zk.set_acls(CLUSTER_TREE.root, OPEN)
    with pytest.raises(RefusedError, match="or topics"):
        look_at_acls(_as_coordinator(rig), rig.layout, secure=True)
    assert apply(rig) == 0
    look_at_acls(_as_coordinator(rig), rig.layout, secure=True)


def _as_coordinator(rig: Rig) -> ZkOptions:
    return ZkOptions(rig.hosts, digest=digest("coord"), roles=ROLES)
