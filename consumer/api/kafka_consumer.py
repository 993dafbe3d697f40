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
from functools import partial
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
from consumer.api.lifetime import OpenConsumer, enters, entry, open_consumers
from consumer.api.offsets import Offsets
from consumer.api.poll_loop import PollLoop
from consumer.api.setup import set_up
from consumer.api.subscriptions import Subscriptions
from consumer.assignment.listener import RebalanceListenerInvoker
from consumer.fetch.record_iterator import RecordIterator
from consumer.interruptions import say_interruption, says_interruptions
from consumer.offsets.committer import CommitCallback
from consumer.options import DEFAULT_CONFIG


class KafkaConsumer:
    """A consumer of Kafka topics in a group that zkcoord coordinates. Options: `DEFAULT_CONFIG`; an
    unknown or contradictory one raises `ConsumerOptionError`.

    Use one consumer from one thread; `close` and `wakeup` may be called anywhere, also by a signal
    handler. It belongs to the process that made it: in a forked child every method raises
    `ForkedConsumerError`.
    """

    DEFAULT_CONFIG = DEFAULT_CONFIG

    def __init__(self, *topics: str, **configs: Any) -> None:
        setup = set_up(configs, topics)
        # All options by name, as kafka-python's consumer has them.
        self.config: dict[str, Any] = setup.config
        self._data = setup.data
        records = self._records = RecordIterator(setup.data)
        listener = RebalanceListenerInvoker()
        self._session = GroupSession(setup, records, listener)
        self._lifetime = self._session.lifetime
        duties = Duties(setup, self._session, listener)
        self._polling = PollLoop(setup, self._session, duties, records)
        self._subscriptions = Subscriptions(setup, self._session, listener, records)
        self._offsets = Offsets(setup, self._session, records)
        open_consumers.add(self._session)
        self._handle = OpenConsumer()
        self._lifetime.watch(self._handle, self._session, "KafkaConsumer")
        if topics:
            self._subscribe_first(topics)

    def _subscribe_first(self, topics: tuple[str, ...]) -> None:
        try:
            self.subscribe(topics)
        except BaseException:
            self.close()
            raise

    # what to consume

    @entry
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
        self._subscriptions.subscribe(topics, pattern, listener)

    @entry
    def add_topics(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics too, with the listener there is. Raises what `subscribe`
        raises, `IllegalStateError` after a subscription by pattern.
        """
        self._subscriptions.add_topics(topics)

    @entry
    def subscription(self) -> set[str] | None:
        """Topics subscribed to (for a pattern: those of the assigned partitions); None without a
        subscription.
        """
        return self._subscriptions.subscription()

    @entry
    def unsubscribe(self) -> None:
        """Leave the group, or forget what was chosen without one; `subscribe` joins again."""
        self._subscriptions.unsubscribe()

    @entry
    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Consume these partitions, from where each stands, or from the offsets given in
        {partition: offset}; replaces what was assigned. With a `group_id` they begin where the
        group stands, and commits are the group's, while it has no members. Raises
        `IllegalStateError` after `subscribe`; `TypeError` and `ValueError` for what is no
        partition or offset.
        """
        self._subscriptions.assign(partitions)

    @entry
    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Consume these partitions too; as `assign`."""
        self._subscriptions.add_partitions(partitions)

    @entry
    def assignment(self) -> set[TopicPartition]:
        """Partitions that this consumer consumes now."""
        return self._subscriptions.assignment()

    # records

    @enters
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
        lifetime = self._lifetime
        try:
            lifetime.check()
            records = self._polling.poll(timeout_ms, max_records, update_offsets)
        except BaseException as e:
            self._polling.take_back()
            lifetime.settle()
            say_interruption(e)
            raise
        if lifetime.ending:
            records = self._polling.take_back()
            lifetime.settle()
        # Nothing is called between this look, or this note that they are given, and the return:
        # only in calls, and where it goes back, Python lets signal handlers run.
        self._data.fetcher.given = {}
        return records

    def __iter__(self) -> KafkaConsumer:
        return self

    @enters
    def __next__(self) -> Any:
        """The next record, waiting for it up to `consumer_timeout_ms`. Raises `StopIteration` after
        that and when closed, else what `poll` raises.
        """
        lifetime, before = self._lifetime, self._records.given
        try:
            record = None if lifetime.ending else self._polling.step()
            if record is None:
                if lifetime.has_ended():
                    raise StopIteration("KafkaConsumer closed")
                lifetime.check()
                record = self._polling.next()
        except BaseException as e:
            self._polling.take_back_from(before)
            lifetime.settle()
            say_interruption(e)
            raise
        if lifetime.ending:
            self._polling.take_back_from(before)
            lifetime.settle()
            raise StopIteration("KafkaConsumer closed")
        return record

    @entry
    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:
        """The offset of the next record that will be handed out; None when it cannot be found out
        in time. Raises `IllegalStateError` for a partition that is not assigned.
        """
        return self._offsets.position(partition, timeout_ms)

    @entry
    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at `offset` (0 or more). Raises `ValueError` for a partition that is not
        assigned.
        """
        self._offsets.seek(partition, offset)

    @entry
    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first available record (of all assigned partitions when none is named).
        Raises `ValueError` when one, or none at all, is assigned.
        """
        self._offsets.seek_to_beginning(*partitions)

    @entry
    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue after the last record. As `seek_to_beginning`."""
        self._offsets.seek_to_end(*partitions)

    @entry
    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these until `resume`. They stay assigned. Raises `KeyError` for one
        that is not assigned.
        """
        self._offsets.pause(*partitions)

    @entry
    def paused(self) -> set[TopicPartition]:
        """What is paused."""
        return self._offsets.paused()

    @entry
    def resume(self, *partitions: TopicPartition) -> None:
        """Undo `pause`."""
        self._offsets.resume(*partitions)

    # the group

    @entry
    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Store next offsets (default: the positions of all assigned partitions) and wait for it.

        Raises `IllegalStateError` (no group), `TypeError` and `ValueError` (no offsets),
        `OffsetMetadataTooLargeError`, `NotOwnedError` and `CommitRefusedError` (both a
        `CommitFailedError`), `CommitUnavailableError` (retriable; ZooKeeper did not answer within
        `timeout_ms`).
        """
        self._offsets.commit(offsets, timeout_ms)

    @entry
    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> Future:
        """As `commit` without waiting. `callback(offsets, None or exception)` is called by a later
        poll; the future has the same outcome.
        """
        return self._offsets.commit_async(offsets, callback)

    @entry
    def committed(
        self,
        partition: TopicPartition | Collection[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Any:
        """The stored next offset of a partition, None where there is none; with `metadata` an
        `OffsetAndMetadata`. Of a list or set of partitions: {partition: the same}, in one request.
        Raises `IllegalStateError` (no group), `TypeError`, `CommitUnavailableError` (ZooKeeper did
        not answer in time), `ZooKeeperDeniedError` (it does not let this consumer read them).
        """
        return self._offsets.committed(partition, metadata, timeout_ms)

    @entry
    def group_metadata(self) -> ConsumerGroupMetadata:
        """This member now: generation of the last command carried out, name, instance, state. A
        broker knows neither, so it refuses a producer's transaction that names them.
        """
        return self._session.group_metadata()

    @entry
    def assignment_user_data(self) -> str:
        """What a custom assignor sent to this member last; "" for nothing."""
        return self._session.state.user_data

    # the brokers

    @entry
    def bootstrap_connected(self) -> bool:
        """Is the bootstrap connection open?"""
        return bool(self._data.kafka.bootstrap_connected())

    @entry
    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Wait until the brokers are known; with `refresh` learn them anew. Raises
        `KafkaTimeoutError`.
        """
        self._data.kafka.bootstrap(timeout_ms, refresh)

    @entry
    def topics(self) -> set[str]:
        """All topics that this client may see; asks the brokers, within `request_timeout_ms`.
        Raises `KafkaError` (no broker answers).
        """
        return self._data.topics()

    @entry
    def partitions_for_topic(self, topic: str) -> set[int]:
        """Numbers of a topic's partitions; empty when there is no such topic. Asks the brokers
        about one that it does not know; as `topics`.
        """
        return self._data.partitions_for_topic(topic)

    @entry
    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """First offset of each partition. Raises `UnknownTopicOrPartitionError` as soon as brokers
        say so, `KafkaTimeoutError`.
        """
        listed, ask = list(partitions), self._data.kafka.beginning_offsets
        return self._data.log_offsets(partial(ask, listed), listed, timeout_ms)

    @entry
    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Offset of the next record of each partition. As `beginning_offsets`."""
        listed, ask = list(partitions), self._data.kafka.end_offsets
        return self._data.log_offsets(partial(ask, listed), listed, timeout_ms)

    @entry
    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """First offset at or after a time (ms since 1970) by partition; None where there is none.
        Raises `ValueError` for a negative time, and as `beginning_offsets`.
        """
        wanted, ask = dict(timestamps), self._data.kafka.offsets_for_times
        return self._data.log_offsets(partial(ask, wanted), wanted, timeout_ms)

    @entry
    def highwater(self, partition: TopicPartition) -> int | None:
        """Offset of the next record that will be written, as of the last fetch. Raises
        `IllegalStateError` for a partition that is not assigned.
        """
        return self._data.highwater(partition)

    @entry
    def metrics(self, raw: bool = False) -> Any:
        """kafka-python's metrics by group and name, and zkcoord's under "zkcoord"; `raw` gives
        kafka-python's objects.
        """
        found = self._data.kafka.metrics(raw)
        if not raw and found is not None:
            figures = self._session.figures()
            if figures is not None:
                found["zkcoord"] = figures
        return found

    # the end

    def wakeup(self) -> None:
        """End the poll or the iteration that waits, or else the next that would: with what there
        is, and without an error. Any thread, and signal handlers.
        """
        self._lifetime.wakeup()

    @says_interruptions
    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Leave the group and close all connections, within `timeout_ms` (default
        `commit_timeout_ms`). Closing twice is closing once; in a forked child nothing happens.

        Any thread, and signal handlers: called within a call of this consumer (by a handler that
        interrupts it, by a callback) it returns at once, and that call closes as it ends.
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
