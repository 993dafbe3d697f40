"""Messages of librdkafka as kafka-python's records.

The work per record is done by builtins over whole slices (`map`, `zip`): a Python statement per
record costs as much as librdkafka needs for all of it. Only deserialisers are called one by one.
"""

from __future__ import annotations

from itertools import repeat
from operator import itemgetter
from types import TracebackType
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Message
from kafka.consumer.fetcher import ConsumerRecord

from consumer.fetch.decoder import stopped

_new = tuple.__new__
_kind, _time = itemgetter(0), itemgetter(1)
_TYPES = {TIMESTAMP_CREATE_TIME: 0, TIMESTAMP_LOG_APPEND_TIME: 1}


def records_of(topic: str, partition: int, messages: list[Message]) -> list[ConsumerRecord]:
    """The records of these messages, which are of one partition and none of which is an error. Keys
    and values are bytes.
    """
    keys, values = list(map(Message.key, messages)), list(map(Message.value, messages))
    headers = list(map(Message.headers, messages))
    header_sizes: Any = repeat(-1)
    if headers.count(None) == len(headers):
        headers = [[] for _ in headers]
    else:
        headers = [[] if found is None else found for found in headers]
        header_sizes = map(_headers_size, headers)
    times = list(map(Message.timestamp, messages))
    kinds = set(map(_kind, times))
    types: Any = (
        repeat(_TYPES[kinds.pop()])
        if len(kinds) == 1 and kinds <= _TYPES.keys()
        else [_TYPES.get(kind) for kind, _ in times]
    )
    stamps = (
        map(_time, times)
        if types.__class__ is repeat
        else [time if kind in _TYPES else None for kind, time in times]
    )
    epochs: list[Any] = list(map(Message.leader_epoch, messages))
    if None in epochs:
        epochs = [-1 if epoch is None else epoch for epoch in epochs]
    rows = zip(
        repeat(topic),
        repeat(partition),
        epochs,
        map(Message.offset, messages),
        stamps,
        types,
        keys,
        values,
        headers,
        repeat(None),
        _sizes(keys),
        _sizes(values),
        header_sizes,
    )
    return list(map(_new, repeat(ConsumerRecord), rows))


class Decoded:
    """Records with their keys and values decoded, up to the first that cannot be. Its error is
    raised where there is nothing to hand out before it (`alone`: of other partitions neither); else
    it comes again when that record is the first. Used as `with Decoded(..) as decoded:
    decoded.all(records)`.
    """

    def __init__(self, of_key: Any, of_value: Any, alone: bool) -> None:
        self._of_key, self._of_value = of_key, of_value
        self._alone = alone
        self.records: list[ConsumerRecord] = []

    def all(self, records: list[ConsumerRecord]) -> None:
        """Decode. Raises what a deserialiser raises."""
        for record in records:
            self.records.append(
                record._replace(
                    key=_decode(self._of_key, record, record.key),
                    value=_decode(self._of_value, record, record.value),
                )
            )

    def __enter__(self) -> Decoded:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        return isinstance(error, Exception) and (bool(self.records) or not self._alone)


def _decode(deserializer: Any, record: ConsumerRecord, data: bytes | None) -> Any:
    if deserializer is None:
        return data
    try:
        return deserializer.deserialize(record.topic, record.headers, data)
    except TypeError:  # the older form, without headers
        return deserializer.deserialize(record.topic, data)
    except StopIteration as e:
        raise stopped(record.topic, record.partition, record.offset) from e


def _sizes(found: list[Any]) -> Any:
    if None not in found:
        return map(len, found)
    return [-1 if data is None else len(data) for data in found]


def _headers_size(headers: list[tuple[str, bytes | None]]) -> int:
    return (
        sum(len(name.encode()) + (0 if value is None else len(value)) for name, value in headers)
        if headers
        else -1
    )
