"""What the two slower engines share, without a broker: runs of a client's objects become batches of
the size that is asked for, in order, up to the end of the range and no further.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from unittest import mock

import pytest
from confluent_kafka import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.consumer.fetcher import ConsumerRecord

from consumer.spark.decode import engine_base, engine_confluent, engine_kafka_python, engines
from consumer.spark.decode.arrays import Chunk
from consumer.spark.decode.engine_base import Queued
from consumer.spark.decode.errors import CorruptRecordError, ReadError
from consumer.spark.plan import PlannedRange
from consumer.spark.schema import arrow_type

COLUMNS = ("key", "value", "offset", "timestamp", "timestampType", "headers")
MS = 1_790_000_000_123


def message(offset: int, kind: int = 1) -> Message:
    """confluent-kafka's; every third is without a key, every fifth without a value."""
    return Message(
        "orders",
        0,
        offset,
        b"k%d" % offset if offset % 3 else None,
        b"v" * (offset % 7) if offset % 5 else None,
        [("name", b"%d" % offset)] if offset % 2 else None,
        None,
        (kind, MS + offset),
    )


def record(offset: int, kind: int | None = 0, time: int | None = MS) -> ConsumerRecord:
    """kafka-python's, the same."""
    of_confluent = message(offset)
    return ConsumerRecord(
        "orders",
        0,
        -1,
        offset,
        None if time is None else time + offset,
        kind,
        of_confluent.key(),
        of_confluent.value(),
        of_confluent.headers() or [],
        None,
        -1,
        -1,
        -1,
    )


class Client:
    """Brings runs of records, one at a pump; `stopped`: the channel asked for no more."""

    def __init__(
        self,
        end: int,
        runs: Sequence[Callable[[Queued], None]],
        fields: engines.Fields = engine_confluent.FIELDS,
    ) -> None:
        self.runs = list(runs)
        self.stopped = False
        self.channel = Queued(
            PlannedRange("orders", 0, 0, end), 0, COLUMNS, fields, self.pump, self.stop
        )

    def pump(self, _timeout_s: float) -> None:
        if self.runs and not self.stopped:
            self.runs.pop(0)(self.channel)

    def stop(self) -> None:
        self.stopped = True

    def chunks(self) -> list[Chunk]:
        """Until the end."""
        found: list[Chunk] = []
        while not (found and found[-1].ended):
            chunk = self.channel.take(60.0)
            assert chunk is not None
            found.append(chunk)
        return found


def run_of(offsets: Sequence[int]) -> Callable[[Queued], None]:
    return lambda channel: channel.add([message(offset) for offset in offsets])


def offsets_of(chunks: Sequence[Chunk]) -> list[int]:
    return [
        offset for chunk in chunks if chunk.rows for offset in chunk.columns["offset"].to_pylist()
    ]


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    gap=st.integers(1, 3),
    rows_max=st.integers(1, 50),
    beyond=st.integers(0, 30),
)
def test_runs_of_any_size(sizes: list[int], gap: int, rows_max: int, beyond: int) -> None:
    """Also with holes between offsets, and with records behind the end."""
    every = list(range(0, sum(sizes) * gap, gap))
    end = max(1, every[-1] + 1 - beyond)
    begins = [sum(sizes[:at]) for at in range(len(sizes))]
    client = Client(
        end, [run_of(every[begin : begin + size]) for begin, size in zip(begins, sizes)]
    )
    with mock.patch.object(engine_base, "ROWS_MAX", rows_max):
        chunks = client.chunks()
    assert offsets_of(chunks) == [offset for offset in every if offset < end] and client.stopped
    assert (
        all(0 < chunk.rows <= rows_max for chunk in chunks)
        and [chunk.position for chunk in chunks] == sorted({chunk.position for chunk in chunks})
        and chunks[-1].position == end
    )
    for chunk in chunks:
        assert {len(column) for column in chunk.columns.values()} == {chunk.rows} and set(
            chunk.columns
        ) == set(COLUMNS)


def test_the_two_clients_make_the_same_arrays() -> None:
    offsets = range(30)
    theirs = Client(
        30,
        [lambda channel: channel.add([record(offset) for offset in offsets])],
        engine_kafka_python.FIELDS,
    ).chunks()
    assert [chunk.columns for chunk in Client(30, [run_of(offsets)]).chunks()] == [
        chunk.columns for chunk in theirs
    ]
    assert theirs[0].columns["headers"].to_pylist()[:2] == [
        None,
        [{"key": "name", "value": b"1"}],
    ] and theirs[0].columns["timestamp"].type == arrow_type("timestamp")


@pytest.mark.parametrize(
    ("client", "kinds"),
    [
        (
            Client(3, [lambda channel: channel.add([message(0, 1), message(1, 2), message(2, 0)])]),
            [0, 1, -1],
        ),
        (
            Client(
                3,
                [lambda channel: channel.add([record(0, 0), record(1, 1), record(2, None, None)])],
                engine_kafka_python.FIELDS,
            ),
            [0, 1, -1],
        ),
    ],
)
def test_whose_time_it_is(client: Client, kinds: list[int]) -> None:
    assert client.chunks()[0].columns["timestampType"].to_pylist() == kinds


def test_an_error_comes_after_what_came_before_it() -> None:
    client = Client(
        10, [run_of([0, 1]), lambda channel: channel.fail(ReadError("away")), run_of([2])]
    )
    chunk = client.channel.take(60.0)
    assert chunk is not None and (chunk.rows, chunk.position) == (2, 2)
    with pytest.raises(ReadError, match="away"):
        client.channel.take(60.0)
    chunk = client.channel.take(60.0)
    assert chunk is not None and (chunk.rows, chunk.position) == (1, 3)


def test_what_is_no_record_moves_the_position() -> None:
    client = Client(
        10, [run_of([0, 1]), lambda channel: channel.seen(5), lambda channel: channel.seen(99)]
    )
    found = client.chunks()
    assert offsets_of(found) == [0, 1] and found[-1].position == 10 and client.stopped


def test_a_header_that_is_no_text() -> None:
    class Damaged:
        """As a message whose header's name cannot be decoded."""

        def headers(self) -> None:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

        def topic(self) -> str:
            return "orders"

        def partition(self) -> int:
            return 0

        def offset(self) -> int:
            return 7

    with pytest.raises(CorruptRecordError, match="orders-0: the record at 7 has a header"):
        list(engine_confluent.FIELDS.headers([message(1), Damaged()]))
