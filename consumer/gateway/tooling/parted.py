"""Requests about several groups, some of them coordinated here and some Kafka's own: admin clients
ask one coordinator about all that it has. Each part goes to whom it is of, and one answer is made
of both.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from typing import Any

from kafka.protocol.metadata import FindCoordinatorResponse

from consumer.gateway import frames
from consumer.gateway.address import Address
from consumer.gateway.frames import Head
from consumer.gateway.relay.rewriting import Place, rewritten
from consumer.gateway.rights.questions import CORRELATION_ID
from zkcoord.core.error_codes import WireCode

ASKED_IN = {
    frames.DESCRIBE_GROUPS: "groups",
    frames.DELETE_GROUPS: "groups_names",
    frames.OFFSET_FETCH: "groups",
}
"""Where a request has its groups."""
ANSWERED_IN = {**ASKED_IN, frames.DELETE_GROUPS: "results"}


def parted(
    head: Head, body: Any, is_ours: Callable[[str], bool]
) -> tuple[Any, tuple[Head, bytes] | None]:
    """The part of a request that is about ours, and, framed, that about Kafka's own; None: there is
    none.
    """
    if all(map(is_ours, frames.group_of(head, body))):
        return body, None
    field = ASKED_IN[head.key]
    named = list(zip(getattr(body, field), frames.group_of(head, body), strict=True))
    ours, theirs = copy.copy(body), copy.copy(body)
    setattr(ours, field, [one for one, group in named if is_ours(group)])
    setattr(theirs, field, [one for one, group in named if not is_ours(group)])
    theirs.API_VERSION = head.version
    theirs.with_header(correlation_id=CORRELATION_ID, client_id=head.client_id)
    asked = Head(head.key, head.version, CORRELATION_ID, head.client_id)
    return ours, (asked, bytes(theirs.encode(header=True, framed=True)))


def joined(head: Head, ours: bytes, theirs: bytes) -> bytes:
    """One answer of ours, framed, and the broker's, without its length."""
    answer, of = frames.decode_answer(head, ours)
    kafkas = of.decode(theirs, version=head.version, header=True)
    field = ANSWERED_IN[head.key]
    both = [*getattr(answer, field), *getattr(kafkas, field)]
    return frames.encode(head, throttle_time_ms=0, **{field: both})


def coordinators(
    head: Head, ours: Collection[str], at: tuple[int, Address], place: Place, answer: bytes
) -> bytes:
    """Answer to FindCoordinator, of the broker's (without its length): of ours this gateway, for
    those that its client may describe.
    """
    framed = rewritten(head, answer, place)
    said = FindCoordinatorResponse.decode(framed[4:], version=head.version, header=True)
    node_id, address = at
    for one in said.coordinators:
        if one.key in ours and one.error_code != WireCode.GROUP_AUTHORIZATION_FAILED:
            one.node_id, one.host, one.port = node_id, address.host, address.port
            one.error_code, one.error_message = 0, None
    return frames.encode(head, throttle_time_ms=0, coordinators=said.coordinators)
