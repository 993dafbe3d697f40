"""Groups in ZooKeeper and Kafka, written and read by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafka import KafkaConsumer
from kafka.structs import TopicPartition as KafkaPartition

from tests.harness.kafka import group_member, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from zkcoord.admin.kafka_groups import KafkaGroups
from zkcoord.core.model import TopicPartition

PARTITIONS, RECORDS = 4, 100
PATIENCE_S = 60.0
Values = dict[int, int]


class BothStores:
    """One topic's offsets of any group: partition -> next offset."""

    def __init__(self, broker: str, hosts: str, topic: str) -> None:
        self.broker = broker
        self.topic = topic
        self.client = connect(hosts)
        self.kafka = KafkaGroups((broker,), PATIENCE_S)

    def close(self) -> None:
        """End the sessions."""
        self.kafka.close()
        disconnect(self.client)

    def group(
        self,
        name: str,
        zookeeper: Mapping[int, int] | None = None,
        kafka: Mapping[int, int] | None = None,
    ) -> str:
        """A group with these offsets, as old consumers leave it; its name is unique."""
        group = unique(name)
        for n, offset in (zookeeper or {}).items():
            self.client.create(
                f"/consumers/{group}/offsets/{self.topic}/{n}", str(offset).encode(), makepath=True
            )
        if kafka:
            self.commit(group, kafka)
        return group

    def commit(self, group: str, offsets: Mapping[int, int]) -> None:
        """In Kafka."""
        self.kafka.commit(
            group, {TopicPartition(self.topic, n): offset for n, offset in offsets.items()}
        )

    def set(self, group: str, partition: int, offset: int) -> None:
        """In ZooKeeper."""
        self.client.set(
            f"/consumers/{group}/offsets/{self.topic}/{partition}", str(offset).encode()
        )

    def in_zookeeper(self, group: str) -> Values:
        path = f"/consumers/{group}/offsets/{self.topic}"
        if self.client.exists(path) is None:
            return {}
        return {
            int(n): int(self.client.get(f"{path}/{n}")[0])
            for n in sorted(self.client.get_children(path))
        }

    def in_kafka(self, group: str) -> Values:
        return {
            tp.partition: offset
            for tp, offset in sorted(self.kafka.committed([group])[group].items())
            if tp.topic == self.topic
        }

    def mark(self, group: str) -> str:
        """What is said of whose ZooKeeper's offsets are."""
        data, _ = self.client.get(f"/consumers/{group}/offsets/{self.topic}")
        return (data or b"").decode()

    def incarnation(self) -> str:
        """The topic's, as a broker of 3.9 has it."""
        data, stat = self.client.get(f"/brokers/topics/{self.topic}")
        return f"{stat.czxid}.{json.loads(data)['topic_id']}"

    def plain_consumer(self, group: str) -> KafkaConsumer:
        """A member of Kafka's own protocol that has joined."""
        consumer = group_member(
            self.broker,
            self.topic,
            group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            client_id="plain",
        )
        wait_until(
            lambda: (
                consumer.poll(200, max_records=1, update_offsets=False) or consumer.assignment()
            ),
            PATIENCE_S,
            "an assignment",
        )
        return consumer

    def log_ends_of_offsets_topic(self) -> dict[KafkaPartition, int]:
        """How much was ever written for groups in Kafka, by anybody."""
        consumer = KafkaConsumer(bootstrap_servers=self.broker, group_id=None)
        try:
            found: dict[KafkaPartition, int] = consumer.end_offsets(
                [
                    KafkaPartition("__consumer_offsets", n)
                    for n in sorted(consumer.partitions_for_topic("__consumer_offsets") or ())
                ]
            )
            return found
        finally:
            consumer.close()

    def written_since(self, ends: Mapping[KafkaPartition, int], groups: Sequence[str]) -> int:
        """How many records of these groups are behind those ends in the logs that Kafka keeps
        offsets in. (Of other groups it cleans up there now and then.)
        """
        consumer = KafkaConsumer(bootstrap_servers=self.broker, group_id=None)
        keys: list[bytes] = []
        try:
            until = consumer.end_offsets(list(ends))
            consumer.assign(list(ends))
            for tp, offset in ends.items():
                consumer.seek(tp, offset)

            def read() -> bool:
                keys.extend(
                    record.key for records in consumer.poll(100).values() for record in records
                )
                return all(consumer.position(tp) >= end for tp, end in until.items())

            wait_until(read, PATIENCE_S, "the ends of the logs that offsets are in")
        finally:
            consumer.close()
        return sum(any(group.encode() in key for group in groups) for key in keys)


def run_folder(state: Path) -> Path:
    """The newest run's."""
    return max((state / "zkcoord" / "migrations").iterdir())
