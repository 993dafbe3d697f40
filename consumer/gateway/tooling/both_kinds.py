"""Requests about coordinated groups and groups of Kafka's own at once: admin clients put all groups
into one that one broker coordinates. What is Kafka's is asked of the broker, on the client's own
connection, and answered beside what is answered here.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Callable, Collection
from typing import Any

from kafka.protocol.metadata import FindCoordinatorResponse

from consumer.gateway import frames
from consumer.gateway.address import Address
from consumer.gateway.frames import Head
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
SINCE_SEVERAL = 8
"""OffsetFetch is about several groups from this version on."""


def parted(
    head: Head, body: Any, is_coordinated: Callable[[str], bool]
) -> tuple[Any, tuple[Head, bytes] | None]:
    """What of a request is answered here, and a request for the broker about the rest (None: there
    is none).
    """
    if head.key not in _ASKED or (head.key == frames.OFFSET_FETCH and head.version < SINCE_SEVERAL):
        return body, None
    field = _ASKED[head.key]
    named = [getattr(one, "group_id", one) for one in getattr(body, field)]
    if all(map(is_coordinated, named)):
        return body, None
    ours, theirs = copy.copy(body), copy.copy(body)
    for part, wanted in ((ours, True), (theirs, False)):
        groups = zip(named, getattr(body, field), strict=True)
        setattr(part, field, [one for name, one in groups if is_coordinated(name) is wanted])
    correlation_id = secrets.randbits(32) - 2**31
    theirs.API_VERSION = head.version
    theirs.with_header(correlation_id=correlation_id, client_id=head.client_id)
    frame = bytes(theirs.encode(header=True, framed=True))
    return ours, (Head(head.key, head.version, correlation_id, head.client_id), frame)


def joined(head: Head, ours: bytes, theirs: bytes) -> bytes:
    """One answer of ours (framed) and the broker's (without its length). Raises
    `BadAnswerError`.
    """
    mine, of = frames.decode_answer(head, ours)
    try:
        others = of.decode(theirs, version=head.version, header=True)
    except frames.BAD as error:
        raise BadAnswerError(f"answer of API {head.key} version {head.version}: {error}") from error
    field = _ANSWERED[head.key]
    both = [*getattr(mine, field), *getattr(others, field)]
    return frames.encode(head, throttle_time_ms=mine.throttle_time_ms, **{field: both})


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
