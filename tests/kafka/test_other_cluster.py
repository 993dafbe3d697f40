"""A consumer whose brokers are another cluster's than its group."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.errors import OtherClusterError
from consumer.member.cluster_check import CLUSTER_READS
from consumer.offsets import by_hand
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import PATIENCE_S, Taken, consumer, coordinator, drain
from zkcoord.errors import UnavailableError
from zkcoord.stack.servers import KafkaBroker
from zkcoord.zk.port import Read, ReadAnswer
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.cluster_identity import encode_source
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.kafka import CLUSTER_ID

pytestmark = pytest.mark.kafka

RECORDED = {
    CLUSTER_ID: b'{"version":"1","id":"another"}',
    CLUSTER_TREE.source: encode_source("another"),
}


def recorded(hosts: str, node: str) -> None:
    """Write it."""
    zookeeper = connect(hosts)
    zookeeper.create(node, RECORDED[node], makepath=True)
    disconnect(zookeeper)


@pytest.mark.parametrize("engine", ["kafka-python", "librdkafka"])
@pytest.mark.parametrize("node", RECORDED)
def test_its_member_ends_and_says_so(
    kafka_broker: KafkaBroker, zk_hosts: str, node: str, engine: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("t"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 5)
    recorded(zk_hosts, node)
    how = {"bootstrap_servers": kafka_broker.address, "data_client": engine}
    with coordinator(zk_hosts), consumer(zk_hosts, unique("g"), topic, **how) as one:
        with pytest.raises(OtherClusterError, match=f"of another .{node}.: correct bootstrap"):
            wait_until(lambda: one.poll(50) is None, PATIENCE_S, "an error")
        with pytest.raises(OtherClusterError):
            one.poll(0)
        assert not one.assignment()


def test_what_it_assigns_itself_is_not_consumed_either(
    kafka_broker: KafkaBroker, zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("t"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 5)
    recorded(zk_hosts, CLUSTER_ID)
    with consumer(zk_hosts, unique("g"), bootstrap_servers=kafka_broker.address) as one:
        one.assign([TopicPartition(topic, 0)])
        with pytest.raises(OtherClusterError, match="correct bootstrap_servers"):
            wait_until(lambda: one.poll(50) is None, PATIENCE_S, "an error")
        with pytest.raises(KafkaError):
            one.commit({TopicPartition(topic, 0): OffsetAndMetadata(3, "", -1)})


def test_those_of_the_same_cluster_are_used(kafka_broker: KafkaBroker, kafka_zk_hosts: str) -> None:
    topic = create_topic(kafka_broker.address, unique("t"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 5)
    named = {"bootstrap_servers": kafka_broker.address}
    taken: Taken = {}
    with coordinator(kafka_zk_hosts), consumer(kafka_zk_hosts, unique("g"), topic, **named) as one:
        drain([one], taken, 5)
        assert one._session._setup.named_brokers.said(), "it is known"


def test_who_cannot_look_leaves_no_session_behind(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create_topic(kafka_broker.address, unique("t"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 5)
    open_now: list[SyncClient] = []
    failing = [True]

    class Deaf(SyncClient):
        """Does not answer to the first look."""

        def read(self, reads: Sequence[Read]) -> tuple[ReadAnswer, ...]:
            if tuple(reads) == CLUSTER_READS:
                open_now.append(self)
                if failing.pop() if failing else False:
                    raise UnavailableError("it does not answer")
            return tuple(super().read(reads))

        def close(self) -> None:
            open_now.remove(self)
            super().close()

    monkeypatch.setattr(by_hand, "SyncClient", Deaf)
    taken: Taken = {}
    with consumer(kafka_zk_hosts, unique("g"), bootstrap_servers=kafka_broker.address) as one:
        one.assign([TopicPartition(topic, 0)])
        drain([one], taken, 5)
        assert len(open_now) == 1
    assert not open_now and not failing
