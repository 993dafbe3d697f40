"""Containers, which ZooKeeper has since 3.5 and keeps as ephemeral nodes of an owner that is no
session: it says of them what it says of persistent ones, and so they count for nothing where those
do.
"""

from __future__ import annotations

from kazoo.client import KazooClient
from kazoo.protocol.serialization import Create as KazooCreate
from kazoo.security import OPEN_ACL_UNSAFE

from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.protocol.rig import GROUP, rigged
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import GetData, Node
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import Layout

PATIENCE_S = 60.0
CREATE_CONTAINER, CONTAINER_FLAG = 19, 4


class ContainerCreate(KazooCreate):  # type: ignore[misc]
    """Kazoo has no such request."""

    type = CREATE_CONTAINER


def container(client: KazooClient, path: str, data: bytes) -> None:
    """Make one."""
    answer = client.handler.async_result()
    acl = OPEN_ACL_UNSAFE
    client._call(ContainerCreate(client.chroot + path, data, acl, CONTAINER_FLAG), answer)
    answer.get(PATIENCE_S)


def test_a_container_is_of_no_session(zk_hosts: str) -> None:
    client = connect(zk_hosts)
    container(client, "/kept", b"x")
    with SyncClient(ZkOptions(zk_hosts), 10_000) as reader:
        alone = reader.read([GetData("/kept")])
        many = reader.read([GetData("/kept"), GetData("/")])
    for found in (*alone, many[0]):
        assert isinstance(found, Node) and found.stat.ephemeral_owner == 0
    disconnect(client)


def test_a_registration_that_is_a_container_is_nobodys(zk_hosts: str) -> None:
    """It would be a member without a session, which nobody evicts."""
    with rigged(zk_hosts, Layout.DRAFT) as rig:
        tp, *_ = rig.topic("t", 1)
        coordinator = rig.coordinator()
        member = rig.member("a").subscribe("t").joined().fetches(tp)
        ids = rig.layout.ids(GROUP)
        data, _ = rig.zk.get(f"{ids}/{member.member}")
        container(rig.zk, f"{ids}/kept", data)
        wait_until(
            lambda: any("kept" in str(one) for one in coordinator.records("malformed")),
            PATIENCE_S,
            "that it is named",
        )
        assert member.fetching() == [tp]
