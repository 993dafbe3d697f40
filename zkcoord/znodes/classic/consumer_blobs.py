"""What consumers tell each other and their coordinator as bytes: the fields of ConsumerProtocol.
And what they call their assignors.

Source: clients/src/main/resources/common/message/ConsumerProtocol*.json of Apache Kafka.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

CONSUMER = "consumer"
"""The protocol type of groups whose clients say this."""

KAFKAJS = "RoundRobinAssigner"
OURS = {
    "range": "range",
    "roundrobin": "roundrobin",
    KAFKAJS: "roundrobin",
    "sticky": "sticky",
    "cooperative-sticky": "sticky",
}
"""Assignors as clients name them -> as the coordinator does."""


def known_assignors(protocol_type: str, names: Iterable[str]) -> frozenset[str]:
    """Those by which the coordinator can assign to who lists these, as it names them."""
    known = (OURS[name] for name in names if name in OURS)
    return frozenset(known) if protocol_type == CONSUMER else frozenset()


def is_ours(protocol_type: str, protocols: Iterable[tuple[str, object]]) -> bool:
    """Whether the coordinator knows how to assign to who lists these protocols."""
    return bool(known_assignors(protocol_type, (name for name, _ in protocols)))


class BadBlobError(ValueError):
    """It is not what it should be, with what is wrong."""


class BlobReader:
    """Reads fields one after the other; each raises `BadBlobError`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._data):
            raise BadBlobError("it ends too early")
        part = self._data[self._at : self._at + count]
        self._at += count
        return part

    def int16(self) -> int:
        """Two bytes, signed."""
        return int(struct.unpack(">h", self._take(2))[0])

    def int32(self) -> int:
        """Four bytes, signed."""
        return int(struct.unpack(">i", self._take(4))[0])

    def text(self) -> str:
        """A name."""
        try:
            return self._take(self.int16()).decode()
        except UnicodeDecodeError as error:
            raise BadBlobError("a name in it is no UTF-8") from error

    def count(self, limit: int) -> int:
        """How many of something follow, at most `limit`."""
        count = self.int32()
        if not 0 <= count <= limit:
            raise BadBlobError(f"it names {count} of something, of at most {limit}")
        return count

    def skip_bytes(self) -> None:
        """Bytes that are not looked at."""
        length = self.int32()
        if length > 0:
            self._take(length)
