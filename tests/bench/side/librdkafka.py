"""librdkafka's own group consumer with the few methods that `tests.bench.worker` calls, so that the
same loop drives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException
from kafka.structs import TopicPartition

RECORDS_MAX = 500


@dataclass(frozen=True)
class Record:
    """What the loop asks of a record: when it was produced (ms)."""

    timestamp: int


class Member:
    """Subscribed. `configs` are librdkafka's own."""

    def __init__(self, topic: str, configs: Mapping[str, Any]) -> None:
        self._consumer = Consumer(dict(configs))
        self._consumer.subscribe([topic])

    def poll(self, timeout_ms: float) -> dict[TopicPartition, list[Record]]:
        """What is there, waited for `timeout_ms` at most; as kafka-python's. `consume` alone would
        wait until it has all that it may give.
        """
        first = self._consumer.poll(timeout_ms / 1000)
        if first is None:
            return {}
        found: dict[TopicPartition, list[Record]] = {}
        for message in (first, *self._consumer.consume(RECORDS_MAX - 1, 0)):
            error = message.error()
            if error is None:
                found.setdefault(TopicPartition(message.topic(), message.partition()), []).append(
                    Record(message.timestamp()[1])
                )
            elif error.fatal():  # the others are for the log: it tries again by itself
                raise KafkaException(error)
        return found

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()
