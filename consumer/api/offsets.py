"""The part of the public surface that asks and sets: questions to the brokers, pausing and seeking
as in kafka-python, and stored offsets.

Everything here runs on the application's thread. `_check` comes first in every method: it refuses a
closed consumer and one that was carried into a forked child.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka.errors import IllegalStateError, KafkaError
from kafka.future import Future
from kafka.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

from consumer.assignment.state import AssignmentState
from consumer.fetch.client import FetchClient
from consumer.fetch.group_offsets import GroupOffsets
from consumer.fetch.record_iterator import RecordIterator
from consumer.member.thread import MemberThread
from consumer.offsets.committed import committed_in_kafka, stored_offset
from consumer.offsets.committer import CommitCallback, Committer, needs_group, numbers_of
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.paths import Layout


class BrokerMethods:
    """Mix-in of `KafkaConsumer`."""

    _data: FetchClient
    _cursor: RecordIterator
    config: dict[str, Any]

    def _check(self) -> None:
        raise AssertionError("overridden by KafkaConsumer")

    def bootstrap_connected(self) -> bool:
        """Is the bootstrap connection open?"""
        self._check()
        return bool(self._data.kafka.bootstrap_connected())

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Wait until the brokers are known; with `refresh` learn them anew. Raises
        `KafkaTimeoutError`.
        """
        self._check()
        self._data.kafka.bootstrap(timeout_ms, refresh)

    def topics(self) -> set[str]:
        """All topics that this client may see; asks the brokers, within `request_timeout_ms`.
        Raises `KafkaError` (no broker answers).
        """
        self._check()
        return self._data.topics()

    def partitions_for_topic(self, topic: str) -> set[int]:
        """Numbers of a topic's partitions; empty when there is no such topic. Asks the brokers
        about one that it does not know; as `topics`.
        """
        self._check()
        return self._data.partitions_for_topic(topic)

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """First offset of each partition. Raises `KafkaTimeoutError`."""
        self._check()
        return dict(self._data.kafka.beginning_offsets(list(partitions), timeout_ms))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Offset of the next record of each partition. Raises `KafkaTimeoutError`."""
        self._check()
        return dict(self._data.kafka.end_offsets(list(partitions), timeout_ms))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """First offset at or after a time (ms since 1970) by partition; None where there is none.
        Raises `ValueError` for a negative time, `KafkaTimeoutError`.
        """
        self._check()
        return dict(self._data.kafka.offsets_for_times(dict(timestamps), timeout_ms))

    def highwater(self, partition: TopicPartition) -> int | None:
        """Offset of the next record that will be written, as of the last fetch. Raises
        `IllegalStateError` for a partition that is not assigned.
        """
        self._check()
        return self._data.highwater(partition)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these until `resume`. They stay assigned. Raises `KeyError` for one
        that is not assigned.
        """
        self._check()
        with self._data.lock:
            self._data.kafka.pause(*partitions)
            self._cursor.put_back(set(partitions))

    def paused(self) -> set[TopicPartition]:
        """What is paused."""
        self._check()
        return set(self._data.kafka.paused())

    def resume(self, *partitions: TopicPartition) -> None:
        """Undo `pause`."""
        self._check()
        with self._data.lock:
            self._data.kafka.resume(*partitions)
        self._data.bell.set()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at `offset` (0 or more). Raises `ValueError` for a partition that is not
        assigned.
        """
        self._check()
        with self._data.lock:
            self._data.kafka.seek(partition, offset)
            self._cursor.discard({partition})
        self._data.bell.set()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first available record (of all assigned partitions when none is named).
        Raises `ValueError` when one, or none at all, is assigned.
        """
        self._check()
        with self._data.lock:
            self._data.kafka.seek_to_beginning(*partitions)
            self._cursor.discard(set(partitions) or self._data.assigned())
        self._data.bell.set()

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue after the last record. As `seek_to_beginning`."""
        self._check()
        with self._data.lock:
            self._data.kafka.seek_to_end(*partitions)
            self._cursor.discard(set(partitions) or self._data.assigned())
        self._data.bell.set()


class OffsetMethods:
    """Mix-in of `KafkaConsumer`: stored offsets and positions, and what came with an assignment."""

    _data: FetchClient
    _cursor: RecordIterator
    _member: AssignmentState
    _committer: Committer
    _agent: MemberThread | None
    _zk: ZkOptions | None
    _group_offsets: GroupOffsets | None
    _layout: Layout
    config: dict[str, Any]

    def _check(self) -> None:
        raise AssertionError("overridden by KafkaConsumer")

    def assignment_user_data(self) -> str:
        """What a custom assignor said to this member last; "" for nothing."""
        self._check()
        return self._member.user_data

    def group_metadata(self) -> ConsumerGroupMetadata:
        """This member now: generation of the last command carried out, name, instance, state. A
        broker knows neither, so it refuses a producer's transaction that names them.
        """
        self._check()
        group, instance = self.config["group_id"], self.config["group_instance_id"]
        return (
            ConsumerGroupMetadata(group, group_instance_id=instance)
            if self._agent is None
            else self._agent.standing().described(group, instance)
        )

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Store next offsets (default: the positions of all assigned partitions) and wait for it.

        Raises `IllegalStateError` (no group), `NotOwnedError` (a `CommitFailedError`),
        `CommitUnavailableError` (retriable; ZooKeeper did not answer within `timeout_ms`).
        """
        self._check()
        needs_group(self.config["group_id"])
        self._committer.wait(None if offsets is None else numbers_of(offsets), timeout_ms)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> Future:
        """As `commit` without waiting. `callback(offsets, answer or exception)` is called by a
        later poll; the future has the same outcome.
        """
        self._check()
        needs_group(self.config["group_id"])
        return self._committer.start(offsets, callback)

    def committed(
        self, partition: TopicPartition, metadata: bool = False, timeout_ms: float | None = None
    ) -> int | OffsetAndMetadata | None:
        """The stored next offset of a partition, None where there is none. Raises
        `IllegalStateError` (no group), `CommitUnavailableError` (ZooKeeper did not answer in time).
        """
        self._check()
        needs_group(self.config["group_id"])
        if not isinstance(partition, TopicPartition):
            raise TypeError("partition must be a TopicPartition namedtuple")
        tp, timeout_s = (
            partition,
            (self.config["commit_timeout_ms"] if timeout_ms is None else timeout_ms) / 1000,
        )
        if self.config["offsets_storage"] == "kafka":
            assert self._group_offsets is not None
            known = committed_in_kafka(self._group_offsets, tp, timeout_s)
            return OffsetAndMetadata(known, "", -1) if metadata and known is not None else known
        known = self._member.desk.committed.get(tp) if tp in self._data.assigned() else None
        if known is None:
            assert self._zk is not None
            known = stored_offset(
                self._agent, self._zk, self._layout, self.config["group_id"], tp, timeout_s
            )
        return OffsetAndMetadata(known, "", -1) if metadata and known is not None else known

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:
        """The offset of the next record that will be handed out; None when it cannot be found out
        in time. Raises `IllegalStateError` for a partition that is not assigned.
        """
        self._check()
        with self._data.lock:
            left = self._cursor.positions().get(partition)
        if left is not None:
            return left
        try:
            found = self._data.kafka.position(
                partition, self.config["request_timeout_ms"] if timeout_ms is None else timeout_ms
            )
        except KeyError as e:  # it left between kafka-python's check and its look
            raise IllegalStateError("Partition is not assigned") from e
        # the broker that was asked went away meanwhile: as where the time is over
        except KafkaError as e:
            if not e.retriable:
                raise
            known = self._data.position(partition)
            found = None if known is None else known.offset
        return None if found is None else int(found)
