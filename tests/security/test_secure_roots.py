"""`--secure` looks at each node of the table that is above all groups, or topics, or gateways:
open ones, hidden ones, and all of them however many groups there are.
"""

from __future__ import annotations

import pytest
from kazoo.security import make_acl, make_digest_acl

from tests.protocol.rig import Rig
from tests.security.older import OPEN, acl_of
from tests.security.principals import PASSWORDS, ROLES, digest, flags, hashed
from zkcoord.cli.main import main
from zkcoord.coordinator import acl_check
from zkcoord.coordinator.acl_check import look_at_acls
from zkcoord.errors import RefusedError
from zkcoord.zk.acl.table import Principal, Roles, roots
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.paths import Layout

LAY = Layout.DRAFT
CLASSIC = ClassicPaths(LAY)
DRAFT = pytest.mark.parametrize("layout", [LAY], ids=["draft"])
HIDDEN = [make_digest_acl("coord", "another password", all=True)]


def looks(rig: Rig) -> None:
    look_at_acls(ZkOptions(rig.hosts, digest=digest("coord"), roles=ROLES), LAY, secure=True)


def made(rig: Rig) -> None:
    for path in sorted(roots(LAY)):
        letters = "rcd" if path in (LAY.asks, CLASSIC.requests) else "r"
        rig.zk.create(path, b"", acl=acl_of(letters))


def test_roots_are_what_the_table_has_above_all_groups() -> None:
    for layout in (Layout.DRAFT, Layout.ISOLATED):
        classic = ClassicPaths(layout)
        assert set(roots(layout)) >= {
            *layout.roots(),
            *classic.roots(),
            *CLUSTER_TREE.above(),
            CLUSTER_TREE.source,
            layout.gateways,
        }
        assert layout.leader not in roots(layout), "it comes and goes with a coordinator"


@DRAFT
@pytest.mark.parametrize("path", roots(LAY))
@pytest.mark.parametrize("acl", [OPEN, HIDDEN], ids=["open", "hidden"])
def test_each_root_keeps_it_from_starting(rig: Rig, path: str, acl: list[object]) -> None:
    made(rig)
    looks(rig)
    rig.zk.set_acls(path, acl)
    with pytest.raises(RefusedError, match="above all groups") as caught:
        looks(rig)
    said = str(caught.value)
    assert f"({path}" in said
    assert ("superuser" in said) is (acl is HIDDEN)
    assert ("mend it with zkcoord acl apply" in said) is (acl is OPEN)


@DRAFT
def test_they_are_looked_at_however_many_nodes_there_are(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(rig)
    rig.zk.set_acls(CLASSIC.pins, OPEN)
    monkeypatch.setattr(acl_check, "NODES_LOOKED_AT_MAX", 3)
    with pytest.raises(RefusedError, match=CLASSIC.pins):
        looks(rig)


@DRAFT
def test_a_user_of_the_coordinators_name_is_found_where_everybody_may_look(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its ACL reads as that of its place where hashes are not shown; a coordinator is shown all."""
    everybody = Roles(ROLES.coordinators, ROLES.members, (Principal("world", "anyone"),))
    given = [make_acl("digest", hashed("app"), read=True), make_acl("world", "anyone", read=True)]
    for path in sorted(roots(LAY)):
        acl = [*acl_of("rcd" if path in (LAY.asks, CLASSIC.requests) else "r")[:2], given[1]]
        rig.zk.create(path, b"", acl=acl)
    zk = ZkOptions(rig.hosts, digest=digest("coord"), roles=everybody)
    look_at_acls(zk, LAY, secure=True)
    rig.zk.set_acls(LAY.gateways, [*HIDDEN, *given])
    with pytest.raises(RefusedError, match=LAY.gateways) as caught:
        look_at_acls(zk, LAY, secure=True)
    assert "superuser" in str(caught.value) and "apply" not in str(caught.value)
    for user, status in (("coord", 3), ("app", 0)):
        who = ("--zookeeper-user", user, "--zookeeper-password", PASSWORDS[user])
        options = (*who, *flags()[:4], "--acl-readers", "world:anyone")
        assert main(["acl", "audit", "--zookeeper", rig.hosts, *options]) == status
        said = capsys.readouterr().out
        assert (f"{LAY.gateways}: digest:coord, whose hash is not shown, may rwcda" in said) is (
            user == "coord"
        )
