"""Nodes with the time of their writing, from real servers."""

from __future__ import annotations

import pytest
from kazoo.security import make_digest_acl

from tests.harness.proxy import Proxy
from tests.harness.zookeeper import connect, disconnect, fresh_chroot
from zkcoord.errors import UnavailableError
from zkcoord.stack.servers import ZooKeeperServer
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import Denied, Missing, ZkError
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.written import WrittenNode, read_written


def test_what_was_written_and_when_in_order(zk_hosts: str) -> None:
    client = connect(zk_hosts)
    try:
        client.create("/a", b"one")
        client.create("/hidden", b"", acl=[make_digest_acl("u", "p", all=True)])
        _, made = client.get("/a")
        client.set("/a", b"two")
        _, stat = client.get("/a")
        with SyncClient(ZkOptions(zk_hosts)) as reader:
            answers = read_written(reader, ["/a", *["/none"] * 5_500, "/hidden", "/a"])
            assert read_written(reader, []) == []
    finally:
        disconnect(client)
    expected = WrittenNode(b"two", stat.mzxid, stat.mtime)
    assert answers[0] == answers[-1] == expected and stat.mzxid > made.mzxid
    assert answers[-2] == Denied(ZkError.NO_AUTH) and set(answers[1:-2]) == {Missing()}


@pytest.mark.slow
def test_a_server_that_cannot_be_asked_for_many_tells_no_times(
    old_zk_server: ZooKeeperServer,
) -> None:
    hosts = fresh_chroot(old_zk_server.address)
    client = connect(hosts)
    try:
        client.create("/a", b"one")
        _, stat = client.get("/a")
    finally:
        disconnect(client)
    with SyncClient(ZkOptions(hosts)) as reader:
        assert read_written(reader, ["/a", "/none"]) == [
            WrittenNode(b"one", stat.mzxid, None),
            Missing(),
        ]


def test_what_is_too_large_for_one_answer_comes_in_more(
    zk_hosts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zkcoord.zk.kazoo_port.connection.FRAME_BYTES_MAX", 1_000_000)
    client = connect(zk_hosts)
    try:
        for n in range(4):
            client.create(f"/{n}", b"x" * 400_000)
    finally:
        disconnect(client)
    with SyncClient(ZkOptions(zk_hosts)) as reader:
        answers = read_written(reader, [f"/{n}" for n in range(4)])
    assert [len(one.data) for one in answers if isinstance(one, WrittenNode)] == [400_000] * 4


def test_no_answer_is_one_error(zk_server: ZooKeeperServer, zk_proxy: Proxy) -> None:
    with SyncClient(ZkOptions(zk_proxy.address), read_deadline_ms=500) as reader:
        zk_proxy.black_hole()
        with pytest.raises(UnavailableError, match="did not answer"):
            read_written(reader, ["/"])
