"""Fields of what consumers tell each other, one after the other, and assignors by their names."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from zkcoord.znodes.classic.consumer_blobs import (
    CONSUMER,
    KAFKAJS,
    BadBlobError,
    BlobReader,
    is_ours,
    known_assignors,
)


def test_assignors_that_the_coordinator_knows() -> None:
    assert known_assignors(CONSUMER, ("own", "range", KAFKAJS)) == {"range", "roundrobin"}
    assert known_assignors(CONSUMER, ("cooperative-sticky", "sticky")) == {"sticky"}
    assert known_assignors(CONSUMER, ("own",)) == known_assignors(CONSUMER, ()) == frozenset()
    assert known_assignors("connect", ("range",)) == frozenset()


def test_who_is_assigned_to_by_the_coordinator() -> None:
    assert is_ours(CONSUMER, (("own", b""), ("range", b"")))
    assert not is_ours(CONSUMER, (("own", b""),))
    assert not is_ours("connect", (("range", b""),))


def test_fields_one_after_the_other_up_to_the_end() -> None:
    reader = BlobReader(struct.pack(">hihi", -2, -3, 2, 0x61620000) + b"\x00\x05")
    assert reader.int16() == -2 and reader.int32() == -3 and reader.text() == "ab"
    assert reader.count(5) == 5
    with pytest.raises(BadBlobError, match="too early"):
        reader.int16()


def test_as_many_as_may_be() -> None:
    for number in (0, 3):
        assert BlobReader(struct.pack(">i", number)).count(3) == number
    for number in (-1, 4):
        with pytest.raises(BadBlobError, match=f"it names {number} of something, of at most 3"):
            BlobReader(struct.pack(">i", number)).count(3)


@pytest.mark.parametrize("length", [-1, 0, 1, 2])
def test_bytes_that_are_not_looked_at(length: int) -> None:
    """Without any there is a length of -1."""
    reader = BlobReader(struct.pack(">i", length) + bytes(max(length, 0)) + b"\x00\x07")
    reader.skip_bytes()
    assert reader.int16() == 7


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (struct.pack(">h", -1) + b"a", BlobReader.text),
        (struct.pack(">h", 2) + b"a", BlobReader.text),
        (struct.pack(">h", 1) + b"\xff", BlobReader.text),
        (struct.pack(">i", 2) + b"a", BlobReader.skip_bytes),
        (b"\x00", BlobReader.int16),
        (b"\x00\x00\x00", BlobReader.int32),
    ],
)
def test_what_is_no_such_field(data: bytes, read: Callable[[BlobReader], object]) -> None:
    with pytest.raises(BadBlobError):
        read(BlobReader(data))
