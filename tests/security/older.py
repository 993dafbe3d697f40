"""Ensembles as an older version with roles leaves them, what `zkcoord acl apply` makes of them, and
what a coordinator says of it.
"""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient
from kazoo.security import ACL, Id, make_acl

from tests.protocol.rig import GROUP, Coordinator, Rig
from tests.security.principals import PASSWORDS, ROLES, flags
from zkcoord.cli.main import main
from zkcoord.zk.acl.table import ALL, bits
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.paths import CONSUMERS, Layout, parents

BOTH = pytest.mark.parametrize(
    "layout", [Layout.DRAFT, Layout.ISOLATED], ids=lambda layout: layout.name
)
OPEN = [make_acl("world", "anyone", all=True)]


def acl_of(members: str) -> list[ACL]:
    """Coordinators everything, readers reading, members these letters."""
    given = ((ROLES.coordinators, ALL), (ROLES.members, members), (ROLES.readers, "r"))
    return [ACL(bits(may), Id(p.scheme, p.id)) for who, may in given for p in who]


def older(rig: Rig) -> None:
    """The roots as an older version made them: members may create groups."""
    for path in dict.fromkeys(
        (CONSUMERS, *parents(rig.layout.leader), rig.layout.epoch, *parents(rig.layout.leader))
    ):
        closed = path not in (CONSUMERS, rig.layout.epoch)
        rig.zk.create(path, b"", acl=acl_of("r" if closed else "rc"))


def made_by(client: KazooClient, rig: Rig, acl: list[ACL] | None = None) -> None:
    """A group's nodes, as a member of an older version makes them, or with this ACL."""
    layout = rig.layout
    for path in (*layout.above_parts(GROUP), layout.ids(GROUP), layout.owners(GROUP)):
        letters = "rcd" if path.endswith("/ids") else "rc"
        client.create(path, b"", acl=acl or acl_of(letters))
    for path in (layout.channels(GROUP), layout.offsets(GROUP)):
        client.create(path, b"", acl=acl or acl_of("rc"))


def above(rig: Rig) -> list[str]:
    """What is above pins and client-led groups, from the top down."""
    paths = ClassicPaths(rig.layout)
    return list(dict.fromkeys((*paths.above_pins(), *paths.above_groups(), paths.requests)))


def apply(rig: Rig) -> int:
    """`zkcoord acl apply --execute`, by an operator."""
    who = ("--zookeeper-user", "coord", "--zookeeper-password", PASSWORDS["coord"])
    return main(["acl", "apply", "--execute", "--zookeeper", rig.hosts, *who, *flags()])


def named(c: Coordinator, what: str) -> list[str]:
    """Why nodes of this kind are not used."""
    return [str(r["reason"]) for r in c.records("malformed") if r["what"] == what]
