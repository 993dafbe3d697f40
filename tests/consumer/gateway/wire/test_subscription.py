"""ConsumerProtocol's blobs, beside kafka-python's coder, and what is no such blob."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from consumer.gateway.wire.subscription import (
    BLOB_BYTES_MAX,
    BadBlobError,
    ClientSubscription,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from zkcoord.core.model import TopicPartition

TOPICS = st.text("abcü.-_", min_size=1, max_size=9)
PARTITIONS = st.sets(st.tuples(TOPICS, st.integers(0, 2**31 - 1)), max_size=12)


def kafkas(version: int, topics: list[str], owned: set[tuple[str, int]]) -> bytes:
    """The blob as kafka-python writes it."""
    of = ConsumerProtocolSubscription.TopicPartition
    by_topic = sorted({topic for topic, _ in owned})
    return bytes(
        ConsumerProtocolSubscription(
            version=version,
            topics=topics,
            user_data=b"anything",
            owned_partitions=[
                of(topic=topic, partitions=sorted(p for t, p in owned if t == topic))
                for topic in by_topic
            ],
            generation_id=7,
            rack_id="r1",
        ).encode()
    )


@given(st.integers(0, 3), st.lists(TOPICS, max_size=5), PARTITIONS)
def test_a_subscription_as_clients_write_it(
    version: int, topics: list[str], owned: set[tuple[str, int]]
) -> None:
    found = decode_subscription(kafkas(version, topics, owned))
    kept = frozenset(TopicPartition(*tp) for tp in owned) if version else frozenset()
    assert found == ClientSubscription(tuple(sorted(set(topics))), kept)


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    blob = bytearray(kafkas(3, ["a"], {("a", 1)}))
    blob[:2] = struct.pack(">h", 9)
    found = decode_subscription(bytes(blob) + b"more")
    assert found == ClientSubscription(("a",), frozenset({TopicPartition("a", 1)}))


@given(PARTITIONS)
def test_an_assignment_as_clients_read_it(owned: set[tuple[str, int]]) -> None:
    blob = encode_assignment(TopicPartition(*tp) for tp in owned)
    found = ConsumerProtocolAssignment.decode(blob)
    assert {
        (part.topic, number) for part in found.assigned_partitions for number in part.partitions
    } == owned


@given(st.sets(TOPICS, max_size=5), PARTITIONS)
def test_what_is_written_is_read(topics: set[str], owned: set[tuple[str, int]]) -> None:
    partitions = frozenset(TopicPartition(*tp) for tp in owned)
    found = decode_subscription(encode_subscription(topics, partitions))
    assert found == ClientSubscription(tuple(sorted(topics)), partitions)


@given(st.binary(max_size=200))
def test_anything_is_a_subscription_or_refused(blob: bytes) -> None:
    try:
        decode_subscription(blob)
    except BadBlobError:
        return


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\0",
        struct.pack(">hi", -1, 0),
        struct.pack(">hi", 0, -1),
        struct.pack(">hi", 0, 2**31 - 1),
        struct.pack(">hih", 0, 1, -1),
        struct.pack(">hih", 0, 1, 3) + b"\xff\xfe\xfd" + struct.pack(">i", -1),
        struct.pack(">hii", 1, 0, -1),
        struct.pack(">hiii", 1, 0, -1, 2**31 - 1),
        bytes(BLOB_BYTES_MAX + 1),
    ],
)
def test_what_is_no_subscription(blob: bytes) -> None:
    with pytest.raises(BadBlobError):
        decode_subscription(blob)
