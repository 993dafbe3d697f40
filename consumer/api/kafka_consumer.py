"""`KafkaConsumer`: kafka-python's consumer, with its group coordinated over ZooKeeper.

Three threads meet here. The application's thread runs every public method and all callbacks. The
member's thread (`consumer.member.thread`) keeps the membership; its messages take effect at once in
`consumer.assignment.state`. kafka-python's IO thread (`consumer.fetch.fetcher`) fetches.

The consumer holds parts, and its methods pass on to them: `GroupSession` (the membership and its
lease), `Subscriptions`, `PollLoop` (poll and iteration), `Offsets` (commits and positions).
Questions for the brokers go to `FetchClient` at once. `Lifetime.check` comes first in every method:
it refuses a closed consumer and one that was carried into a forked child.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import Any

from kafka.future import Future
from kafka.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

from consumer.api.duties import Duties
from consumer.api.group_session import GroupSession
from consumer.api.lifetime import open_consumers
from consumer.api.offsets import Offsets
from consumer.api.poll_loop import PollLoop
from consumer.api.setup import set_up
from consumer.api.subscriptions import Subscriptions
from consumer.assignment.listener import RebalanceListenerInvoker
from consumer.fetch.record_iterator import RecordIterator
from consumer.offsets.committer import CommitCallback
from consumer.options import DEFAULT_CONFIG


class KafkaConsumer:
    """A consumer of Kafka topics in a group that zkcoord coordinates. Options: `DEFAULT_CONFIG`; an
    unknown or contradictory one raises `ConsumerOptionError`.

    Use one consumer from one thread. It belongs to the process that made it: in a forked child
    every method raises `ForkedConsumerError`.
    """

    DEFAULT_CONFIG = DEFAULT_CONFIG

    def __init__(self, *topics: str, **configs: Any) -> None:
        setup = set_up(configs, topics)
        # All options by name, as kafka-python's consumer has them.
        self.config: dict[str, Any] = setup.config
        self._data = setup.data
        records = RecordIterator(setup.data)
        listener = RebalanceListenerInvoker()
        self._session = GroupSession(setup, records, listener)
        self._lifetime = self._session.lifetime
        duties = Duties(setup, self._session, listener)
        self._polling = PollLoop(setup, self._session, duties, records)
        self._subscriptions = Subscriptions(setup, self._session, listener, records)
        self._offsets = Offsets(setup, self._session, records)
        open_consumers.add(self._session)
        if topics:
            self._subscribe_first(topics)

    def _subscribe_first(self, topics: tuple[str, ...]) -> None:
        try:
            self.subscribe(topics)
        except BaseException:
            self.close()
            raise

    # what to consume

    def subscribe(
        self, topics: Iterable[str] = (), pattern: str | None = None, listener: Any = None
    ) -> None:
        """Join the group for these topics, or for all that `pattern` (RE2, full match) covers;
        replaces an earlier subscription, and partitions that stay subscribed do not stop. Without a
        group all partitions of the topics are consumed.

        Raises `ValueError` (neither, or a bad topic name), `IllegalStateError` (both, or after
        `assign`), `TypeError` (a listener that is none), `ConfigurationError`, and what a function
        given as `assignment_user_data`, which is called here, raises.
        """
        self._lifetime.check()
        self._subscriptions.subscribe(topics, pattern, listener)

    def add_topics(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics too, with the listener there is. Raises what `subscribe`
        raises, `IllegalStateError` after a subscription by pattern.
        """
        self._lifetime.check()
        self._subscriptions.add_topics(topics)

    def subscription(self) -> set[str] | None:
        """Topics subscribed to (for a pattern: those of the assigned partitions); None without a
        subscription.
        """
        self._lifetime.check()
        return self._subscriptions.subscription()

    def unsubscribe(self) -> None:
        """Leave the group, or forget what was chosen without one; `subscribe` joins again."""
        self._lifetime.check()
        self._subscriptions.unsubscribe()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Consume these partitions, from where each stands, or from the offsets given in
        {partition: offset}; replaces what was assigned. With a `group_id` they begin where the
        group stands, and commits are the group's, while it has no members. Raises
        `IllegalStateError` after `subscribe`; `TypeError` and `ValueError` for what is no
        partition or offset.
        """
        self._lifetime.check()
        self._subscriptions.assign(partitions)

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Consume these partitions too; as `assign`."""
        self._lifetime.check()
        self._subscriptions.add_partitions(partitions)

    def assignment(self) -> set[TopicPartition]:
        """Partitions that this consumer consumes now."""
        self._lifetime.check()
        return self._subscriptions.assignment()

    # records

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[TopicPartition, list[Any]]:
        """Up to `max_records` (default `max_poll_records`) records by partition, within
        `timeout_ms`; {} when there are none. With `update_offsets` False positions stay where they
        are.

        Raises `ValueError`, `TypeError`, `IllegalStateError` (closed), `MembershipError` (this
        member cannot go on), `NoStoredOffsetError` (until the application seeks),
        `ConsumerRebalanceFailedException` (where `raise_on_rebalance_failure` asks for it),
        `ListenerError`, and what kafka-python raises for records.
        """
        self._lifetime.check()
        return self._polling.poll(timeout_ms, max_records, update_offsets)

    def __iter__(self) -> KafkaConsumer:
        return self

    def __next__(self) -> Any:
        """The next record, waiting for it up to `consumer_timeout_ms`. Raises `StopIteration` after
        that and when closed, else what `poll` raises.
        """
        record = self._polling.step()
        if record is not None:
            return record
        if self._lifetime.closed:
            raise StopIteration("KafkaConsumer closed")
        self._lifetime.check()
        return self._polling.next()

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:
        """The offset of the next record that will be handed out; None when it cannot be found out
        in time. Raises `IllegalStateError` for a partition that is not assigned.
        """
        self._lifetime.check()
        return self._offsets.position(partition, timeout_ms)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at `offset` (0 or more). Raises `ValueError` for a partition that is not
        assigned.
        """
        self._lifetime.check()
        self._offsets.seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first available record (of all assigned partitions when none is named).
        Raises `ValueError` when one, or none at all, is assigned.
        """
        self._lifetime.check()
        self._offsets.seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue after the last record. As `seek_to_beginning`."""
        self._lifetime.check()
        self._offsets.seek_to_end(*partitions)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these until `resume`. They stay assigned. Raises `KeyError` for one
        that is not assigned.
        """
        self._lifetime.check()
        self._offsets.pause(*partitions)

    def paused(self) -> set[TopicPartition]:
        """What is paused."""
        self._lifetime.check()
        return self._offsets.paused()

    def resume(self, *partitions: TopicPartition) -> None:
        """Undo `pause`."""
        self._lifetime.check()
        self._offsets.resume(*partitions)

    # the group

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Store next offsets (default: the positions of all assigned partitions) and wait for it.

        Raises `IllegalStateError` (no group), `TypeError` and `ValueError` (no offsets),
        `OffsetMetadataTooLargeError`, `NotOwnedError` (a `CommitFailedError`),
        `CommitUnavailableError` (retriable; ZooKeeper did not answer within `timeout_ms`).
        """
        self._lifetime.check()
        self._offsets.commit(offsets, timeout_ms)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> Future:
        """As `commit` without waiting. `callback(offsets, None or exception)` is called by a later
        poll; the future has the same outcome.
        """
        self._lifetime.check()
        return self._offsets.commit_async(offsets, callback)

    def committed(
        self,
        partition: TopicPartition | Collection[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Any:
        """The stored next offset of a partition, None where there is none; with `metadata` an
        `OffsetAndMetadata`. Of a list or set of partitions: {partition: the same}, in one request.
        Raises `IllegalStateError` (no group), `TypeError`, `CommitUnavailableError` (ZooKeeper did
        not answer in time).
        """
        self._lifetime.check()
        return self._offsets.committed(partition, metadata, timeout_ms)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """This member now: generation of the last command carried out, name, instance, state. A
        broker knows neither, so it refuses a producer's transaction that names them.
        """
        self._lifetime.check()
        return self._session.group_metadata()

    def assignment_user_data(self) -> str:
        """What a custom assignor sent to this member last; "" for nothing."""
        self._lifetime.check()
        return self._session.state.user_data

    # the brokers

    def bootstrap_connected(self) -> bool:
        """Is the bootstrap connection open?"""
        self._lifetime.check()
        return bool(self._data.kafka.bootstrap_connected())

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Wait until the brokers are known; with `refresh` learn them anew. Raises
        `KafkaTimeoutError`.
        """
        self._lifetime.check()
        self._data.kafka.bootstrap(timeout_ms, refresh)

    def topics(self) -> set[str]:
        """All topics that this client may see; asks the brokers, within `request_timeout_ms`.
        Raises `KafkaError` (no broker answers).
        """
        self._lifetime.check()
        return self._data.topics()

    def partitions_for_topic(self, topic: str) -> set[int]:
        """Numbers of a topic's partitions; empty when there is no such topic. Asks the brokers
        about one that it does not know; as `topics`.
        """
        self._lifetime.check()
        return self._data.partitions_for_topic(topic)

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """First offset of each partition. Raises `KafkaTimeoutError`."""
        self._lifetime.check()
        return dict(self._data.kafka.beginning_offsets(list(partitions), timeout_ms))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Offset of the next record of each partition. Raises `KafkaTimeoutError`."""
        self._lifetime.check()
        return dict(self._data.kafka.end_offsets(list(partitions), timeout_ms))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """First offset at or after a time (ms since 1970) by partition; None where there is none.
        Raises `ValueError` for a negative time, `KafkaTimeoutError`.
        """
        self._lifetime.check()
        return dict(self._data.kafka.offsets_for_times(dict(timestamps), timeout_ms))

    def highwater(self, partition: TopicPartition) -> int | None:
        """Offset of the next record that will be written, as of the last fetch. Raises
        `IllegalStateError` for a partition that is not assigned.
        """
        self._lifetime.check()
        return self._data.highwater(partition)

    def metrics(self, raw: bool = False) -> Any:
        """kafka-python's metrics by group and name, and zkcoord's under "zkcoord"; `raw` gives
        kafka-python's objects.
        """
        self._lifetime.check()
        found = self._data.kafka.metrics(raw)
        if not raw and found is not None:
            figures = self._session.figures()
            if figures is not None:
                found["zkcoord"] = figures
        return found

    # the end

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Leave the group and close all connections, within `timeout_ms` (default
        `commit_timeout_ms`). Closing twice is closing once; in a forked child nothing happens.
        """
        self._session.close(autocommit, timeout_ms)

    def __enter__(self) -> KafkaConsumer:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close(autocommit=exc_type is None)
