"""Who coordinators, members and tools take the users of an ACL for: passwords that are exchanged,
hashes that are not shown, a member's gateway, roles that somebody had.
"""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl_credential

from consumer.core import messages as msg
from tests.protocol.rig import GROUP, Rig, tps
from tests.security.older import OPEN, above, acl_of, made_by, named, older
from tests.security.principals import PASSWORDS, ROLES, digest, flags, hashed
from tests.zk.port_contract import Session
from tests.zk.real import Loop
from zkcoord.cli.main import main
from zkcoord.core.classic.state import ClassicMember, ClassicPhase, ClassicState
from zkcoord.core.model import Malformed
from zkcoord.zk.acl.audit import judge
from zkcoord.zk.acl.belief import Belief
from zkcoord.zk.acl.table import ALL, Principal, Roles, bits
from zkcoord.zk.classic.pins import Pins
from zkcoord.zk.port import Acl, AclEntry
from zkcoord.znodes import codec
from zkcoord.znodes.classic.documents import encode_state
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.classic.pin import Machine, Pin, encode_pin
from zkcoord.znodes.paths import Layout

T0, T1 = tps("t", 0, 1)
DRAFT = pytest.mark.parametrize("layout", [Layout.DRAFT], ids=["draft"])
NEW = Principal("digest", str(make_digest_acl_credential("coord", "the next password")))
ROTATING = Roles((*ROLES.coordinators, NEW), ROLES.members, ROLES.readers)


def masked(user: str, may: str) -> AclEntry:
    """An entry as it is shown to who may not change the ACL."""
    return AclEntry(bits(may), "digest", f"{user}:x")


@DRAFT
def test_a_members_gateway_believes_an_operators_pin(rig: Rig) -> None:
    """It is shown no hash at all, so that none is missing."""
    paths = ClassicPaths(rig.layout)
    c = rig.coordinator()
    c.wait(lambda: rig.zk.exists(paths.pins) is not None, "pins")
    rig.zk.create(paths.pin(GROUP), encode_pin(Pin(Machine.CLIENT_LED)), acl=acl_of("r"))
    fixture = Loop(rig.hosts, digest=digest("app"), roles=ROLES)
    s = Session(fixture)
    strange: list[Malformed] = []
    done: list[int] = []
    pins = Pins(paths, strange.append, ROLES)  # as consumer/gateway/client_led/making.py
    pins.read_all(s.port, lambda: done.append(1))
    s.wait(lambda: bool(done), "pins")
    s.port.close()
    assert pins.of(GROUP) is Machine.CLIENT_LED, strange


@DRAFT
def test_members_go_on_while_the_coordinators_password_is_exchanged(rig: Rig) -> None:
    """Coordinators know both before members do; what may write the root says so."""
    rig.topic("t", 2)
    rig.credentials["Coordinator"]["roles"] = ROTATING
    rig.coordinator()
    m = rig.member("m", "t")
    m.wait(lambda: m.fetching() or m.notices(msg.NoticeKind.GROUP_NOT_READY), "something")
    assert not m.notices(msg.NoticeKind.GROUP_NOT_READY), m.notices(msg.NoticeKind.GROUP_NOT_READY)


@DRAFT
def test_a_state_that_no_coordinator_could_write_keeps_nobody_out(
    rig: Rig, app: KazooClient
) -> None:
    """Nor could one take it back."""
    rig.topic("t", 2)
    older(rig)
    made_by(app, rig)
    paths = ClassicPaths(rig.layout)
    mine = [
        make_acl("digest", hashed("app"), all=True),
        make_acl("world", "anyone", read=True),
    ]
    for path in above(rig):
        if app.exists(path) is None:
            app.create(path, b"", acl=mine)
    client = ClassicMember("m", None, "c", "h", 30_000, 30_000, (("own", b""),))
    said = encode_state(ClassicState(ClassicPhase.STABLE, 7, "connect", "own", "m", (client,)))
    for path in paths.parts(GROUP):
        app.create(path, said if path == paths.state(GROUP) else b"", acl=mine)
    if app.exists(paths.state(GROUP)) is None:
        app.create(paths.state(GROUP), said, acl=mine)
    c = rig.coordinator()
    c.wait(lambda: named(c, "client-led groups"), "its name")
    m = rig.member("m", "t")
    m.wait(lambda: m.fetching() or m.said(msg.Failed), "something")
    assert not m.said(msg.Failed), m.said(msg.Failed)


@DRAFT
def test_a_user_of_the_coordinators_name_made_the_other_layouts_seat(
    rig: Rig, app: KazooClient
) -> None:
    """`/` is open, as ZooKeeper comes; a coordinator without `a` sees masks."""
    same = make_acl("digest", make_digest_acl_credential("coord", "another"), all=True)
    mine = [same, make_acl("world", "anyone", read=True)]
    other = rig.layout.other_profile()
    app.create("/zkcoord", b"", acl=OPEN)
    app.create(
        other.leader,
        codec.encode_leader(codec.LeaderData("", "h", 1, 5, 1)),
        ephemeral=True,
        acl=mine,
    )
    app.set_acls("/zkcoord", mine)
    c = rig.coordinator(lead=False)
    c.wait(lambda: c.leads or c.records("waiting"), "lead or not")
    assert c.leads, c.records("waiting")


def test_somebody_was_in_two_roles() -> None:
    """Its rights are one entry, so that nobody takes it for two."""
    c, m = ROLES.coordinators[0], ROLES.members[0]
    before = Roles((c,), (m,), (c,))
    path = Layout.DRAFT.epoch
    made = before.acl(path)
    now = Roles((c,), (m,))
    masked = [AclEntry(e.perms, e.scheme, e.id.partition(":")[0] + ":x") for e in made]
    assert judge(now, path, made) is None
    answer = Acl(tuple(masked), 0)
    assert Belief(now, answer).closed(path, answer) == ""


def test_a_masked_twin_among_other_entries_is_shown_with_its_own_rights() -> None:
    entries = [masked("coord", "rw"), masked("coord", "r"), masked("app", "ra")]
    found = judge(ROLES, Layout.DRAFT.epoch, entries)
    assert found is not None and ("one of two users digest:coord", "rw") in [
        (who.replace(":x", ""), may) for who, may in found.more
    ], found


def test_two_principals_of_a_name_hide_a_third() -> None:
    root = Acl((masked("coord", ALL), masked("coord", ALL), masked("app", "r")), 0)
    one = Acl(
        (masked("coord", ALL), masked("coord", ALL), masked("app", "rd")), 0
    )  # H1 and a stranger's
    path = Layout.DRAFT.channel(GROUP, "m")
    assert Belief(ROTATING, root).usable(path, one) == "", "a limit: docs/security.md"


def test_a_root_with_an_admins_digest_shown_to_sasl_coordinators_without_a() -> None:
    coord, app = Principal("sasl", "coord"), Principal("sasl", "app")
    root = Acl(
        (AclEntry(bits("rwcd"), "sasl", "coord"), masked("admin", ALL), AclEntry(1, "sasl", "app")),
        0,
    )
    assert Belief(Roles((coord,), (app,)), root, True).closed(Layout.DRAFT.epoch, root) == ""


@DRAFT
def test_a_tool_with_the_coordinators_credentials_shows_what_coordinators_believe(
    rig: Rig, app: KazooClient, capsys: pytest.CaptureFixture[str]
) -> None:
    older(rig)
    made_by(app, rig)
    paths = ClassicPaths(rig.layout)
    same = make_acl("digest", make_digest_acl_credential("coord", "another password"), all=True)
    mine = [same, make_acl("world", "anyone", read=True)]
    for path in above(rig):
        app.create(path, b"", acl=OPEN)
    app.create(paths.pin(GROUP), encode_pin(Pin(Machine.CLIENT_LED)), acl=mine)
    for path in reversed(above(rig)):
        app.set_acls(path, mine)
    rig.zk.set_acls(rig.layout.epoch, acl_of("r"))
    c = rig.coordinator()
    c.wait(lambda: named(c, "pin of a group"), "its name")
    who = ("--zookeeper-user", "coord", "--zookeeper-password", PASSWORDS["coord"])
    main(["groups", "machine", GROUP, "--zookeeper", rig.hosts, *who, *flags()])
    said = capsys.readouterr()
    assert "is not believed" in said.err, said


@pytest.mark.parametrize("by_coordinator", [True, False], ids=["coordinator", "member"])
@pytest.mark.parametrize("stranger", ["sasl", "digest", "masked"])
def test_what_apply_cannot_mend_is_not_said_to_be_mended_by_it(
    stranger: str, by_coordinator: bool
) -> None:
    """A node that its maker alone may change, beside one that everybody may."""
    root = Acl(ROLES.acl(Layout.DRAFT.epoch), 0)
    who = {
        "sasl": AclEntry(bits(ALL), "sasl", "stranger"),
        "digest": AclEntry(bits(ALL), "digest", hashed("coord") + "other"),
        "masked": masked("somebody", ALL),
    }[stranger]
    look, everybody = AclEntry(bits("r"), "world", "anyone"), AclEntry(bits(ALL), "world", "anyone")
    belief, path = Belief(ROLES, root, by_coordinator), Layout.DRAFT.mode(GROUP)
    for said in (
        belief.closed(path, Acl((who, look), 0)),
        belief.usable(path, Acl((who, look), 0)),
        belief.usable(path, Acl((AclEntry(bits("r"), who.scheme, who.id), look), 0)),
    ):
        assert "superuser" in said and "mend it with zkcoord acl apply" not in said, said
    said = belief.closed(path, Acl((everybody, look), 0))
    assert "mend it with zkcoord acl apply" in said and "superuser" not in said
    mine = Acl((*ROLES.acl(path), AclEntry(bits("w"), "sasl", "stranger")), 0)
    assert "mend it with zkcoord acl apply" in belief.closed(path, mine)
