"""The shared broker: topics, partitions and records arrive, and the znodes that the consumers read
are where they look.
"""

from __future__ import annotations

import json

import pytest

from tests.harness import kafka as harness
from tests.harness.zookeeper import connect, disconnect
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka


def test_records_arrive_in_the_partitions_they_were_sent_to(kafka_broker: KafkaBroker) -> None:
    topic = harness.create_topic(kafka_broker.address, harness.unique("orders"), 3)
    assert harness.produce(kafka_broker.address, topic, {0: [b"a", b"b"], 2: [b"c"]}) == 3
    assert harness.produce_numbered(kafka_broker.address, topic, 3, 10) == 30
    assert harness.end_offsets(kafka_broker.address, topic, 3) == {0: 12, 1: 10, 2: 11}
    harness.add_partitions(kafka_broker.address, topic, 5)
    assert len(harness.end_offsets(kafka_broker.address, topic, 5)) == 5


def test_the_broker_and_its_topics_are_in_zookeeper(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = harness.create_topic(kafka_broker.address, harness.unique("orders"), 2)
    client = connect(kafka_zk_hosts)
    assert client.get_children("/brokers/ids") == ["0"]
    assert sorted(json.loads(client.get(f"/brokers/topics/{topic}")[0])["partitions"]) == ["0", "1"]
    client.create("/consumers/left-over/ids", makepath=True)
    harness.clean_groups(kafka_zk_hosts)
    assert client.get_children("/consumers") == []
    assert topic in client.get_children("/brokers/topics")
    disconnect(client)
