"""What a client may do with a group: asked of its broker, on its own connection, so as whoever the
broker takes it for.

The broker checks what a principal may do before it looks at anything else. So a request without an
effect is asked of it: a heartbeat of nobody (which needs READ), a description (DESCRIBE), a
deletion of no offsets (DELETE). A client that a broker has not accepted yet is closed by the
broker. What was permitted is believed for `BELIEVED_S`.

Source: kafka.server.KafkaApis (3.9), the handlers of these three.
"""

from __future__ import annotations

import asyncio
import enum
import struct
import time
from collections.abc import Awaitable, Iterator, Sequence
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse
from kafka.protocol.consumer import (
    HeartbeatRequest,
    HeartbeatResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
)

from consumer.gateway import frames
from consumer.gateway.frames import Head
from consumer.gateway.relay.connection import ClientConnection
from consumer.gateway.wire.requests import WireCode
from zkcoord.znodes.names import is_group

BELIEVED_S = 30.0
GROUPS_MAX = 1_000
DENIED = WireCode.GROUP_AUTHORIZATION_FAILED
CORRELATION_ID = -7
CLIENT_ID = "zkcoord-gateway"


class GroupRight(enum.Enum):
    """What a request needs of its group."""

    READ = "read"
    DESCRIBE = "describe"
    DELETE = "delete"


NEEDS = {
    frames.DESCRIBE_GROUPS: GroupRight.DESCRIBE,
    frames.OFFSET_FETCH: GroupRight.DESCRIBE,
    frames.DELETE_GROUPS: GroupRight.DELETE,
    frames.OFFSET_DELETE: GroupRight.DELETE,
}
"""Of all other requests: READ."""


def is_known(connection: ClientConnection, need: GroupRight, group: str) -> bool:
    """Whether it was permitted a moment ago."""
    return connection.permitted.get((need, group), 0.0) > time.monotonic()


def permissions(
    connection: ClientConnection, need: GroupRight, groups: Sequence[str]
) -> Awaitable[frozenset[str]]:
    """Which of these groups may be used so. Asked at once, so that what is asked stands in the
    connection's order where this was called; of an answer that cannot be read nothing is permitted.
    Cancelled when the connection ends.
    """
    able = [group for group in dict.fromkeys(groups) if is_group(group)]  # no other is asked about
    unknown = [group for group in able if not is_known(connection, need, group)]
    asked = [
        (tuple(part), connection.ask(*_harmless(need, part))) for part in _parts(need, unknown)
    ]
    connection.figures.questions[need.value] += len(asked)
    return _judged(connection, need, frozenset(groups) - frozenset(unknown), asked)


async def _judged(
    connection: ClientConnection,
    need: GroupRight,
    known: frozenset[str],
    asked: Sequence[tuple[tuple[str, ...], asyncio.Future[bytes]]],
) -> frozenset[str]:
    found = set(known)
    for groups, answer in asked:
        try:
            codes = _codes(need, groups, await answer)
        except (struct.error, ValueError, IndexError, TypeError, AttributeError):
            continue
        for group in groups:
            if codes.get(group, DENIED) != DENIED:
                found.add(group)
                if len(connection.permitted) < GROUPS_MAX:
                    connection.permitted[need, group] = time.monotonic() + BELIEVED_S
    return frozenset(found)


def _parts(need: GroupRight, groups: Sequence[str]) -> Iterator[Sequence[str]]:
    """What one request can ask for."""
    if need is GroupRight.DESCRIBE:
        if groups:
            yield groups
    else:
        yield from ([group] for group in groups)


def _harmless(need: GroupRight, groups: Sequence[str]) -> tuple[Head, bytes]:
    request: Any
    match need:
        case GroupRight.READ:
            key = frames.HEARTBEAT
            request = HeartbeatRequest(group_id=groups[0], generation_id=-1, member_id="")
        case GroupRight.DESCRIBE:
            key = frames.DESCRIBE_GROUPS
            request = DescribeGroupsRequest(groups=list(groups))
        case GroupRight.DELETE:
            key = frames.OFFSET_DELETE
            request = OffsetDeleteRequest(group_id=groups[0], topics=[])
    request.API_VERSION = 0
    request.with_header(correlation_id=CORRELATION_ID, client_id=CLIENT_ID)
    frame = bytes(request.encode(header=True, framed=True))
    return Head(key, 0, CORRELATION_ID, CLIENT_ID), frame


def _codes(need: GroupRight, groups: Sequence[str], answer: bytes) -> dict[str, int]:
    """Of each group that the answer names. (Of several, brokers name those that are refused
    first.)
    """
    match need:
        case GroupRight.READ:
            return {groups[0]: HeartbeatResponse.decode(answer, version=0, header=True).error_code}
        case GroupRight.DESCRIBE:
            found = DescribeGroupsResponse.decode(answer, version=0, header=True)
            return {group.group_id: group.error_code for group in found.groups}
        case GroupRight.DELETE:
            deleted = OffsetDeleteResponse.decode(answer, version=0, header=True)
            return {groups[0]: deleted.error_code}
