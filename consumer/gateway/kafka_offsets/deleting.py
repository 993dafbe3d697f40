"""DeleteGroups and OffsetDelete of groups whose offsets Kafka keeps: what was deleted here is
deleted there too, once it is known that the group has no members: Kafka knows of none.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from consumer.gateway import frames
from consumer.gateway.frames import Head
from consumer.gateway.kafka_offsets.passing_on import question
from consumer.gateway.relay.rewriting import BadAnswerError
from zkcoord.core.error_codes import WireCode

GONE = (int(WireCode.NONE), int(WireCode.GROUP_ID_NOT_FOUND))
"""Here nothing of it is left."""
REFUSED_HERE = frozenset(
    {int(WireCode.GROUP_SUBSCRIBED_TO_TOPIC), int(WireCode.TOPIC_AUTHORIZATION_FAILED)}
)


class AsksBroker(Protocol):
    """A client's connection."""

    def ask(self, head: Head, frame: bytes, before: Head | None = None) -> Awaitable[bytes]:
        """See `ClientConnection.ask`."""


async def deleted_too(
    connection: AsksBroker, head: Head, body: Any, ours: bytes, is_kept: Callable[[str], bool]
) -> bytes:
    """The answer to such a request, of which `ours` (framed) says what became of it here; its
    client is held up. Raises `BadAnswerError`.
    """
    mine, _ = frames.decode_answer(head, ours)
    if head.key == frames.DELETE_GROUPS:
        return await _groups(connection, head, body, mine, is_kept)
    if is_kept(body.group_id) and mine.error_code in GONE:
        return await _offsets(connection, head, body, mine)
    return ours


async def _asked(connection: AsksBroker, head: Head, body: Any) -> Any:
    asked, frame = question(head, body)
    answer = await connection.ask(asked, frame, before=head)
    try:
        return frames.decode_answer(head, bytes(4) + answer)[0]
    except frames.BAD as error:
        raise BadAnswerError(f"answer of API {head.key} version {head.version}: {error}") from error


async def _groups(
    connection: AsksBroker, head: Head, body: Any, mine: Any, is_kept: Callable[[str], bool]
) -> bytes:
    here = {one.group_id: one for one in mine.results}
    rest = [name for name, one in here.items() if is_kept(name) and one.error_code in GONE]
    if rest:
        asked = copy.copy(body)
        asked.groups_names = rest
        for theirs in (await _asked(connection, head, asked)).results:
            one = here.get(theirs.group_id)
            if one is not None and theirs.error_code != WireCode.GROUP_ID_NOT_FOUND:
                one.error_code = theirs.error_code
    return frames.encode(head, throttle_time_ms=0, results=mine.results)


async def _offsets(connection: AsksBroker, head: Head, body: Any, mine: Any) -> bytes:
    codes = {
        (topic.name, part.partition_index): part.error_code
        for topic in mine.topics
        for part in topic.partitions
        if part.error_code in REFUSED_HERE
    }
    asked = copy.copy(body)
    asked.topics = []
    for topic in body.topics:
        rest = [p for p in topic.partitions if (topic.name, p.partition_index) not in codes]
        if rest:
            some = copy.copy(topic)
            some.partitions = rest
            asked.topics.append(some)
    if not asked.topics:
        return frames.encode(
            head, error_code=mine.error_code, throttle_time_ms=0, topics=mine.topics
        )
    theirs = await _asked(connection, head, asked)
    of_topic = type(theirs).OffsetDeleteResponseTopic
    of_partition = of_topic.OffsetDeleteResponsePartition
    refused = [
        of_topic(name=name, partitions=[of_partition(partition_index=number, error_code=code)])
        for (name, number), code in codes.items()
    ]
    if theirs.error_code:
        return frames.encode(head, error_code=theirs.error_code, throttle_time_ms=0, topics=[])
    return frames.encode(head, error_code=0, throttle_time_ms=0, topics=[*theirs.topics, *refused])
