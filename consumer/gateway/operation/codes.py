"""Which of Kafka's error codes an answer of ours holds: each once, and NONE where there is no
other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from consumer.gateway import frames
from consumer.gateway.frames import Head
from consumer.gateway.operation.figures import OTHER
from consumer.gateway.wire.requests import Answer, CommitAnswer, LeaveAnswer
from zkcoord.core.error_codes import WireCode

NONE = int(WireCode.NONE)
OK = frozenset((NONE,))
REFUSED = frozenset((int(WireCode.GROUP_AUTHORIZATION_FAILED),))


def codes_of_answer(answer: Answer) -> frozenset[int]:
    """Of an answer to a member."""
    match answer:
        case CommitAnswer():
            return _errors((answer.code, *answer.others.values()))
        case LeaveAnswer():
            return _errors((answer.code, *answer.members))
        case _:
            return frozenset((int(answer.code),))


def codes_of_frame(head: Head, frame: bytes) -> frozenset[int]:
    """Of a framed answer to a request. Reads all of it, so it is nothing for the event loop. Never
    raises: an answer is worth more than its count.
    """
    found: set[int] = set()
    try:
        response, of = frames.decode_answer(head, frame)
        _gather(head.version, of.fields.values(), response, found)
    except frames.BAD:
        return frozenset((OTHER,))
    return _errors(found)


def _errors(codes: Iterable[int]) -> frozenset[int]:
    return (frozenset(map(int, codes)) - OK) or OK


def _gather(version: int, fields: Iterable[Any], value: Any, found: set[int]) -> None:
    for field in fields:
        if not field.for_version_q(version):
            continue
        if field.name == "error_code":
            found.add(int(value.error_code))
        elif field.is_struct_array():
            for part in getattr(value, field.name) or ():
                _gather(version, field.fields.values(), part, found)
