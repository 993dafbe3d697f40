"""A consumer whose brokers are another cluster's than its group."""

from __future__ import annotations

import pytest

from consumer.errors import OtherClusterError
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import PATIENCE_S, consumer, coordinator
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.cluster_identity import encode_source
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.kafka import CLUSTER_ID

pytestmark = pytest.mark.kafka

RECORDED = {
    CLUSTER_ID: b'{"version":"1","id":"another"}',
    CLUSTER_TREE.source: encode_source("another"),
}


@pytest.mark.parametrize("engine", ["kafka-python", "librdkafka"])
@pytest.mark.parametrize("node", RECORDED)
def test_its_member_ends_and_says_so(
    kafka_broker: KafkaBroker, zk_hosts: str, node: str, engine: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("t"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 5)
    zookeeper = connect(zk_hosts)
    zookeeper.create(node, RECORDED[node], makepath=True)
    disconnect(zookeeper)
    how = {"bootstrap_servers": kafka_broker.address, "data_client": engine}
    with coordinator(zk_hosts), consumer(zk_hosts, unique("g"), topic, **how) as one:
        with pytest.raises(OtherClusterError, match=f"of another .{node}.: correct bootstrap"):
            wait_until(lambda: one.poll(50) is None, PATIENCE_S, "an error")
        with pytest.raises(OtherClusterError):
            one.poll(0)
        assert not one.assignment()
