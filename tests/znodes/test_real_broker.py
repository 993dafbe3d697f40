"""What a real broker writes is what the codec reads, and what it stores is what the offsets' format
means.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from tests.harness.kafka import create_topic, unique
from zkcoord.core.model import Topic
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.codec import BrokerData, decode_broker, decode_topic
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.places import BrokerAt, TopicAt
from zkcoord.znodes.stat import Stat

LAYOUT = Layout.DRAFT


@pytest.fixture
def client(kafka_zk_hosts: str) -> Iterator[KazooClient]:
    """A connection to the broker's ZooKeeper."""
    client = KazooClient(hosts=kafka_zk_hosts)
    client.start()
    yield client
    client.stop()
    client.close()


def read(client: KazooClient, path: str) -> tuple[bytes, Stat]:
    """A node as the port gives it."""
    data, stat = client.get(path)
    return data, Stat(
        stat.czxid, stat.mzxid, stat.version, stat.cversion, stat.ephemeralOwner, stat.numChildren
    )


def test_a_topic(kafka_broker: KafkaBroker, client: KazooClient) -> None:
    name = create_topic(kafka_broker.address, unique("codec"), 12)
    topic = decode_topic(name, *read(client, LAYOUT.topic(name)))
    assert isinstance(topic, Topic)
    assert topic.partitions == tuple(range(12))
    # a topic id: 16 bytes in URL-safe base64
    assert len(topic.incarnation.partition(".")[2]) == 22, topic.incarnation
    assert name in client.get_children(LAYOUT.topics_root)
    assert LAYOUT.locate(LAYOUT.topic(name)) == TopicAt(name)


def test_the_broker(kafka_broker: KafkaBroker, client: KazooClient) -> None:
    (found,) = client.get_children(LAYOUT.brokers_root)
    assert LAYOUT.locate(LAYOUT.broker(found)) == BrokerAt(found)
    broker = decode_broker(found, client.get(LAYOUT.broker(found))[0])
    assert isinstance(broker, BrokerData)
    host, _, port = kafka_broker.address.rpartition(":")
    assert (host, int(port)) in broker.endpoints.values()
    assert set(broker.protocols.values()) == {"PLAINTEXT"}
