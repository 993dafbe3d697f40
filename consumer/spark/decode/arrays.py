"""Records as the arrays of a record batch, in the types of `consumer.spark.schema`."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from consumer.spark.decode.errors import TimestampError
from consumer.spark.schema import HEADERS, arrow_schema, arrow_type

ROWS_MAX = 16_384
"""Of one batch."""

MILLISECONDS = pa.timestamp("ms", tz="UTC")
NO_TIME = -(2**63)
"""In the place of microseconds since 1970: the record's milliseconds are too many for that."""
MS_MAX = (2**63 - 1) // 1_000
TIMESTAMP, KIND, LIST = arrow_type("timestamp"), arrow_type("timestampType"), arrow_type(HEADERS)


class Chunk(NamedTuple):
    """What came of one partition: `columns` (those that differ from record to record and are
    wanted, at least), where the next record begins, and whether that is the end of the range.
    """

    rows: int
    columns: Mapping[str, pa.Array]
    position: int
    ended: bool


class Fields(NamedTuple):
    """How an engine that has Python objects gets at the fields of a run of its records, field by
    field: a Python statement per record would cost as much as all else together. `time` gives
    (kind, milliseconds since 1970), where `kinds` are those of the producer (0), of the broker (1)
    and of none (-1); no headers are None or empty.
    """

    key: Callable[[Sequence[Any]], Iterable[bytes | None]]
    value: Callable[[Sequence[Any]], Iterable[bytes | None]]
    offset: Callable[[Sequence[Any]], Iterable[int]]
    time: Callable[[Sequence[Any]], Iterable[tuple[int, int]]]
    kinds: Mapping[int, int]
    headers: Callable[[Sequence[Any]], Iterable[Sequence[tuple[str, bytes | None]] | None]]


class RecordBatches:
    """Makes record batches of one partition's chunks. `columns`: names, in order. A time that is
    none becomes null with `null_timestamps`.
    """

    def __init__(
        self, topic: str, partition: int, columns: Sequence[str], null_timestamps: bool = False
    ) -> None:
        self._where = f"{topic}-{partition}"
        self._null_timestamps = null_timestamps
        self._timed = "timestamp" in columns
        self._schema = arrow_schema(columns)
        self._same: dict[str, pa.Array] = {}
        if "topic" in columns:
            self._same["topic"] = pa.repeat(pa.scalar(topic, pa.string()), ROWS_MAX)
        if "partition" in columns:
            self._same["partition"] = pa.repeat(pa.scalar(partition, pa.int32()), ROWS_MAX)

    def batch(self, chunk: Chunk) -> pa.RecordBatch:
        """At most `ROWS_MAX` rows. Raises `TimestampError`."""
        columns = {
            **chunk.columns,
            **{name: same.slice(0, chunk.rows) for name, same in self._same.items()},
        }
        if self._timed and pc.min(columns["timestamp"].view(pa.int64())).as_py() == NO_TIME:
            columns["timestamp"] = self._without_bad(columns["timestamp"], columns["offset"])
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self._schema.names], schema=self._schema
        )

    def _without_bad(self, times: pa.Array, offsets: pa.Array) -> pa.Array:
        bad = pc.equal(times.view(pa.int64()), NO_TIME)
        if self._null_timestamps:
            return pc.if_else(bad, pa.scalar(None, TIMESTAMP), times)
        at = offsets.filter(bad)[0].as_py()
        raise TimestampError(
            f"{self._where}: the record at offset {at} has a timestamp that is no number of"
            " milliseconds since 1970 (are they nanoseconds?): set invalidTimestamps to null, or"
            " leave the column timestamp out with .schema(...)"
        )


def arrays_of(
    records: Sequence[Any], offsets: array[int], columns: Sequence[str], fields: Fields
) -> dict[str, pa.Array]:
    """Of Python objects, one at least, whose offsets are known."""
    rows = len(records)
    found: dict[str, pa.Array] = {}
    if "key" in columns:
        found["key"] = pa.array(list(fields.key(records)), pa.binary())
    if "value" in columns:
        found["value"] = pa.array(list(fields.value(records)), pa.binary())
    found["offset"] = fixed(pa.int64(), rows, offsets)
    if "timestamp" in columns or "timestampType" in columns:
        times = list(fields.time(records))
        if "timestamp" in columns:
            found["timestamp"] = _microseconds(rows, array("q", map(itemgetter(1), times)))
        if "timestampType" in columns:
            found["timestampType"] = fixed(
                KIND, rows, array("i", map(fields.kinds.__getitem__, map(itemgetter(0), times)))
            )
    if HEADERS in columns:
        found[HEADERS] = pa.array(
            [
                [{"key": name, "value": value} for name, value in pairs] if pairs else None
                for pairs in fields.headers(records)
            ],
            LIST,
        )
    return found


def _microseconds(rows: int, times_ms: array[int]) -> pa.Array:
    """NO_TIME for what does not fit."""
    try:
        return fixed(MILLISECONDS, rows, times_ms).cast(TIMESTAMP)
    except pa.ArrowInvalid:
        fitting = (at * 1_000 if -MS_MAX <= at <= MS_MAX else NO_TIME for at in times_ms)
        return fixed(TIMESTAMP, rows, array("q", fitting))


Bytes = tuple[bytes, bytes, Any]
"""(offsets, data, valid or None) as the extension gives them."""


def binary(kind: pa.DataType, rows: int, column: Bytes) -> pa.Array:
    """Bytes or texts; nothing is copied."""
    offsets, data, valid = column
    return pa.Array.from_buffers(
        kind,
        rows,
        [None if valid is None else pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(data)],
    )


def fixed(kind: pa.DataType, rows: int, data: bytes | array[int]) -> pa.Array:
    """Numbers; nothing is copied."""
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)])


def headers(rows: int, count: int, entries: Bytes, names: Bytes, contents: Bytes) -> pa.Array:
    """Lists of (name, content). Names that are no UTF-8 get its replacement characters, as in
    Java.
    """
    offsets, _, valid = entries
    keys = binary(pa.string(), count, names)
    if not names[1].isascii():
        keys = pa.array(
            [
                bytes(name).decode("utf-8", "replace")
                for name in binary(pa.binary(), count, names).to_pylist()
            ],
            pa.string(),
        )
    pairs = pa.StructArray.from_arrays(
        [keys, binary(pa.binary(), count, contents)], fields=list(LIST.value_type)
    )
    return pa.Array.from_buffers(
        LIST,
        rows,
        [None if valid is None else pa.py_buffer(valid), pa.py_buffer(offsets)],
        children=[pairs],
    )
