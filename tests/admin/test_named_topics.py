"""Topics that a command names: those of Kafka's nodes are there at once, of those that a
coordinator writes down new ones are waited for.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from tests.harness.zookeeper import connect, disconnect
from zkcoord.admin.common import Progress
from zkcoord.admin.offsets import named_topics as named
from zkcoord.admin.offsets.named_topics import Topics, named_topics
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.paths import Layout

ONE, TWO = (b'{"version":1,"partitions":{%s}}' % text for text in (b'"0":[1]', b'"0":[1],"1":[1]'))
PROGRESS = Progress("test")


@pytest.fixture
def client(zk_hosts: str) -> Iterator[KazooClient]:
    found = connect(zk_hosts)
    yield found
    disconnect(found)


@pytest.fixture
def reader(zk_hosts: str) -> Iterator[SyncClient]:
    with SyncClient(ZkOptions(zk_hosts)) as found:
        yield found


def test_what_is_new_is_waited_for_where_a_coordinator_writes_it_down(
    client: KazooClient, reader: SyncClient
) -> None:
    client.create(CLUSTER_TREE.source, b'{"version":1,"cluster":"c"}', makepath=True)
    looks: list[int] = []

    def is_whole(topics: Topics) -> bool:
        """It is made when that has been seen, and then grown."""
        looks.append(len(topics["t"].partitions) if "t" in topics else 0)
        if looks == [0]:
            client.create(CLUSTER_TREE.topic("t"), ONE, makepath=True)
        elif looks[-1] == 1:
            client.set(CLUSTER_TREE.topic("t"), TWO)
        return looks[-1] == 2

    found = named_topics(reader, Layout.DRAFT, ["t"], is_whole, PROGRESS)
    assert looks == [0, 1, 2] and set(found["t"].partitions) == {0, 1}


def test_kafkas_own_nodes_are_read_once(client: KazooClient, reader: SyncClient) -> None:
    client.create("/brokers/topics/t", ONE, makepath=True)
    looks: list[int] = []

    def is_whole(topics: Topics) -> bool:
        looks.append(len(topics))
        return False

    assert named_topics(reader, Layout.DRAFT, ["no", "t"], is_whole, PROGRESS).keys() == {"t"}
    assert looks == [1]


def test_it_is_not_waited_for_for_ever(
    client: KazooClient, reader: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create(CLUSTER_TREE.source, b"", makepath=True)
    monkeypatch.setattr(named, "NEW_MS", 300)
    assert named_topics(reader, Layout.DRAFT, ["no"], bool, PROGRESS) == {}
