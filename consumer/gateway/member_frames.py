"""Requests and answers of members as bytes: what is the same of every version is in
`wire.requests`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka.protocol.consumer import JoinGroupResponse, LeaveGroupResponse, OffsetCommitResponse

from consumer.gateway.frames import (
    BAD,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    SYNC_GROUP,
    BadFrameError,
    Head,
    encode,
    text_of,
)
from consumer.gateway.wire import requests as wire
from consumer.gateway.wire.subscription import encode_assignment
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition


def member_request(head: Head, body: Any) -> wire.Request:
    """A request of a member, whatever its version. Raises `BadFrameError`."""
    try:
        return _REQUESTS[head.key](head, body)
    except BAD as error:
        raise BadFrameError(f"API {head.key} version {head.version}: {error}") from error


def encode_answer(head: Head, body: Any, answer: wire.Answer) -> bytes:
    """A framed answer to a member's request."""
    of_peer = JoinGroupResponse.JoinGroupResponseMember
    match answer:
        case wire.JoinAnswer():
            flexible_name = answer.protocol or (None if head.version >= 7 else "")
            return encode(
                head,
                throttle_time_ms=0,
                error_code=int(answer.code),
                generation_id=answer.generation,
                protocol_type=answer.protocol_type if answer.code is WireCode.NONE else None,
                protocol_name=flexible_name,
                leader=answer.leader,
                skip_assignment=answer.skip_assignment,
                member_id=answer.member_id,
                members=[
                    of_peer(member_id=name, group_instance_id=instance, metadata=metadata)
                    for name, instance, metadata in answer.members
                ],
            )
        case wire.SyncAnswer():
            ok = answer.code is WireCode.NONE
            return encode(
                head,
                throttle_time_ms=0,
                error_code=int(answer.code),
                protocol_type=answer.protocol_type if ok else None,
                protocol_name=answer.protocol if ok else None,
                assignment=_assigned(answer) if ok else b"",
            )
        case wire.BeatAnswer():
            return encode(head, throttle_time_ms=0, error_code=int(answer.code))
        case wire.LeaveAnswer():
            return _left(head, body, answer)
        case wire.CommitAnswer():
            return _committed(head, body, answer)


def _assigned(answer: wire.SyncAnswer) -> bytes:
    return encode_assignment(answer.partitions) if answer.opaque is None else answer.opaque


def _left(head: Head, body: Any, answer: wire.LeaveAnswer) -> bytes:
    of = LeaveGroupResponse.MemberResponse
    members = [
        of(
            member_id=text_of(member.member_id),
            group_instance_id=member.group_instance_id,
            error_code=int(code),
        )
        for member, code in zip(body.members or (), answer.members, strict=False)
    ]
    return encode(head, throttle_time_ms=0, error_code=int(answer.code), members=members)


def _committed(head: Head, body: Any, answer: wire.CommitAnswer) -> bytes:
    of_topic = OffsetCommitResponse.OffsetCommitResponseTopic
    of_partition = of_topic.OffsetCommitResponsePartition
    topics = []
    for topic in body.topics:
        partitions = []
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            code = answer.others.get(tp, answer.code)
            partitions.append(of_partition(partition_index=tp.partition, error_code=int(code)))
        topics.append(of_topic(name=topic.name, partitions=partitions))
    return encode(head, throttle_time_ms=0, topics=topics)


def refused(head: Head, body: Any, code: WireCode) -> bytes:
    """The same code for all that a request names."""
    of_request: dict[int, Callable[[], wire.Answer]] = {
        JOIN_GROUP: lambda: wire.JoinAnswer(code, text_of(body.member_id)),
        SYNC_GROUP: lambda: wire.SyncAnswer(code),
        HEARTBEAT: lambda: wire.BeatAnswer(code),
        LEAVE_GROUP: lambda: wire.LeaveAnswer(code),
        OFFSET_COMMIT: lambda: wire.CommitAnswer(code),
    }
    return encode_answer(head, body, of_request[head.key]())


def _join(head: Head, body: Any) -> wire.JoinRequest:
    rebalance = body.rebalance_timeout_ms if head.version >= 1 else body.session_timeout_ms
    return wire.JoinRequest(
        text_of(body.group_id),
        text_of(body.member_id),
        body.session_timeout_ms,
        rebalance,
        text_of(body.protocol_type),
        tuple((text_of(p.name), bytes(p.metadata)) for p in body.protocols),
        body.group_instance_id if head.version >= 5 else None,
        head.version >= 4,
        head.version >= 9,
        (body.reason or "") if head.version >= 8 else "",
    )


def _sync(head: Head, body: Any) -> wire.SyncRequest:
    return wire.SyncRequest(
        text_of(body.group_id),
        text_of(body.member_id),
        body.generation_id,
        body.group_instance_id if head.version >= 3 else None,
        (body.protocol_type or "") if head.version >= 5 else "",
        (body.protocol_name or "") if head.version >= 5 else "",
        tuple((text_of(one.member_id), bytes(one.assignment)) for one in body.assignments),
    )


def _heartbeat(head: Head, body: Any) -> wire.HeartbeatRequest:
    return wire.HeartbeatRequest(
        text_of(body.group_id),
        text_of(body.member_id),
        body.generation_id,
        body.group_instance_id if head.version >= 3 else None,
    )


def _leave(head: Head, body: Any) -> wire.LeaveRequest:
    if head.version < 3:
        return wire.LeaveRequest(text_of(body.group_id), ((text_of(body.member_id), None),), False)
    members = tuple((text_of(m.member_id), m.group_instance_id) for m in body.members)
    reasons = tuple((m.reason or "") if head.version >= 5 else "" for m in body.members)
    return wire.LeaveRequest(text_of(body.group_id), members, reasons=reasons)


def _commit(head: Head, body: Any) -> wire.CommitRequest:
    offsets = {
        TopicPartition(text_of(t.name), p.partition_index): (
            p.committed_offset,
            p.committed_metadata or "",
        )
        for t in body.topics
        for p in t.partitions
    }
    return wire.CommitRequest(
        text_of(body.group_id),
        text_of(body.member_id) if head.version >= 1 else "",
        body.generation_id_or_member_epoch if head.version >= 1 else -1,
        offsets,
        body.group_instance_id if head.version >= 7 else None,
    )


_REQUESTS: dict[int, Callable[[Head, Any], wire.Request]] = {
    JOIN_GROUP: _join,
    SYNC_GROUP: _sync,
    HEARTBEAT: _heartbeat,
    LEAVE_GROUP: _leave,
    OFFSET_COMMIT: _commit,
}
