"""The engine without confluent-kafka: kafka-python's consumer. The slowest, and pure Python; lz4,
zstd and snappy need their packages.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from operator import attrgetter

import kafka
import kafka.errors as kafka_errors
from kafka.structs import TopicPartition

from consumer.errors import ConsumerOptionError
from consumer.spark.decode.arrays import Fields
from consumer.spark.decode.engine_base import Queued
from consumer.spark.decode.errors import (
    ADVICE,
    CorruptRecordError,
    NoBrokerError,
    NotAllowedError,
    PositionGoneError,
    ReadError,
    TopicUnknownError,
)
from consumer.spark.decode.settings import kafka_python_settings
from consumer.spark.plan import PlannedRange
from zkcoord.kafka_client.clients import kafka_client

RECORDS_MAX = 10_000
LISTENS_S = 2.0
FIELDS = Fields(
    key=lambda records: map(attrgetter("key"), records),
    value=lambda records: map(attrgetter("value"), records),
    offset=lambda records: map(attrgetter("offset"), records),
    # records of the oldest format have none
    time=lambda records: (
        (record.timestamp_type, record.timestamp) if record.timestamp is not None else (-1, -1)
        for record in records
    ),
    kinds={-1: -1, 0: 0, 1: 1},
    headers=lambda records: map(attrgetter("headers"), records),
)
BY_ERROR: tuple[tuple[type[BaseException], type[ReadError]], ...] = (
    (kafka_errors.OffsetOutOfRangeError, PositionGoneError),
    (kafka_errors.UnknownTopicOrPartitionError, TopicUnknownError),
    (kafka_errors.UnsupportedCodecError, CorruptRecordError),
    (kafka_errors.CorruptRecordError, CorruptRecordError),
    (kafka_errors.SaslAuthenticationFailedError, NotAllowedError),
    (kafka_errors.AuthorizationError, NotAllowedError),
    (kafka_errors.KafkaTimeoutError, NoBrokerError),
    (kafka_errors.KafkaConnectionError, NoBrokerError),
)


def named(error: kafka_errors.KafkaError, where: str) -> ReadError:
    """kafka-python's error as one of ours."""
    kind = next((ours for theirs, ours in BY_ERROR if isinstance(error, theirs)), ReadError)
    advice = ADVICE.get(kind)
    said = f"{type(error).__name__}: {error}"
    return kind(f"{where}: {advice} ({said})" if advice else f"{where}: {said}")


def _listens(server: str) -> bool:
    host, _, port = server.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), LISTENS_S).close()
    except (OSError, ValueError):
        return False
    return True


class KafkaPythonHandle:
    """One consumer in manual assignment, without a group."""

    ahead = 0

    def __init__(self, settings: Mapping[str, str]) -> None:
        told = kafka_python_settings(settings)
        self.brokers = ",".join(told["bootstrap_servers"])
        self._channels: dict[TopicPartition, Queued] = {}
        try:
            self._consumer = kafka_client(kafka.KafkaConsumer, told)
        except (kafka_errors.KafkaConfigurationError, AssertionError, ValueError) as e:
            raise ConsumerOptionError(f"kafka-python refuses a kafka. option: {e}") from None
        except kafka_errors.KafkaError as e:
            # kafka-python does not say why a broker hangs up
            if told.get("security_protocol", "PLAINTEXT") != "PLAINTEXT" and any(
                map(_listens, told["bootstrap_servers"])
            ):
                raise NotAllowedError(
                    f"{self.brokers}: {ADVICE[NotAllowedError]} (it takes connections and hangs up)"
                ) from None
            raise named(e, self.brokers) from None

    def open(self, wanted: PlannedRange, start: int, columns: Sequence[str]) -> Queued:
        """Fetch from `start` on."""
        tp = TopicPartition(wanted.topic, wanted.partition)
        assert tp not in self._channels, "the partition is already open"

        def stop() -> None:
            del self._channels[tp]
            self._consumer.assign(list(self._channels))

        channel = Queued(wanted, start, columns, FIELDS, self._pump, stop)
        self._channels[tp] = channel
        self._consumer.assign(list(self._channels))
        self._consumer.seek(tp, start)
        return channel

    def _pump(self, timeout_s: float) -> None:
        try:
            found = self._consumer.poll(timeout_ms=timeout_s * 1000, max_records=RECORDS_MAX)
        except kafka_errors.KafkaError as e:
            for tp, channel in list(self._channels.items()):
                channel.fail(named(e, f"{tp.topic}-{tp.partition}"))
            return
        for tp, records in found.items():
            if records:
                self._channels[tp].add(records)
        for tp, channel in list(self._channels.items()):
            self._note_position(tp, channel)

    def _note_position(self, tp: TopicPartition, channel: Queued) -> None:
        """Control records and what was compacted away move the position only."""
        # the public method waits for the broker
        position = self._consumer._subscription.assignment[tp].position
        if position is not None:
            channel.seen(position.offset)

    def bounds(self, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
        """The first offset that is there and the one after the last that can be read."""
        tp = TopicPartition(topic, partition)
        try:
            low = self._consumer.beginning_offsets([tp], timeout_ms=timeout_s * 1000)[tp]
            high = self._consumer.end_offsets([tp], timeout_ms=timeout_s * 1000)[tp]
        except kafka_errors.KafkaError as e:
            # what is known without asking: the public method waits
            if isinstance(e, kafka_errors.KafkaTimeoutError) and partition not in (
                self._consumer._cluster.partitions_for_topic(topic) or ()
            ):
                e = kafka_errors.UnknownTopicOrPartitionError()
            raise named(e, f"{topic}-{partition}") from None
        return int(low), int(high)

    def trouble(self) -> ReadError | None:
        """kafka-python raises what happens."""
        return None

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()
