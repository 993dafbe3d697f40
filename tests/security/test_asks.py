"""Groups that members ask for, on a real server with ACLs: who makes them, what happens while
nobody answers, beside older versions, and when an installation is upgraded.
"""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from consumer.core import messages as msg
from tests.harness.wait import wait_until
from tests.protocol.rig import GROUP, WAIT_S, Coordinator, Member, Rig, tps
from tests.protocol.spy import creates
from tests.security.older import BOTH, OPEN, apply, made_by, named, older
from tests.security.principals import PASSWORDS, ROLES, digest, flags
from zkcoord.cli.main import main
from zkcoord.coordinator.acl_check import look_at_acls
from zkcoord.zk.acl.audit import audit
from zkcoord.zk.acl.client import AclClient
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import Check, Create, Delete
from zkcoord.zk.term import asked_groups
from zkcoord.znodes.paths import Layout

T0, T1 = tps("t", 0, 1)
MAX = 10
DRAFT = pytest.mark.parametrize("layout", [Layout.DRAFT])


def refused(*procs: Coordinator | Member) -> list[object]:
    """What ZooKeeper did not let them do."""
    return [sent for p in procs for sent in p.spy.sent if "NO_AUTH" in repr(sent.result)]


def findings(rig: Rig) -> list[str]:
    """What is not as its place says."""
    with AclClient(ZkOptions(rig.hosts, digest=digest("coord"))) as client:
        return [str(finding) for finding in audit(client, ROLES, 10_000).findings]


def ask(client: KazooClient, rig: Rig, *groups: str) -> None:
    """Ask for groups, all at once."""
    transaction = client.transaction()
    for group in groups:
        transaction.create(rig.layout.ask(group), b"", ephemeral=True)
    assert all(isinstance(result, str) for result in transaction.commit())


@BOTH
def test_a_group_is_made_in_one_multi_of_the_coordinator(rig: Rig) -> None:
    """Fenced, with the ACLs of the table; the member makes its own nodes only, and nobody tries
    what it may not.
    """
    rig.topic("t", 2)
    c = rig.coordinator()
    m = rig.member("m", "t").fetches(T0, T1)
    (made,) = c.spy.multis(creates(rig.layout.requests(GROUP)))
    assert isinstance(made.ops[0], Check) and made.ops[0].path == rig.layout.epoch
    assert [op.path for op in made.ops[1:-1]] == list(rig.layout.parts(GROUP))
    assert made.ops[-1] == Delete(rig.layout.ask(GROUP))
    assert {op.path for s in m.spy.multis() for op in s.ops if isinstance(op, Create)} == {
        rig.layout.ask(GROUP),
        rig.layout.channel(GROUP, m.member),
        rig.layout.registration(GROUP, m.member),
        rig.layout.owner_topic(GROUP, "t"),
        rig.layout.offset_topic(GROUP, "t"),
        *(rig.layout.owner(GROUP, tp) for tp in (T0, T1)),
        *(rig.layout.offset(GROUP, tp) for tp in (T0, T1)),
    }
    assert findings(rig) == [] and refused(c, m) == []
    assert rig.names(rig.layout.asks) == [] and c.records("group made")


@BOTH
def test_who_asks_while_nobody_leads_waits_and_says_so_once(rig: Rig) -> None:
    """The next coordinator finds the ask. Where somebody takes it away it asks again."""
    rig.topic("t", 2)
    rig.coordinator("first").stop()
    m = rig.member("m", "t")
    m.wait(lambda: m.notices(msg.NoticeKind.GROUP_NOT_READY), "that it waits")
    assert "coordinator" in str(m.notices(msg.NoticeKind.GROUP_NOT_READY)[0].detail["reason"])
    rig.zk.delete(rig.layout.ask(GROUP))
    m.wait(lambda: rig.names(rig.layout.asks) == [GROUP], "that it asks again")
    second = rig.coordinator("second")
    m.fetches(T0, T1)
    assert len(m.notices(msg.NoticeKind.GROUP_NOT_READY)) == 1 and refused(second) == []


@BOTH
def test_what_another_has_asked_for_is_waited_for(rig: Rig, app: KazooClient) -> None:
    """And asked for again when the other is gone before anybody answered."""
    rig.topic("t", 2)
    rig.coordinator("first").stop()
    ask(app, rig, GROUP)
    m = rig.member("m", "t")
    m.wait(lambda: m.spy.multis(creates(rig.layout.ask(GROUP))), "its ask")
    app.delete(rig.layout.ask(GROUP))
    m.wait(
        lambda: (node := rig.node(rig.layout.ask(GROUP))) and node[1].ephemeralOwner in m.sessions,
        "an ask of its own",
    )
    rig.coordinator("second")
    m.fetches(T0, T1)


@BOTH
def test_beside_an_older_coordinator_a_member_makes_its_group_itself(rig: Rig) -> None:
    """There is no root of asks, and members may create below the roots. What it makes a new
    coordinator serves.
    """
    rig.topic("t", 2)
    older(rig)
    rig.credentials["Coordinator"] = {"digest": digest("coord"), "acl": ROLES.acl("/")}
    old = rig.coordinator("old")
    m = rig.member("m", "t").fetches(T0, T1)
    assert refused(m) == [] and rig.node(rig.layout.asks) is None
    rig.credentials["Coordinator"] = {"digest": digest("coord"), "roles": ROLES}
    new = rig.coordinator("new", lead=False)
    old.stop()
    new.wait(lambda: new.leads, "the lead")
    assert m.commit({T0: 1}).outcome is msg.CommitOutcome.OK
    n = rig.member("n", "t")
    n.wait(lambda: len(n.fetching()) == len(m.fetching()) == 1, "a share each")
    assert named(new, "group") == []


@BOTH
def test_an_installation_of_an_older_version_is_upgraded(rig: Rig, app: KazooClient) -> None:
    """Its groups are served before `acl apply` and after; then nothing stands beside the table,
    members may not create groups, and what an older version did not make is there.
    """
    rig.topic("t", 2)
    older(rig)
    made_by(app, rig)
    first = rig.coordinator("first")
    m = rig.member("m", "t").fetches(T0, T1)
    who = ("--zookeeper-user", "coord", "--zookeeper-password", PASSWORDS["coord"])
    assert main(["acl", "audit", "--zookeeper", rig.hosts, *who, *flags()]) == 3
    assert apply(rig) == 0 and findings(rig) == []
    look_at_acls(ZkOptions(rig.hosts, digest=digest("coord"), roles=ROLES), rig.layout, secure=True)
    for path in (rig.layout.publications(GROUP), rig.layout.requests(GROUP)):
        m.wait(lambda path=path: rig.node(path), path)  # type: ignore[misc]  # the loop's value
    second = rig.coordinator("second", lead=False)
    first.stop()
    second.wait(lambda: second.leads, "the lead")
    assert m.commit({T0: 1}).outcome is msg.CommitOutcome.OK and m.fetching() == [T0, T1]
    other = rig.member("other", "t", group="other").fetches(T0, T1)
    assert findings(rig) == [] and refused(first, second, m, other) == []


@DRAFT
def test_a_flood_of_asks_is_bounded(
    rig: Rig, app: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of too many that are there already only their number is read, and who waits asks anew; too
    many at once are served one after the other; names that are no groups' are passed over.
    """
    monkeypatch.setattr(asked_groups, "ASKS_WAITING_MAX", MAX)
    rig.topic("t", 2)
    rig.coordinator("first").stop()
    stale = [f"stale{number}" for number in range(2 * MAX)]
    ask(app, rig, *stale)
    m = rig.member("m", "t")
    m.wait(lambda: m.spy.multis(creates(rig.layout.ask(GROUP))), "its ask")
    c = rig.coordinator("second")
    c.wait(lambda: named(c, "asks"), "their number")
    assert f"{2 * MAX + 1} groups are asked for" in named(c, "asks")[0]
    m.fetches(T0, T1)
    for group in stale:
        app.delete(rig.layout.ask(group))
    late = [f"late{number}" for number in range(MAX + MAX // 2)]
    ask(app, rig, *late, "owners")
    wait_until(lambda: rig.names(rig.layout.asks) == ["owners"], WAIT_S, "all of them")
    assert set(rig.names(rig.layout.groups_root)) == {*late, GROUP, "coordinator"}


@DRAFT
def test_groups_are_not_made_without_end(
    rig: Rig, app: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.topic("t", 2)
    c = rig.coordinator()
    rig.member("m", "t").fetches(T0, T1)
    monkeypatch.setattr(asked_groups, "GROUPS_MAX", 1)
    ask(app, rig, "more", "most")
    c.wait(lambda: named(c, "asks"), "that there are enough")
    assert len(named(c, "asks")) == 1 and rig.node(rig.layout.group("more")) is None


@BOTH
def test_a_foreign_group_is_not_completed_and_named_once(rig: Rig, app: KazooClient) -> None:
    """However often it is asked for."""
    older(rig)
    app.create(rig.layout.group("open"), b"", acl=OPEN)
    c = rig.coordinator()
    for _ in range(3):
        ask(app, rig, "open", "after")
        c.wait(lambda: rig.names(rig.layout.asks) == ["open"], "that the other is made")
        app.delete(rig.layout.ask("open"))
    c.wait(lambda: [why for why in named(c, "group") if "not completed" in why], "its name")
    assert len([why for why in named(c, "group") if "not completed" in why]) == 1
    assert rig.names(rig.layout.group("open")) == []
