"""What frames of Kafka's flexible versions are made of (KIP-482): numbers of one to five bytes, and
tagged fields.
"""

from __future__ import annotations

TAGS_MAX = 100
"""Tagged fields in one place, and in a whole request. Kafka's clients and brokers send few."""

MORE = 0x80


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """An unsigned number, and where it ends. Raises IndexError where it has not come to its end,
    ValueError for one of more than five bytes.
    """
    value = 0
    for shift in range(0, 35, 7):
        byte = data[at]
        at += 1
        value |= (byte & ~MORE) << shift
        if byte < MORE:
            return value, at
    raise ValueError("a number of more than five bytes")


def after_tags(data: bytes, at: int) -> int:
    """Where the tagged fields end that begin at `at`. Raises as `varint`, and ValueError for more
    than `TAGS_MAX`.
    """
    count, at = varint(data, at)
    if count > TAGS_MAX:
        raise ValueError(f"more than {TAGS_MAX} tagged fields")
    for _ in range(count):
        _, at = varint(data, at)
        size, at = varint(data, at)
        at += size
    return at
