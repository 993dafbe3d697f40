"""Requests of every version in, answers of every version out, read again by kafka-python."""

from __future__ import annotations

import random
from typing import Any

import pytest

from consumer.gateway import frames, member_frames
from consumer.gateway.address import Address
from consumer.gateway.frames import BadFrameError, Head
from consumer.gateway.wire import requests as wire
from tests.consumer.gateway.recordings import CLIENT, CORRELATION, framed, requests
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition

MUTANTS = 5_000
RECORDED = list(requests())
IDS = [f"{key}-v{version}" for key, version, _ in RECORDED]
TP = TopicPartition("t", 1)


def decoded(version: int, request: Any) -> tuple[Head, Any]:
    """As a gateway reads it."""
    frame = framed(version, request)[4:]
    head = frames.decode_head(frame)
    return head, frames.decode(head, frame)


def answered(head: Head, frame: bytes) -> Any:
    """As a client reads it."""
    found = frames._CLASSES[head.key][1].decode(frame[4:], version=head.version, header=True)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert found.header.correlation_id == CORRELATION
    return found


@pytest.mark.parametrize(("key", "version", "request_"), RECORDED, ids=IDS)
def test_a_request_is_read_at_every_version(key: int, version: int, request_: Any) -> None:
    head, body = decoded(version, request_)
    assert head == Head(key, version, CORRELATION, CLIENT)
    assert set(frames.group_of(head, body)) <= {"g", "h"}
    if key not in frames.MEMBERS_APIS:
        return
    found = member_frames.member_request(head, body)
    assert found.group == "g"
    match found:
        case wire.JoinRequest():
            assert found.member_id == "m" and found.protocols[0][0] == "range"
            assert found.instance == ("i" if version >= 5 else None)
            assert found.named_first is (version >= 4)
            assert found.rebalance_timeout_ms == (60_000 if version else 10_000)
        case wire.SyncRequest():
            assert (found.generation, found.instance) == (3, "i" if version >= 3 else None)
            assert found.protocol_name == ("range" if version >= 5 else "")
        case wire.HeartbeatRequest():
            assert (found.generation, found.instance) == (3, "i" if version >= 3 else None)
        case wire.LeaveRequest():
            assert found.members == (("m", "i" if version >= 3 else None),)
            assert found.batch is (version >= 3)
        case wire.CommitRequest():
            assert found.offsets == {TP: (42, "why")}
            assert found.generation == (3 if version else -1)
            assert found.instance == ("i" if version >= 7 else None)


MEMBERS = [
    (key, version, request, answer)
    for key, version, request in RECORDED
    for answer in {
        frames.JOIN_GROUP: (
            wire.JoinAnswer(WireCode.NONE, "m", 4, "range"),
            wire.JoinAnswer(WireCode.MEMBER_ID_REQUIRED, "m"),
            wire.JoinAnswer(WireCode.INVALID_GROUP_ID),
        ),
        frames.SYNC_GROUP: (
            wire.SyncAnswer(WireCode.NONE, (TP,), "range"),
            wire.SyncAnswer(WireCode.ILLEGAL_GENERATION),
        ),
        frames.HEARTBEAT: (
            wire.BeatAnswer(WireCode.NONE),
            wire.BeatAnswer(WireCode.REBALANCE_IN_PROGRESS),
        ),
        frames.LEAVE_GROUP: (
            wire.LeaveAnswer(WireCode.NONE, (WireCode.UNKNOWN_MEMBER_ID,)),
            wire.LeaveAnswer(WireCode.INVALID_GROUP_ID),
        ),
        frames.OFFSET_COMMIT: (
            wire.CommitAnswer(WireCode.NONE),
            wire.CommitAnswer(WireCode.UNKNOWN_MEMBER_ID),
            wire.CommitAnswer(WireCode.NONE, {TP: WireCode.OFFSET_METADATA_TOO_LARGE}),
        ),
    }.get(key, ())
]


@pytest.mark.parametrize(
    ("key", "version", "request_", "answer"),
    MEMBERS,
    ids=[f"{key}-v{version}-{answer.code.name}" for key, version, _, answer in MEMBERS],
)
def test_a_members_answer_is_written_at_every_version(
    key: int, version: int, request_: Any, answer: wire.Answer
) -> None:
    head, body = decoded(version, request_)
    found = answered(head, member_frames.encode_answer(head, body, answer))
    match answer:
        case wire.JoinAnswer():
            assert found.error_code == answer.code
            assert (found.member_id, found.generation_id) == (answer.member_id, answer.generation)
            assert (found.leader, list(found.members)) == ("", [])
            assert (found.protocol_name or "") == answer.protocol
        case wire.SyncAnswer():
            assert found.error_code == answer.code
            assert bool(found.assignment) is (answer.code is WireCode.NONE)
        case wire.BeatAnswer():
            assert found.error_code == answer.code
        case wire.LeaveAnswer():
            assert found.error_code == answer.code
            if version >= 3:
                assert [m.error_code for m in found.members] == list(answer.members)
        case wire.CommitAnswer():
            (topic,) = found.topics
            (partition,) = topic.partitions
            assert (topic.name, partition.partition_index) == ("t", 1)
            assert partition.error_code == answer.others.get(TP, answer.code)


@pytest.mark.parametrize("version", range(10))
@pytest.mark.parametrize("stored", [{TP: (42, "why")}, {}, WireCode.COORDINATOR_NOT_AVAILABLE])
def test_stored_offsets_are_written_at_every_version(version: int, stored: Any) -> None:
    request = next(r for k, v, r in RECORDED if (k, v) == (frames.OFFSET_FETCH, version))
    head, body = decoded(version, request)
    found = answered(head, frames.fetched_offsets(head, body, {"g": stored}))
    of = found.groups[0] if version >= 8 else found
    code = stored if isinstance(stored, WireCode) else 0
    if version >= 2:
        assert of.error_code == code
        if code:
            return
    partitions = {p.partition_index: p for topic in of.topics for p in topic.partitions}
    assert sorted(partitions) == [0, 1]
    assert partitions[0].committed_offset == -1
    if isinstance(stored, WireCode):
        assert {p.error_code for p in partitions.values()} == {code}
    else:
        assert partitions[1].committed_offset == (42 if stored else -1)
        assert partitions[1].metadata == ("why" if stored else "")


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_is_this_gateway_for_every_key(version: int) -> None:
    request = next(r for k, v, r in RECORDED if (k, v) == (frames.FIND_COORDINATOR, version))
    head, body = decoded(version, request)
    keys = frames.coordinator_keys(head, body)
    assert keys == (("g", "h") if version >= 4 else ("g",))
    here = Address("gw", 9192)
    found = answered(head, frames.found_coordinator(head, keys, keys, 5, here))
    for one in found.coordinators if version >= 4 else (found,):
        assert (one.error_code, one.node_id, one.host, one.port) == (0, 5, "gw", 9192)
    found = answered(head, frames.found_coordinator(head, keys, keys[1:], 5, here))
    one = found.coordinators[0] if version >= 4 else found
    assert one.error_code == WireCode.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("key", "version", "request_"),
    [one for one in RECORDED if one[0] in frames.TRANSACTIONS],
    ids=[i for i, one in zip(IDS, RECORDED, strict=True) if one[0] in frames.TRANSACTIONS],
)
def test_offsets_of_a_transaction_are_refused(key: int, version: int, request_: Any) -> None:
    head, body = decoded(version, request_)
    found = answered(head, frames.refused_transaction(head, body))
    codes = (
        [found.error_code]
        if key == frames.ADD_OFFSETS_TO_TXN
        else [p.error_code for t in found.topics for p in t.partitions]
    )
    assert codes == [WireCode.GROUP_AUTHORIZATION_FAILED]


def test_a_version_that_was_not_offered_is_no_request() -> None:
    for key, highest in frames.MAX_VERSIONS.items():
        for version in (-1, highest + 1):
            with pytest.raises(BadFrameError):
                frames.decode(Head(key, version, 1, ""), b"\0" * 40)


def hostile(seed: int) -> bytes:
    """A recorded request with something changed: bytes, its end, its length."""
    draw = random.Random(seed)
    key, version, request = draw.choice(RECORDED)
    frame = bytearray(framed(version, request)[4:])
    match draw.randrange(4):
        case 0:
            del frame[draw.randrange(len(frame)) :]
        case 1:
            for _ in range(draw.randint(1, 6)):
                frame[draw.randrange(len(frame))] = draw.randrange(256)
        case 2:
            at = draw.randrange(len(frame))
            frame[at:at] = draw.randbytes(draw.randint(1, 9))
        case _:
            at = draw.randrange(8, len(frame))
            frame[at : at + 4] = draw.choice((b"\x7f\xff\xff\xff", b"\xff" * 4, b"\x80\0\0\0"))
    return bytes(frame)


def read(frame: bytes) -> None:
    """As a gateway reads it."""
    head = frames.decode_head(frame)
    if head.key in frames.MAX_VERSIONS:
        body = frames.decode(head, frame)
        frames.group_of(head, body)
        if head.key in frames.MEMBERS_APIS:
            member_frames.member_request(head, body)
        if head.key == frames.FIND_COORDINATOR:
            frames.coordinator_keys(head, body)


@pytest.mark.parametrize("count", [MUTANTS, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_hostile_frames_are_requests_or_refused(count: int) -> None:
    refused = 0
    for seed in range(count):
        try:
            read(hostile(seed))
        except BadFrameError:
            refused += 1
    assert refused > count // 5
