"""`--secure` looks at each node of the table that is above all groups, or topics, or gateways:
open ones, hidden ones, and all of them however many groups there are.
"""

from __future__ import annotations

import pytest
from kazoo.security import make_digest_acl

from tests.protocol.rig import Rig
from tests.security.older import OPEN, acl_of
from tests.security.principals import ROLES, digest
from zkcoord.coordinator import acl_check
from zkcoord.coordinator.acl_check import look_at_acls
from zkcoord.errors import RefusedError
from zkcoord.zk.acl.table import roots
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
