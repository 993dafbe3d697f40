"""What a command makes that was not told who is what, where nodes have ACLs."""

from __future__ import annotations

import pytest
from kazoo.security import make_acl

from tests.harness.zookeeper import disconnect
from tests.security.principals import PASSWORDS, ROLES, client_as, flags, hashed
from zkcoord.cli.main import main
from zkcoord.zk.acl.inherited import acl_below
from zkcoord.zk.options import Digest, ZkOptions
from zkcoord.zk.port import OPEN_ACL, AclEntry
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.paths import Layout

PATHS = ClassicPaths(Layout.DRAFT)
COORD = Digest("coord", PASSWORDS["coord"])


@pytest.fixture
def closed_zk(zk_hosts: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Where the roots of client-led groups have the ACLs of their places."""
    client = client_as(zk_hosts, "coord")
    client.ensure_path(PATHS.pins)
    disconnect(client)
    apply = ["acl", "apply", "--execute", "--zookeeper", zk_hosts, *flags()]
    assert main([*apply, "--zookeeper-user", "coord", *password("coord")]) == 0
    capsys.readouterr()
    return zk_hosts


def password(user: str) -> tuple[str, str]:
    return ("--zookeeper-password", PASSWORDS[user])


@pytest.mark.parametrize("told", [(), flags()], ids=["no-roles", "roles"])
def test_what_an_operator_has_said_is_nobody_elses_to_change(
    closed_zk: str, told: tuple[str, ...]
) -> None:
    asked = ["groups", "machine", "g", "client-led", "--zookeeper", closed_zk]
    assert main([*asked, "--zookeeper-user", "coord", *password("coord"), *told]) == 0
    client = client_as(closed_zk, "coord")
    acls, _ = client.get_acls(PATHS.pin("g"))
    disconnect(client)
    assert {(one.id.id, one.perms) for one in acls} == {
        (hashed("coord"), 31),
        (hashed("app"), 1),
        (hashed("viewer"), 1),
    }


def below(options: ZkOptions) -> tuple[AclEntry, ...]:
    with SyncClient(options) as client:
        return acl_below(client, PATHS.pins, options)


def test_what_was_given_counts(closed_zk: str, zk_hosts: str) -> None:
    own = (AclEntry(31, "digest", hashed("coord")),)
    assert below(ZkOptions(zk_hosts, digest=COORD, acl=own)) == own
    told = ZkOptions(zk_hosts, digest=COORD, roles=ROLES)
    assert below(told) == told.acl


def test_an_open_ensemble_stays_open(zk_hosts: str) -> None:
    assert below(ZkOptions(zk_hosts)) == OPEN_ACL, "there is no such node"
    client = client_as(zk_hosts, "coord")
    client.ensure_path(PATHS.pins)
    disconnect(client)
    assert below(ZkOptions(zk_hosts)) == OPEN_ACL


def test_what_is_hidden_is_not_copied(zk_hosts: str) -> None:
    """ZooKeeper hides the digests of others from who may not change the ACL: copied, they are
    nobody's.
    """
    client = client_as(zk_hosts, "coord")
    client.ensure_path(PATHS.pins)
    acls = [
        make_acl("digest", hashed("coord"), all=True),
        make_acl("digest", hashed("app"), read=True, create=True),
    ]
    client.set_acls(PATHS.pins, acls)
    disconnect(client)
    app = Digest("app", PASSWORDS["app"])
    assert below(ZkOptions(zk_hosts, digest=app)) == OPEN_ACL
    assert len(below(ZkOptions(zk_hosts, digest=COORD))) == 2
