"""How much work a request is to decode, seen before it is decoded.

kafka-python builds an object for each part of a request (a topic, a partition, a member), reads a
number for as long as it goes on, and copies the rest of a request wherever tagged fields stand. So
a small request can be seconds of work for the event loop, on which everybody waits. Here a request
is gone through without building anything, and refused at the first part that is too many.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

from zkcoord.core.value_type import value
from zkcoord.kafka_client.frames import TAGS_MAX, varint

PARTS_MAX = 20_000
"""Structures and texts in arrays: a commit of as many partitions. Numbers in arrays do not count
(OffsetFetch has but numbers): they are as many as the length of a request allows.
"""
PART_BYTES, NUMBER_BYTES = 400, 40
"""What a part, and a number in an array, take about once they are objects."""
TEXT, BYTES = "text", "bytes"


@value
class _Array:
    """Of structures, texts or bytes (one step is a text's or bytes'), or of numbers of a size."""

    steps: tuple[Any, ...]
    size: int = 0
    is_tagged: bool = False


def skim(of: Any, frame: bytes, version: int) -> int:
    """How many bytes a request (kafka-python's class `of`) takes about once it is decoded, beside
    its own. Raises ValueError, IndexError or `struct.error` for one that is too much work, or ends
    before its end.
    """
    is_flexible = bool(of.flexible_version_q(version))
    one = _Skim(frame, is_flexible)
    one.head()
    one.through(_steps(of, version))
    if is_flexible:
        one.tags()
    one.check()
    return one.decoded_bytes


@cache
def _steps(of: Any, version: int) -> tuple[Any, ...]:
    """What stands in a structure, in order: the size of a number, `TEXT`, `BYTES`, or an array."""
    is_flexible = bool(of.flexible_version_q(version))
    return _of_fields(of._struct.untagged_fields(version), version, is_flexible)


def _of_fields(fields: list[Any], version: int, is_flexible: bool) -> tuple[Any, ...]:
    return tuple(_step(field, version, is_flexible) for field in fields)


def _step(field: Any, version: int, is_flexible: bool) -> Any:
    if field.is_struct_array():
        fields = field.untagged_fields(version)
        return _Array(_of_fields(fields, version, is_flexible), is_tagged=is_flexible)
    if field.is_array():
        inner = _step(field.array_of, version, is_flexible)
        return _Array((), inner) if isinstance(inner, int) else _Array((inner,))
    assert not field.is_struct(), "no request that is answered here has one"
    size = field._type.size
    if isinstance(size, int):
        return size
    return BYTES if field.type_str == "bytes" else TEXT


class _Skim:
    """Where in the frame, and how much is left to be allowed."""

    def __init__(self, frame: bytes, is_flexible: bool) -> None:
        self._frame = frame
        self._is_flexible = is_flexible
        self._at = 8
        self._parts_left = PARTS_MAX
        self._tags_left = TAGS_MAX
        self.decoded_bytes = 0

    def head(self) -> None:
        """The client id, which is never compact, and the tags behind it."""
        (length,) = struct.unpack_from(">h", self._frame, self._at)
        self._at += 2 + max(0, length)
        if self._is_flexible:
            self.tags()

    def through(self, steps: tuple[Any, ...]) -> None:
        """One structure, without its tags."""
        for step in steps:
            if isinstance(step, int):
                self._at += step
            elif isinstance(step, _Array):
                self._array(step)
            else:
                length = self._length(">h" if step is TEXT else ">i")
                self._at += max(0, length)

    def _array(self, array: _Array) -> None:
        count = max(0, self._length(">i"))
        if array.size:
            self._at += count * array.size
            self.decoded_bytes += count * NUMBER_BYTES
            return self.check()
        self._parts_left -= count
        if self._parts_left < 0:
            raise ValueError(f"more than {PARTS_MAX} parts")
        if count > len(self._frame) - self._at:  # before they are gone through: each has a byte
            raise ValueError("a request that ends before its parts")
        self.decoded_bytes += count * PART_BYTES
        for _ in range(count):
            self.through(array.steps)
            if array.is_tagged:
                self.tags()
        return self.check()

    def tags(self) -> None:
        """Tagged fields."""
        count = self._varint()
        self._tags_left -= count
        if self._tags_left < 0:
            raise ValueError(f"more than {TAGS_MAX} tagged fields")
        for _ in range(count):
            self._varint()
            size = self._varint()
            self._at += size

    def check(self) -> None:
        """That the request has not ended before."""
        if self._at > len(self._frame):
            raise ValueError("a request that ends before its end")

    def _length(self, plain: str) -> int:
        if self._is_flexible:
            return self._varint() - 1
        (length,) = struct.unpack_from(plain, self._frame, self._at)
        self._at += struct.calcsize(plain)
        return int(length)

    def _varint(self) -> int:
        value, self._at = varint(self._frame, self._at)
        return value
