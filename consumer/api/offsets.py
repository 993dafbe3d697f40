"""Stored offsets and positions of one consumer: committing, seeking, pausing as in kafka-python."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from typing import Any

from kafka.errors import IllegalStateError, KafkaError
from kafka.future import Future
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.api.group_session import GroupSession
from consumer.api.setup import ConsumerSetup
from consumer.fetch.record_iterator import TakenRecords
from consumer.offsets.by_hand import HandAssignment
from consumer.offsets.committed import committed_in_kafka, stored_offsets
from consumer.offsets.committer import (
    CommitCallback,
    checked_offset,
    checked_partition,
    needs_group,
)

LOOK_S = 0.02


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
        self._session.committer.wait(offsets, timeout_ms)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> Future:
        """See `KafkaConsumer.commit_async`."""
        needs_group(self._config["group_id"])
        return self._session.committer.start(offsets, callback)

    def committed(
        self,
        partition: TopicPartition | Collection[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Any:
        """See `KafkaConsumer.committed`."""
        needs_group(self._config["group_id"])
        one = isinstance(partition, TopicPartition)
        wanted = [partition] if one else _listed(partition)
        for tp in wanted:
            checked_partition(tp)
        limit_ms = self._config["commit_timeout_ms"] if timeout_ms is None else timeout_ms
        found = self._committed(wanted, limit_ms / 1000)
        answers = {
            tp: known if metadata or known is None else known.offset
            for tp, known in ((tp, found.get(tp)) for tp in wanted)
        }
        return answers[partition] if one else answers

    def _committed(
        self, partitions: list[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What is stored of those of these that have anything stored."""
        if self._config["offsets_storage"] == "kafka":
            assert self._setup.group_offsets is not None
            return committed_in_kafka(self._setup.group_offsets, partitions, timeout_s)
        # what a member owns nobody else commits
        owned = self._data.assigned() if self._session.joined is not None else set()
        committed = self._session.state.ledger.committed
        known = {tp: committed[tp] for tp in partitions if tp in owned and tp in committed}
        unknown = [tp for tp in partitions if tp not in known]
        if unknown:
            assert self._setup.zk is not None
            joined = self._session.joined
            known.update(
                stored_offsets(
                    None if joined is None else joined.thread,
                    self._setup.zk,
                    self._setup.layout,
                    self._config["group_id"],
                    unknown,
                    timeout_s,
                )
            )
        return known

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:
        """See `KafkaConsumer.position`."""
        with self._data.lock:
            left = self._records.positions().get(partition)
        if left is not None:
            return left
        limit_ms = self._config["request_timeout_ms"] if timeout_ms is None else timeout_ms
        by_hand = self._session.by_hand
        if by_hand is not None:
            if not by_hand.placed.wait(limit_ms / 1000):
                return None
            if by_hand.waits:
                return self._beside_others(by_hand, partition, limit_ms)
        known = self._unset_aside(partition)
        if known is not None:
            return known
        try:
            found = self._data.kafka.position(partition, limit_ms)
        except KeyError as e:  # it left between kafka-python's check and its use
            raise IllegalStateError("Partition is not assigned") from e
        # the broker that was asked went away meanwhile: as where the time is over
        except KafkaError as e:
            if not e.retriable:
                raise
            standing = self._data.position(partition)
            found = None if standing is None else standing.offset
        return None if found is None else int(found)

    def _beside_others(
        self, by_hand: HandAssignment, partition: TopicPartition, limit_ms: float
    ) -> int | None:
        """Where a partition stands beside others that wait, and which kafka-python would reset when
        it is asked for any. Raises why, for one of those.
        """
        if partition not in self._data.assigned():
            raise IllegalStateError("Partition is not assigned")
        deadline = time.monotonic() + limit_ms / 1000
        known = self._unset_aside(partition)
        if known is not None:
            return known
        while (standing := self._data.position(partition)) is None:
            why = by_hand.why_waits(partition)
            if why is not None:
                raise why
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            threading.Event().wait(min(LOOK_S, left))
        return int(standing.offset)

    def _unset_aside(self, partition: TopicPartition) -> int | None:
        """Where a partition stands beside others of which nothing says where they begin, and which
        kafka-python would reset when it is asked for any. Raises `NoStoredOffsetError` for one of
        those; None where there are none.
        """
        state = self._session.state
        if state.ledger.unset and partition in self._data.assigned():
            standing = self._data.position(partition)
            if standing is not None:
                return int(standing.offset)
            state.raise_unset()
        return None

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
        if isinstance(offset, int) and offset > 0:
            checked_offset(partition, offset)
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


def _listed(partitions: Any) -> list[TopicPartition]:
    """Several partitions. Raises `TypeError` for anything else."""
    if not isinstance(partitions, (list, set, frozenset)) or not all(
        isinstance(tp, TopicPartition) for tp in partitions
    ):
        raise TypeError("partition must be a TopicPartition namedtuple, or a list or set of them")
    return list(partitions)
