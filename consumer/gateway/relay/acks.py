"""What is seen of a request before it is put together, or passes as it comes; and whether a broker
answers a Produce: with acks=0 it does not, and nothing waits for it.

That is looked at anew with each piece that comes of it, until it can be seen, and is kept until
then: so what stands before the acks is bounded.
"""

from __future__ import annotations

import struct

from consumer.gateway import frames
from consumer.gateway.frames import BadFrameError, Head
from zkcoord.core.value_type import value
from zkcoord.kafka_client.frames import TAGS_MAX, varint

PRODUCE_FLEXIBLE = 9
TRANSACTIONAL_ID_BYTES_MAX = 32_767
FRONT_BYTES_MAX = 128 * 1024
"""Client id and transactional id of 32,767 bytes each, and tags."""


@value
class Front:
    """The beginning of a request. `whole`: all of it, where it is read as a whole."""

    head: Head
    whole: bytes | None
    is_answered: bool


def front_of(data: bytearray, length: int) -> Front | None:
    """Of the first frame, of this length, as far as it has come; None: more must come first. Raises
    `BadFrameError`.
    """
    with memoryview(data)[4 : 4 + length] as body:
        if len(body) < min(frames.head_bytes(body), length):
            return None
        head = frames.decode_head(body)
        is_whole = frames.is_read_whole(head)
        if is_whole and length > frames.local_bytes_max(head):
            raise BadFrameError(f"a request of {length} bytes to a group's coordinator")
        if is_whole and len(body) < length:
            return None
        acks = head.key != frames.PRODUCE or has_answer(head, body)
        if acks is None and len(body) < length:
            return None
        return Front(head, bytes(body) if is_whole else None, bool(acks))


def has_answer(head: Head, body: memoryview) -> bool | None:
    """Whether a broker answers this Produce: not with acks=0. None: it cannot be seen yet. Raises
    `BadFrameError` where too much stands before that.
    """
    at = 10 + len(head.client_id.encode())
    try:
        if head.version >= PRODUCE_FLEXIBLE:
            tags, at = varint(body, at)
            if tags > TAGS_MAX:
                raise BadFrameError(f"a Produce of more than {TAGS_MAX} tagged fields")
            for _ in range(tags):
                _, at = varint(body, at)
                size, at = varint(body, at)
                at = _bounded(at + size)
            length, at = varint(body, at)
            if length > TRANSACTIONAL_ID_BYTES_MAX + 1:
                raise BadFrameError(f"a Produce with a transactional id of {length - 1} bytes")
            at = _bounded(at + max(0, length - 1))
        elif head.version >= 3:
            (length,) = struct.unpack_from(">h", body, at)
            at += 2 + max(0, length)
        return bool(struct.unpack_from(">h", body, at)[0] != 0)
    except (struct.error, IndexError):
        return None
    except ValueError as error:
        raise BadFrameError(str(error)) from error


def _bounded(at: int) -> int:
    if at > FRONT_BYTES_MAX:
        raise BadFrameError(f"a Produce with more than {FRONT_BYTES_MAX} bytes before its acks")
    return at
