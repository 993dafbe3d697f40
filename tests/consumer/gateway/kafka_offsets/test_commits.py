"""Offsets that Kafka keeps: who stores them is checked before and, in a transaction, after."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, cast

import pytest
from kafka.protocol.consumer import OffsetCommitResponse
from kafka.protocol.producer import TxnOffsetCommitRequest, TxnOffsetCommitResponse

from consumer.gateway import frames
from consumer.gateway.frames import OFFSET_COMMIT, TXN_OFFSET_COMMIT, Head
from consumer.gateway.kafka_offsets.commits import KafkaCommits
from consumer.gateway.wire.requests import CommitAnswer, MayCommitRequest
from tests.consumer.gateway.kafka_offsets.connections import KeptConnection, run_here
from tests.consumer.gateway.recordings import framed, requests
from zkcoord.core.error_codes import WireCode

NONE, OLD, NOBODY, AWAY = (
    WireCode.NONE,
    WireCode.ILLEGAL_GENERATION,
    WireCode.UNKNOWN_MEMBER_ID,
    WireCode.COORDINATOR_NOT_AVAILABLE,
)
KINDS = (OFFSET_COMMIT, TXN_OFFSET_COMMIT)
NEWEST = {key: frames.MAX_VERSIONS[key] for key in KINDS}
SINCE_MEMBERS = {OFFSET_COMMIT: 1, TXN_OFFSET_COMMIT: 3}
SINCE_INSTANCES = {OFFSET_COMMIT: 7, TXN_OFFSET_COMMIT: 3}


class Members:
    """Says these codes, one after the other."""

    def __init__(self, codes: Iterable[WireCode]) -> None:
        self.asked: list[MayCommitRequest] = []
        self._codes = iter(codes)

    async def ask(self, connection: Any, head: Head, request: Any) -> CommitAnswer:
        """See `MembersFront`."""
        self.asked.append(request)
        return CommitAnswer(next(self._codes))


def stored(head: Head, body: Any) -> dict[str, Any]:
    """What a broker says that has stored all."""
    of = (OffsetCommitResponse.OffsetCommitResponseTopic) if head.key == OFFSET_COMMIT else None
    part = of.OffsetCommitResponsePartition if of is not None else None
    if of is None:
        of = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
        part = of.TxnOffsetCommitResponsePartition
    topics = [
        of(
            name=topic.name,
            partitions=[
                part(partition_index=p.partition_index, error_code=0) for p in topic.partitions
            ],
        )
        for topic in body.topics
    ]
    return {"throttle_time_ms": 0, "topics": topics}


class Scene:
    """One request, answered."""

    def __init__(
        self,
        frame: bytes,
        *codes: WireCode,
        denied: Iterable[str] = (),
        answers: bool = True,
    ) -> None:
        self.members = Members(codes)
        self.head = frames.decode_head(frame[4:])
        self.body = frames.decode(self.head, frame[4:])
        self.client = KeptConnection(*denied, answering=stored if answers else None)

    def serve(self) -> None:
        """To its end."""

        async def served() -> None:
            commits = KafkaCommits(self.members, run_here)
            await commits.serve(cast("Any", self.client), self.head, self.body)

        asyncio.run(served())
        assert self.client.holding is None, "what comes behind is read again"

    def codes(self) -> set[int]:
        """What was answered of partitions."""
        assert self.client.answer is not None
        answer, _ = frames.decode_answer(self.head, self.client.answer)
        return {part.error_code for topic in answer.topics for part in topic.partitions}


def recorded(key: int, version: int) -> bytes:
    """A request of this version."""
    found = next(one for k, v, one in requests() if (k, v) == (key, version))
    return framed(version, found)


@pytest.mark.parametrize(
    ("key", "version"), [(key, version) for key in KINDS for version in range(NEWEST[key] + 1)]
)
def test_it_is_stored_in_nobodys_name(key: int, version: int) -> None:
    scene = Scene(recorded(key, version), NONE, NONE)
    scene.serve()
    assert scene.codes() == {0}
    (passed,) = scene.client.passed_on
    member = getattr(passed, "member_id", None) or ""
    named = "generation_id" if key == TXN_OFFSET_COMMIT else "generation_id_or_member_epoch"
    assert (member, passed.group_instance_id) == ("", None)
    assert version < SINCE_MEMBERS[key] or getattr(passed, named) == -1
    for field in ("group_id", "topics", "transactional_id", "producer_id", "producer_epoch"):
        assert getattr(passed, field, None) == getattr(scene.body, field, None)
    in_transaction = key == TXN_OFFSET_COMMIT
    if version < SINCE_MEMBERS[key]:
        expected = [] if in_transaction else [MayCommitRequest("g", "", -1)]
    else:
        instance = scene.body.group_instance_id if version >= SINCE_INSTANCES[key] else None
        generation = getattr(scene.body, named)
        once = MayCommitRequest("g", "m", generation, instance, in_transaction)
        expected = [once, once] if in_transaction else [once]
    assert scene.members.asked == expected


@pytest.mark.parametrize("key", KINDS)
@pytest.mark.parametrize("code", [OLD, NOBODY, WireCode.FENCED_INSTANCE_ID, AWAY])
def test_who_may_not_is_refused_and_nothing_is_asked_of_kafka(key: int, code: WireCode) -> None:
    scene = Scene(recorded(key, NEWEST[key]), code)
    scene.serve()
    assert scene.codes() == {code} and scene.client.passed_on == []


@pytest.mark.parametrize("code", [OLD, NOBODY, WireCode.FENCED_INSTANCE_ID, AWAY])
def test_who_may_no_more_once_its_offsets_are_pending_is_refused(code: WireCode) -> None:
    scene = Scene(recorded(TXN_OFFSET_COMMIT, NEWEST[TXN_OFFSET_COMMIT]), NONE, code)
    scene.serve()
    assert scene.codes() == {code} and len(scene.client.passed_on) == 1


@pytest.mark.parametrize("key", KINDS)
def test_whom_the_broker_does_not_let_read_the_group_hears_nothing_of_members(key: int) -> None:
    scene = Scene(recorded(key, NEWEST[key]), denied=("g",))
    scene.serve()
    assert scene.codes() == {WireCode.GROUP_AUTHORIZATION_FAILED}
    assert scene.members.asked == scene.client.passed_on == []


def test_a_producer_that_names_no_member_is_not_asked_for_one() -> None:
    whole = recorded(TXN_OFFSET_COMMIT, NEWEST[TXN_OFFSET_COMMIT])
    body = frames.decode(frames.decode_head(whole[4:]), whole[4:])
    asked = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=1,
        producer_epoch=0,
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=body.topics,
    )
    scene = Scene(framed(NEWEST[TXN_OFFSET_COMMIT], asked))
    scene.serve()
    assert scene.codes() == {0} and scene.members.asked == []


@pytest.mark.parametrize("key", KINDS)
def test_where_the_broker_goes_the_client_is_closed(key: int) -> None:
    scene = Scene(recorded(key, NEWEST[key]), NONE, answers=False)
    with pytest.raises(asyncio.CancelledError):
        scene.serve()
    assert scene.client.closed and scene.client.answer is None
    assert scene.client.holding is None
