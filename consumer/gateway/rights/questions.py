"""Requests without an effect, of which a broker's answer says what a client may do.

A broker checks what a principal may do before it looks at anything else. Groups: a heartbeat of
nobody (READ), a description (DESCRIBE), a deletion of no offsets (DELETE). Topics: of a partition
that no topic has, a commit of nobody in a group that may be READ, or else records (READ), and the
end (DESCRIBE). A broker that throttles a client for what it has read answers the question for
records without a word of any topic, so it is asked only of whom nothing else can be asked.

Codes that say neither that it is permitted nor that it is not (an authorizer that fails answers
UNKNOWN_SERVER_ERROR) are no permission: what is not known to come after the check is `UnsaidError`.

Source: kafka.server.KafkaApis (3.9), the handlers of these six.
"""

from __future__ import annotations

import enum
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse
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
from zkcoord.core.error_codes import WireCode
from zkcoord.core.value_type import value
from zkcoord.znodes.names import is_group, is_topic, shown

CLIENT_ID = "zkcoord-gateway"
NAMES_PER_QUESTION = 500
NO_PARTITION = -1
NO_GENERATION = 2**31 - 1
"""Together with no member id nobody has it: a broker refuses a commit of it, where it looks."""

OF_GROUPS = frozenset({0, 14, 15, 16, 22, 24, 25, 27, 68, 69, 82, 86, 110, 113})
"""What a group's coordinator says, who is asked after the check: loading, away, another's,
generation, name, member, rebalance, not empty, not there, fenced, subscribed, epochs.
"""
OF_PARTITIONS = OF_GROUPS | {1, 3, 5, 6, 9, 43, 56, 74, 75, 76, 78, 100}
"""What is said of a partition after the check: that, of a commit; range, unknown, leader, replica,
format, storage, epochs, not yet, unknown id.
"""


class UnsaidError(ValueError):
    """An answer that does not say what may be done."""


class Right(enum.Enum):
    """What a request needs of its group, or of a topic. `READ_TOPIC` is asked of whom may READ the
    group, `READ_RECORDS` is the same right, asked of others.
    """

    READ = "read"
    DESCRIBE = "describe"
    DELETE = "delete"
    READ_TOPIC = "read_topic"
    READ_RECORDS = "read_records"
    DESCRIBE_TOPIC = "describe_topic"


@value
class _Question:
    """`version` of the request `ask` makes for some names, at most `at_once`, and the group that
    the client's request is about; `said`: of an answer the code of each name.
    """

    key: int
    version: int
    ask: Callable[[Sequence[str], str], Any]
    answer: Any
    said: Callable[[Sequence[str], Any], dict[str, int]]
    at_once: int = 1


def _one(names: Sequence[str], answer: Any) -> dict[str, int]:
    return {names[0]: answer.error_code}


def _commit_of(topics: Sequence[str], group: str) -> Any:
    of = OffsetCommitRequest.OffsetCommitRequestTopic
    nothing = of.OffsetCommitRequestPartition(
        partition_index=NO_PARTITION, committed_offset=0, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=NO_GENERATION,
        member_id="",
        retention_time_ms=-1,
        topics=[of(name=topic, partitions=[nothing]) for topic in topics],
    )


def _records_of(topics: Sequence[str], group: str) -> Any:
    of = FetchRequest.FetchTopic
    nothing = of.FetchPartition(partition=NO_PARTITION, fetch_offset=0, partition_max_bytes=1)
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        isolation_level=0,
        topics=[of(topic=topic, partitions=[nothing]) for topic in topics],
    )


def _ends_of(topics: Sequence[str], group: str) -> Any:
    of = ListOffsetsRequest.ListOffsetsTopic
    nothing = of.ListOffsetsPartition(partition_index=NO_PARTITION, timestamp=-1)
    return ListOffsetsRequest(
        replica_id=-1, topics=[of(name=topic, partitions=[nothing]) for topic in topics]
    )


_QUESTIONS = {
    Right.READ: _Question(
        frames.HEARTBEAT,
        0,
        lambda names, group: HeartbeatRequest(group_id=names[0], generation_id=-1, member_id=""),
        HeartbeatResponse,
        _one,
    ),
    Right.DESCRIBE: _Question(
        frames.DESCRIBE_GROUPS,
        0,
        lambda names, group: DescribeGroupsRequest(groups=list(names)),
        DescribeGroupsResponse,
        # of several, brokers name those that are refused first
        lambda names, answer: {group.group_id: group.error_code for group in answer.groups},
        NAMES_PER_QUESTION,
    ),
    Right.DELETE: _Question(
        frames.OFFSET_DELETE,
        0,
        lambda names, group: OffsetDeleteRequest(group_id=names[0], topics=[]),
        OffsetDeleteResponse,
        _one,
    ),
    Right.READ_TOPIC: _Question(
        frames.OFFSET_COMMIT,
        2,
        _commit_of,
        OffsetCommitResponse,
        lambda names, answer: {
            topic.name: part.error_code for topic in answer.topics for part in topic.partitions
        },
        NAMES_PER_QUESTION,
    ),
    Right.READ_RECORDS: _Question(
        frames.FETCH,
        4,
        _records_of,
        FetchResponse,
        lambda names, answer: {
            topic.topic: part.error_code for topic in answer.responses for part in topic.partitions
        },
        NAMES_PER_QUESTION,
    ),
    Right.DESCRIBE_TOPIC: _Question(
        frames.LIST_OFFSETS,
        1,
        _ends_of,
        ListOffsetsResponse,
        lambda names, answer: {
            topic.name: part.error_code for topic in answer.topics for part in topic.partitions
        },
        NAMES_PER_QUESTION,
    ),
}
_OF_TOPICS = (Right.READ_TOPIC, Right.READ_RECORDS, Right.DESCRIBE_TOPIC)
_DENIALS = frozenset({WireCode.GROUP_AUTHORIZATION_FAILED, WireCode.TOPIC_AUTHORIZATION_FAILED})


def is_asked(right: Right, name: str) -> bool:
    """Whether a name can be asked about; no other is a group's or a topic's."""
    return is_topic(name) if right in _OF_TOPICS else is_group(name)


def parts(right: Right, names: Sequence[str]) -> Iterator[Sequence[str]]:
    """What one request can ask for."""
    at_once = _QUESTIONS[right].at_once
    return (names[at : at + at_once] for at in range(0, len(names), at_once))


def question(right: Right, names: Sequence[str], group: str = "") -> tuple[Head, bytes]:
    """A request about these, framed; `group`: that of the client's request, for `READ_TOPIC`."""
    asked = _QUESTIONS[right]
    request = asked.ask(names, group)
    request.API_VERSION = asked.version
    # nobody can know it before, so nothing else that a client has asked can pass for its answer
    correlation_id = secrets.randbits(32) - 2**31
    request.with_header(correlation_id=correlation_id, client_id=CLIENT_ID)
    frame = bytes(request.encode(header=True, framed=True))
    return Head(asked.key, asked.version, correlation_id, CLIENT_ID), frame


def permitted(right: Right, names: Sequence[str], answer: bytes) -> frozenset[str]:
    """Those of a question that are permitted by its answer (without its length); the others are
    refused. Raises `UnsaidError`.
    """
    asked = _QUESTIONS[right]
    try:
        found = asked.said(names, asked.answer.decode(answer, version=asked.version, header=True))
    except frames.BAD as error:
        raise UnsaidError(f"its broker's answer cannot be read ({error})") from error
    good = OF_PARTITIONS if right in _OF_TOPICS else OF_GROUPS
    for name in names:
        if name not in found:
            raise UnsaidError(f"its broker does not say whether it may {right.value} {shown(name)}")
        if found[name] not in good and found[name] not in _DENIALS:
            raise UnsaidError(
                f"whether it may {right.value} {shown(name)} its broker answers with error"
                f" {found[name]}"
            )
    return frozenset(name for name in names if found[name] in good)
