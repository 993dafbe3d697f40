"""What a client may do with groups and topics: asked of its broker, on its own connection, so as
whoever the broker takes it for. A client that a broker has not accepted yet is closed by the
broker. What was permitted is believed for a while (`Permitted`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from consumer.gateway import frames
from consumer.gateway.frames import Head
from consumer.gateway.rights.permitted import Permitted
from consumer.gateway.rights.questions import (
    Right,
    UnsaidError,
    is_asked,
    parts,
    permitted,
    question,
)
from consumer.gateway.wire.requests import CommitRequest, Request
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value

OF_GROUPS = {
    frames.DESCRIBE_GROUPS: Right.DESCRIBE,
    frames.OFFSET_FETCH: Right.DESCRIBE,
    frames.DELETE_GROUPS: Right.DELETE,
    frames.OFFSET_DELETE: Right.DELETE,
}
"""What a tool's request needs of its groups."""
OF_TOPICS = {
    frames.OFFSET_FETCH: Right.DESCRIBE_TOPIC,
    frames.OFFSET_DELETE: Right.READ_RECORDS,
}
"""What it needs of the topics that it names."""


@value
class NamedTopics:
    """Topics that a request names; `and_all`: it also asks for all that there are."""

    topics: frozenset[str] = frozenset()
    and_all: bool = False


def topics_of(head: Head, body: Any) -> NamedTopics:
    """The topics that OffsetFetch or OffsetDelete is about; no other is about any."""
    if head.key not in OF_TOPICS:
        return NamedTopics()
    with_groups = head.key == frames.OFFSET_FETCH and head.version >= 8
    lists = [group.topics for group in body.groups] if with_groups else [body.topics]
    found = frozenset(str(topic.name) for topics in lists for topic in topics or ())
    return NamedTopics(found, None in lists)


class Asker(Protocol):
    """A client's connection. `questions`: how many were asked, by right."""

    permitted: Permitted

    @property
    def questions(self) -> dict[str, int]:
        """See above."""

    def ask(self, head: Head, frame: bytes, before: Head | None = None) -> asyncio.Future[bytes]:
        """See `ClientConnection.ask`."""

    def drop(self, why: str) -> None:
        """Close it."""


def needs(request: Request) -> dict[Right, frozenset[str]]:
    """What a member's request needs: READ of its group, and of what it stores."""
    stored = request.offsets if isinstance(request, CommitRequest) else ()
    return {
        Right.READ: frozenset((request.group,)),
        Right.READ_TOPIC: frozenset(tp.topic for tp in stored),
    }


def is_known(connection: Asker, need: Mapping[Right, Iterable[str]]) -> bool:
    """Whether all this was permitted a moment ago, or cannot be asked about."""
    knows = connection.permitted.knows
    return all(
        knows(right, name) or not is_asked(right, name)
        for right, names in need.items()
        for name in names
    )


def permissions(
    connection: Asker,
    right: Right,
    names: Collection[str],
    before: Head | None = None,
    group: str = "",
) -> Awaitable[frozenset[str]]:
    """Which of these may be used so. Asked at once, so that what is asked stands in the
    connection's order where this was called, or before the answer to the client's request `before`,
    if nothing has been asked of the broker since (the client is held up). `group`: that of the
    request, for `Right.READ_TOPIC`. Cancelled when the connection ends, which is also the end of
    one whose broker does not say it: its client asks again. Names that cannot be anything's are not
    asked about, and in the answer.
    """
    able = [name for name in dict.fromkeys(names) if is_asked(right, name)]
    unknown = [name for name in able if not connection.permitted.knows(right, name)]
    asked = [
        (tuple(part), connection.ask(*question(right, part, group), before))
        for part in parts(right, unknown)
    ]
    connection.questions[right.value] += len(asked)
    return _judged(connection, right, frozenset(names) - frozenset(unknown), asked)


async def _judged(
    connection: Asker,
    right: Right,
    known: frozenset[str],
    asked: Sequence[tuple[tuple[str, ...], asyncio.Future[bytes]]],
) -> frozenset[str]:
    found = set(known)
    for names, answer in asked:
        try:
            good = permitted(right, names, await answer)
        except UnsaidError as error:
            connection.drop(str(error))
            raise asyncio.CancelledError from error
        for name in (name for name in names if name in good):
            connection.permitted.add(right, name)
        found |= good
    return frozenset(found)


def split(
    request: CommitRequest, topics: frozenset[str]
) -> tuple[CommitRequest, dict[TopicPartition, WireCode]]:
    """What of a commit is of topics that may be read, and what is answered of the others."""
    denied = {
        tp: WireCode.TOPIC_AUTHORIZATION_FAILED for tp in request.offsets if tp.topic not in topics
    }
    if not denied:
        return request, denied
    stored = {tp: value for tp, value in request.offsets.items() if tp not in denied}
    return replace(request, offsets=stored), denied
