"""Requests of every version that a gateway answers itself, as clients encode them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import AddOffsetsToTxnRequest, TxnOffsetCommitRequest

from consumer.gateway import frames
from consumer.gateway.wire.subscription import encode_subscription

CORRELATION = 77
CLIENT = "a client"


def requests() -> Iterator[tuple[int, int, Any]]:
    """Key, version, and the request as an object, of every version."""
    for key, make in MAKERS.items():
        for version in range(frames.MAX_VERSIONS[key] + 1):
            yield key, version, make(version)


def framed(version: int, request: Any) -> bytes:
    """With its length in front, as it is on the wire."""
    request.API_VERSION = version
    request.with_header(correlation_id=CORRELATION, client_id=CLIENT)
    return bytes(request.encode(header=True, framed=True))


def _join(version: int) -> Any:
    of = JoinGroupRequest.JoinGroupRequestProtocol
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="m",
        group_instance_id="i",
        protocol_type="consumer",
        protocols=[of(name="range", metadata=encode_subscription(["t"]))],
        reason="why",
    )


def _sync(version: int) -> Any:
    return SyncGroupRequest(
        group_id="g",
        generation_id=3,
        member_id="m",
        group_instance_id="i",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[],
    )


def _heartbeat(version: int) -> Any:
    return HeartbeatRequest(group_id="g", generation_id=3, member_id="m", group_instance_id="i")


def _leave(version: int) -> Any:
    of = LeaveGroupRequest.MemberIdentity
    return LeaveGroupRequest(
        group_id="g",
        member_id="m",
        members=[of(member_id="m", group_instance_id="i", reason="why")],
    )


def _commit(version: int) -> Any:
    of_topic = OffsetCommitRequest.OffsetCommitRequestTopic
    of = of_topic.OffsetCommitRequestPartition
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=3,
        member_id="m",
        group_instance_id="i",
        retention_time_ms=-1,
        topics=[
            of_topic(
                name="t",
                partitions=[
                    of(
                        partition_index=1,
                        committed_offset=42,
                        committed_leader_epoch=-1,
                        commit_timestamp=-1,
                        committed_metadata="why",
                    )
                ],
            )
        ],
    )


def _fetch(version: int) -> Any:
    of_topic = OffsetFetchRequest.OffsetFetchRequestTopic
    of_group = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(
        group_id="g",
        topics=[of_topic(name="t", partition_indexes=[0, 1])],
        groups=[
            of_group(
                group_id="g",
                member_id=None,
                member_epoch=-1,
                topics=[of_group.OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])],
            )
        ],
        require_stable=False,
    )


def _delete_offsets(version: int) -> Any:
    of_topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
    of = of_topic.OffsetDeleteRequestPartition
    return OffsetDeleteRequest(
        group_id="g", topics=[of_topic(name="t", partitions=[of(partition_index=1)])]
    )


def _commit_in_transaction(version: int) -> Any:
    of_topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    of = of_topic.TxnOffsetCommitRequestPartition
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=1,
        producer_epoch=0,
        generation_id=3,
        member_id="m",
        group_instance_id="i",
        topics=[
            of_topic(
                name="t",
                partitions=[
                    of(
                        partition_index=1,
                        committed_offset=42,
                        committed_leader_epoch=-1,
                        committed_metadata="why",
                    )
                ],
            )
        ],
    )


MAKERS = {
    frames.ADD_OFFSETS_TO_TXN: lambda version: AddOffsetsToTxnRequest(
        transactional_id="x", producer_id=1, producer_epoch=0, group_id="g"
    ),
    frames.TXN_OFFSET_COMMIT: _commit_in_transaction,
    frames.JOIN_GROUP: _join,
    frames.SYNC_GROUP: _sync,
    frames.HEARTBEAT: _heartbeat,
    frames.LEAVE_GROUP: _leave,
    frames.OFFSET_COMMIT: _commit,
    frames.OFFSET_FETCH: _fetch,
    frames.OFFSET_DELETE: _delete_offsets,
    frames.FIND_COORDINATOR: lambda version: FindCoordinatorRequest(
        key="g", key_type=0, coordinator_keys=["g", "h"]
    ),
    frames.DESCRIBE_GROUPS: lambda version: DescribeGroupsRequest(
        groups=["g", "h"], include_authorized_operations=False
    ),
    frames.LIST_GROUPS: lambda version: ListGroupsRequest(states_filter=[], types_filter=[]),
    frames.DELETE_GROUPS: lambda version: DeleteGroupsRequest(groups_names=["g"]),
}
