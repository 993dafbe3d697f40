"""Groups read by tools: how many there are is asked before their names are."""

from __future__ import annotations

import pytest
from kazoo.security import make_digest_acl

from tests.admin.world import world
from tests.harness.zookeeper import connect, disconnect
from zkcoord.core.model import GroupState
from zkcoord.errors import UnavailableError
from zkcoord.zk.kazoo_port import connection
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync import group_snapshot
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import Layout

LAY = Layout.DRAFT


def test_a_group_with_too_many_nodes_is_counted_and_not_listed(
    zk_hosts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list shows how many registrations there are; the description names what is too wide and
    leaves that out.
    """
    monkeypatch.setattr(group_snapshot, "CHILDREN_LISTED_MAX", 5)
    client = connect(zk_hosts)
    for number in range(6):
        client.create(LAY.registration("wide", str(number)), b"junk", makepath=True, ephemeral=True)
        client.create(LAY.channel("wide", str(number)), b"", makepath=True)
    client.create(LAY.registration("narrow", "0"), b"junk", makepath=True, ephemeral=True)
    with SyncClient(ZkOptions(zk_hosts)) as reader:
        listed = {g.name: (g.members, g.state) for g in group_snapshot.list_groups(reader, LAY)}
        wide, narrow = (
            group_snapshot.describe_group(reader, LAY, name) for name in ("wide", "narrow")
        )
    disconnect(client)
    assert listed == {
        "wide": (6, GroupState.PREPARING_REBALANCE),
        "narrow": (1, GroupState.PREPARING_REBALANCE),
    }
    assert [(bad.what, bad.name) for bad in wide.malformed] == [
        ("group", "wide")
    ] * 2 and "6 nodes below /consumers/groups/wide/ids" in wide.malformed[0].reason
    assert [(bad.what, bad.name) for bad in narrow.malformed] == [("registration", "0")]


def test_names_too_large_for_any_answer_are_said_to_be_so(
    zk_hosts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FRAME_BYTES_MAX", 2 * 1024 * 1024)
    client = connect(zk_hosts)
    client.ensure_path(LAY.ids("g"))
    for number in range(5):
        client.create(f"{LAY.ids('g')}/{'x' * 500_000}{number}")
    with (
        SyncClient(ZkOptions(zk_hosts)) as reader,
        pytest.raises(UnavailableError, match=f"{LAY.ids('g')} .* larger than any answer"),
    ):
        group_snapshot.describe_group(reader, LAY, "g")
    disconnect(client)


def test_nodes_too_large_for_one_answer_are_read_a_few_at_a_time(
    zk_hosts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is larger than it should be, and together they are more than a client takes at once."""
    monkeypatch.setattr(connection, "FRAME_BYTES_MAX", 2 * 1024 * 1024)
    client = connect(zk_hosts)
    for number in range(50):
        client.create(
            LAY.registration("g", str(number)), b"x" * 60_000, makepath=True, ephemeral=True
        )
    with SyncClient(ZkOptions(zk_hosts)) as reader:
        found = group_snapshot.describe_group(reader, LAY, "g")
    disconnect(client)
    assert len(found.malformed) == 50


def test_a_group_whose_members_may_not_be_seen_leaves_the_list_of_the_others_whole(
    zk_hosts: str,
) -> None:
    with world(zk_hosts) as here, SyncClient(ZkOptions(zk_hosts)) as reader:
        here.leader()
        for name in ("before", "closed", "later"):
            here.group(name)
        hidden = [make_digest_acl("member", "secret", all=True)]
        here.client.ensure_path(here.layout.ids("closed"))
        here.client.set_acls(here.layout.ids("closed"), hidden)
        found = {one.name: one for one in group_snapshot.list_groups(reader, here.layout)}
        assert list(found) == ["before", "closed", "later"]
        (bad,) = found["closed"].malformed
        assert here.layout.ids("closed") in bad.reason and not found["later"].malformed
        with pytest.raises(UnavailableError, match="ids"):
            group_snapshot.describe_group(reader, here.layout, "closed")
