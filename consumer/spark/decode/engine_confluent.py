"""The engine without a compiler: confluent-kafka's Python messages. All that is read of one handle
comes by one queue.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message

from consumer.errors import ConsumerOptionError
from consumer.spark.decode.arrays import Fields
from consumer.spark.decode.engine_base import Queued
from consumer.spark.decode.errors import TROUBLE, CorruptRecordError, ReadError, read_error
from consumer.spark.decode.settings import GROUP, librdkafka_settings
from consumer.spark.plan import PlannedRange

log = logging.getLogger(__name__)

MESSAGES_MAX = 2_048
"""At a time: more would not stay in the processor's cache until they are converted."""


def _headers(messages: Sequence[Message]) -> Iterable[Sequence[tuple[str, bytes | None]] | None]:
    for message in messages:
        try:
            yield message.headers()
        except UnicodeDecodeError:
            raise CorruptRecordError(
                f"{message.topic()}-{message.partition()}: the record at {message.offset()} has a"
                " header whose name is no UTF-8, which this engine cannot read: use the engine c"
            ) from None


FIELDS = Fields(
    key=lambda messages: map(Message.key, messages),
    value=lambda messages: map(Message.value, messages),
    offset=lambda messages: map(Message.offset, messages),
    time=lambda messages: map(Message.timestamp, messages),
    kinds={
        confluent_kafka.TIMESTAMP_NOT_AVAILABLE: -1,
        confluent_kafka.TIMESTAMP_CREATE_TIME: 0,
        confluent_kafka.TIMESTAMP_LOG_APPEND_TIME: 1,
    },
    headers=_headers,
)


class _ConfluentLog:
    """Where librdkafka's own log lines go."""

    def log(self, _level: int, text: str, *arguments: Any) -> None:
        log.debug(text, *arguments)


class ConfluentHandle:
    """One consumer in manual assignment, without commits."""

    ahead = 0

    def __init__(self, settings: Mapping[str, str]) -> None:
        told = librdkafka_settings(settings)
        self.brokers = told.get("bootstrap.servers") or told["metadata.broker.list"]
        # Errors of the client's callback that nobody has read yet.
        self._troubles: list[KafkaError] = []
        # Open channels by (topic, partition).
        self._channels: dict[tuple[str, int], Queued] = {}
        try:
            self._consumer = confluent_kafka.Consumer(
                {
                    **told,
                    "group.id": GROUP,
                    "error_cb": self._troubles.append,
                    "logger": _ConfluentLog(),
                }
            )
        except (KafkaException, ValueError, TypeError) as e:
            raise ConsumerOptionError(f"librdkafka refuses a kafka. option: {_said(e)}") from None

    def open(self, wanted: PlannedRange, start: int, columns: Sequence[str]) -> Queued:
        """Fetch from `start` on."""
        key = (wanted.topic, wanted.partition)
        assert key not in self._channels, "the partition is already open"

        def stop() -> None:
            del self._channels[key]
            self._consumer.incremental_unassign([confluent_kafka.TopicPartition(*key)])

        try:
            self._consumer.incremental_assign([confluent_kafka.TopicPartition(*key, start)])
        except KafkaException as e:
            raise read_error(e.args[0].code(), e.args[0].str(), f"{key[0]}-{key[1]}") from None
        self._channels[key] = channel = Queued(wanted, start, columns, FIELDS, self._pump, stop)
        return channel

    def _pump(self, timeout_s: float) -> None:
        messages = self._consumer.consume(MESSAGES_MAX, 0)
        if not messages:  # asked for many, librdkafka waits for them all
            messages = self._consumer.consume(1, timeout_s)
        if messages:
            self._spread(messages)

    def _spread(self, messages: Sequence[Message]) -> None:
        """To their channels. Almost always all are records of one partition."""
        if (
            not any(map(Message.error, messages))
            and len(set(map(Message.partition, messages))) == 1
            and len(set(map(Message.topic, messages))) == 1
        ):
            self._records(messages[0].topic(), messages[0].partition(), messages)
            return
        for (topic, partition, is_record), run in groupby(
            messages,
            lambda message: (message.topic(), message.partition(), message.error() is None),
        ):
            if is_record:
                self._records(topic, partition, list(run))
            else:
                self._events(topic, partition, run)

    def _records(self, topic: str, partition: int, messages: Sequence[Message]) -> None:
        channel = self._channels.get((topic, partition))
        if channel is not None:
            channel.add(messages)

    def _events(self, topic: str, partition: int, messages: Iterable[Message]) -> None:
        for message in messages:
            channel, error = self._channels.get((topic, partition)), message.error()
            if channel is not None and error.code() == KafkaError._PARTITION_EOF:
                channel.seen(message.offset())
            elif channel is not None:
                channel.fail(read_error(error.code(), error.str(), f"{topic}-{partition}"))

    def bounds(self, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
        """The first offset that is there and the one after the last that can be read."""
        try:
            found = self._consumer.get_watermark_offsets(
                confluent_kafka.TopicPartition(topic, partition), timeout_s
            )
        except KafkaException as e:
            error = e.args[0]
            raise read_error(error.code(), error.str(), f"{topic}-{partition}") from None
        if found is None:
            raise read_error(KafkaError._TIMED_OUT, "timed out", f"{topic}-{partition}")
        return int(found[0]), int(found[1])

    def trouble(self) -> ReadError | None:
        """What happened to the handle since the last call, where no waiting cures it."""
        events, self._troubles[:] = list(self._troubles), []
        found = [
            read_error(event.code(), event.str(), self.brokers)
            for event in events
            if event.code() in TROUBLE
        ]
        return found[0] if found else None

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()


def _said(error: BaseException) -> str:
    said = error.args[0]
    return str(said.str() if isinstance(said, KafkaError) else said).strip()
