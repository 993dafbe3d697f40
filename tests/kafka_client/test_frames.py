"""Numbers and tagged fields of Kafka's flexible versions."""

from __future__ import annotations

import pytest
from kafka.protocol.schemas.fields.codecs import UnsignedVarInt32

from zkcoord.kafka_client.frames import TAGS_MAX, after_tags, varint


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 16_383, 16_384, 2**28, 2**32 - 1])
def test_numbers_are_kafkas(number: int) -> None:
    data = UnsignedVarInt32.encode(number)
    assert varint(b"ab" + data + b"c", 2) == (number, 2 + len(data))


def test_a_number_that_is_cut_off_or_too_long_is_an_error() -> None:
    with pytest.raises(IndexError):
        varint(b"\x80", 0)
    with pytest.raises(ValueError, match="more than five bytes"):
        varint(b"\x80" * 6, 0)


def test_tagged_fields_are_passed_over() -> None:
    two = b"\x02" + b"\x00\x01a" + b"\x05\x02bc"
    assert after_tags(b"xx\x00y", 2) == 3
    assert after_tags(two + b"rest", 0) == len(two)
    with pytest.raises(ValueError, match="tagged fields"):
        after_tags(UnsignedVarInt32.encode(TAGS_MAX + 1), 0)
