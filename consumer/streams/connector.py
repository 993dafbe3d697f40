"""Message streams: the interface of the old high-level consumer (`ZookeeperConsumerConnector`), in
Python's spelling, on a member that the coordinator serves.

    connector = ZookeeperConsumerConnector({"zookeeper.connect": "zk1:2181/kafka", "group.id":
        "billing", "auto.offset.reset": "smallest"})
    for stream in connector.create_message_streams({"orders": 4})["orders"]:
        threading.Thread(target=work, args=(stream,)).start()
            # work: for message in stream: handle(message)

Each stream is an iterator for one thread. A partition belongs to one stream, that of the thread id
`<consumer id>-<n>` in its owner node. How threads, queues and the hand-over work together is
described in `consumer.streams.queues` and `consumer.streams.poller`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import TracebackType
from typing import Any

from kafka.errors import IllegalStateError
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.api.lifetime import OpenConsumer, enters
from consumer.assignment.subscription import pattern_of, subscription_of
from consumer.errors import (
    ConsumerTimeoutError,
    ForkedConsumerError,
    MessageStreamsExistError,
    raises_kafkas,
)
from consumer.interruptions import say_interruption, says_interruptions
from consumer.option_types import quoted
from consumer.streams.options import read
from consumer.streams.poller import StreamsConsumer
from consumer.streams.queues import ANY_TOPIC, Line
from zkcoord.core.model import PatternKind, Subscription, Thread
from zkcoord.zk.fork_guard import CurrentProcess
from zkcoord.znodes.patterns import as_old_consumers_read
from zkcoord.znodes.registration import STREAMS_MAX

Decoder = Callable[[bytes], Any]


class WhiteList:
    """The topics that match. Raises `TypeError` for what is no text."""

    kind = PatternKind.WHITE_LIST

    def __init__(self, regex: str) -> None:
        self.regex = _expression(regex)


class BlackList:
    """All topics but those that match. Raises `TypeError` for what is no text."""

    kind = PatternKind.BLACK_LIST

    def __init__(self, regex: str) -> None:
        self.regex = _expression(regex)


def _expression(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"a filter of topics is a regular expression as text, not {quoted(given)}")
    return as_old_consumers_read(given)


TopicFilter = WhiteList | BlackList
"""Topics by a regular expression (RE2) that covers whole names; as in the old consumer a comma
means or, and spaces and outer quotes do not count.
"""


class MessageAndMetadata:
    """A record. `key` and `message` are decoded when they are asked for, on the thread that asks;
    `timestamp` is in ms, `record` has everything as kafka-python gives it.
    """

    def __init__(
        self, record: Any, key_decoder: Decoder | None, value_decoder: Decoder | None
    ) -> None:
        self.record = record
        self._key_decoder = key_decoder
        self._value_decoder = value_decoder

    @property
    def topic(self) -> str:
        """Its topic."""
        return str(self.record.topic)

    @property
    def partition(self) -> int:
        """Its partition's number."""
        return int(self.record.partition)

    @property
    def offset(self) -> int:
        """Its offset."""
        return int(self.record.offset)

    @property
    def timestamp(self) -> int:
        """When it was made or appended, in ms since 1970."""
        return int(self.record.timestamp)

    @cached_property
    def key(self) -> Any:
        """The decoded key; None where there is none. Raises what the decoder raises."""
        return _decoded(self.record.key, self._key_decoder)

    @cached_property
    def message(self) -> Any:
        """The decoded value; None where there is none. Raises what the decoder raises."""
        return _decoded(self.record.value, self._value_decoder)

    def __repr__(self) -> str:
        return f"MessageAndMetadata({self.topic}-{self.partition} at {self.offset})"


def _decoded(data: bytes | None, decoder: Decoder | None) -> Any:
    return data if data is None or decoder is None else decoder(data)


class KafkaStream:
    """An iterator over the records of this stream's partitions, for one thread. It ends when the
    connector is shut down.

    `next` raises `ConsumerTimeoutError` when nothing comes for `consumer.timeout.ms` (it may be
    called again), what ended the connector (`MembershipError`), and what fetching raised, once.
    """

    def __init__(
        self,
        consumer: StreamsConsumer,
        line: Line,
        number: int,
        decoders: tuple[Decoder | None, Decoder | None],
        handle: OpenConsumer,
    ) -> None:
        self.number = number
        self._consumer = consumer
        self._lifetime = consumer.lifetime
        self._handle = handle
        self._line = line
        self._decoders = decoders
        self._pid = CurrentProcess.pid
        timeout_ms = consumer.config["consumer_timeout_ms"]
        self._timeout_s = (
            threading.TIMEOUT_MAX
            if timeout_ms < 0
            else min(timeout_ms / 1000, threading.TIMEOUT_MAX)
        )

    @property
    def thread_id(self) -> str:
        """The text of the owner nodes of this stream's partitions, `<consumer id>-<n>`, in the
        present session; "" before the first.
        """
        name = self._consumer.member_name
        return str(Thread(name, self.number)) if name else ""

    def __iter__(self) -> KafkaStream:
        return self

    @enters
    def __next__(self) -> MessageAndMetadata:
        lifetime, before = self._lifetime, self._line.hand
        check_process(self._pid)
        try:
            message = self._next()
        except BaseException as e:
            self._line.take_back(before)
            lifetime.settle()
            say_interruption(e)
            raise
        # nothing is called between this look and the return: there signal handlers run
        if lifetime.wanted is not None:
            return self._last(before, message)
        return message

    def _next(self) -> MessageAndMetadata:
        record = self._line.next(self._timeout_s)
        if record is not None:
            return MessageAndMetadata(record, *self._decoders)
        if self._consumer.closing:
            raise StopIteration
        raise ConsumerTimeoutError(
            f"nothing came within {self._consumer.config['consumer_timeout_ms']} ms"
            " (consumer.timeout.ms)"
        )

    def _last(self, before: Any, message: MessageAndMetadata) -> MessageAndMetadata:
        """Nothing is handed out any more by a call that is to shut down as it ends."""
        lifetime = self._lifetime
        if not lifetime.waits():  # for a call of another thread
            return message
        self._line.take_back(before)
        lifetime.settle()
        raise StopIteration


class ConsumerRebalanceListener:
    """What an application may want to know of rebalances; both are called on the connector's own
    thread.
    """

    def before_releasing_partitions(self, partition_ownership: Mapping[str, set[int]]) -> None:
        """These partitions (by topic) are given up, or were lost; nothing of them is handed out any
        more, what is in hand is processed. `commit_offsets` may be called.
        """

    def before_starting_fetchers(
        self, consumer_id: str, partition_assignment: Mapping[str, Mapping[int, Thread]]
    ) -> None:
        """Partitions came: all that this consumer owns now, with the thread id of the stream that
        gets their records.
        """


class _Translated:
    """An old listener as `KafkaConsumer` knows them."""

    def __init__(self, consumer: StreamsConsumer, listener: Any) -> None:
        self._consumer = consumer
        self._listener = listener

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        found: dict[str, set[int]] = {}
        for tp in revoked:
            found.setdefault(tp.topic, set()).add(tp.partition)
        self._listener.before_releasing_partitions(found)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        found: dict[str, dict[int, Thread]] = {}
        name = self._consumer.member_name
        for tp, number in sorted(self._consumer.owned().items()):
            found.setdefault(tp.topic, {})[tp.partition] = Thread(name, number)
        self._listener.before_starting_fetchers(name, found)


LISTENER_METHODS = ("before_releasing_partitions", "before_starting_fetchers")


class ZookeeperConsumerConnector:
    """The old high-level consumer. `properties` are its options by their old names
    (`consumer.streams.options`), `configs` more options of `KafkaConsumer`. Raises
    `ConsumerOptionError`.

    Methods may be called from any thread. Use it as a context manager, or call `shutdown`.
    """

    def __init__(self, properties: Mapping[str, Any] | None = None, **configs: Any) -> None:
        options = read(properties or {}, configs)
        self._consumer = StreamsConsumer(
            options.queued_records, options.in_hand_ms, **options.configs
        )
        self._lifetime = self._consumer.lifetime
        self._handle = OpenConsumer()
        self._lifetime.watch(self._handle, self._consumer, "ZookeeperConsumerConnector")
        self._listener: Any = None
        self._created = False
        self._pid = CurrentProcess.pid
        self._lock = threading.Lock()

    @property
    def consumer_id(self) -> str:
        """The name of this consumer's registration; each ZooKeeper session has another. "" before
        the first.
        """
        return self._consumer.member_name

    @raises_kafkas
    def create_message_streams(
        self,
        topic_count: Mapping[str, int],
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> dict[str, list[KafkaStream]]:
        """So many streams for each topic. Once per connector, whichever way: raises
        `MessageStreamsExistError`; `TypeError` for what is no such mapping, `ValueError` for a bad
        topic name or number, `IllegalStateError` after `shutdown`.
        """
        check_process(self._pid)
        if not isinstance(topic_count, Mapping):
            raise TypeError(
                f"streams are given as {{topic: how many}}, not as {quoted(topic_count)}"
            )
        subscription_of(list(topic_count), None)
        wanted = Subscription({topic: _count(n) for topic, n in topic_count.items()})
        return self._create(wanted, dict(wanted.topics), (key_decoder, value_decoder))

    @raises_kafkas
    def create_message_streams_by_filter(
        self,
        topic_filter: TopicFilter,
        streams: int = 1,
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> list[KafkaStream]:
        """So many streams over all topics that the filter covers, now and later. As
        `create_message_streams`; `InvalidSubscriptionError` for an expression that RE2 refuses.
        """
        check_process(self._pid)
        if not isinstance(topic_filter, TopicFilter):
            raise TypeError("give a WhiteList or a BlackList")
        pattern = pattern_of(
            topic_filter.kind,
            topic_filter.regex,
            bool(self._consumer.config["exclude_internal_topics"]),
        )
        wanted = Subscription(pattern=pattern, streams=_count(streams))
        return self._create(wanted, {ANY_TOPIC: streams}, (key_decoder, value_decoder))[ANY_TOPIC]

    @enters
    def _create(
        self,
        wanted: Subscription,
        streams: Mapping[str, int],
        decoders: tuple[Decoder | None, Decoder | None],
    ) -> dict[str, list[KafkaStream]]:
        lifetime = self._lifetime
        try:
            lines = self._begin(wanted, streams)
        finally:
            lifetime.settle()
        return {
            topic: [
                KafkaStream(self._consumer, line, number, decoders, self._handle)
                for number, line in enumerate(of_topic)
            ]
            for topic, of_topic in lines.items()
        }

    def _begin(self, wanted: Subscription, streams: Mapping[str, int]) -> dict[str, list[Line]]:
        with self._lock:
            self._check(self._consumer.closing)
            if self._created:
                raise MessageStreamsExistError(
                    "this connector has made its message streams: make another one for others"
                )
            listener = (
                None if self._listener is None else _Translated(self._consumer, self._listener)
            )
            lines = self._consumer.begin(wanted, streams, listener)
            self._created = True
            return lines

    def _check(self, over: bool) -> None:
        if over:
            raise IllegalStateError("this connector is shut down")

    def set_consumer_rebalance_listener(self, listener: ConsumerRebalanceListener | None) -> None:
        """Call this listener; to be set before streams are made. Raises `MessageStreamsExistError`,
        `TypeError` for what is no listener.
        """
        if listener is not None and not all(
            callable(getattr(listener, name, None)) for name in LISTENER_METHODS
        ):
            raise TypeError(
                "a listener has the methods before_releasing_partitions and"
                " before_starting_fetchers"
            )
        with self._lock:
            if self._created:
                raise MessageStreamsExistError(
                    "a rebalance listener is set before the message streams are made"
                )
            self._listener = listener

    @says_interruptions
    @enters
    def commit_offsets(
        self,
        retry_on_failure: bool = True,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
    ) -> None:
        """Store what is processed, of all streams, or these next offsets. What the calling thread
        has in hand counts as processed. With `retry_on_failure` it is tried for
        `commit_timeout_ms`, else once.

        Raises `NotOwnedError` (a `CommitFailedError`; only for given offsets, or where nothing is
        tried again), `CommitUnavailableError`, `MembershipError`, `IllegalStateError` after
        `shutdown`.
        """
        lifetime = self._lifetime
        try:
            self._check(self._consumer.closed)
            check_process(self._pid)
            self._consumer.queues.processed_by(threading.current_thread())
            self._consumer.store(offsets, retry_on_failure)
        finally:
            lifetime.settle()

    def shutdown(self) -> None:
        """End the streams, store what is processed (with `auto.commit.enable`), leave the group.
        What the calling thread has in hand counts as processed, what others have is waited for
        (`in_hand_ms`).

        Any thread, and signal handlers: where one interrupts a call of the connector or of a
        stream, it returns at once, and that call shuts down as it ends.
        """
        self._consumer.close(processed=True)

    def __enter__(self) -> ZookeeperConsumerConnector:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        if exc_type is None:
            self.shutdown()
        else:
            self._consumer.close()


def check_process(made_in: int) -> None:
    """Raises `ForkedConsumerError` in a child of the process that made these streams."""
    if CurrentProcess.pid != made_in:
        raise ForkedConsumerError(
            "these streams were made before a fork: make a new connector in the child process"
        )


def _count(streams: int) -> int:
    if isinstance(streams, bool) or not isinstance(streams, int) or not 0 < streams <= STREAMS_MAX:
        raise ValueError(
            f"the number of streams is {streams!r}: give a whole number from 1 to {STREAMS_MAX}"
        )
    return streams
