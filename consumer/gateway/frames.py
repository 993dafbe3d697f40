"""Requests and answers of Kafka's protocol as bytes, of the APIs that a gateway answers itself.

The schemas and their coders are kafka-python's, generated from Apache Kafka's own definitions; what
they do not judge (a null where no null may be, what is left over at the end) is judged here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import groupby
from typing import Any

from kafka.protocol.admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
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
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

from consumer.gateway.address import Address
from consumer.gateway.skimming import skim
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 11, 12, 13, 14
DESCRIBE_GROUPS, LIST_GROUPS, API_VERSIONS = 15, 16, 18
DELETE_GROUPS, OFFSET_DELETE, DESCRIBE_CLUSTER = 42, 47, 60
ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT = 25, 28
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
TRANSACTIONS = (ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT)
MEMBERS_APIS = (OFFSET_COMMIT, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP)
MAX_VERSIONS = {
    OFFSET_COMMIT: 9,
    OFFSET_FETCH: 9,
    FIND_COORDINATOR: 6,
    JOIN_GROUP: 9,
    HEARTBEAT: 4,
    LEAVE_GROUP: 5,
    SYNC_GROUP: 5,
    DESCRIBE_GROUPS: 6,
    LIST_GROUPS: 5,
    DELETE_GROUPS: 2,
    OFFSET_DELETE: 0,
    ADD_OFFSETS_TO_TXN: 4,
    TXN_OFFSET_COMMIT: 5,
}
"""Of the APIs that are answered here: the highest version, each from 0 (of `TRANSACTIONS`,
ListGroups and DescribeGroups what the broker has of these, since others than ours go on to it).
"""

_CLASSES: dict[int, tuple[Any, Any]] = {
    OFFSET_COMMIT: (OffsetCommitRequest, OffsetCommitResponse),
    OFFSET_FETCH: (OffsetFetchRequest, OffsetFetchResponse),
    FIND_COORDINATOR: (FindCoordinatorRequest, FindCoordinatorResponse),
    JOIN_GROUP: (JoinGroupRequest, JoinGroupResponse),
    HEARTBEAT: (HeartbeatRequest, HeartbeatResponse),
    LEAVE_GROUP: (LeaveGroupRequest, LeaveGroupResponse),
    SYNC_GROUP: (SyncGroupRequest, SyncGroupResponse),
    DESCRIBE_GROUPS: (DescribeGroupsRequest, DescribeGroupsResponse),
    LIST_GROUPS: (ListGroupsRequest, ListGroupsResponse),
    DELETE_GROUPS: (DeleteGroupsRequest, DeleteGroupsResponse),
    OFFSET_DELETE: (OffsetDeleteRequest, OffsetDeleteResponse),
    ADD_OFFSETS_TO_TXN: (AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
    TXN_OFFSET_COMMIT: (TxnOffsetCommitRequest, TxnOffsetCommitResponse),
}
BAD = (
    struct.error,
    ValueError,
    IndexError,
    TypeError,
    AttributeError,
    KeyError,
    MemoryError,
    OverflowError,
    AssertionError,
)
"""What kafka-python's coders raise for bytes that are no message."""
HEAD_BYTES_MIN = 8
LOCAL_BYTES_MAX = 1024 * 1024
TEXTS_BYTES_MAX = 4 * 1024 * 1024
WITH_TEXTS = frozenset({OFFSET_COMMIT, TXN_OFFSET_COMMIT, JOIN_GROUP, SYNC_GROUP})
"""What clients write for themselves makes these longer: beside offsets, in subscriptions."""


class BadFrameError(ValueError):
    """It is no request: the connection is closed, as brokers do."""


@value
class Head:
    """The beginning of a request: what it is, and what its answer begins with."""

    key: int
    version: int
    correlation_id: int
    client_id: str


def decode_head(frame: bytes | bytearray | memoryview) -> Head:
    """Raises `BadFrameError`. At most the first 10 + 32,767 bytes of a frame are looked at."""
    if len(frame) < HEAD_BYTES_MIN:
        raise BadFrameError("a request of fewer than 8 bytes")
    key, version, correlation_id = struct.unpack_from(">hhi", frame)
    if len(frame) < HEAD_BYTES_MIN + 2:
        return Head(key, version, correlation_id, "")
    (length,) = struct.unpack_from(">h", frame, 8)
    text = bytes(frame[10 : 10 + max(0, length)])
    if length > len(text):
        raise BadFrameError("a request that ends within its client id")
    try:
        return Head(key, version, correlation_id, text.decode())
    except UnicodeDecodeError as error:
        raise BadFrameError("a client id that is no UTF-8") from error


def head_bytes(frame: bytes | memoryview) -> int:
    """How many bytes at the beginning of a frame `decode_head` wants, as far as it has come."""
    if len(frame) < HEAD_BYTES_MIN + 2:
        return HEAD_BYTES_MIN + 2
    (client_id,) = struct.unpack_from(">h", frame, HEAD_BYTES_MIN)
    return HEAD_BYTES_MIN + 2 + max(0, int(client_id))


def is_read_whole(head: Head) -> bool:
    """Whether a request is put together before anything is done with it."""
    return head.key in MAX_VERSIONS or head.key == API_VERSIONS


def local_bytes_max(head: Head) -> int:
    """How long a request may be that is answered here, or whose answer is rewritten."""
    return TEXTS_BYTES_MAX if head.key in WITH_TEXTS else LOCAL_BYTES_MAX


def decode(head: Head, frame: bytes, weigh: Callable[[int], None] = lambda size: None) -> Any:
    """The whole request, as kafka-python's class, of which `weigh` hears how large it is. Raises
    `BadFrameError`.
    """
    if not 0 <= head.version <= MAX_VERSIONS[head.key]:
        raise BadFrameError(f"version {head.version} of API {head.key} was not offered")
    of = _CLASSES[head.key][0]
    try:
        weigh(skim(of, frame, head.version))
        body = of.decode(frame, version=head.version, header=True)
    except BAD as error:
        raise BadFrameError(f"API {head.key} version {head.version}: {error}") from error
    _refuse_nulls(head.version, of.fields.values(), body)
    return body


def _refuse_nulls(version: int, fields: Iterable[Any], value: Any) -> None:
    """Raises `BadFrameError` for a null where this version has none; kafka-python reads it."""
    for field in fields:
        if not field.for_version_q(version):
            continue
        found = getattr(value, field.name)
        if found is None:
            if not field.nullable_for_version_q(version):
                raise BadFrameError(f"{field.name} is null")
        elif field.is_struct_array():
            for part in found:
                _refuse_nulls(version, field.fields.values(), part)
        elif field.is_array() and None in found:
            raise BadFrameError(f"{field.name} holds a null")


def group_of(head: Head, body: Any) -> tuple[str, ...]:
    """The groups that a request is about."""
    if head.key == OFFSET_FETCH and head.version >= 8:
        return tuple(text_of(group.group_id) for group in body.groups)
    if head.key == DESCRIBE_GROUPS:
        return tuple(text_of(group) for group in body.groups)
    if head.key == DELETE_GROUPS:
        return tuple(text_of(group) for group in body.groups_names)
    if head.key in (LIST_GROUPS, FIND_COORDINATOR):
        return ()
    return (text_of(body.group_id),)


def encode(head: Head, **fields: Any) -> bytes:
    """A framed answer to a request."""
    response = _CLASSES[head.key][1](**fields)
    response.API_VERSION = head.version
    response.with_header(correlation_id=head.correlation_id)
    return bytes(response.encode(header=True, framed=True))


def decode_answer(head: Head, frame: bytes) -> tuple[Any, Any]:
    """A framed answer of `encode` again, and its class."""
    of = _CLASSES[head.key][1]
    return of.decode(frame[4:], version=head.version, header=True), of


def refused_transaction(
    head: Head, body: Any, refusal: WireCode = WireCode.GROUP_AUTHORIZATION_FAILED
) -> bytes:
    """Offsets of a transaction are refused, with a code after which a producer aborts it."""
    code = int(refusal)
    if head.key == ADD_OFFSETS_TO_TXN:
        return encode(head, throttle_time_ms=0, error_code=code)
    of_topic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
    of = of_topic.TxnOffsetCommitResponsePartition
    topics = [
        of_topic(
            name=topic.name,
            partitions=[
                of(partition_index=p.partition_index, error_code=code) for p in topic.partitions
            ],
        )
        for topic in body.topics
    ]
    return encode(head, throttle_time_ms=0, topics=topics)


def fetched_offsets(
    head: Head,
    body: Any,
    found: Mapping[str, Mapping[TopicPartition, tuple[int, str]] | WireCode],
    topics: Collection[str] | None = None,
) -> bytes:
    """Answer to OffsetFetch: of each group what is stored, or a code; of `topics` only (None: of
    all).
    """
    if head.version >= 8:
        of_group = OffsetFetchResponse.OffsetFetchResponseGroup
        groups = [
            of_group(
                group_id=asked.group_id,
                topics=_fetched_topics(
                    of_group.OffsetFetchResponseTopics, asked.topics, found[asked.group_id], topics
                ),
                error_code=_code_of(found[asked.group_id]),
            )
            for asked in body.groups
        ]
        return encode(head, throttle_time_ms=0, groups=groups)
    stored = found[body.group_id]
    of_topic = OffsetFetchResponse.OffsetFetchResponseTopic
    listed = _fetched_topics(of_topic, body.topics, stored, topics, head.version < 2)
    return encode(head, throttle_time_ms=0, topics=listed, error_code=_code_of(stored))


def _code_of(stored: Mapping[TopicPartition, tuple[int, str]] | WireCode) -> int:
    return int(stored) if isinstance(stored, WireCode) else 0


def _fetched_topics(
    of_topic: Any,
    asked: Iterable[Any] | None,
    stored: Mapping[TopicPartition, tuple[int, str]] | WireCode,
    permitted: Collection[str] | None,
    each: bool = False,
) -> list[Any]:
    """`each`: the version has no code for all, so each partition has it. Who asks for all is not
    told of topics that are not permitted.
    """
    if isinstance(stored, WireCode):
        code: int = stored if each else 0
        stored = {}
        if not each:
            return []
    else:
        code = 0
    of_partition = getattr(
        of_topic,
        "OffsetFetchResponsePartitions",
        getattr(of_topic, "OffsetFetchResponsePartition", None),
    )
    wanted = (
        [TopicPartition(t.name, p) for t in asked for p in t.partition_indexes]
        if asked is not None
        else sorted(tp for tp in stored if permitted is None or tp.topic in permitted)
    )
    assert of_partition is not None

    def one(tp: TopicPartition) -> Any:
        denied = permitted is not None and tp.topic not in permitted
        offset, metadata = (-1, "") if denied else stored.get(tp, (-1, ""))
        return of_partition(
            partition_index=tp.partition,
            committed_offset=offset,
            committed_leader_epoch=-1,
            metadata=metadata if offset >= 0 else "",
            error_code=int(WireCode.TOPIC_AUTHORIZATION_FAILED) if denied and not code else code,
        )

    return [
        of_topic(name=topic, partitions=[one(tp) for tp in tps])
        for topic, tps in groupby(wanted, key=lambda tp: tp.topic)
    ]


def found_coordinator(
    head: Head, keys: Iterable[str], permitted: Collection[str], node_id: int, at: Address
) -> bytes:
    """Answer to FindCoordinator: this gateway, for the keys that are permitted."""
    of = FindCoordinatorResponse.Coordinator
    found = []
    for key in keys:
        code = 0 if key in permitted else int(WireCode.GROUP_AUTHORIZATION_FAILED)
        node, host, port = (-1, "", -1) if code else (node_id, at.host, at.port)
        found.append(
            of(key=key, node_id=node, host=host, port=port, error_code=code, error_message=None)
        )
    first = found[0]
    return encode(
        head,
        throttle_time_ms=0,
        error_code=first.error_code,
        error_message=None,
        node_id=first.node_id,
        host=first.host,
        port=first.port,
        coordinators=found,
    )


def coordinator_keys(head: Head, body: Any) -> tuple[str, ...]:
    """What FindCoordinator asks for, where it asks for groups; else ()."""
    if getattr(body, "key_type", 0) not in (0, None) and head.version >= 1:
        return ()
    keys = body.coordinator_keys if head.version >= 4 else [body.key]
    return tuple(text_of(key) for key in keys)


def text_of(value: Any) -> str:
    if not isinstance(value, str):
        raise BadFrameError(f"a {type(value).__name__} where a text must be")
    return value
