"""Requests about coordinated groups and groups of Kafka's own at once: admin clients put all groups
into one that one broker coordinates. What is Kafka's is asked of the broker, on the client's own
connection, and answered beside what is answered here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from kafka.protocol.metadata import FindCoordinatorResponse

from consumer.gateway import frames
from consumer.gateway.address import Address
from consumer.gateway.frames import Head
from consumer.gateway.kafka_offsets.passing_on import question, without_members
from consumer.gateway.relay.rewriting import BadAnswerError, Surroundings, rewritten
from zkcoord.core.error_codes import WireCode

_ASKED = {
    frames.OFFSET_FETCH: "groups",
    frames.DESCRIBE_GROUPS: "groups",
    frames.DELETE_GROUPS: "groups_names",
}
_ANSWERED = {
    frames.OFFSET_FETCH: "groups",
    frames.DESCRIBE_GROUPS: "groups",
    frames.DELETE_GROUPS: "results",
}
Of = Callable[[str], bool]
DEAD = "Dead"
UNKNOWN = (int(WireCode.NONE), int(WireCode.GROUP_ID_NOT_FOUND))
SINCE_SEVERAL = 8
"""OffsetFetch is about several groups from this version on."""


def never(group: str) -> bool:
    """No group has its offsets in Kafka."""
    return False


def is_answered_here(key: int, group: str, is_coordinated: Of, is_kept: Of) -> bool:
    """Whether something of what a request asks of a group is. Offsets that Kafka keeps (`is_kept`)
    are the broker's to tell.
    """
    return is_coordinated(group) and not (key == frames.OFFSET_FETCH and is_kept(group))


def parted(
    head: Head, body: Any, is_coordinated: Of, is_kept: Of = never
) -> tuple[Any, tuple[Head, bytes] | None]:
    """What of a request is answered here, and a request for the broker about the rest (None: there
    is none). Of groups that nobody has joined, whose offsets it has, only the broker knows: it is
    asked to describe these as well.
    """
    if head.key not in _ASKED or (head.key == frames.OFFSET_FETCH and head.version < SINCE_SEVERAL):
        return body, None
    field = _ASKED[head.key]
    asked = [(getattr(one, "group_id", one), one) for one in getattr(body, field)]
    here = [one for name, one in asked if is_answered_here(head.key, name, is_coordinated, is_kept)]
    there = [
        one
        for name, one in asked
        if not is_answered_here(head.key, name, is_coordinated, is_kept)
        or (head.key == frames.DESCRIBE_GROUPS and is_kept(name))
    ]
    if not there:
        return body, None
    if head.key == frames.OFFSET_FETCH:
        there = without_members(head, there)
    ours, theirs = copy.copy(body), copy.copy(body)
    setattr(ours, field, here)
    setattr(theirs, field, there)
    return ours, question(head, theirs)


def joined(head: Head, ours: bytes, theirs: bytes) -> bytes:
    """One answer of ours (framed) and the broker's (without its length). Raises
    `BadAnswerError`.
    """
    mine, of = frames.decode_answer(head, ours)
    try:
        others = of.decode(theirs, version=head.version, header=True)
        field = _ANSWERED[head.key]
        both = [*getattr(mine, field), *getattr(others, field)]
        if head.key == frames.DESCRIBE_GROUPS:
            both = list(_each_once(mine.groups, others.groups))
        return frames.encode(head, throttle_time_ms=mine.throttle_time_ms, **{field: both})
    except frames.BAD as error:  # a null in the place of a list too
        raise BadAnswerError(f"answer of API {head.key} version {head.version}: {error}") from error


def _each_once(ours: Iterable[Any], theirs: Iterable[Any]) -> Iterator[Any]:
    """Groups that are described: of one that is not here what the broker says of it."""
    others = {group.group_id: group for group in theirs}
    for group in ours:
        other = others.pop(group.group_id, None)
        is_here = other is None or group.error_code not in UNKNOWN or group.group_state != DEAD
        yield group if is_here else other
    yield from others.values()


def coordinators(
    head: Head, ours: Collection[str], at: tuple[int, Address], around: Surroundings, answer: bytes
) -> bytes:
    """Answer to FindCoordinator, of the broker's (without its length): of ours this gateway, for
    those that its client may describe.
    """
    framed = rewritten(head, answer, around)
    said = FindCoordinatorResponse.decode(framed[4:], version=head.version, header=True)
    node_id, address = at
    for one in said.coordinators:
        if one.key in ours and one.error_code != WireCode.GROUP_AUTHORIZATION_FAILED:
            one.node_id, one.host, one.port = node_id, address.host, address.port
            one.error_code, one.error_message = 0, None
    return frames.encode(head, throttle_time_ms=0, coordinators=said.coordinators)
