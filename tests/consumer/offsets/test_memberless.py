"""Commits of who is no member, in parts that ZooKeeper takes, on a real server."""

from __future__ import annotations

import pytest
from kafka.structs import TopicPartition as KafkaPartition

from consumer.core import messages as msg
from consumer.member.joining.missing_nodes import with_parents
from consumer.offsets.committed import stored_of, stored_reads
from consumer.offsets.memberless import PARTITIONS_PER_MULTI_MAX, MemberlessCommits
from zkcoord.core.model import TopicPartition
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import OPEN_ACL, Create, GetData, Node
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.paths import Layout

LAY = Layout.DRAFT


def commit(count: int, text: str) -> msg.Commit:
    """Of so many partitions."""
    offsets = {TopicPartition("t", n): n for n in range(count)}
    return msg.Commit(0, offsets, 0, dict.fromkeys(offsets, text) if text else {})


@pytest.mark.parametrize(
    ("text", "sizes"), [("", [100, 100, 50]), ("x", [100, 100, 50]), ("\u20ac" * 4_096, None)]
)
def test_parts_are_as_large_as_zookeeper_takes(
    zk_hosts: str, text: str, sizes: list[int] | None
) -> None:
    commits = MemberlessCommits(LAY, "g", OPEN_ACL)
    whole = commit(250, text)
    parts = list(commits.parts(whole))
    assert [tp for part in parts for tp in part] == sorted(whole.offsets)
    if sizes is not None:
        assert [len(part) for part in parts] == sizes
    else:
        assert max(map(len, parts)) < PARTITIONS_PER_MULTI_MAX
    with SyncClient(ZkOptions(zk_hosts), 10_000) as client:
        for _ in range(2):
            assert [commits.store(client, whole, part) for part in parts] == [None] * len(parts)
        wanted = [KafkaPartition(*tp) for tp in whole.offsets]
        found, unreadable = stored_of(wanted, client.read(stored_reads(LAY, "g", wanted)))
    assert not unreadable
    assert {(tp.partition, one.offset, one.metadata) for tp, one in found.items()} == {
        (n, n, text) for n in range(250)
    }


def test_of_a_member_only_the_gateway_stores_that_serves_it(zk_hosts: str) -> None:
    state, proof = ClassicPaths(LAY).state("led"), ClassicPaths(LAY).presence("led", "m")
    whole = commit(1, "")
    (part,) = MemberlessCommits(LAY, "led", OPEN_ACL).parts(whole)

    def stored(session: int) -> bool:
        commits = MemberlessCommits(LAY, "led", OPEN_ACL, None, 0, (proof, session))
        done = commits.store(client, whole, part)
        assert done is None or done.outcome is msg.CommitOutcome.NO_LONGER_MEMBER
        return done is None

    with SyncClient(ZkOptions(zk_hosts), 10_000) as client:
        for path in [*with_parents([state, proof])[:-1], state]:
            client.multi([Create(path, b"")])
        assert not stored(0), "nobody serves it"
        client.multi([Create(proof, b"", ephemeral=True)])
        (node,) = client.read([GetData(proof)])
        assert isinstance(node, Node)
        assert not stored(node.stat.ephemeral_owner + 1)
        assert stored(node.stat.ephemeral_owner)
