"""What a command makes that was not told who is what, where nodes have ACLs."""

from __future__ import annotations

import pytest
from kazoo.security import make_acl

from tests.harness.zookeeper import disconnect
from tests.security.principals import PASSWORDS, ROLES, client_as, flags, hashed
from zkcoord.admin.common import Progress
from zkcoord.admin.offsets.reset import Reset
from zkcoord.admin.offsets.reset_plan import Aim, Log, ResetKind
from zkcoord.cli import offsets_reset
from zkcoord.cli.main import main
from zkcoord.core.model import Subscription, Topic, TopicPartition
from zkcoord.errors import RefusedError
from zkcoord.zk.acl.inherited import AclsThere
from zkcoord.zk.options import Digest, ZkOptions
from zkcoord.zk.port import OPEN_ACL, AclEntry
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes import codec
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.paths import Layout, parents

PATHS = ClassicPaths(Layout.DRAFT)
GROUP_NODE = Layout.DRAFT.group("g")
ORDERS_0 = TopicPartition("orders", 0)
OFFSET = Layout.DRAFT.offset("g", ORDERS_0)
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
    assert of_its_place(closed_zk, PATHS.pin("g"))


def of_its_place(zk_hosts: str, path: str) -> bool:
    """Whether coordinators may do all, members and readers may look, and nobody else anything."""
    client = client_as(zk_hosts, "coord")
    acls, _ = client.get_acls(path)
    disconnect(client)
    return {(one.id.id, one.perms) for one in acls} == {
        (hashed("coord"), 31),
        (hashed("app"), 1),
        (hashed("viewer"), 1),
    }


@pytest.fixture
def group(closed_zk: str) -> str:
    """A group's node, with the ACL of its place."""
    client = client_as(closed_zk, "coord")
    client.create(GROUP_NODE, b"", acl=client.get_acls(PATHS.pins)[0])
    disconnect(client)
    return "g"


@pytest.mark.parametrize("told", [(), flags()], ids=["no-roles", "roles"])
def test_a_mode_is_as_closed_as_its_group(
    closed_zk: str, group: str, told: tuple[str, ...]
) -> None:
    """An open one counts for nothing, and the command waited for it in vain."""
    asked = ["groups", "mode", group, "coordinated", "--zookeeper", closed_zk]
    assert main([*asked, "--zookeeper-user", "coord", *password("coord"), *told]) == 0
    assert of_its_place(closed_zk, Layout.DRAFT.mode(group))


def test_a_request_is_as_closed_as_its_group(closed_zk: str, group: str) -> None:
    """Nobody takes this one up: it is withdrawn, and the node above it stays."""
    client = client_as(closed_zk, "coord")
    member = codec.encode_registration(
        Subscription(topics={"orders": 1}), timestamp_ms=1, assignors=("sticky",)
    )
    client.create(Layout.DRAFT.registration(group, "m"), member, ephemeral=True, makepath=True)
    client.create(Layout.DRAFT.leader, b"", ephemeral=True)
    asked = ["groups", "rebalance", group, "--timeout-ms", "1", "--zookeeper", closed_zk]
    assert main([*asked, "--zookeeper-user", "coord", *password("coord")]) == 1
    disconnect(client)
    assert of_its_place(closed_zk, Layout.DRAFT.requests(group))


@pytest.fixture
def led_by_roles(closed_zk: str) -> str:
    """Where a coordinator that has roles has been: the root of asks tells who is what."""
    client = client_as(closed_zk, "coord")
    client.ensure_path(Layout.DRAFT.asks)
    disconnect(client)
    apply = ["acl", "apply", "--execute", "--zookeeper", closed_zk, *flags()]
    assert main([*apply, "--zookeeper-user", "coord", *password("coord")]) == 0
    return closed_zk


def test_an_offset_that_was_not_stored_is_its_groups_and_nobody_elses(led_by_roles: str) -> None:
    """It was everybody's, and what was made above it, too."""
    reset_one(led_by_roles)
    client = client_as(led_by_roles, "coord")
    for path in (*parents(OFFSET), OFFSET):
        acls, _ = client.get_acls(path)
        found = {(one.id.id, one.perms) for one in acls}
        assert found == {(one.id, one.perms) for one in ROLES.acl(path)}, path
    disconnect(client)


def test_where_it_cannot_be_told_who_is_to_use_an_offset_none_is_made(
    closed_zk: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RefusedError, match="--acl-coordinators and --acl-members"):
        reset_one(closed_zk)


def reset_one(zk_hosts: str) -> None:
    """What `offsets reset` writes for a new group, by who was told nothing of roles."""
    options = ZkOptions(zk_hosts, digest=COORD)
    with SyncClient(options) as client:
        reset = Reset(
            client,
            Layout.DRAFT,
            "g",
            Aim(ResetKind.EARLIEST),
            {ORDERS_0: Log(3, 9)},
            {"orders": Topic("orders", "1", (0,))},
            False,
            AclsThere(client, options),
            Progress("test"),
        )
        result = reset.execute()
    assert [row.written for row in result.rows] == [True] and not result.refusal


def made(options: ZkOptions, path: str = PATHS.pin("g")) -> tuple[AclEntry, ...]:
    """What a node gets there."""
    with SyncClient(options) as client:
        return AclsThere(client, options)(path)


def test_what_was_given_counts(closed_zk: str, zk_hosts: str) -> None:
    own = (AclEntry(31, "digest", hashed("coord")),)
    assert made(ZkOptions(zk_hosts, digest=COORD, acl=own)) == own
    told = ZkOptions(zk_hosts, digest=COORD, roles=ROLES)
    assert made(told) == told.acl


def test_an_open_ensemble_stays_open(zk_hosts: str) -> None:
    assert made(ZkOptions(zk_hosts)) == OPEN_ACL, "there is no such node"
    client = client_as(zk_hosts, "coord")
    client.ensure_path(PATHS.pins)
    disconnect(client)
    assert made(ZkOptions(zk_hosts)) == OPEN_ACL


def test_one_acl_for_all_nodes_is_that_of_new_ones(zk_hosts: str) -> None:
    client = client_as(zk_hosts, "coord")
    client.ensure_path("/consumers/groups/coordinator/asks")
    client.set_acls(Layout.DRAFT.asks, [make_acl("digest", hashed("coord"), all=True)])
    disconnect(client)
    assert made(ZkOptions(zk_hosts, digest=COORD), OFFSET) == (
        AclEntry(31, "digest", hashed("coord")),
    )


def test_what_is_hidden_is_not_copied_and_not_left_open(zk_hosts: str) -> None:
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
    with pytest.raises(RefusedError, match="--acl-coordinators"):
        made(ZkOptions(zk_hosts, digest=app))
    assert len(made(ZkOptions(zk_hosts, digest=COORD))) == 2


def test_the_command_that_resets_offsets_makes_them_so(
    led_by_roles: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(offsets_reset, "_logs", lambda *args: {ORDERS_0: Log(3, 9)})
    monkeypatch.setattr(offsets_reset, "brokers", lambda *args: None)
    client = client_as(led_by_roles, "coord")
    client.create("/brokers/topics/orders", b'{"version":1,"partitions":{"0":[1]}}', makepath=True)
    asked = ["offsets", "reset", "g", "--new-group", "--topic", "orders", "--to-earliest"]
    asked += ["--execute", "--zookeeper", led_by_roles, "--zookeeper-user", "coord"]
    assert main([*asked, *password("coord")]) == 0, capsys.readouterr().err
    acls, _ = client.get_acls(OFFSET)
    disconnect(client)
    found = {(one.id.id, one.perms) for one in acls}
    assert found == {(one.id, one.perms) for one in ROLES.acl(OFFSET)}
