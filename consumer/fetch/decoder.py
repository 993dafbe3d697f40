"""Records of a response from an offset on, whatever comes before it in the same batch.

A broker answers with whole batches. kafka-python decodes a batch from its beginning and then leaves
out what lies before the offset that was asked for; so a record that cannot be decoded is raised
again after the application has sought over it, as long as it goes on within the batch. Here what
lies before is not decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kafka.errors
from kafka.consumer.fetcher import Fetcher

_FORMAT_OF_BATCHES = 2


class Tail:
    """A batch of which only the records from `offset` on count."""

    def __init__(self, batch: Any, offset: int) -> None:
        self._batch = batch
        self._offset = offset

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        return (record for record in self._batch if record.offset >= self._offset)


class ResponseBatches:
    """kafka-python's reader of a response's batches, from `offset` on."""

    def __init__(self, records: Any, offset: int) -> None:
        self._records = records
        self._offset = offset

    def next_batch(self) -> Any:
        """The next batch; None after the last one."""
        batch = self._records.next_batch()
        if batch is None or batch.magic < _FORMAT_OF_BATCHES or batch.base_offset >= self._offset:
            return batch
        return Tail(batch, self._offset)


PACKAGES = {"snappy": "python-snappy", "lz4": "lz4", "zstd": "zstandard"}


class RecordsFrom(Fetcher.PartitionRecords):
    """kafka-python's decoder of a response, without what lies before the offset that was asked for,
    and with errors that say what to do.
    """

    def _unpack_records(
        self, tp: Any, records: Any, key_deserializer: Any, value_deserializer: Any
    ) -> Iterator[Any]:
        if key_deserializer is not None or value_deserializer is not None:
            # not a method: this costs two calls per record, a twentieth of a poll
            self._deserialize = self._deserialize_named
        found: Iterator[Any] = super()._unpack_records(
            tp, ResponseBatches(records, self.fetch_offset), key_deserializer, value_deserializer
        )
        return found

    def take(self, n: Any = None) -> Any:
        """As kafka-python's."""
        try:
            return super().take(n)
        except kafka.errors.UnsupportedCodecError as e:
            tp, said = self.topic_partition, str(e.args[0]) if e.args else ""
            package = next((p for codec, p in PACKAGES.items() if codec in said), None)
            raise kafka.errors.UnsupportedCodecError(
                f"{tp.topic}-{tp.partition} at offset {self.next_fetch_offset}: {said}. "
                + (f"Install it (pip install {package})" if package else "Upgrade kafka-python")
                + f", or go on behind these records (seek({tp.topic}-{tp.partition}, ..))"
            ) from None

    def _deserialize_named(self, deserializer: Any, topic: str, headers: Any, data: Any) -> Any:
        try:
            return super()._deserialize(deserializer, topic, headers, data)
        except StopIteration as e:
            raise stopped(topic, self.topic_partition.partition, self.next_fetch_offset) from e


def stopped(topic: str, partition: int, offset: int) -> RuntimeError:
    """The error of a deserialiser that raised `StopIteration`, which would end an iteration."""
    return RuntimeError(
        f"a deserializer raised StopIteration for {topic}-{partition} at offset {offset}: it must"
        " return a value, or raise another error"
    )
