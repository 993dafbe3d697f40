"""confluent-kafka (librdkafka) as the consumer of `consumer.verifiable`, so that it tells what it
does in the same lines, and can be broken in the same ways (`zkcoord.demo.actor`):

    python -m zkcoord.demo.gateway.librdkafka -- options of consumer.verifiable

It reaches its group through `--bootstrap-servers` alone, which is a gateway; ZooKeeper's options
are accepted and not used.

What was handed out is stored for the next automatic commit when the application asks for more: at
least once. A record that was taken for a batch and whose partition is given up before the batch is
handed out is in nobody's batch, and is not stored.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import confluent_kafka
from kafka.structs import TopicPartition

from consumer.core.messages import Notice, NoticeKind
from zkcoord.core.value_type import value
from zkcoord.demo import actor

COOPERATIVE = {"sticky": "cooperative-sticky"}
"""Assignors of `consumer.verifiable` with which librdkafka takes partitions one by one, and what it
calls them; with all others a client is given all that it has each time.
"""
ANSWER_S = 20.0
MS = 1_000


@value
class TakenRecord:
    """A record as `consumer.verifiable` sees it. `timestamp` is the producer's, in ms."""

    offset: int
    timestamp: int


class LibrdkafkaConsumer:
    """As much of a `KafkaConsumer` as the demo uses. One thread; callbacks come within its calls.
    Offsets are those of the next record.
    """

    def __init__(self, **configs: Any) -> None:
        self._observer = configs["observer"]
        self._committed = configs["default_offset_commit_callback"]
        self._records_max = int(configs["max_poll_records"])
        assignor = configs["partition_assignment_strategy"][0]
        self._cooperative = assignor in COOPERATIVE
        self._batch: dict[TopicPartition, list[TakenRecord]] = {}
        self._done: dict[TopicPartition, int] = {}
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": configs["bootstrap_servers"],
                "group.id": configs["group_id"],
                "client.id": configs.get("client_id", "librdkafka"),
                "session.timeout.ms": configs["zookeeper_session_timeout_ms"],
                "auto.offset.reset": configs["auto_offset_reset"],
                "auto.commit.interval.ms": configs["auto_commit_interval_ms"],
                "enable.auto.offset.store": False,
                "partition.assignment.strategy": COOPERATIVE.get(assignor, assignor),
                "on_commit": self._on_commit,
            }
        )

    def subscribe(
        self, topics: Iterable[str] = (), pattern: str | None = None, listener: Any = None
    ) -> None:
        """Join. What is joined is known by its topics; patterns and listeners are not used."""
        assert pattern is None and listener is None, "not used in the demo"
        self._consumer.list_topics(timeout=ANSWER_S)
        self._observer.on_notice(
            Notice(NoticeKind.REGISTERED, {"name": self._consumer.memberid() or ""}),
            time.time_ns(),
        )
        self._consumer.subscribe(
            list(topics),
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )

    def poll(self, timeout_ms: float = 0) -> dict[TopicPartition, list[Any]]:
        """At most `max_poll_records` records, of those that are there."""
        self._store()
        self._batch = {}
        count, message = 0, self._consumer.poll(timeout_ms / MS)
        while message is not None:
            if message.error() is None:
                at = TopicPartition(message.topic(), message.partition())
                taken = TakenRecord(message.offset(), message.timestamp()[1])
                self._batch.setdefault(at, []).append(taken)
                count += 1
            message = self._consumer.poll(0) if count < self._records_max else None
        batch, self._batch = self._batch, {}
        self._done = {at: records[-1].offset + 1 for at, records in batch.items()}
        return batch

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on there."""
        self._done[partition] = offset
        self._consumer.seek(confluent_kafka.TopicPartition(*partition, offset))

    def commit(self, offsets: Mapping[TopicPartition, Any] | None = None) -> None:
        """Store what was handed out, now."""
        self._store()
        self._consumer.commit(asynchronous=False)

    def commit_async(self) -> Any:
        """The same, without waiting."""
        self._store()
        self._consumer.commit(asynchronous=True)

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Leave, with what was handed out stored."""
        self._store()
        self._consumer.close()

    def _store(self) -> None:
        done, self._done = self._done, {}
        if done:
            self._consumer.store_offsets(offsets=_partitions(done))

    # callbacks

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        now_ns = time.time_ns()
        stored = consumer.committed(partitions, timeout=ANSWER_S) if partitions else []
        begins = {TopicPartition(tp.topic, tp.partition): max(tp.offset, 0) for tp in stored}
        if begins:
            self._observer.on_assigned(begins, now_ns)
        if self._cooperative:
            consumer.incremental_assign(_partitions(begins))
        else:
            consumer.assign(_partitions(begins))

    def _on_revoke(self, consumer: Any, partitions: list[Any]) -> None:
        given = {TopicPartition(tp.topic, tp.partition) for tp in partitions}
        self._forget(given)
        if given:
            self._observer.on_revoked(dict.fromkeys(given, -1), time.time_ns())
        self._unassign(consumer, partitions)

    def _on_lost(self, consumer: Any, partitions: list[Any]) -> None:
        lost = {TopicPartition(tp.topic, tp.partition) for tp in partitions}
        self._forget(lost)
        if lost:
            self._observer.on_lost(lost, "librdkafka says so", time.time_ns())
        self._unassign(consumer, partitions)

    def _unassign(self, consumer: Any, partitions: list[Any]) -> None:
        if self._cooperative:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for at in partitions:
            self._batch.pop(at, None)

    def _on_commit(self, error: Any, partitions: list[Any]) -> None:
        """Each partition of a commit has an answer of its own; those of which there was nothing to
        store are named, too.
        """
        answers = [tp for tp in partitions if tp.error is None and tp.offset >= 0]
        if error is not None:
            return
        offsets = {TopicPartition(tp.topic, tp.partition): tp.offset for tp in answers}
        if offsets:
            self._committed(offsets, None)


def _partitions(offsets: Mapping[TopicPartition, int]) -> list[Any]:
    return [confluent_kafka.TopicPartition(*at, offset) for at, offset in offsets.items()]


if __name__ == "__main__":
    raise SystemExit(actor.main(None, LibrdkafkaConsumer))
