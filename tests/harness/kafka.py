"""A real Kafka broker for tests, and the few things that tests do to it: topics, partitions,
records, ends.

The broker of a test process is registered under a chroot of its own (`/kafka`) on that process's
ZooKeeper. A consumer under test uses that connect string (fixture `kafka_zk_hosts`, which also
removes what the test left beside `/brokers`), because it reads the brokers and topics there.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kazoo.client import KazooClient
from kazoo.exceptions import NotEmptyError

from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from zkcoord.stack.java import Java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import KafkaBroker

CHROOT = "/kafka"
CONSUMERS = "/consumers"
BROKER_ZNODES = frozenset(
    {
        "admin",
        "brokers",
        "cluster",
        "config",
        "controller",
        "controller_epoch",
        "feature",
        "isr_change_notification",
        "latest_producer_id_block",
        "log_dir_event_notification",
        "zookeeper",
    }
)
TOPIC_TIMEOUT_S = 30.0
CLEAN_S = 30.0
KEPT_FOR_EVER = {"log.retention.ms": "-1"}


def start_broker(home: Path, zookeeper: str, java: Java) -> KafkaBroker:
    """A running broker in `home`, registered under `zookeeper` (a connect string, chroot included),
    that dies with this process. Records stay, however old a test says they are: a broker deletes a
    segment whose records are older than its retention, now and then, also while the test reads it.
    """
    broker = new_broker(home, zookeeper, java)
    broker.start()
    return broker


def new_broker(home: Path, zookeeper: str, java: Java) -> KafkaBroker:
    """The same, not started yet."""
    return KafkaBroker(home, free_port(), zookeeper, java, owned=True, config=KEPT_FOR_EVER)


def unique(name: str) -> str:
    """A topic's or group's name that no other test uses."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


@contextmanager
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield client
    finally:
        client.close()


def create_topic(
    bootstrap: str, topic: str, partitions: int, configs: Mapping[str, str] | None = None
) -> str:
    """Create a topic and return its name once every partition has a leader."""
    with admin(bootstrap) as client:
        client.create_topics(
            {
                topic: {
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "configs": dict(configs or {}),
                }
            }
        )
    await_partitions(bootstrap, topic, partitions)
    return topic


def add_partitions(bootstrap: str, topic: str, total: int) -> None:
    """Grow a topic to `total` partitions and return when all have a leader."""
    with admin(bootstrap) as client:
        client.create_partitions({topic: total})
    await_partitions(bootstrap, topic, total)


def delete_topic(bootstrap: str, topic: str) -> None:
    with admin(bootstrap) as client:
        client.delete_topics([topic])


def await_partitions(bootstrap: str, topic: str, count: int) -> None:
    """Until the broker gives an end offset for partitions 0 .. count-1: only then does it lead them
    all.
    """
    with admin(bootstrap) as client:

        def leaders() -> bool:
            found = client.describe_topics([topic])
            partitions = found[0]["partitions"] if found else []
            return len(partitions) == count and all(
                partition["leader_id"] >= 0 for partition in partitions
            )

        wait_until(leaders, TOPIC_TIMEOUT_S, f"{count} partitions of {topic} with a leader")


def produce(bootstrap: str, topic: str, values: Mapping[int, Iterable[bytes]]) -> int:
    """Write these values to these partitions, in order, and return how many once all are
    acknowledged.
    """
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)
    try:
        sent = [
            producer.send(topic, value=value, partition=partition)
            for partition, of_partition in values.items()
            for value in of_partition
        ]
        producer.flush(timeout=TOPIC_TIMEOUT_S)
        for future in sent:
            future.get(timeout=TOPIC_TIMEOUT_S)
    finally:
        producer.close(timeout=TOPIC_TIMEOUT_S)
    return len(sent)


def produce_numbered(
    bootstrap: str, topic: str, partitions: int, per_partition: int, start: int = 0
) -> int:
    """`per_partition` records into each partition, value `<partition>:<n>` with n from `start`."""
    return produce(
        bootstrap,
        topic,
        {
            partition: [f"{partition}:{start + n}".encode() for n in range(per_partition)]
            for partition in range(partitions)
        },
    )


def end_offsets(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    """Partition -> the offset that the next record will get."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    try:
        found = consumer.end_offsets(
            [TopicPartition(topic, partition) for partition in range(partitions)]
        )
    finally:
        consumer.close()
    return {at.partition: offset for at, offset in found.items()}


def group_member(bootstrap: str, topic: str, group: str, **configs: Any) -> KafkaConsumer:
    """kafka-python's own consumer, subscribed. It knows the topic's partitions first: one that
    leads its group before it does may assign nothing to anybody, and leave it at that.
    """
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, **configs)
    wait_until(
        lambda: consumer.partitions_for_topic(topic), TOPIC_TIMEOUT_S, f"the partitions of {topic}"
    )
    consumer.subscribe([topic])
    return consumer


def _gone(client: KazooClient, name: str) -> bool:
    """Delete it; not yet where somebody who is on the way out wrote below it meanwhile."""
    try:
        client.delete(f"/{name}", recursive=True)
    except NotEmptyError:
        return False
    return True


def clean_groups(hosts: str) -> None:
    """Remove everything under the chroot of `hosts` that is not Kafka's own. An empty /consumers
    stays: a broker in ZooKeeper mode makes it when it starts.
    """
    client = connect(hosts)
    try:
        for name in client.get_children("/"):
            if name not in BROKER_ZNODES:
                wait_until(lambda name=name: _gone(client, name), CLEAN_S, f"/{name} gone")
        client.ensure_path(CONSUMERS)
    finally:
        disconnect(client)
