"""What is seen of a Produce before it is there, and what is refused at once."""

from __future__ import annotations

import struct

import pytest

from consumer.gateway import frames
from consumer.gateway.frames import BadFrameError
from consumer.gateway.relay.acks import FRONT_BYTES_MAX, has_answer
from zkcoord.kafka_client.frames import TAGS_MAX

TAG = b"\x07\x02ab"
LONGEST = b"\x80\x80\x02" + b"x" * 32_767


def front(version: int, client: bytes = b"me") -> bytes:
    """Of a Produce, up to its client id."""
    return struct.pack(">hhih", frames.PRODUCE, version, 1, len(client)) + client


def seen(body: bytes) -> bool | None:
    """As the gateway sees it."""
    return has_answer(frames.decode_head(body), memoryview(body))


@pytest.mark.parametrize("acks", [-1, 0, 1])
@pytest.mark.parametrize(
    "body",
    [
        front(2),
        front(3) + b"\xff\xff",
        front(8) + b"\0\1x",
        front(9) + b"\0" + b"\0",
        front(9) + b"\0" + b"\2x",
        front(9) + b"\0" + LONGEST,
        front(9, b"m" * 32_767) + b"\1\7\xa0\x9c\x01" + bytes(20_000) + LONGEST,
        front(12) + bytes([TAGS_MAX]) + TAG * TAGS_MAX + b"\0",
    ],
)
def test_acks_are_seen_when_they_are_there(body: bytes, acks: int) -> None:
    whole = body + struct.pack(">h", acks)
    assert seen(whole) is (acks != 0)
    assert len(whole) < FRONT_BYTES_MAX
    for end in {*range(front_end(whole), min(len(whole), 200)), len(whole) - 1}:
        assert seen(whole[:end]) is None


def front_end(body: bytes) -> int:
    """Where the client id ends: before, there is no head."""
    return int(10 + struct.unpack_from(">h", body, 8)[0])


@pytest.mark.parametrize(
    "rest",
    [
        b"\xff\xff\xff\xff\x07",
        bytes([TAGS_MAX + 1]),
        b"\x01\x07" + b"\xff\xff\xff\xff\x07",
        b"\x01\x07\x80\x80\x09",
        b"\0" + b"\x81\x80\x02",
        b"\xff" * 5,
        b"\0" + b"\xff" * 5,
    ],
)
def test_what_goes_on_before_the_acks_is_refused_at_once(rest: bytes) -> None:
    """Not kept until it is whole, of 100 MiB."""
    with pytest.raises(BadFrameError):
        seen(front(9) + rest)
