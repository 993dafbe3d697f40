"""Requests that are refused: what is asked in which versions, and which codes an answer has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafka.protocol.consumer import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

from consumer.gateway.wire.subscription import encode_subscription
from tests.gateway.raw_client import SESSION_MS

INSTANCE = "an-instance"
STRANGER = "nobody-12345678"
TOO_LONG = "x" * 5_000


@dataclass(frozen=True)
class State:
    """What a request may name: a group with one member, one with a static member, and a topic."""

    group: str
    member: str
    generation: int
    static_group: str
    static_member: str
    static_generation: int
    topic: str


@dataclass(frozen=True)
class BadRequest:
    """`ask` makes it; `codes` are what its answer says, all that can be wrong."""

    name: str
    versions: Sequence[int]
    ask: Callable[[State], Any]
    response: Any
    codes: Callable[[Any], tuple[Any, ...]]


def code(answer: Any) -> tuple[Any, ...]:
    """Of an answer with one."""
    return (answer.error_code,)


def join(state: State, **more: Any) -> Any:
    """JoinGroup of the member, changed."""
    of = JoinGroupRequest.JoinGroupRequestProtocol
    fields = {
        "group_id": state.group,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": SESSION_MS,
        "member_id": state.member,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [of(name="range", metadata=encode_subscription([state.topic]))],
        "reason": None,
        **more,
    }
    return JoinGroupRequest(**fields)


def sync(state: State, **more: Any) -> Any:
    """SyncGroup."""
    fields = {
        "group_id": state.group,
        "generation_id": state.generation,
        "member_id": state.member,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [],
        **more,
    }
    return SyncGroupRequest(**fields)


def beat(state: State, **more: Any) -> Any:
    """Heartbeat."""
    fields = {
        "group_id": state.group,
        "generation_id": state.generation,
        "member_id": state.member,
        "group_instance_id": None,
        **more,
    }
    return HeartbeatRequest(**fields)


def leave(state: State, group: str, *members: tuple[str, str | None]) -> Any:
    """LeaveGroup, of one or several."""
    of = LeaveGroupRequest.MemberIdentity
    return LeaveGroupRequest(
        group_id=group,
        member_id=members[0][0] if members else "",
        members=[of(member_id=m, group_instance_id=i, reason=None) for m, i in members],
    )


def left(answer: Any) -> tuple[Any, ...]:
    """Of the whole, and of each member."""
    each = getattr(answer, "members", None) or []
    return (answer.error_code, *(member.error_code for member in each))


def commit(state: State, metadata: str = "", **more: Any) -> Any:
    """OffsetCommit of partition 0."""
    of_topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = of_topic.OffsetCommitRequestPartition(
        partition_index=0,
        committed_offset=1,
        committed_leader_epoch=-1,
        commit_timestamp=-1,
        committed_metadata=metadata,
    )
    fields = {
        "group_id": state.group,
        "generation_id_or_member_epoch": state.generation,
        "member_id": state.member,
        "group_instance_id": None,
        "retention_time_ms": -1,
        "topics": [of_topic(name=state.topic, partitions=[partition])],
        **more,
    }
    return OffsetCommitRequest(**fields)


def committed(answer: Any) -> tuple[Any, ...]:
    """Of each partition."""
    return tuple(p.error_code for topic in answer.topics for p in topic.partitions)


def fetch(state: State, group: str) -> Any:
    """OffsetFetch of partition 0."""
    of_topic = OffsetFetchRequest.OffsetFetchRequestTopic
    of_group = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(
        group_id=group,
        topics=[of_topic(name=state.topic, partition_indexes=[0])],
        groups=[
            of_group(
                group_id=group,
                member_id=None,
                member_epoch=-1,
                topics=[of_group.OffsetFetchRequestTopics(name=state.topic, partition_indexes=[0])],
            )
        ],
        require_stable=False,
    )


def fetched(answer: Any) -> tuple[Any, ...]:
    """Of the whole, and what is committed: -1 for nothing."""
    groups = getattr(answer, "groups", None) or [answer]
    return tuple(
        (group.error_code, p.error_code, p.committed_offset)
        for group in groups
        for t in group.topics
        for p in t.partitions
    )


def delete_offsets(state: State, group: str, topic: str) -> Any:
    """OffsetDelete of partition 0."""
    of_topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
    partition = of_topic.OffsetDeleteRequestPartition(partition_index=0)
    return OffsetDeleteRequest(
        group_id=group, topics=[of_topic(name=topic, partitions=[partition])]
    )


def offsets_deleted(answer: Any) -> tuple[Any, ...]:
    """Of the whole, and of each partition."""
    return (answer.error_code, *(p.error_code for t in answer.topics for p in t.partitions))


def protocols(*names: str) -> list[Any]:
    """Assignors by name."""
    of = JoinGroupRequest.JoinGroupRequestProtocol
    return [of(name=name, metadata=encode_subscription(["t"])) for name in names]


CLOSED = ("the connection was closed",)
ALL_JOINS, SINCE_INSTANCES = range(10), range(5, 10)
CASES = (
    BadRequest(
        "join: no group", ALL_JOINS, lambda s: join(s, group_id=""), JoinGroupResponse, code
    ),
    BadRequest(
        "join: a session that is too short",
        ALL_JOINS,
        lambda s: join(s, session_timeout_ms=5),
        JoinGroupResponse,
        code,
    ),
    BadRequest(
        "join: a session that is too long",
        ALL_JOINS,
        lambda s: join(s, session_timeout_ms=SESSION_MS + 1),
        JoinGroupResponse,
        code,
    ),
    BadRequest(
        "join: an id that nobody was given",
        ALL_JOINS,
        lambda s: join(s, member_id=STRANGER),
        JoinGroupResponse,
        code,
    ),
    BadRequest(
        "join: an id in a group that is not there",
        ALL_JOINS,
        lambda s: join(s, group_id="no-such-group", member_id=STRANGER),
        JoinGroupResponse,
        code,
    ),
    BadRequest(
        "join: another protocol type",
        ALL_JOINS,
        lambda s: join(s, protocol_type="connect"),
        JoinGroupResponse,
        code,
    ),
    BadRequest(
        "join: no protocol type",
        ALL_JOINS,
        lambda s: join(s, protocol_type=""),
        JoinGroupResponse,
        code,
    ),
    BadRequest(
        "join: no assignors", ALL_JOINS, lambda s: join(s, protocols=[]), JoinGroupResponse, code
    ),
    BadRequest(
        "join: an instance with an id that it has not",
        SINCE_INSTANCES,
        lambda s: join(s, group_id=s.static_group, member_id=STRANGER, group_instance_id=INSTANCE),
        JoinGroupResponse,
        code,
    ),
    BadRequest(
        "join: an instance that is not there, with an id",
        SINCE_INSTANCES,
        lambda s: join(s, member_id=STRANGER, group_instance_id="another"),
        JoinGroupResponse,
        code,
    ),
    BadRequest("sync: no group", range(6), lambda s: sync(s, group_id=""), SyncGroupResponse, code),
    BadRequest(
        "sync: a group that is not there",
        range(6),
        lambda s: sync(s, group_id="no-such-group"),
        SyncGroupResponse,
        code,
    ),
    BadRequest(
        "sync: a stranger", range(6), lambda s: sync(s, member_id=STRANGER), SyncGroupResponse, code
    ),
    BadRequest(
        "sync: an earlier generation",
        range(6),
        lambda s: sync(s, generation_id=s.generation - 1),
        SyncGroupResponse,
        code,
    ),
    BadRequest(
        "sync: a later generation",
        range(6),
        lambda s: sync(s, generation_id=s.generation + 1),
        SyncGroupResponse,
        code,
    ),
    BadRequest(
        "sync: fenced",
        range(3, 6),
        lambda s: sync(s, group_id=s.static_group, member_id=STRANGER, group_instance_id=INSTANCE),
        SyncGroupResponse,
        code,
    ),
    BadRequest(
        "sync: another protocol type",
        range(5, 6),
        lambda s: sync(s, protocol_type="connect"),
        SyncGroupResponse,
        code,
    ),
    BadRequest(
        "sync: another assignor",
        range(5, 6),
        lambda s: sync(s, protocol_name="roundrobin"),
        SyncGroupResponse,
        code,
    ),
    BadRequest("beat: no group", range(5), lambda s: beat(s, group_id=""), HeartbeatResponse, code),
    BadRequest(
        "beat: a group that is not there",
        range(5),
        lambda s: beat(s, group_id="no-such-group"),
        HeartbeatResponse,
        code,
    ),
    BadRequest(
        "beat: a stranger", range(5), lambda s: beat(s, member_id=STRANGER), HeartbeatResponse, code
    ),
    BadRequest(
        "beat: an earlier generation",
        range(5),
        lambda s: beat(s, generation_id=s.generation - 1),
        HeartbeatResponse,
        code,
    ),
    BadRequest(
        "beat: a later generation",
        range(5),
        lambda s: beat(s, generation_id=s.generation + 1),
        HeartbeatResponse,
        code,
    ),
    BadRequest(
        "beat: fenced",
        range(3, 5),
        lambda s: beat(s, group_id=s.static_group, member_id=STRANGER, group_instance_id=INSTANCE),
        HeartbeatResponse,
        code,
    ),
    BadRequest(
        "beat: an instance that is not there",
        range(3, 5),
        lambda s: beat(s, group_instance_id="another"),
        HeartbeatResponse,
        code,
    ),
    BadRequest(
        "leave: no group",
        range(6),
        lambda s: leave(s, "", (s.member, None)),
        LeaveGroupResponse,
        left,
    ),
    BadRequest(
        "leave: a group that is not there",
        range(6),
        lambda s: leave(s, "no-such-group", (STRANGER, None)),
        LeaveGroupResponse,
        left,
    ),
    BadRequest(
        "leave: a stranger",
        range(6),
        lambda s: leave(s, s.group, (STRANGER, None)),
        LeaveGroupResponse,
        left,
    ),
    BadRequest(
        "leave: several who are not there",
        range(3, 6),
        lambda s: leave(s, s.group, (STRANGER, None), ("", "another"), (STRANGER, "another")),
        LeaveGroupResponse,
        left,
    ),
    BadRequest(
        "leave: fenced",
        range(3, 6),
        lambda s: leave(s, s.static_group, (STRANGER, INSTANCE)),
        LeaveGroupResponse,
        left,
    ),
    BadRequest(
        "commit: a stranger",
        range(2, 10),
        lambda s: commit(s, member_id=STRANGER),
        OffsetCommitResponse,
        committed,
    ),
    BadRequest(
        "commit: no member where there are some",
        range(2, 10),
        lambda s: commit(s, member_id="", generation_id_or_member_epoch=-1),
        OffsetCommitResponse,
        committed,
    ),
    BadRequest(
        "commit: an earlier generation",
        range(2, 10),
        lambda s: commit(s, generation_id_or_member_epoch=s.generation - 1),
        OffsetCommitResponse,
        committed,
    ),
    BadRequest(
        "commit: a later generation",
        range(2, 10),
        lambda s: commit(s, generation_id_or_member_epoch=s.generation + 1),
        OffsetCommitResponse,
        committed,
    ),
    BadRequest(
        "commit: a text that is too long",
        range(2, 10),
        lambda s: commit(s, TOO_LONG),
        OffsetCommitResponse,
        committed,
    ),
    BadRequest(
        "commit: fenced",
        range(7, 10),
        lambda s: commit(
            s, group_id=s.static_group, member_id=STRANGER, group_instance_id=INSTANCE
        ),
        OffsetCommitResponse,
        committed,
    ),
    BadRequest(
        "fetch: a group that is not there",
        range(1, 9),
        lambda s: fetch(s, "no-such-group"),
        OffsetFetchResponse,
        fetched,
    ),
    BadRequest(
        "fetch: nothing is committed",
        range(1, 9),
        lambda s: fetch(s, s.group),
        OffsetFetchResponse,
        fetched,
    ),
    BadRequest(
        "delete offsets: a group that is not there",
        range(1),
        lambda s: delete_offsets(s, "no-such-group", s.topic),
        OffsetDeleteResponse,
        offsets_deleted,
    ),
    BadRequest(
        "delete offsets: of a topic that is read",
        range(1),
        lambda s: delete_offsets(s, s.group, s.topic),
        OffsetDeleteResponse,
        offsets_deleted,
    ),
    BadRequest(
        "delete groups: there, and not there",
        range(3),
        lambda s: DeleteGroupsRequest(groups_names=[s.group, "no-such-group"]),
        DeleteGroupsResponse,
        lambda a: tuple(sorted((r.group_id != "no-such-group", r.error_code) for r in a.results)),
    ),
    BadRequest(
        "describe: a group that is not there",
        range(6),
        lambda s: DescribeGroupsRequest(
            groups=["no-such-group"], include_authorized_operations=False
        ),
        DescribeGroupsResponse,
        lambda a: tuple((g.error_code, g.group_state, len(g.members)) for g in a.groups),
    ),
)
