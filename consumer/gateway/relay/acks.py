"""Whether a broker answers a Produce: with acks=0 it does not, and nothing waits for it."""

from __future__ import annotations

import struct

from consumer.gateway.frames import Head

PRODUCE_FLEXIBLE = 9


def has_answer(head: Head, body: memoryview) -> bool | None:
    """Whether a broker answers this Produce: not with acks=0. None: it cannot be seen yet."""
    at = 10 + len(head.client_id.encode())
    try:
        if head.version >= PRODUCE_FLEXIBLE:
            tags, at = _varint(body, at)
            for _ in range(tags):
                _, at = _varint(body, at)
                size, at = _varint(body, at)
                at += size
            length, at = _varint(body, at)
            at += max(0, length - 1)
        elif head.version >= 3:
            (length,) = struct.unpack_from(">h", body, at)
            at += 2 + max(0, length)
        return bool(struct.unpack_from(">h", body, at)[0] != 0)
    except (struct.error, IndexError):
        return None


def _varint(body: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7
        if shift > 28:
            raise IndexError("a number of more than five bytes")
