"""Batches of records as brokers send them: the pure decoder, what is seen of a batch before it is
decoded, and the extension in C beside it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import kafka.errors
from crc32c import crc32c
from kafka.record import MemoryRecords
from kafka.record.memory_records import MemoryRecordsBuilder
from kafka.structs import TopicPartition

from consumer.fetch.buffer import extent_of
from consumer.fetch.decoder import RecordsFrom
from tests.fuzz import shim
from tests.fuzz.harness import Harness, Work, equal, holds

RAISED = (
    kafka.errors.KafkaError,
    struct.error,
    ValueError,
    IndexError,
    TypeError,
    EOFError,
    OSError,
    AssertionError,
    RuntimeError,
)
"""What kafka-python's decoder makes of a batch that is damaged and has a good checksum."""

CODECS = ("snappy", "cramjam", "zstandard", "lz4")
"""And what these packages raise, by the name of the module of an error."""

OVERHEAD, CHECKSUM_AT, CHECKED_FROM = 12, 17, 21
TP = TopicPartition("t", 0)


def checked(data: bytes) -> bytes:
    """The same with good checksums, so that what is behind them is looked at, too."""
    found, at = bytearray(data), 0
    while at + OVERHEAD <= len(found):
        (length,) = struct.unpack_from(">i", found, at + 8)
        end = at + OVERHEAD + length
        if length < CHECKED_FROM or end > len(found):
            break
        if found[at + 16] == 2:
            crc = crc32c(bytes(found[at + CHECKED_FROM : end]))
            struct.pack_into(">I", found, at + CHECKSUM_AT, crc)
        at = end
    return bytes(found)


def batches(data: bytes) -> None:
    """Whatever comes: records whose offsets rise from the one that was asked for, or an error; and
    what is seen of whole batches before says where the next begins, and how many they may be.
    """
    start = data[0] if data else 0
    data = checked(data[1:])
    extent = extent_of(data)
    holds(extent.end is not None or extent.records == 0, extent)
    records = RecordsFrom(start, TP, MemoryRecords(data))
    found: list[Any] = []
    try:
        while more := records.take(10):
            found += more
    except RAISED:
        return
    except Exception as error:
        holds(type(error).__module__.split(".")[0] in CODECS, type(error), error)
        return
    finally:
        records.drain()
    offsets = [one.offset for one in found]
    holds(all(offset >= start for offset in offsets[:1]), offsets)
    if counted(data) == extent.records and modern(data):
        holds(len(found) <= max(0, extent.records), len(found), extent)


def modern(data: bytes) -> bool:
    return all(magic == 2 for magic, _ in heads(data))


def counted(data: bytes) -> int:
    return sum(count for _, count in heads(data))


def heads(data: bytes) -> Iterator[tuple[int, int]]:
    """Format, and number of records, of each whole batch."""
    at = 0
    while at + 61 <= len(data):
        (length,) = struct.unpack_from(">i", data, at + 8)
        if length < 49 or at + OVERHEAD + length > len(data):
            return
        yield data[at + 16], struct.unpack_from(">i", data, at + 57)[0]
        at += OVERHEAD + length


def made(magic: int, compression: int, *rows: tuple[Any, ...], offset: int = 0) -> bytes:
    builder = MemoryRecordsBuilder(magic, compression, 1 << 20, offset=offset)
    for row in rows:
        builder.append(*row)
    builder.close()
    return bytes(builder.buffer())


ROWS = ((1, b"k", b"v", []), (2, None, b"w" * 9, []), (3, b"", None, []))
HEADED = ((1, b"k", b"v", [("h", b"x"), ("n", None)]), (-1, None, None, []))


def written() -> Iterable[bytes]:
    for magic in (0, 1, 2):
        yield b"\0" + made(magic, 0, *ROWS)
    yield b"\1" + made(2, 0, *HEADED) + made(2, 1, *ROWS, offset=2)
    yield b"\0" + made(1, 1, *ROWS)


def extension(data: bytes) -> None:
    """The extension and the engine in Python make the same of the same messages, in batches of any
    size, with any columns, up to any end.
    """
    library = shim.built()
    if library is None or len(data) < 8:
        return
    want, rows_max, bytes_max, end = struct.unpack_from(">BBHI", data)
    end = 1 + end % 300  # a range without offsets is never opened
    messages = list(shim.messages(data[8:]))
    holds(all(one.offset < other.offset for one, other in pairwise(messages)))
    theirs = shim.read_by_c(library, messages, want % 8, 1 + rows_max, 1 + bytes_max, end)
    ours = shim.read_by_python(messages, want % 8, end)
    equal(theirs, ours)


def scripts() -> Iterable[bytes]:
    head = struct.pack(">BBHI", 7, 3, 500, 100)
    plain = bytes([0b0111, 1, 2, 3]) + b"kvv" + bytes([2, 1, 2]) + b"hxx" + bytes([2, 0, 0]) + b"n"
    yield head + plain * 5
    yield head + bytes([0b1000, 0, 0, 9]) * 3 + plain
    yield struct.pack(">BBHI", 2, 0, 0, 7) + bytes([0b0010, 0, 0, 1]) * 12


HARNESSES = (
    Harness(
        "record-batches",
        ("consumer.fetch.buffer:extent_of", "consumer.fetch.decoder:RecordsFrom.take"),
        batches,
        written,
        (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x02", b"\x80\x80\x80\x80\x08", b"\x01"),
        Work(lines=40_000, lines_per_byte=300, memory=8_000_000, memory_per_byte=8_000),
    ),
    Harness(
        "c-extension",
        ("consumer.spark.decode.engine_c:CChannel.take",),
        extension,
        scripts,
        (bytes([0b0111, 1, 2, 3]), bytes([0b1000, 0, 0, 9]), b"\0\0\0\0"),
        Work(lines=60_000, lines_per_byte=300, memory=16_000_000, memory_per_byte=8_000),
        bytes_max=1_024,
    ),
)
