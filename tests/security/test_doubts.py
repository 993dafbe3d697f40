"""What `zkcoord acl apply` makes believed is named, by a dry run too, each node of it: what stands
on its word alone, where others than coordinators could have written it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from kazoo.security import make_acl, make_digest_acl

from tests.harness.zookeeper import connect, disconnect
from tests.protocol.rig import GROUP, Rig
from tests.security.older import BOTH, OPEN, acl_of
from tests.security.principals import PASSWORDS, flags
from zkcoord.cli.main import main
from zkcoord.zk.acl import audit as audit_module
from zkcoord.zk.acl.client import AclClient
from zkcoord.zk.acl.table import MATRIX
from zkcoord.zk.port import AclEntry
from zkcoord.znodes import codec
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.codec import EpochData, LeaderData
from zkcoord.znodes.gateway_nodes import encode_gateway
from zkcoord.znodes.paths import Layout, parents

Capture = pytest.CaptureFixture[str]
DRAFT = pytest.mark.parametrize("layout", [Layout.DRAFT], ids=["draft"])
DOUBT = "others than coordinators could make it"
STRANGE = make_digest_acl("coord", "another password", all=True)
LOOK = make_acl("world", "anyone", read=True)


def apply(rig: Rig, capsys: Capture, *more: str) -> tuple[int, str, str]:
    """`zkcoord acl apply`, by an operator: its status, and what it printed."""
    capsys.readouterr()
    who = ("--zookeeper-user", "coord", "--zookeeper-password", PASSWORDS["coord"])
    status = main(["acl", "apply", *more, "--zookeeper", rig.hosts, *who, *flags()])
    said = capsys.readouterr()
    return status, said.out, said.err


def named(out: str) -> dict[str, str]:
    """What is said of each node that is doubted."""
    rows = (line.partition(": ") for line in out.splitlines() if DOUBT in line)
    return {path: said for path, _, said in rows}


def twice(rig: Rig, capsys: Capture) -> dict[str, str]:
    """What both runs name, and that nothing is left to name."""
    status, dry, _ = apply(rig, capsys)
    assert status == 0
    status, done, err = apply(rig, capsys, "--execute")
    assert status == 0, err
    assert list(named(dry)) == list(named(done))
    assert named(apply(rig, capsys)[1]) == {}
    return named(dry)


@BOTH
@pytest.mark.parametrize("place", ["/zkcoord", "/zkcoord/gateways", "itself"])
def test_gateways_of_strangers_are_named(rig: Rig, place: str, capsys: Capture) -> None:
    gateways = rig.layout.gateways
    for path in ("/zkcoord", gateways):
        rig.zk.create(path, b"", acl=OPEN if path == place else acl_of("r"))
    own = OPEN if place == "itself" else acl_of("r")
    stranger = rig.zk  # whoever may create there can have given it the ACL of its place
    prefix = rig.layout.gateway_prefix
    lasting = stranger.create(prefix, encode_gateway("h", 6666), own, sequence=True)
    living = stranger.create(prefix, encode_gateway("h", 6668), own, ephemeral=True, sequence=True)
    said = twice(rig, capsys)
    assert set(said) == {lasting, living}, said
    persistent, ephemeral = said[lasting], said[living]
    assert "persistent" in persistent and "counts for nothing" in persistent
    assert "clients are sent to 'h:6668'" in ephemeral and "or delete it" in ephemeral


@DRAFT
@pytest.mark.parametrize("place", ["above", "tree", "parent", "itself"])
def test_topics_and_brokers_of_strangers_are_named(rig: Rig, place: str, capsys: Capture) -> None:
    tree = CLUSTER_TREE
    wide = {"above": parents(tree.root)[0], "tree": tree.root, "parent": tree.brokers}.get(place)
    for path in tree.above():
        rig.zk.create(path, b"", acl=OPEN if path == wide else acl_of("r"))
    nodes = (tree.source, tree.broker(0), tree.topic("orders"))
    for path in nodes:
        rig.zk.create(path, b"{}", acl=OPEN if place == "itself" else acl_of("r"))
    expected = {tree.broker(0)} if place == "parent" else set(nodes)
    assert set(twice(rig, capsys)) == expected


@BOTH
@pytest.mark.parametrize("place", ["root", "group", "above", "itself"])
def test_each_request_is_named_and_not_what_holds_them(
    rig: Rig, place: str, capsys: Capture
) -> None:
    layout = rig.layout
    above = layout.requests(GROUP)
    wide = {"root": layout.epoch, "group": layout.group(GROUP), "above": above}.get(place)
    for path in (*parents(above), above):
        rig.zk.create(path, b"", acl=OPEN if path == wide else acl_of("r"))
    nodes = [layout.request(GROUP, name) for name in ("delete", "request-0000000001")]
    for path in nodes:
        rig.zk.create(path, b"{}", acl=OPEN if place == "itself" else acl_of("r"))
    assert set(twice(rig, capsys)) == set(nodes)


@BOTH
def test_a_living_leader_that_was_made_together_with_its_epoch_is_named(
    rig: Rig, capsys: Capture
) -> None:
    """A stranger can write both, and nobody of the layout in use leads while it lives."""
    other = rig.layout.other_profile()
    for path in dict.fromkeys((*parents(other.leader), *parents(other.epoch))):
        rig.zk.create(path, b"", acl=OPEN)
    stranger = connect(rig.hosts)
    both = stranger.transaction()
    both.create(other.epoch, codec.encode_epoch(EpochData(1, 1, 3_000)), acl=OPEN)
    both.create(
        other.leader, codec.encode_leader(LeaderData("", "h", 1, 1, 1)), acl=OPEN, ephemeral=True
    )
    assert all(isinstance(one, str) for one in both.commit())
    said = twice(rig, capsys)
    assert set(said) == {other.leader}
    assert f"a coordinator of the layout {other.name} leads by it" in said[other.leader]
    rig.zk.delete(other.leader)
    c = rig.coordinator()
    disconnect(stranger)
    c.wait(lambda: c.leads, "that it leads")


@BOTH
def test_a_leader_whose_epoch_only_coordinators_may_write_is_not_named(
    rig: Rig, capsys: Capture
) -> None:
    rig.coordinator()
    rig.zk.set_acls(rig.layout.leader, OPEN)
    assert twice(rig, capsys) == {}


@DRAFT
def test_what_is_doubted_is_named_although_some_cannot_be_mended(rig: Rig, capsys: Capture) -> None:
    layout = rig.layout
    rig.zk.create(layout.mode("open"), b"{}", makepath=True)
    rig.zk.create(layout.group("kept"), b"", acl=[STRANGE])
    rig.zk.create(layout.mode("open2"), b"{}", makepath=True)
    rig.zk.set_acls(layout.mode("open2"), [STRANGE, LOOK])
    rig.zk.create(layout.group("shown"), b"", acl=[STRANGE, LOOK])
    expected = [layout.mode("open")]
    status, dry, told = apply(rig, capsys)
    assert (status, list(named(dry))) == (1, expected)
    status, done, said = apply(rig, capsys, "--execute")
    assert (status, list(named(done))) == (1, expected)
    for text in (told, said):  # both count the same nodes
        assert "does not let this client change 3 nodes" in text, text
        assert "superuser" in text


@DRAFT
def test_what_could_not_be_listed_before_is_named_when_it_is_seen(
    rig: Rig, capsys: Capture
) -> None:
    """Who may change an ACL may not be let read: what is below shows after the first pass."""
    rig.zk.create("/zkcoord", b"", acl=acl_of("r"))
    unread = [make_acl("world", "anyone", create=True, admin=True)]
    rig.zk.create(rig.layout.gateways, b"", acl=acl_of("r"))
    node = rig.zk.create(
        f"{rig.layout.gateways}/gateway-0000000007", encode_gateway("h", 6666), acl=acl_of("r")
    )
    rig.zk.set_acls(rig.layout.gateways, unread)
    status, done, _ = apply(rig, capsys, "--execute")
    assert (status, list(named(done))) == (0, [node])


@DRAFT
def test_who_ends_it_before_it_is_through_is_told_all_the_same(
    rig: Rig, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some are mended by then, and no later run names what they make believed."""
    rig.zk.create(rig.layout.mode("open"), b"{}", makepath=True)
    true = AclClient.set_acls

    def interrupted(client: AclClient, acls: Sequence[tuple[str, Sequence[AclEntry]]]) -> None:
        true(client, acls)
        raise KeyboardInterrupt

    monkeypatch.setattr(AclClient, "set_acls", interrupted)
    status, out, _ = apply(rig, capsys, "--execute")
    assert (status, list(named(out))) == (130, [rig.layout.mode("open")])


@DRAFT
def test_they_are_in_json_as_well(rig: Rig, capsys: Capture) -> None:
    rig.zk.create(rig.layout.mode("open"), b"{}", makepath=True)
    status, out, _ = apply(rig, capsys, "--json")
    assert (status, json.loads(out)["doubtful"]) == (0, [rig.layout.mode("open")])
    status, out, _ = apply(rig, capsys, "--json", "--execute")
    assert (status, json.loads(out)["doubtful"]) == (0, [rig.layout.mode("open")])


def test_every_place_where_only_coordinators_write_is_a_word_or_says_nothing() -> None:
    """A new row of the table has to say which of the two it is."""
    nothing = {
        # what is above others; epoch and reports, which coordinators write anew; commands, which
        # are carried out or deleted at once; what is only taken together with a state
        *("epoch and groups' root", "group", "channels", "command", "owners", "requests", "pins"),
        *("gateways", "cluster", "topics", "brokers", "blobs", "blob"),
        *("client-led groups", "client-led group", "round of a client-led group"),
        # what gateways and members make
        *("ask", "registration", "publication", "request of a gateway", "presence of a client"),
    }
    words = {rule.what for rule in MATRIX if rule.word}
    rest = {rule.what for rule in MATRIX if rule.members in ("r", "rc") and not rule.word}
    silent = {what for what in rest if not what.startswith(("root", "group's node"))}
    assert silent - {"offsets", "commit metadata"} == nothing - {"requests of gateways"}
    assert words == {
        *("leader", "mode", "request", "gateway", "source of topics", "topic", "broker", "pin"),
        "state of a client-led group",
    }


@DRAFT
def test_where_there_are_more_than_are_looked_at_it_is_said(
    rig: Rig, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there would be believed from then on, and named by nobody."""
    monkeypatch.setattr(audit_module, "CHILDREN_LISTED_MAX", 3)
    rig.zk.create("/zkcoord", b"", acl=acl_of("r"))
    rig.zk.create(rig.layout.gateways, b"", acl=OPEN)
    for number in range(4):
        rig.zk.create(f"{rig.layout.gateways}/junk-{number}", b"", acl=acl_of("r"))
    status, _, said = apply(rig, capsys, "--execute")
    assert status == 1 and "there are more than were looked at" in said
    rig.zk.delete(f"{rig.layout.gateways}/junk-0")
    status, _, said = apply(rig, capsys, "--execute")
    assert status == 0, said
