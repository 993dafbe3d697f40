"""Group metadata: round trip, and what goes when it is too large."""

from __future__ import annotations

import dataclasses
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.znodes import strategies
from zkcoord.core.model import Cause, Departed, GroupMetadata, Malformed, TopicPartition
from zkcoord.znodes.codec import decode_metadata, encode_metadata, ranges_of


@given(strategies.metadata)
def test_round_trip(metadata: GroupMetadata) -> None:
    assert decode_metadata("g", encode_metadata(metadata)) == metadata


def test_an_empty_node_is_a_group_nothing_is_known_of() -> None:
    assert decode_metadata("g", b"") == GroupMetadata()


def test_ranges() -> None:
    partitions = [TopicPartition("b", 7), *(TopicPartition("a", n) for n in (3, 1, 2, 0, 9))]
    assert ranges_of(partitions) == {"a": "0-3,9", "b": "7"}


def test_foreign_text_can_be_read_again() -> None:
    metadata = GroupMetadata(cause=Cause("a\nb\x1b", "m" * 5_000), ownership="x\x00y")
    found = decode_metadata("g", encode_metadata(metadata))
    assert (
        isinstance(found, GroupMetadata)
        and found.cause.reason == "a?b?"
        and found.ownership == "x?y"
    )


def left(instance: int, since_ms: int) -> Departed:
    """A departed instance with one partition."""
    return Departed(f"i{instance:04}", (TopicPartition("t", instance),), since_ms)


def test_what_does_not_fit_goes_in_order() -> None:
    full = GroupMetadata(
        topics=tuple(f"topic-{n}" for n in range(100)),
        departed=tuple(left(n, n) for n in range(100)),
        ownership="x" * 5_000,
    )
    whole = len(encode_metadata(full))
    assert decode_metadata("g", encode_metadata(full, whole)) == full
    without_ownership = dataclasses.replace(full, ownership="")
    assert decode_metadata("g", encode_metadata(full, whole - 1)) == without_ownership
    without_topics = dataclasses.replace(without_ownership, topics=())
    assert (
        decode_metadata("g", encode_metadata(full, len(encode_metadata(without_ownership)) - 1))
        == without_topics
    )
    fewest = decode_metadata("g", encode_metadata(full, len(encode_metadata(without_topics)) - 1))
    assert fewest == dataclasses.replace(
        without_topics, departed=tuple(left(n, n) for n in range(50, 100))
    )


@given(st.integers(500, 20_000))
def test_the_cap_holds(bytes_max: int) -> None:
    full = GroupMetadata(
        topics=tuple(f"topic-{n}" for n in range(100)),
        departed=tuple(left(n, n) for n in range(100)),
        ownership="x" * 5_000,
    )
    assert len(encode_metadata(full, bytes_max)) <= bytes_max


def changed(**fields: object) -> bytes:
    """Valid metadata with fields replaced."""
    return json.dumps({**json.loads(encode_metadata(GroupMetadata())), **fields}).encode()


@pytest.mark.parametrize(
    "data",
    [
        changed(version=2),
        changed(generation=-1),
        changed(state="Sleeping"),
        changed(topics="a"),
        changed(topics=[1]),
        changed(configuration={"a": [1]}),
        changed(configuration={"a": True}),
        changed(departed={}),
        changed(departed=[1]),
        changed(departed=[{"instance": "i", "since": 1}]),
        changed(departed=[{"instance": "i", "since": 1, "partitions": {"a/b": "0"}}]),
        changed(departed=[{"instance": "i", "since": 1, "partitions": {"a": ""}}]),
        changed(departed=[{"instance": "i", "since": 1, "partitions": {"a": "3-1"}}]),
        changed(departed=[{"instance": "i", "since": 1, "partitions": {"a": "0-999999999"}}]),
        changed(
            departed=[
                {"instance": "i", "since": 1, "partitions": {"a": "0-99999"}},
                {"instance": "j", "since": 1, "partitions": {"a": "0"}},
            ]
        ),
        changed(
            departed=[
                {
                    "instance": "i",
                    "since": 1,
                    "partitions": {"a": "0-1"},
                    "threads": {"1": {"a": "0-1"}, "2": {"a": "1"}},
                }
            ]
        ),
        changed(
            departed=[{"instance": "i", "since": 1, "partitions": {"a": "0"}, "topics": {"a/b": 1}}]
        ),
        changed(departed=[{"instance": "i", "since": 1, "partitions": {"a": "0"}}], topics=["a/b"]),
        changed(cause="join"),
        changed(ownership=None),
    ],
)
def test_malformed(data: bytes) -> None:
    found = decode_metadata("g", data)
    assert isinstance(found, Malformed) and found.name == "g"


@pytest.mark.parametrize(
    "fields",
    [
        {
            "departed": [
                {"instance": "i", "since": 0, "partitions": {f"t{n}": "0" for n in range(34_000)}}
            ]
        },
        {
            "topics": [f"t{n}" for n in range(3_000)],
            "departed": [{"instance": "i", "since": 0, "partitions": {}}] * 5_000,
        },
        {
            "departed": [
                {
                    "instance": "i",
                    "since": 0,
                    "partitions": {"a": "0-99999"},
                    "threads": {str(n): {"a": "0-99999"} for n in range(1, 10_000)},
                }
            ]
        },
    ],
    ids=["topics", "instances", "threads"],
)
def test_its_cost_follows_its_bytes(fields: dict[str, object]) -> None:
    """Half a megabyte of anything: hundreds of milliseconds at most, where a product of two of its
    lengths would be half a minute and more.
    """
    data = changed(**fields)
    before = time.process_time()
    decode_metadata("g", data)
    assert time.process_time() - before < 1.5
