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
from zkcoord.znodes.codec import decode_group_state, decode_metadata, encode_metadata, ranges_of
from zkcoord.znodes.metadata import OWNERSHIP_CHARS_MAX, PROBLEMS_MAX, TEXT_CHARS_MAX


@given(strategies.metadata)
def test_round_trip(metadata: GroupMetadata) -> None:
    assert decode_metadata("g", encode_metadata(metadata)) == metadata


@given(strategies.metadata)
def test_the_state_alone_is_that_of_the_whole(metadata: GroupMetadata) -> None:
    assert decode_group_state("g", encode_metadata(metadata)) is metadata.state


@pytest.mark.parametrize(
    "text", ["x", "[]", '{"version":2,"state":"Stable"}', '{"version":1,"state":"?"}']
)
def test_what_is_no_state_is_malformed(text: str) -> None:
    assert isinstance(decode_group_state("g", text.encode()), Malformed)


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


def test_what_somebody_configured_goes_before_a_departed_instance() -> None:
    full = GroupMetadata(departed=(left(1, 1),), configuration={"a": "x" * 100, "b": 2})
    without = dataclasses.replace(full, configuration={})
    assert decode_metadata("g", encode_metadata(full, len(encode_metadata(full)))) == full
    assert decode_metadata("g", encode_metadata(full, len(encode_metadata(full)) - 1)) == without
    least = len(encode_metadata(without))
    assert decode_metadata("g", encode_metadata(full, least)) == without
    none = dataclasses.replace(without, departed=())
    assert decode_metadata("g", encode_metadata(full, least - 1)) == none


def test_the_longest_gone_goes_first_and_the_others_keep_their_order() -> None:
    since = {"a": 5, "b": 9, "c": 7, "d": 7, "e": 1}
    full = GroupMetadata(departed=tuple(Departed(i, (), at) for i, at in since.items()))
    found = decode_metadata("g", encode_metadata(full, len(encode_metadata(full)) - 1))
    assert isinstance(found, GroupMetadata) and [d.instance for d in found.departed] == ["b", "c"]
    assert encode_metadata(full, 0) == encode_metadata(GroupMetadata())


def test_what_a_departed_instance_had_subscribed_to_is_kept_where_others_topics_go() -> None:
    """Where it was the group's topics, they are not repeated, and go with them."""
    usual = Departed("a", (), 1, topics={"t": 1, "u": 1})
    own = Departed("b", (), 1, topics={"t": 2, "u": 1})
    full = GroupMetadata(topics=("t", "u"), departed=(usual, own))
    data = encode_metadata(full)
    assert ["topics" in item for item in json.loads(data)["departed"]] == [False, True]
    assert decode_metadata("g", data) == full
    assert decode_metadata("g", encode_metadata(full, len(data) - 1)) == dataclasses.replace(
        full, topics=(), departed=(dataclasses.replace(usual, topics={}), own)
    )


def test_threads_of_a_departed_instance() -> None:
    numbers = {TopicPartition("t", 0): 2, TopicPartition("t", 1): 10, TopicPartition("t", 2): 2}
    departed = Departed("i", (*numbers, TopicPartition("t", 3)), 1, grace_ms=5, numbers=numbers)
    data = encode_metadata(GroupMetadata(departed=(departed,)))
    (written,) = json.loads(data)["departed"]
    assert list(written["threads"].items()) == [("2", {"t": "0,2"}), ("10", {"t": "1"})]
    found = decode_metadata("g", data)
    assert isinstance(found, GroupMetadata) and found.departed == (departed,)


def test_problems_and_texts_are_cut() -> None:
    long = "x" * (TEXT_CHARS_MAX + 1)
    full = GroupMetadata(
        failure=long,
        cause=Cause(long, long),
        ownership="y" * (OWNERSHIP_CHARS_MAX + 1),
        problems=("a\nb", *[long] * PROBLEMS_MAX),
        mode="mixed",
    )
    found = decode_metadata("g", encode_metadata(full))
    assert isinstance(found, GroupMetadata)
    cut = "x" * TEXT_CHARS_MAX
    assert found.problems == ("a?b", *[cut] * (PROBLEMS_MAX - 1))
    assert (found.failure, found.cause, found.mode) == (cut, Cause(cut, cut), "mixed")
    assert found.ownership == "y" * OWNERSHIP_CHARS_MAX
    usual = json.loads(encode_metadata(GroupMetadata()))
    assert "problems" not in usual and "mode" not in usual


ONE = {"instance": "i", "since": 1, "partitions": {"a": "0"}}


def test_a_departed_instance_of_an_earlier_version_has_no_grace() -> None:
    found = decode_metadata("g", changed(departed=[ONE]))
    assert isinstance(found, GroupMetadata) and found.departed[0].grace_ms == 0


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ({"topics": ["x" * 249]}, {"topics": ["x" * 250]}),
        ({"configuration": {"a": "b", "c": 1}}, {"configuration": {"a": "b", "c": 1.5}}),
        ({"departed": [ONE]}, {"departed": [ONE, 1]}),
        ({"departed": [{**ONE, "grace": 0}]}, {"departed": [{**ONE, "grace": -1}]}),
        (
            {"departed": [{**ONE, "partitions": {"a": "0-99998", "b": "7"}}]},
            {"departed": [{**ONE, "partitions": {"a": "0-99998", "b": "7-8"}}]},
        ),
        (
            {"departed": [{**ONE, "threads": {"9999": {"a": "0"}}}]},
            {"departed": [{**ONE, "threads": {"10000": {"a": "0"}}}]},
        ),
        (
            {"departed": [{**ONE, "threads": {"1": {"a": "0"}}}]},
            {"departed": [{**ONE, "threads": {"1": {"a": "1"}}}]},
        ),
        (
            {"departed": [{**ONE, "threads": {"1": {}}}]},
            {"departed": [{**ONE, "threads": {"01": {}}}]},
        ),
        (
            {"departed": [{**ONE, "topics": {"a": 10_000}}]},
            {"departed": [{**ONE, "topics": {"a": 10_001}}]},
        ),
        (
            {"departed": [{**ONE, "topics": {"a": 1}}]},
            {"departed": [{**ONE, "topics": {"a": 0}}]},
        ),
        (
            {"departed": [{**ONE, "partitions": {"a": "3-3,9"}}]},
            {
                "departed": [
                    {**ONE, "partitions": {"a": "3-3,9-"}},
                    {**ONE, "partitions": {"a": "-"}},
                ]
            },
        ),
        ({"mode": "x" * 1_000}, {"mode": "x" * 1_001}),
        ({"problems": ["x" * 1_000]}, {"problems": ["x" * 1_001]}),
        ({"cause": {"reason": "", "trigger": ""}}, {"cause": {"reason": ""}}),
    ],
)
def test_just_within_and_just_above(good: dict[str, object], bad: dict[str, object]) -> None:
    assert isinstance(decode_metadata("g", changed(**good)), GroupMetadata)
    assert isinstance(decode_metadata("g", changed(**bad)), Malformed)


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


def test_only_of_a_paused_group_a_pause_is_written() -> None:
    """What readers of earlier releases see of the others is as ever."""
    plain = GroupMetadata(7)
    assert "paused" not in json.loads(encode_metadata(plain))
    assert json.loads(encode_metadata(dataclasses.replace(plain, paused="ann")))["paused"] == "ann"
