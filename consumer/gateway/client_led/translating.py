"""What clients ask, as the coordinator of a client-led group is asked, and its answers, as clients
are answered. What the coordinator could not read is judged here: it is refused, or left out where
it concerns nobody.
"""

from __future__ import annotations

from collections.abc import Mapping

from consumer.gateway.wire.actions import GroupLimits
from consumer.gateway.wire.requests import (
    Caller,
    CommitRequest,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    MayCommitRequest,
    SyncAnswer,
    SyncRequest,
)
from zkcoord.core.classic.requests import (
    BlobRef,
    ClassicBeat,
    ClassicJoin,
    ClassicJoined,
    ClassicLeave,
    ClassicLeft,
    ClassicSync,
    ClassicSynced,
    CommitCheck,
    Leaver,
    Opaque,
)
from zkcoord.core.classic.state import INSTANCE_CHARS_MAX, PROTOCOL_CHARS_MAX, too_large
from zkcoord.core.error_codes import WireCode
from zkcoord.znodes.classic.consumer_blobs import is_ours
from zkcoord.znodes.classic.documents import LEAVERS_MAX, MEMBER_ID_CHARS_MAX, MEMBERS_MAX

PREFIX_CHARS_MAX = 200

Blobs = Mapping[str, bytes]


def is_of_clients(request: JoinRequest) -> bool:
    """Whether this can only be a group that a client leads: the server side knows neither what it
    is for nor how to assign there.
    """
    return not is_ours(request.protocol_type, request.protocols)


def drawn_id(request: JoinRequest, caller: Caller, random: str) -> str:
    """The id of a new member."""
    prefix = request.instance if request.instance is not None else caller.client_id
    return f"{prefix[:PREFIX_CHARS_MAX]}-{random}"


def to_join(
    request: JoinRequest, caller: Caller, fresh: str, limits: GroupLimits
) -> ClassicJoin | WireCode:
    """What the coordinator is asked, or why it is not."""
    low, high = limits.min_session_timeout_ms, limits.max_session_timeout_ms
    if not low <= request.session_timeout_ms <= high:
        return WireCode.INVALID_SESSION_TIMEOUT
    if not request.protocols or not request.protocol_type:
        return WireCode.INCONSISTENT_GROUP_PROTOCOL
    if len(request.member_id) > MEMBER_ID_CHARS_MAX:
        return WireCode.UNKNOWN_MEMBER_ID
    join = ClassicJoin(
        request.member_id,
        fresh,
        request.protocol_type,
        request.protocols,
        request.session_timeout_ms,
        max(0, request.rebalance_timeout_ms),
        request.instance,
        request.named_first,
        request.may_skip,
        caller.client_id,
        caller.host,
        request.reason,
    )
    code = too_large(join, 0)
    return join if code is WireCode.NONE else code


def to_sync(request: SyncRequest) -> ClassicSync | WireCode:
    """The same of SyncGroup. Who has such an id as is left out is no member."""
    texts = (request.protocol_type, request.protocol_name)
    if max(map(len, texts)) > PROTOCOL_CHARS_MAX:
        return WireCode.INCONSISTENT_GROUP_PROTOCOL
    if not _is_name(request.member_id, request.instance):
        return WireCode.UNKNOWN_MEMBER_ID
    fitting = [one for one in request.assignments if len(one[0]) <= MEMBER_ID_CHARS_MAX]
    return ClassicSync(
        request.member_id,
        request.generation,
        request.instance,
        request.protocol_type or None,
        request.protocol_name or None,
        tuple(fitting[:MEMBERS_MAX]),
    )


def to_leave(request: LeaveRequest) -> ClassicLeave | WireCode:
    """The same of LeaveGroup."""
    if len(request.members) > LEAVERS_MAX:
        return WireCode.INVALID_REQUEST
    if not all(_is_name(*one) for one in request.members):
        return WireCode.UNKNOWN_MEMBER_ID
    reasons = (*request.reasons, *("" for _ in request.members))
    return ClassicLeave(
        tuple(
            Leaver(member_id, instance, reason)
            for (member_id, instance), reason in zip(request.members, reasons, strict=False)
        )
    )


def to_beat(request: HeartbeatRequest) -> ClassicBeat:
    """The same of Heartbeat."""
    return ClassicBeat(request.member_id, request.generation, request.instance)


def to_check(request: CommitRequest | MayCommitRequest) -> CommitCheck:
    """The same of OffsetCommit, without what it stores."""
    in_transaction = isinstance(request, MayCommitRequest) and request.in_transaction
    return CommitCheck(request.member_id, request.generation, request.instance, in_transaction)


def _is_name(member_id: str, instance: str | None) -> bool:
    return len(member_id) <= MEMBER_ID_CHARS_MAX and len(instance or "") <= INSTANCE_CHARS_MAX


def joined(answer: ClassicJoined, blobs: Blobs) -> JoinAnswer:
    """Answer to JoinGroup."""
    if answer.code is not WireCode.NONE:
        return JoinAnswer(answer.code, answer.member_id)
    return JoinAnswer(
        answer.code,
        answer.member_id,
        answer.generation,
        answer.protocol or "",
        answer.protocol_type or "",
        answer.leader,
        tuple((one.member_id, one.instance, _bytes(one.metadata, blobs)) for one in answer.members),
        answer.skip_assignment,
    )


def synced(answer: ClassicSynced, blobs: Blobs) -> SyncAnswer:
    """Answer to SyncGroup."""
    return SyncAnswer(
        answer.code,
        (),
        answer.protocol,
        _bytes(answer.assignment, blobs),
        answer.protocol_type,
    )


def left(request: LeaveRequest, answer: ClassicLeft) -> LeaveAnswer:
    """Answer to LeaveGroup. Before there were batches the code of the one is that of all."""
    code = answer.code
    if not request.batch and code is WireCode.NONE and answer.members:
        code = answer.members[0]
    return LeaveAnswer(code, answer.members)


def refs_of(answer: ClassicJoined | ClassicSynced) -> tuple[BlobRef, ...]:
    """What must be read before it can be given, each once."""
    held: list[Opaque] = (
        [one.metadata for one in answer.members]
        if isinstance(answer, ClassicJoined)
        else [answer.assignment]
    )
    return tuple(dict.fromkeys(one for one in held if isinstance(one, BlobRef)))


def _bytes(data: Opaque, blobs: Blobs) -> bytes:
    return blobs[data.digest] if isinstance(data, BlobRef) else data
