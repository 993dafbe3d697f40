"""A broker as the side that scenarios of classic groups are played against."""

from __future__ import annotations

import time
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
    SyncGroupRequest,
    SyncGroupResponse,
)

from tests.gateway.raw_client import RawClient
from zkcoord.core.classic.requests import (
    ClassicBeat,
    ClassicDelete,
    ClassicDescribe,
    ClassicDescribed,
    ClassicJoin,
    ClassicJoined,
    ClassicLeave,
    ClassicLeft,
    ClassicRequest,
    ClassicSaid,
    ClassicSync,
    ClassicSynced,
    CommitCheck,
    DescribedPeer,
    JoinedPeer,
)

PATIENT_S = 6.0
IMPATIENT_S = 0.1
LOOK_S = 0.004
HEARTBEAT_VERSION, COMMIT_VERSION, LEAVE_VERSION, DESCRIBE_VERSION, DELETE_VERSION = 4, 8, 5, 5, 2
RESPONSES: dict[type, Any] = {
    ClassicJoin: JoinGroupResponse,
    ClassicSync: SyncGroupResponse,
    ClassicBeat: HeartbeatResponse,
    ClassicLeave: LeaveGroupResponse,
    CommitCheck: OffsetCommitResponse,
    ClassicDescribe: DescribeGroupsResponse,
    ClassicDelete: DeleteGroupsResponse,
}


class BrokerSide:
    """One group at a broker. What waits for its answer keeps its connection."""

    def __init__(self, address: str, group: str, topic: str) -> None:
        self._address = address
        self._group = group
        self._topic = topic
        self._free: list[RawClient] = []
        self._all: list[RawClient] = []
        self._open: dict[int, tuple[RawClient, type, int]] = {}
        self._answers: dict[int, Any] = {}
        self._tickets = 0

    def close(self) -> None:
        """Its connections."""
        for client in self._all:
            client.__exit__(None, None, None)

    def wait(self, ms: int) -> None:
        """Time passes."""
        time.sleep(ms / 1000)

    def machine_only(self, word: str, rest: list[str], names: dict[str, str]) -> str:
        """Nothing is said of a machine here."""
        raise AssertionError(f"{word} is said of the machine")

    def send(self, request: ClassicRequest, version: int) -> int:
        """Ask; the ticket."""
        self._tickets += 1
        client = self._free.pop() if self._free else self._connected()
        message, version = self._message(request, version)
        client.send(message, version)
        self._open[self._tickets] = (client, type(request), version)
        return self._tickets

    def answer(self, ticket: int, patient: bool) -> Any:
        """The answer, if there is one within a time."""
        until = time.monotonic() + (PATIENT_S if patient else IMPATIENT_S)
        while ticket in self._open:
            client, kind, version = self._open[ticket]
            if client.is_answered():
                response = client.receive(RESPONSES[kind], version)
                self._answers[ticket] = _answer(response)
                del self._open[ticket]
                self._free.append(client)
            elif time.monotonic() >= until:
                return None
            else:
                time.sleep(LOOK_S)
        return self._answers[ticket]

    def _connected(self) -> RawClient:
        client = RawClient(self._address)
        self._all.append(client)
        return client

    def _message(self, request: ClassicRequest, version: int) -> tuple[Any, int]:
        match request:
            case ClassicJoin():
                return self._join(request, version), version
            case ClassicSync():
                return self._sync(request), version
            case ClassicBeat():
                message = HeartbeatRequest(
                    group_id=self._group,
                    generation_id=request.generation,
                    member_id=request.member_id,
                    group_instance_id=request.instance,
                )
                return message, HEARTBEAT_VERSION
            case ClassicLeave():
                return self._leave(request), LEAVE_VERSION
            case CommitCheck():
                return self._commit(request), COMMIT_VERSION
            case ClassicDescribe():
                message = DescribeGroupsRequest(
                    groups=[self._group], include_authorized_operations=False
                )
                return message, DESCRIBE_VERSION
            case ClassicDelete():
                return DeleteGroupsRequest(groups_names=[self._group]), DELETE_VERSION

    def _join(self, request: ClassicJoin, version: int) -> Any:
        of = JoinGroupRequest.JoinGroupRequestProtocol
        return JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            member_id=request.member_id,
            group_instance_id=request.instance,
            protocol_type=request.protocol_type,
            protocols=[of(name=name, metadata=data) for name, data in request.protocols],
            reason=request.reason or None if version >= 8 else None,
        )

    def _sync(self, request: ClassicSync) -> Any:
        of = SyncGroupRequest.SyncGroupRequestAssignment
        return SyncGroupRequest(
            group_id=self._group,
            generation_id=request.generation,
            member_id=request.member_id,
            group_instance_id=request.instance,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol,
            assignments=[of(member_id=m, assignment=d) for m, d in request.assignments],
        )

    def _leave(self, request: ClassicLeave) -> Any:
        of = LeaveGroupRequest.MemberIdentity
        return LeaveGroupRequest(
            group_id=self._group,
            members=[
                of(
                    member_id=one.member_id,
                    group_instance_id=one.instance,
                    reason=one.reason or None,
                )
                for one in request.members
            ],
        )

    def _commit(self, request: CommitCheck) -> Any:
        of_topic = OffsetCommitRequest.OffsetCommitRequestTopic
        partition = of_topic.OffsetCommitRequestPartition(
            partition_index=0,
            committed_offset=1,
            committed_leader_epoch=-1,
            committed_metadata="",
        )
        return OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=request.generation,
            member_id=request.member_id,
            group_instance_id=request.instance,
            topics=[of_topic(name=self._topic, partitions=[partition])],
        )


def _answer(response: Any) -> Any:
    """As the machine gives it."""
    match response:
        case JoinGroupResponse():
            members = tuple(
                JoinedPeer(m.member_id, m.group_instance_id, bytes(m.metadata))
                for m in response.members
            )
            return ClassicJoined(
                response.error_code,
                response.member_id or "",
                response.generation_id,
                response.protocol_type,
                response.protocol_name,
                response.leader or "",
                members,
                bool(response.skip_assignment),
            )
        case SyncGroupResponse():
            return ClassicSynced(
                response.error_code,
                response.protocol_type,
                response.protocol_name,
                bytes(response.assignment or b""),
            )
        case HeartbeatResponse():
            return ClassicSaid(response.error_code)
        case LeaveGroupResponse():
            codes = tuple(member.error_code for member in response.members)
            return ClassicLeft(response.error_code, codes)
        case OffsetCommitResponse():
            return ClassicSaid(response.topics[0].partitions[0].error_code)
        case DeleteGroupsResponse():
            return ClassicSaid(response.results[0].error_code)
        case _:
            return _described(response.groups[0])


def _described(group: Any) -> ClassicDescribed:
    members = tuple(
        DescribedPeer(
            m.member_id,
            m.group_instance_id,
            m.client_id,
            m.client_host,
            bytes(m.member_metadata),
            bytes(m.member_assignment),
        )
        for m in group.members
    )
    return ClassicDescribed(
        group.error_code, group.group_state, group.protocol_type, group.protocol_data, members
    )
