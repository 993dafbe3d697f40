"""Which partitions an assignment names that a client brought, where it is one of Kafka's
ConsumerProtocol: so consumers encode it, and Kafka Streams, whatever assigned. Others have their
own, which nobody here can read.
"""

from __future__ import annotations

import struct

from zkcoord.core.model import TopicPartition
from zkcoord.znodes.names import is_topic

PROTOCOL_TYPE = "consumer"
PARTITIONS_MAX = 100_000


class _UnreadableError(Exception):
    """It is none, or not whole."""


class _AssignmentReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if count < 0 or len(taken) < count:
            raise _UnreadableError
        self._at += count
        return taken

    def int16(self) -> int:
        return int(struct.unpack(">h", self._take(2))[0])

    def int32(self) -> int:
        return int(struct.unpack(">i", self._take(4))[0])

    def text(self) -> str:
        try:
            return self._take(self.int16()).decode("utf-8")
        except UnicodeDecodeError as error:
            raise _UnreadableError from error


def partitions_of(data: bytes) -> tuple[TopicPartition, ...] | None:
    """Those that it names, sorted, each once; None: that cannot be read. What follows them (user
    data, fields of later versions) is not looked at.
    """
    if not data:
        return ()
    reader = _AssignmentReader(data)
    found: set[TopicPartition] = set()
    try:
        if reader.int16() < 0:
            return None
        for _ in range(reader.int32()):
            topic = reader.text()
            for _ in range(reader.int32()):
                found.add(TopicPartition(topic, reader.int32()))
                if len(found) > PARTITIONS_MAX:
                    return None
    except _UnreadableError:
        return None
    fit = all(is_topic(tp.topic) and tp.partition >= 0 for tp in found)
    return tuple(sorted(found)) if fit else None
