"""Requests about offsets as Kafka's own coordinator of the group is asked them, and its answers as
clients read them. To it the group has no members: what names one is left out, and a commit is one
of nobody, which it takes as long as that is so.
"""

from __future__ import annotations

import copy
import secrets
import struct
from typing import Any

from consumer.gateway import frames
from consumer.gateway.frames import Head
from consumer.gateway.wire.requests import MayCommitRequest

SINCE_MEMBERS = 9
"""OffsetFetch names the member that asks from this version on."""
FIRST_ERROR_AT = 4


def may_commit(head: Head, body: Any) -> MayCommitRequest | None:
    """Who stores offsets; None: nobody, in a transaction (Kafka fences that by its producer
    alone).
    """
    in_transaction = head.key == frames.TXN_OFFSET_COMMIT
    since_member, since_instance = (3, 3) if in_transaction else (1, 7)
    member_id, generation, instance = "", -1, None
    if head.version >= since_member:
        member_id = frames.text_of(body.member_id)
        named = "generation_id" if in_transaction else "generation_id_or_member_epoch"
        generation = getattr(body, named)
    if head.version >= since_instance:
        instance = body.group_instance_id
    if in_transaction and generation < 0 and not member_id and instance is None:
        return None
    group = frames.text_of(body.group_id)
    return MayCommitRequest(group, member_id, generation, instance, in_transaction)


def of_nobody(head: Head, body: Any) -> tuple[Head, bytes]:
    """A commit without its member."""
    asked = copy.copy(body)
    asked.member_id, asked.group_instance_id = "", None
    if head.key == frames.TXN_OFFSET_COMMIT:
        asked.generation_id = -1
    else:
        asked.generation_id_or_member_epoch = -1
    return question(head, asked)


def without_members(head: Head, groups: list[Any]) -> list[Any]:
    """What OffsetFetch asks of groups, without who asks."""
    if head.version < SINCE_MEMBERS:
        return groups
    asked = [copy.copy(group) for group in groups]
    for group in asked:
        group.member_id, group.member_epoch = None, -1
    return asked


def names_member(head: Head, groups: list[Any]) -> bool:
    """Whether who asks OffsetFetch is in it."""
    return head.version >= SINCE_MEMBERS and any(one.member_id is not None for one in groups)


def question(head: Head, body: Any) -> tuple[Head, bytes]:
    """A request of a client, framed anew to be asked in its name."""
    # nobody can know it before, so nothing else that a client has asked can pass for its answer
    correlation_id = secrets.randbits(32) - 2**31
    body.API_VERSION = head.version
    body.with_header(correlation_id=correlation_id, client_id=head.client_id)
    frame = bytes(body.encode(header=True, framed=True))
    return Head(head.key, head.version, correlation_id, head.client_id), frame


def passed_on(head: Head, answer: bytes) -> bytes:
    """A broker's answer to such a question (without its length), as that to a client's request."""
    return struct.pack(">ii", len(answer), head.correlation_id) + answer[FIRST_ERROR_AT:]
