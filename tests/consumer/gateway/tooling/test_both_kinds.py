"""Which part of a request about several groups is whose to answer."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse
from kafka.protocol.consumer import OffsetFetchRequest

from consumer.gateway import frames
from consumer.gateway.frames import DELETE_GROUPS, DESCRIBE_GROUPS, OFFSET_FETCH, Head
from consumer.gateway.kafka_offsets.passing_on import names_member
from consumer.gateway.tooling.both_kinds import is_answered_here, joined, parted
from tests.consumer.gateway.recordings import framed

NOT_FOUND, DENIED = 69, 30
FETCH_V, DESCRIBE_V = 9, 6


def is_ours(group: str) -> bool:
    """Whether it is coordinated here."""
    return not group.startswith("kafkas")


def is_kept(group: str) -> bool:
    """Whether Kafka has its offsets."""
    return group.startswith("kept")


def read(version: int, request: Any) -> tuple[Head, Any]:
    """A request as it comes."""
    frame = framed(version, request)[4:]
    head = frames.decode_head(frame)
    return head, frames.decode(head, frame)


@pytest.mark.parametrize(
    ("key", "group", "here"),
    [
        (OFFSET_FETCH, "ours", True),
        (OFFSET_FETCH, "kept", False),
        (OFFSET_FETCH, "kafkas", False),
        (DESCRIBE_GROUPS, "kept", True),
        (DELETE_GROUPS, "kept", True),
        (DELETE_GROUPS, "kafkas", False),
    ],
)
def test_whose_it_is(key: int, group: str, here: bool) -> None:
    assert is_answered_here(key, group, is_ours, is_kept) is here


def test_the_broker_is_asked_for_offsets_that_it_keeps_without_who_asks() -> None:
    of = OffsetFetchRequest.OffsetFetchRequestGroup
    groups = [
        of(group_id=name, member_id="m", member_epoch=3, topics=None)
        for name in ("ours", "kept", "kafkas")
    ]
    head, body = read(FETCH_V, OffsetFetchRequest(groups=groups, require_stable=True))
    assert names_member(head, body.groups)
    ours, asked = parted(head, body, is_ours, is_kept)
    assert [group.group_id for group in ours.groups] == ["ours"]
    assert asked is not None
    theirs = frames.decode(asked[0], asked[1][4:])
    told = [(group.group_id, group.member_id, group.member_epoch) for group in theirs.groups]
    assert told == [("kept", None, -1), ("kafkas", None, -1)] and theirs.require_stable


def described(*groups: tuple[str, int, str]) -> dict[str, Any]:
    """Fields of an answer to DescribeGroups."""
    of = DescribeGroupsResponse.DescribedGroup
    found = [
        of(
            group_id=name,
            error_code=code,
            error_message=None,
            group_state=state,
            protocol_type="",
            protocol_data="",
            members=[],
        )
        for name, code, state in groups
    ]
    return {"throttle_time_ms": 0, "groups": found}


def test_of_a_group_that_is_not_here_the_broker_is_believed() -> None:
    names = ["ours", "kept-live", "kept-alone", "kept-denied", "kafkas"]
    asked = DescribeGroupsRequest(groups=names, include_authorized_operations=False)
    head, body = read(DESCRIBE_V, asked)
    ours, to_broker = parted(head, body, is_ours, is_kept)
    assert ours.groups == names[:-1] and to_broker is not None
    theirs = frames.decode(to_broker[0], to_broker[1][4:])
    assert theirs.groups == names[1:]
    mine = described(
        ("ours", 0, "Stable"),
        ("kept-live", 0, "Stable"),
        ("kept-alone", NOT_FOUND, "Dead"),
        ("kept-denied", DENIED, ""),
    )
    others = described(*((name, 0, "Empty") for name in names[1:]))
    frame = joined(head, frames.encode(head, **mine), frames.encode(head, **others)[4:])
    answer, _ = frames.decode_answer(head, frame)
    assert [(one.group_id, one.error_code, one.group_state) for one in answer.groups] == [
        ("ours", 0, "Stable"),
        ("kept-live", 0, "Stable"),
        ("kept-alone", 0, "Empty"),
        ("kept-denied", DENIED, ""),
        ("kafkas", 0, "Empty"),
    ]
