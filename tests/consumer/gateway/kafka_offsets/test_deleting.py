"""Groups and offsets that are deleted here are deleted in Kafka too, where Kafka keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from kafka.protocol.admin import DeleteGroupsRequest, DeleteGroupsResponse
from kafka.protocol.consumer import OffsetDeleteRequest, OffsetDeleteResponse

from consumer.gateway import frames
from consumer.gateway.frames import DELETE_GROUPS, OFFSET_DELETE, Head
from consumer.gateway.kafka_offsets.deleting import deleted_too
from tests.consumer.gateway.kafka_offsets.connections import KeptConnection
from tests.consumer.gateway.recordings import framed

OK, THROTTLED, NON_EMPTY, NOT_FOUND, READ, NO_SUCH = 0, 0, 68, 69, 86, 3
Codes = Mapping[str, int]
Topics = Mapping[tuple[str, int], int]


def results(codes: Codes) -> dict[str, Any]:
    """Fields of an answer to DeleteGroups."""
    of = DeleteGroupsResponse.DeletableGroupResult
    found = [of(group_id=name, error_code=code) for name, code in codes.items()]
    return {"throttle_time_ms": THROTTLED, "results": found}


def groups(ours: Codes, theirs: Codes) -> tuple[Codes, list[list[str]]]:
    """What is answered, and what the broker was asked; groups whose names begin with "k" are kept
    there.
    """
    frame = framed(2, DeleteGroupsRequest(groups_names=list(ours)))[4:]
    head = frames.decode_head(frame)
    body = frames.decode(head, frame)
    client = KeptConnection(answering=lambda _, asked: results(theirs))
    client.hold_up(head)
    answer = done(client, head, body, frames.encode(head, **results(ours)))
    return (
        {one.group_id: one.error_code for one in answer.results},
        [asked.groups_names for asked in client.passed_on],
    )


def done(client: KeptConnection, head: Head, body: Any, ours: bytes) -> Any:
    """The answer."""

    async def both() -> bytes:
        return await deleted_too(
            cast("Any", client), head, body, ours, lambda group: group.startswith("k")
        )

    return frames.decode_answer(head, asyncio.run(both()))[0]


def test_a_group_that_is_not_here_any_more_is_deleted_there() -> None:
    ours = {"k1": OK, "k2": NOT_FOUND, "k3": NON_EMPTY, "other": OK}
    answered, asked = groups(ours, {"k1": NOT_FOUND, "k2": OK})
    assert answered == {"k1": OK, "k2": OK, "k3": NON_EMPTY, "other": OK}
    assert asked == [["k1", "k2"]]


def test_what_is_nowhere_is_not_found_and_what_kafka_refuses_is_refused() -> None:
    answered, _ = groups({"k1": NOT_FOUND, "k2": OK}, {"k1": NOT_FOUND, "k2": 15, "strange": 0})
    assert answered == {"k1": NOT_FOUND, "k2": 15}


def test_nothing_is_asked_for_groups_that_stay() -> None:
    assert groups({"k": NON_EMPTY, "other": OK}, {}) == ({"k": NON_EMPTY, "other": OK}, [])


def topics(codes: Topics) -> list[Any]:
    """Of an answer to OffsetDelete."""
    of = OffsetDeleteResponse.OffsetDeleteResponseTopic
    part = of.OffsetDeleteResponsePartition
    return [
        of(name=name, partitions=[part(partition_index=number, error_code=code)])
        for (name, number), code in codes.items()
    ]


def offsets(
    group: str, code: int, ours: Topics, theirs: Topics, their_code: int = OK
) -> tuple[int, Topics, list[list[str]]]:
    """What is answered, and the topics of which the broker was asked."""
    of = OffsetDeleteRequest.OffsetDeleteRequestTopic
    part = of.OffsetDeleteRequestPartition
    asked = [of(name=t, partitions=[part(partition_index=n)]) for t, n in ours]
    frame = framed(0, OffsetDeleteRequest(group_id=group, topics=asked))[4:]
    head = frames.decode_head(frame)
    assert head.key == OFFSET_DELETE != DELETE_GROUPS

    def answering(_: Head, body: Any) -> dict[str, Any]:
        return {"error_code": their_code, "throttle_time_ms": 0, "topics": topics(theirs)}

    client = KeptConnection(answering=answering)
    client.hold_up(head)
    mine = frames.encode(head, error_code=code, throttle_time_ms=0, topics=topics(ours))
    answer = done(client, head, frames.decode(head, frame), mine)
    found = {(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}
    return answer.error_code, found, [[t.name for t in one.topics] for one in client.passed_on]


def test_offsets_are_deleted_there_but_of_topics_that_are_read() -> None:
    ours = {("t", 0): OK, ("u", 1): READ, ("v", 2): NO_SUCH}
    theirs = {("t", 0): OK, ("v", 2): OK}
    assert offsets("k", OK, ours, theirs) == (OK, {**theirs, ("u", 1): READ}, [["t", "v"]])
    assert offsets("k", OK, {("u", 1): READ}, {}) == (OK, {("u", 1): READ}, [])


def test_of_a_group_with_members_they_are_not() -> None:
    assert offsets("k", NON_EMPTY, {("t", 0): OK}, {}) == (NON_EMPTY, {("t", 0): OK}, [])
    assert offsets("other", OK, {("t", 0): OK}, {}) == (OK, {("t", 0): OK}, [])


def test_what_kafka_refuses_of_them_is_refused() -> None:
    found = offsets("k", NOT_FOUND, {("t", 0): OK}, {}, NOT_FOUND)
    assert found == (NOT_FOUND, {}, [["t"]])
