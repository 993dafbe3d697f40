"""Requests without an effect, of which a broker's answer says what a client may do.

A broker checks what a principal may do before it looks at anything else. Groups: a heartbeat of
nobody (READ), a description (DESCRIBE), a deletion of no offsets (DELETE). Topics: records (READ)
and the end (DESCRIBE) of a partition that no topic has.

Source: kafka.server.KafkaApis (3.9), the handlers of these five.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
)

from consumer.gateway import frames
from consumer.gateway.frames import Head
from zkcoord.core.error_codes import WireCode
from zkcoord.znodes.names import is_group, is_topic

CORRELATION_ID = -7
CLIENT_ID = "zkcoord-gateway"
NAMES_PER_QUESTION = 500
NO_PARTITION = -1


class Right(enum.Enum):
    """What a request needs of its group, or of a topic."""

    READ = "read"
    DESCRIBE = "describe"
    DELETE = "delete"
    READ_TOPIC = "read_topic"
    DESCRIBE_TOPIC = "describe_topic"


@dataclass(frozen=True, slots=True)
class _Question:
    """`version` of the request `ask` makes for some names, at most `at_once`; `said`: of an answer
    the code of each name.
    """

    key: int
    version: int
    ask: Callable[[Sequence[str]], Any]
    answer: Any
    said: Callable[[Sequence[str], Any], dict[str, int]]
    at_once: int = 1


def _one(names: Sequence[str], answer: Any) -> dict[str, int]:
    return {names[0]: answer.error_code}


def _records_of(topics: Sequence[str]) -> Any:
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


def _ends_of(topics: Sequence[str]) -> Any:
    of = ListOffsetsRequest.ListOffsetsTopic
    nothing = of.ListOffsetsPartition(partition_index=NO_PARTITION, timestamp=-1)
    return ListOffsetsRequest(
        replica_id=-1, topics=[of(name=topic, partitions=[nothing]) for topic in topics]
    )


_QUESTIONS = {
    Right.READ: _Question(
        frames.HEARTBEAT,
        0,
        lambda names: HeartbeatRequest(group_id=names[0], generation_id=-1, member_id=""),
        HeartbeatResponse,
        _one,
    ),
    Right.DESCRIBE: _Question(
        frames.DESCRIBE_GROUPS,
        0,
        lambda names: DescribeGroupsRequest(groups=list(names)),
        DescribeGroupsResponse,
        # of several, brokers name those that are refused first
        lambda names, answer: {group.group_id: group.error_code for group in answer.groups},
        NAMES_PER_QUESTION,
    ),
    Right.DELETE: _Question(
        frames.OFFSET_DELETE,
        0,
        lambda names: OffsetDeleteRequest(group_id=names[0], topics=[]),
        OffsetDeleteResponse,
        _one,
    ),
    Right.READ_TOPIC: _Question(
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
_OF_TOPICS = (Right.READ_TOPIC, Right.DESCRIBE_TOPIC)


def is_asked(right: Right, name: str) -> bool:
    """Whether a name can be asked about; no other is a group's or a topic's."""
    return is_topic(name) if right in _OF_TOPICS else is_group(name)


def denial(right: Right) -> WireCode:
    """What is answered where this is not permitted."""
    if right in _OF_TOPICS:
        return WireCode.TOPIC_AUTHORIZATION_FAILED
    return WireCode.GROUP_AUTHORIZATION_FAILED


def parts(right: Right, names: Sequence[str]) -> Iterator[Sequence[str]]:
    """What one request can ask for."""
    at_once = _QUESTIONS[right].at_once
    return (names[at : at + at_once] for at in range(0, len(names), at_once))


def question(right: Right, names: Sequence[str]) -> tuple[Head, bytes]:
    """A request about these, framed."""
    asked = _QUESTIONS[right]
    request = asked.ask(names)
    request.API_VERSION = asked.version
    request.with_header(correlation_id=CORRELATION_ID, client_id=CLIENT_ID)
    frame = bytes(request.encode(header=True, framed=True))
    return Head(asked.key, asked.version, CORRELATION_ID, CLIENT_ID), frame


def permitted(right: Right, names: Sequence[str], answer: bytes) -> frozenset[str]:
    """Those of a question that are permitted by its answer (without its length). Of an answer that
    cannot be read nothing is.
    """
    asked = _QUESTIONS[right]
    try:
        found = asked.said(names, asked.answer.decode(answer, version=asked.version, header=True))
    except frames.BAD:
        return frozenset()
    denied = denial(right)
    return frozenset(name for name in names if found.get(name, denied) != denied)
