"""What a batch reads: explicit offsets, or the beginnings and ends of now. Without a group: nothing
is owned, nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from kafka import KafkaConsumer
from kafka.errors import KafkaError
from kafka.structs import TopicPartition as KafkaPartition

from consumer.spark.decode.errors import (
    DataLossError,
    NoBrokerError,
    OpenTransactionError,
    TopicUnknownError,
)
from consumer.spark.decode.settings import KAFKA_PYTHON, kafka_python_settings
from consumer.spark.option_values import EARLIEST, LATEST, Offsets
from consumer.spark.options import BatchOptions
from consumer.spark.plan import PlannedRange
from zkcoord.core.model import TopicPartition
from zkcoord.kafka_client.clients import kafka_client

ASK_MS = 20_000
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


class BatchPlanner:
    """Asks the brokers, once."""

    def __init__(self, options: BatchOptions) -> None:
        self._options = options

    def ranges(self) -> list[PlannedRange]:
        """What is to be read. Raises `TopicUnknownError`, `OpenTransactionError`, `DataLossError`
        (with `failOnDataLoss`: what was asked for is not there), `NoBrokerError`.
        """
        with self._consumer() as consumer:
            partitions = self._partitions(consumer.partitions_for_topic)
            began = self._offsets(consumer.beginning_offsets, partitions)
            ended = self._offsets(consumer.end_offsets, partitions)
        missing = [str(tp) for tp in partitions if tp not in began or tp not in ended]
        if missing:
            raise TopicUnknownError(f"there are no partitions {', '.join(missing)}: correct assign")
        self._see_that_all_is_decided(ended)
        return [self._range(tp, began[tp], ended[tp]) for tp in partitions]

    @contextmanager
    def _consumer(self, **settings: str) -> Iterator[KafkaConsumer]:
        brokers = self._options.read.kafka["bootstrap.servers"]
        try:
            told = kafka_python_settings(
                {
                    name: value
                    for name, value in self._options.read.kafka.items()
                    if name in KAFKA_PYTHON
                }
            )
            consumer = kafka_client(KafkaConsumer, {**told, **settings})
        except KafkaError as e:
            raise NoBrokerError(
                f"no Kafka broker answers at {brokers} ({type(e).__name__}): start it, or correct"
                " kafka.bootstrap.servers"
            ) from None
        try:
            yield consumer
        except KafkaError as e:
            raise NoBrokerError(
                f"the brokers {brokers} do not say where the logs begin and end"
                f" ({type(e).__name__}: {e}): see that they run and that this user may read the"
                " topics"
            ) from None
        finally:
            consumer.close(autocommit=False)

    def _offsets(
        self, ask: Callable[..., Mapping[KafkaPartition, int]], partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        return {
            TopicPartition(*tp): offset
            for tp, offset in ask(
                [KafkaPartition(*tp) for tp in partitions], timeout_ms=ASK_MS
            ).items()
        }

    def _see_that_all_is_decided(self, ended: Mapping[TopicPartition, int]) -> None:
        """With read_committed a log ends before its first open transaction: what is asked for
        behind that is there, and cannot be read yet. Raises `OpenTransactionError`.
        """
        wanted = {
            tp: _resolved(self._options.ending, tp, LATEST, 0, end) for tp, end in ended.items()
        }
        behind = [tp for tp in ended if wanted[tp] > ended[tp]]
        if not behind or self._options.read.kafka.get("isolation.level") != COMMITTED:
            return
        with self._consumer(isolation_level=UNCOMMITTED) as consumer:
            written = self._offsets(consumer.end_offsets, behind)
        for tp in behind:
            if wanted[tp] <= written.get(tp, 0):
                raise OpenTransactionError(
                    f"{tp} shall be read to offset {wanted[tp]}, and a transaction that began at"
                    f" {ended[tp]} is still open: read it again when that has ended, end at"
                    f" {ended[tp]}, or set kafka.isolation.level to {UNCOMMITTED}"
                )

    def _partitions(self, numbers: Callable[[str], set[int] | None]) -> list[TopicPartition]:
        found: list[TopicPartition] = []
        for topic in self._options.read.topics:
            known = numbers(topic)
            if not known:
                raise TopicUnknownError(f"there is no topic {topic}: correct subscribe or assign")
            chosen = {tp.partition for tp in self._options.partitions if tp.topic == topic} or known
            if not chosen <= known:
                raise TopicUnknownError(
                    f"topic {topic} has the partitions {sorted(known)}, not"
                    f" {sorted(chosen - known)}: correct assign"
                )
            found += [TopicPartition(topic, n) for n in sorted(chosen)]
        for name, offsets in (
            ("startingOffsets", self._options.read.starting),
            ("endingOffsets", self._options.ending),
        ):
            strange = [] if isinstance(offsets, int) else sorted(set(offsets) - set(found))
            if strange:
                raise TopicUnknownError(
                    f"{name} names {', '.join(map(str, strange))}, which this batch does not read:"
                    " correct it, subscribe or assign"
                )
        return found

    def _range(self, tp: TopicPartition, began: int, ended: int) -> PlannedRange:
        start = _resolved(self._options.read.starting, tp, EARLIEST, began, ended)
        end = _resolved(self._options.ending, tp, LATEST, began, ended)
        if start > end:
            raise DataLossError(
                f"{tp} shall be read from offset {start} to {end}, which is before it: correct"
                f" startingOffsets and endingOffsets (its log has the offsets from {began} to"
                f" {ended - 1})"
            )
        if start < began or end > ended:
            if self._options.read.fail_on_data_loss:
                raise DataLossError(
                    f"{tp} shall be read from offset {start} to {end}, and its log has the offsets"
                    f" from {began} to {ended - 1} only: set failOnDataLoss to false to read what"
                    " is there"
                )
            end = min(end, ended)
            start = min(max(start, began), end)
        return PlannedRange(*tp, start, end)


def _resolved(offsets: Offsets, tp: TopicPartition, default: int, began: int, ended: int) -> int:
    """A partition that explicit offsets do not name is read whole."""
    given: Mapping[TopicPartition, int] | int = offsets
    value = given if isinstance(given, int) else given.get(tp, default)
    return {EARLIEST: began, LATEST: ended}.get(value, value)
