"""Groups of which there is no node among the groups."""

from __future__ import annotations

import pytest
from kazoo.security import make_digest_acl

from tests.harness.zookeeper import connect, disconnect
from zkcoord.core.model import GroupState, TopicPartition
from zkcoord.errors import UnavailableError
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.group_snapshot import describe_group
from zkcoord.zk.sync.offsets_alone import groups_without_a_node
from zkcoord.znodes.paths import Layout

TP = TopicPartition("t", 0)


@pytest.mark.parametrize("layout", [Layout.DRAFT, Layout.ISOLATED], ids=lambda lay: lay.name)
def test_what_is_found_is_what_can_be_described(zk_hosts: str, layout: Layout) -> None:
    client = connect(zk_hosts)
    for group in ("stored", "known", "secret", "half"):
        client.create(layout.offset(group, TP), b"7", makepath=True)
    client.create("/consumers/none/owners", makepath=True)
    client.create("/consumers/old/ids/old_host-1-0", b"junk", makepath=True)
    nobody = [make_digest_acl("somebody", "else", all=True)]
    client.set_acls(layout.offsets("secret"), nobody)
    client.create(layout.ids("half"), makepath=True)
    client.set_acls(layout.ids("half"), nobody)
    with SyncClient(ZkOptions(zk_hosts)) as reader:
        reader.sync()
        found = {
            one.name: (one.state, one.members)
            for one in groups_without_a_node(reader, layout, {"known", "groups"})
        }
        described = {name: describe_group(reader, layout, name) for name in found}
        for group in ("secret", "half"):
            with pytest.raises(UnavailableError):
                describe_group(reader, layout, group)
        client.set_acls("/consumers", nobody)
        assert groups_without_a_node(reader, layout, ()) == []
    disconnect(client)
    old = {"old": (GroupState.PREPARING_REBALANCE, 1)} if layout is Layout.ISOLATED else {}
    assert found == {"stored": (GroupState.EMPTY, 0), **old}
    assert {name: one.offsets for name, one in described.items() if name != "old"} == {
        "stored": {TP: 7}
    }
