"""What a client says of itself to an assignor: the versions of ConsumerProtocol's subscription, and
of its assignment.

Source: clients/src/main/resources/common/message/ConsumerProtocol*.json of Apache Kafka. Version 1
adds owned partitions, 2 the generation in which they were owned (KIP-792), 3 the rack (KIP-881); a
later version is read as far as version 3 goes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import groupby

from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value
from zkcoord.znodes.classic.consumer_blobs import BadBlobError, BlobReader

TOPICS_MAX = 10_000
OWNED_MAX = 100_000
BLOB_BYTES_MAX = 4 * 1024 * 1024


@value
class ClientSubscription:
    """Topics, sorted and each once, and what the client says that it owns."""

    topics: tuple[str, ...]
    owned: frozenset[TopicPartition] = frozenset()


def decode_subscription(blob: bytes) -> ClientSubscription:
    """Raises `BadBlobError`."""
    if len(blob) > BLOB_BYTES_MAX:
        raise BadBlobError(f"it has {len(blob)} bytes")
    reader = BlobReader(blob)
    version = reader.int16()
    if version < 0:
        raise BadBlobError(f"its version is {version}")
    topics = [reader.text() for _ in range(reader.count(TOPICS_MAX))]
    reader.skip_bytes()
    owned: set[TopicPartition] = set()
    if version >= 1:
        for _ in range(reader.count(TOPICS_MAX)):
            topic = reader.text()
            owned.update(
                TopicPartition(topic, reader.int32()) for _ in range(reader.count(OWNED_MAX))
            )
            if len(owned) > OWNED_MAX:
                raise BadBlobError(f"it names more than {OWNED_MAX} owned partitions")
    return ClientSubscription(tuple(sorted(set(topics))), frozenset(owned))


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """ConsumerProtocol's assignment, version 0 (which all clients read), without user data."""
    return struct.pack(">h", 0) + _partitions(partitions) + struct.pack(">i", -1)


def encode_subscription(topics: Iterable[str], owned: Iterable[TopicPartition] = ()) -> bytes:
    """ConsumerProtocol's subscription, version 1, without user data."""
    names = sorted(topics)
    parts = [struct.pack(">hi", 1, len(names)), *(_text(name) for name in names)]
    return b"".join([*parts, struct.pack(">i", -1), _partitions(owned)])


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    by_topic = [
        (topic, [tp.partition for tp in found])
        for topic, found in groupby(sorted(partitions), key=lambda tp: tp.topic)
    ]
    parts = [struct.pack(">i", len(by_topic))]
    for topic, numbers in by_topic:
        parts += [_text(topic), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(parts)
