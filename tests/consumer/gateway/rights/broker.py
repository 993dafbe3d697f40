"""A connection whose broker refuses some names, as Kafka's authorizer would."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from kafka.protocol.admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
)

from consumer.gateway import frames
from consumer.gateway.frames import Head
from consumer.gateway.rights.permitted import Permitted
from consumer.gateway.rights.questions import Right

NO_SUCH_PARTITION, NOBODY = 3, 25


class GuardedConnection:
    """Answers questions at once, or once they are `release`d where `holds`. `asked`: the names of
    each. `code`: what is said of each name, instead of what a broker says. `dropped`: why it was
    closed.
    """

    def __init__(self, *denied: str, holds: bool = False) -> None:
        self.denied = frozenset(denied)
        self.permitted = Permitted()
        self.questions = {right.value: 0 for right in Right}
        self.asked: list[tuple[int, list[str], Head | None]] = []
        self.holds = holds
        self.code: int | None = None
        self.dropped: list[str] = []
        self.held: list[Callable[[], None]] = []

    def ask(self, head: Head, frame: bytes, before: Head | None = None) -> asyncio.Future[bytes]:
        """See `ClientConnection`."""
        names, answer = self._answer(head, frame[4:])
        self.asked.append((head.key, names, before))
        found: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.held.append(lambda: found.set_result(answer))
        if not self.holds:
            self.release()
        return found

    def release(self) -> None:
        """Answer what was asked."""
        for give in self.held:
            give()
        self.held.clear()

    def _answer(self, head: Head, frame: bytes) -> tuple[list[str], bytes]:
        names, response = _READ[head.key](head, frame, self.denied)
        if self.code is not None:
            _overwrite(response, self.code)
        response.API_VERSION = head.version
        response.with_header(correlation_id=head.correlation_id)
        return names, bytes(response.encode(header=True, framed=False))

    def drop(self, why: str) -> None:
        """Noted."""
        self.dropped.append(why)

    @property
    def counts(self) -> dict[str, int]:
        """How many questions there were, without zeros."""
        return dict(+Counter(self.questions))


def _overwrite(response: Any, code: int) -> None:
    """Each error code of an answer is this one."""
    if hasattr(response, "error_code"):
        response.error_code = code
    for name in ("groups", "topics", "responses", "partitions"):
        for part in getattr(response, name, None) or ():
            _overwrite(part, code)


def _heartbeat(head: Head, frame: bytes, denied: frozenset[str]) -> tuple[list[str], Any]:
    body = HeartbeatRequest.decode(frame, version=head.version, header=True)
    assert (body.generation_id, body.member_id) == (-1, ""), "it would have an effect"
    code = 30 if body.group_id in denied else NOBODY
    return [body.group_id], HeartbeatResponse(error_code=code)


def _deletion(head: Head, frame: bytes, denied: frozenset[str]) -> tuple[list[str], Any]:
    body = OffsetDeleteRequest.decode(frame, version=head.version, header=True)
    assert body.topics == [], "it would have an effect"
    code = 30 if body.group_id in denied else 69
    response = OffsetDeleteResponse(error_code=code, throttle_time_ms=0, topics=[])
    return [body.group_id], response


def _description(head: Head, frame: bytes, denied: frozenset[str]) -> tuple[list[str], Any]:
    """A broker names those first that are refused."""
    body = DescribeGroupsRequest.decode(frame, version=head.version, header=True)
    of = DescribeGroupsResponse.DescribedGroup
    groups = [
        of(
            error_code=30 if group in denied else 0,
            group_id=group,
            group_state="",
            protocol_type="",
            protocol_data="",
            members=[],
        )
        for group in sorted(body.groups, key=lambda group: group not in denied)
    ]
    return list(body.groups), DescribeGroupsResponse(groups=groups)


def _records(head: Head, frame: bytes, denied: frozenset[str]) -> tuple[list[str], Any]:
    body = FetchRequest.decode(frame, version=head.version, header=True)
    assert (body.max_wait_ms, body.replica_id) == (0, -1)
    assert {p.partition for topic in body.topics for p in topic.partitions} == {-1}
    of = FetchResponse.FetchableTopicResponse
    topics = [
        of(
            topic=topic.topic,
            partitions=[
                of.PartitionData(
                    partition_index=-1,
                    error_code=29 if topic.topic in denied else NO_SUCH_PARTITION,
                    high_watermark=-1,
                    last_stable_offset=-1,
                    aborted_transactions=[],
                    records=b"",
                )
            ],
        )
        for topic in body.topics
    ]
    response = FetchResponse(throttle_time_ms=0, responses=topics)
    return [topic.topic for topic in body.topics], response


def _nobodys_commit(head: Head, frame: bytes, denied: frozenset[str]) -> tuple[list[str], Any]:
    body = OffsetCommitRequest.decode(frame, version=head.version, header=True)
    assert body.generation_id_or_member_epoch > 2**31 - 2, "it could be stored"
    assert {p.partition_index for topic in body.topics for p in topic.partitions} == {-1}
    of = OffsetCommitResponse.OffsetCommitResponseTopic
    topics = [
        of(
            name=topic.name,
            partitions=[
                of.OffsetCommitResponsePartition(
                    partition_index=-1,
                    error_code=29 if topic.name in denied else NO_SUCH_PARTITION,
                )
            ],
        )
        for topic in body.topics
    ]
    return [topic.name for topic in body.topics], OffsetCommitResponse(topics=topics)


def _ends(head: Head, frame: bytes, denied: frozenset[str]) -> tuple[list[str], Any]:
    body = ListOffsetsRequest.decode(frame, version=head.version, header=True)
    assert {p.partition_index for topic in body.topics for p in topic.partitions} == {-1}
    of = ListOffsetsResponse.ListOffsetsTopicResponse
    topics = [
        of(
            name=topic.name,
            partitions=[
                of.ListOffsetsPartitionResponse(
                    partition_index=-1,
                    error_code=29 if topic.name in denied else NO_SUCH_PARTITION,
                    timestamp=-1,
                    offset=-1,
                )
            ],
        )
        for topic in body.topics
    ]
    return [topic.name for topic in body.topics], ListOffsetsResponse(topics=topics)


_READ: dict[int, Callable[[Head, bytes, frozenset[str]], tuple[list[str], Any]]] = {
    frames.HEARTBEAT: _heartbeat,
    frames.OFFSET_DELETE: _deletion,
    frames.DESCRIBE_GROUPS: _description,
    frames.OFFSET_COMMIT: _nobodys_commit,
    frames.FETCH: _records,
    frames.LIST_OFFSETS: _ends,
}
