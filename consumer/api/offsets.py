"""Stored offsets and positions of one consumer: committing, seeking, pausing as in kafka-python."""

from __future__ import annotations

from collections.abc import Mapping

from kafka.errors import IllegalStateError, KafkaError
from kafka.future import Future
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.api.group_session import GroupSession
from consumer.api.setup import ConsumerSetup
from consumer.fetch.record_iterator import TakenRecords
from consumer.offsets.committed import committed_in_kafka, stored_offset
from consumer.offsets.committer import CommitCallback, needs_group, numbers_of


class Offsets:
    """Of one consumer. Methods are those of `KafkaConsumer` with their errors; they are called on
    the application's thread while the consumer is open.
    """

    def __init__(self, setup: ConsumerSetup, session: GroupSession, records: TakenRecords) -> None:
        self._setup = setup
        self._config = setup.config
        self._data = setup.data
        self._session = session
        self._records = records

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """See `KafkaConsumer.commit`."""
        needs_group(self._config["group_id"])
        self._session.committer.wait(None if offsets is None else numbers_of(offsets), timeout_ms)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> Future:
        """See `KafkaConsumer.commit_async`."""
        needs_group(self._config["group_id"])
        return self._session.committer.start(offsets, callback)

    def committed(
        self, partition: TopicPartition, metadata: bool = False, timeout_ms: float | None = None
    ) -> int | OffsetAndMetadata | None:
        """See `KafkaConsumer.committed`."""
        needs_group(self._config["group_id"])
        if not isinstance(partition, TopicPartition):
            raise TypeError("partition must be a TopicPartition namedtuple")
        tp, timeout_s = (
            partition,
            (self._config["commit_timeout_ms"] if timeout_ms is None else timeout_ms) / 1000,
        )
        if self._config["offsets_storage"] == "kafka":
            assert self._setup.group_offsets is not None
            known = committed_in_kafka(self._setup.group_offsets, tp, timeout_s)
            return OffsetAndMetadata(known, "", -1) if metadata and known is not None else known
        known = (
            self._session.state.ledger.committed.get(tp) if tp in self._data.assigned() else None
        )
        if known is None:
            assert self._setup.zk is not None
            joined = self._session.joined
            known = stored_offset(
                None if joined is None else joined.thread,
                self._setup.zk,
                self._setup.layout,
                self._config["group_id"],
                tp,
                timeout_s,
            )
        return OffsetAndMetadata(known, "", -1) if metadata and known is not None else known

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:
        """See `KafkaConsumer.position`."""
        with self._data.lock:
            left = self._records.positions().get(partition)
        if left is not None:
            return left
        try:
            found = self._data.kafka.position(
                partition, self._config["request_timeout_ms"] if timeout_ms is None else timeout_ms
            )
        except KeyError as e:  # it left between kafka-python's check and its use
            raise IllegalStateError("Partition is not assigned") from e
        # the broker that was asked went away meanwhile: as where the time is over
        except KafkaError as e:
            if not e.retriable:
                raise
            known = self._data.position(partition)
            found = None if known is None else known.offset
        return None if found is None else int(found)

    def pause(self, *partitions: TopicPartition) -> None:
        """See `KafkaConsumer.pause`."""
        with self._data.lock:
            self._data.kafka.pause(*partitions)
            self._records.put_back(set(partitions))

    def paused(self) -> set[TopicPartition]:
        """See `KafkaConsumer.paused`."""
        return set(self._data.kafka.paused())

    def resume(self, *partitions: TopicPartition) -> None:
        """See `KafkaConsumer.resume`."""
        with self._data.lock:
            self._data.kafka.resume(*partitions)
        self._data.wakeup.set()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """See `KafkaConsumer.seek`."""
        with self._data.lock:
            self._data.kafka.seek(partition, offset)
            self._records.discard({partition})
        self._data.wakeup.set()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """See `KafkaConsumer.seek_to_beginning`."""
        with self._data.lock:
            self._data.kafka.seek_to_beginning(*partitions)
            self._records.discard(set(partitions) or self._data.assigned())
        self._data.wakeup.set()

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """See `KafkaConsumer.seek_to_end`."""
        with self._data.lock:
            self._data.kafka.seek_to_end(*partitions)
            self._records.discard(set(partitions) or self._data.assigned())
        self._data.wakeup.set()
