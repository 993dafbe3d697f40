"""Owners, offsets, incarnations, epoch, leader."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.znodes import strategies
from zkcoord.core.model import Malformed, Owner, Thread
from zkcoord.znodes import codec
from zkcoord.znodes.codec import EpochData, LeaderData, OffsetsOf, Vacant
from zkcoord.znodes.commit_metadata import fits
from zkcoord.znodes.stat import Stat


@given(strategies.members, strategies.numbers, strategies.stats)
def test_owner_round_trip(member: str, number: int, stat: Stat) -> None:
    thread = Thread(member, number)
    assert codec.encode_owner(thread) == f"{member}-{number}".encode()
    assert codec.decode_owner("t-0", codec.encode_owner(thread), stat) == Owner(
        stat.ephemeral_owner, thread, stat.version, stat.czxid
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"m",
        b"-0",
        b"m-",
        b"m-00",
        b"m-x",
        b"a/b-0",
        b"a\tb-0",
        b"m-0\n",
        "a\u202eb-0".encode(),
        b"\xff-0",
        b"x" * 700 + b"-0",
    ],
)
def test_malformed_owner(data: bytes) -> None:
    assert isinstance(codec.decode_owner("t-0", data, Stat(1, 1, 1, 0, 5, 0)), Malformed)


def test_a_persistent_owner_is_malformed() -> None:
    assert isinstance(codec.decode_owner("t-0", b"m-0", Stat(1, 1, 1, 0, 0, 0)), Malformed)


@given(strategies.counters)
def test_offset_round_trip(offset: int) -> None:
    assert codec.encode_offset(offset) == str(offset).encode()
    assert codec.decode_offset("t-0", codec.encode_offset(offset)) == offset


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"-1",
        b" 1",
        b"+",
        b"1\n",
        b"1_0",
        b"1.0",
        b"0x1",
        b"9223372036854775808",
        b"1" * 20,
        b"1" * 200,
        b"\xff",
        b"17L",
        b"None",
    ],
)
def test_malformed_offset(data: bytes) -> None:
    found = codec.decode_offset("t-0", data)
    assert isinstance(found, Malformed) and found.name == "t-0"


@pytest.mark.parametrize("text", ["17", "+17", "0017", "١٧", "１７"])
def test_an_offset_is_read_as_old_consumers_read_it(text: str) -> None:
    assert codec.decode_offset("t-0", text.encode()) == 17


@pytest.mark.parametrize("offset", [-1, 2**63])
def test_no_impossible_offset_is_written(offset: int) -> None:
    with pytest.raises(AssertionError):
        codec.encode_offset(offset)


def test_incarnation() -> None:
    for stored in (
        OffsetsOf("17"),
        OffsetsOf("17.Bl8Xn2lZQv2NBzqXW7TvTw"),
        OffsetsOf("17.Bl8Xn2lZQv2NBzqXW7TvTw", newer_only=True),
    ):
        assert codec.decode_incarnation("t", codec.encode_incarnation(stored)) == stored
    assert codec.decode_incarnation("t", b"") == Vacant()
    for bad in (b"a b", b"x" * 65, b"1" * 20, b"17.", b"17++", b"17." + b"x" * 65, "１７".encode()):
        assert isinstance(codec.decode_incarnation("t", bad), Malformed)


@pytest.mark.parametrize("text", ["why", 'söm\n"é" 😀', "x" * 4_096, "\x00", "{}"])
def test_commit_metadata(text: str) -> None:
    """It counts beside its own offset only."""
    data = codec.encode_commit_metadata(codec.CommitMetadata(7, text))
    found = codec.decode_commit_metadata("t-0", data)
    assert isinstance(found, codec.CommitMetadata) and found == codec.CommitMetadata(7, text)
    assert found.beside(7) == text and found.beside(8) == found.beside(None) == ""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"why",
        b"7",
        b'{"version":1,"offset":7}' + b"x",
        b'{"version":2,"offset":7,"metadata":"why"}',
        b'{"version":1,"offset":-7,"metadata":"why"}',
        b'{"version":1,"offset":"7","metadata":"why"}',
        b'{"version":1,"offset":7,"metadata":7}',
        b'{"version":1,"offset":7,"metadata":"' + b"x" * 4_097 + b'"}',
    ],
)
def test_what_is_no_commit_metadata(data: bytes) -> None:
    assert isinstance(codec.decode_commit_metadata("t-0", data), Malformed)


@pytest.mark.parametrize(("text", "good"), [("x" * 4_096, True), ("😀" * 2_049, False), ("", True)])
def test_what_a_broker_would_take(text: str, good: bool) -> None:
    """It counts units of UTF-16."""
    assert fits(text) is good


@given(strategies.epochs)
def test_epoch_round_trip(epoch: EpochData) -> None:
    assert codec.decode_epoch(codec.encode_epoch(epoch)) == epoch


def test_an_empty_epoch_node_is_vacant() -> None:
    assert codec.decode_epoch(b"") == Vacant()


@pytest.mark.parametrize(
    "data",
    [
        b"7",
        b"{}",
        b'{"version":1,"epoch":0,"protocol":1,"lease_max_ms":1}',
        b'{"version":1,"epoch":9007199254740992,"protocol":1,"lease_max_ms":1}',
        b'{"version":1,"epoch":9223372036854775807,"protocol":1,"lease_max_ms":1}',
        b'{"version":2,"epoch":1,"protocol":1,"lease_max_ms":1}',
        b"127.0.0.1",
    ],
)
def test_malformed_epoch(data: bytes) -> None:
    assert isinstance(codec.decode_epoch(data), Malformed)


@given(strategies.leaders)
def test_leader_round_trip(leader: LeaderData) -> None:
    assert codec.decode_leader(codec.encode_leader(leader)) == leader


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1",
        b'{"version":1,"brokerid":"1","host":"h","port":70000,"epoch":1,"timestamp":"1"}',
        b'{"version":1,"brokerid":1,"host":"h","port":7,"epoch":1,"timestamp":"1"}',
    ],
)
def test_malformed_leader(data: bytes) -> None:
    assert isinstance(codec.decode_leader(data), Malformed)
