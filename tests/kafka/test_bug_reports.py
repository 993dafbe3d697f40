"""What users of kafka-python and of other clients have reported, tried on a real broker."""

from __future__ import annotations

import gc
import logging
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import kafka.codec
import pytest
from kafka import KafkaProducer
from kafka.errors import UnknownTopicOrPartitionError, UnsupportedCodecError
from kafka.structs import TopicPartition

from consumer import KafkaConsumer, ZookeeperConsumerConnector
from consumer.errors import BrokersUnreachableError, ConsumerOptionError
from tests.harness.kafka import create_topic, new_broker, produce, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect, fresh_chroot
from tests.kafka.groups import PATIENCE_S, consumer, coordinator, take
from zkcoord.admin.offsets.log_offsets import registered_brokers
from zkcoord.errors import ConfigurationError
from zkcoord.stack.java import Java
from zkcoord.stack.ports import HOST, free_port
from zkcoord.stack.servers import KafkaBroker, ZooKeeperServer
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import Layout

pytestmark = pytest.mark.kafka

CLIENTS = ("kafka-python", "librdkafka")
BAD = b"bad"
PACKED = b"packed" * 1_000  # what would not be smaller is not packed
ATTEMPTS = 12


def alone(broker: KafkaBroker, **configs: Any) -> KafkaConsumer:
    return KafkaConsumer(
        **{"bootstrap_servers": broker.address, "auto_offset_reset": "earliest", **configs}
    )


@pytest.mark.parametrize("method", ["beginning_offsets", "end_offsets", "offsets_for_times"])
def test_offsets_of_what_is_not_there(kafka_broker: KafkaBroker, method: str) -> None:
    """The answer is not waited for in vain, and names the topic or the partition."""
    topic = create_topic(kafka_broker.address, unique("there"), 2)
    with alone(kafka_broker) as one:

        def ask(*partitions: TopicPartition) -> Any:
            given = dict.fromkeys(partitions, 0) if method == "offsets_for_times" else partitions
            return getattr(one, method)(given, timeout_ms=8_000)

        assert set(ask(TopicPartition(topic, 0), TopicPartition(topic, 1))) == {
            TopicPartition(topic, 0),
            TopicPartition(topic, 1),
        }
        with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic"):
            ask(TopicPartition(topic, 0), TopicPartition("no-such-topic", 0))
        with pytest.raises(UnknownTopicOrPartitionError, match=f"{topic}-7 .*2 partitions"):
            ask(TopicPartition(topic, 7))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_deserializer_that_raises_stop_iteration(
    kafka_broker: KafkaBroker, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As any other error: it names the record, comes again until the application has sought over
    it, and does not end an iteration.
    """
    topic = create_topic(kafka_broker.address, unique("stop"), 1)
    produce(kafka_broker.address, topic, {0: [b"0", BAD, b"2"]})

    def decode(value: bytes) -> str:
        return next(iter(())) if value == BAD else value.decode()

    tp, found = TopicPartition(topic, 0), []
    with alone(kafka_broker, data_client=client, value_deserializer=decode) as one:
        one.assign([tp])
        for _ in range(2):
            with pytest.raises(RuntimeError, match=f"StopIteration for {topic}-0 at offset 1"):
                for record in one:
                    found.append(record.value)
        assert one.position(tp) == 1
        one.seek(tp, 2)
        assert next(one).value == "2" and found == ["0"]
    assert "unpacking messageset" not in caplog.text and "Traceback" not in caplog.text


@pytest.mark.parametrize("client", CLIENTS)
def test_a_codec_that_is_not_installed(
    kafka_broker: KafkaBroker, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create_topic(kafka_broker.address, unique("codec"), 1)
    producer = KafkaProducer(bootstrap_servers=kafka_broker.address, compression_type="snappy")
    producer.send(topic, PACKED).get(PATIENCE_S)
    producer.close()
    produce(kafka_broker.address, topic, {0: [b"plain"]})
    monkeypatch.setattr(kafka.codec, "snappy", None)
    tp = TopicPartition(topic, 0)
    with alone(kafka_broker, data_client=client) as one:
        one.assign([tp])
        if client == "librdkafka":  # which has its own
            assert [next(one).value, next(one).value] == [PACKED, b"plain"]
            return
        for _ in range(2):
            with pytest.raises(UnsupportedCodecError) as caught:
                next(one)
            said = str(caught.value)
            assert f"{topic}-0 at offset 0" in said and "pip install python-snappy" in said
            assert f"seek({topic}-0" in said
        one.seek(tp, 1)
        assert next(one).value == b"plain"


def test_a_broker_that_is_away_is_said_once_and_once_when_it_is_back(
    zk_server: ZooKeeperServer, java: Java, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="consumer")
    caplog.set_level(logging.DEBUG, logger="kafka.net.manager")
    broker = new_broker(tmp_path / "kafka", fresh_chroot(zk_server.address), java)
    broker.start()
    try:
        topic = create_topic(broker.address, unique("away"), 1)
        produce(broker.address, topic, {0: [b"0"]})
        with alone(broker, reconnect_backoff_max_ms=50) as one:
            one.assign([TopicPartition(topic, 0)])
            assert next(one).value == b"0"
            caplog.clear()
            broker.kill()
            wait_until(lambda: one.poll(50) or attempts(caplog) >= ATTEMPTS, PATIENCE_S, "attempts")
            loud = [r for r in caplog.records if r.levelno >= logging.WARNING]
            broker.start()
            produce(broker.address, topic, {0: [b"1"]})
            wait_until(lambda: one.poll(50), PATIENCE_S, "the broker")
    finally:
        broker.kill()
    again = Counter((r.name, r.lineno, r.getMessage()) for r in loud)
    assert again and max(again.values()) == 1, again
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("consumer")]
    assert sum("does not answer" in line for line in ours) == 1
    assert sum("answers again" in line for line in ours) == 1


def attempts(caplog: pytest.LogCaptureFixture) -> int:
    return sum("reconnect backoff" in record.getMessage() for record in caplog.records)


def test_all_listeners_of_a_protocol_are_tried(
    zk_server: ZooKeeperServer, java: Java, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first by name does not answer from here."""
    caplog.set_level(logging.INFO, logger="consumer")
    hosts, port, nobody = fresh_chroot(zk_server.address), free_port(), free_port()
    broker = KafkaBroker(
        tmp_path / "kafka",
        port,
        hosts,
        java,
        owned=True,
        config={
            "listeners": f"INSIDE://{HOST}:{free_port()},OUTSIDE://{HOST}:{port}",
            "advertised.listeners": f"INSIDE://{HOST}:{nobody},OUTSIDE://{HOST}:{port}",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "inter.broker.listener.name": "OUTSIDE",
        },
    )
    broker.start()
    try:
        with KafkaConsumer(zookeeper_connect=hosts, bootstrap_timeout_ms=8_000) as one:
            assert one.topics() == set()
        assert f"listener OUTSIDE answers, at {HOST}:{port}" in caplog.text
        with KafkaConsumer(zookeeper_connect=hosts, bootstrap_listener="OUTSIDE") as one:
            assert one.topics() == set()
        with pytest.raises(BrokersUnreachableError, match=str(nobody)):
            KafkaConsumer(
                zookeeper_connect=hosts, bootstrap_listener="INSIDE", bootstrap_timeout_ms=500
            )
        with pytest.raises(ConsumerOptionError, match="INSIDE or OUTSIDE"):
            KafkaConsumer(zookeeper_connect=hosts, bootstrap_listener="MIDDLE")
        with SyncClient(ZkOptions(hosts)) as reader:
            assert registered_brokers(reader, Layout.DRAFT) == (f"{HOST}:{port}",)
            inside = registered_brokers(reader, Layout.DRAFT, listener="INSIDE")
            assert inside == (f"{HOST}:{nobody}",)
            with pytest.raises(ConfigurationError, match="INSIDE or OUTSIDE"):
                registered_brokers(reader, Layout.DRAFT, listener="MIDDLE")
    finally:
        broker.kill()


def members(hosts: str, group: str) -> list[str]:
    zookeeper = connect(hosts)
    try:
        path = f"/consumers/groups/{group}/ids"
        return list(zookeeper.get_children(path)) if zookeeper.exists(path) else []
    finally:
        disconnect(zookeeper)


@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_a_consumer_that_nobody_has_any_more_leaves_its_group(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, kind: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("forgotten"), 1)
    produce(kafka_broker.address, topic, {0: [b"0", b"1"]})

    def use() -> None:
        if kind == "consumer":
            one = consumer(kafka_zk_hosts, topic, topic)
            wait_until(lambda: take(one, {}), PATIENCE_S, "records")
        else:
            connector = ZookeeperConsumerConnector(
                {
                    "zookeeper.connect": kafka_zk_hosts,
                    "group.id": topic,
                    "auto.offset.reset": "smallest",
                }
            )
            (stream,) = connector.create_message_streams({topic: 1})[topic]
            del connector
            gc.collect()
            assert next(stream).offset == 0, "a stream alone is enough to go on"
        assert len(members(kafka_zk_hosts, topic)) == 1

    with coordinator(kafka_zk_hosts):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            use()
            gc.collect()
        assert any(
            issubclass(w.category, ResourceWarning) and "unclosed" in str(w.message) for w in caught
        )
        wait_until(lambda: not members(kafka_zk_hosts, topic), PATIENCE_S, "the member to leave")
