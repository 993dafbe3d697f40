"""Who may ask what: the codes of Kafka's coordinator, in its order."""

from __future__ import annotations

from .requests import ClassicBeat, ClassicCode, ClassicSync, CommitCheck
from .seats import Seats
from .state import ClassicPhase


def member_code(seats: Seats, member_id: str, instance: str | None) -> ClassicCode:
    """Whether it is a member, and who it says it is."""
    if instance is not None:
        current = seats.by_instance.get(instance)
        if current is None:
            return ClassicCode.UNKNOWN_MEMBER_ID
        if current != member_id:
            return ClassicCode.FENCED_INSTANCE_ID
    return ClassicCode.NONE if member_id in seats.seats else ClassicCode.UNKNOWN_MEMBER_ID


def generation_code(
    seats: Seats, generation: int, request: ClassicBeat | ClassicSync | CommitCheck
) -> ClassicCode:
    """The same, and whether it is of this generation."""
    code = member_code(seats, request.member_id, request.instance)
    if code is ClassicCode.NONE and request.generation != generation:
        return ClassicCode.ILLEGAL_GENERATION
    return code


def protocol_code(
    seats: Seats, generation: int, protocol_type: str, protocol: str, request: ClassicSync
) -> ClassicCode:
    """The same, and whether it is of this protocol."""
    code = generation_code(seats, generation, request)
    if code is ClassicCode.NONE and (
        request.protocol_type not in (None, protocol_type)
        or request.protocol not in (None, protocol)
    ):
        return ClassicCode.INCONSISTENT_GROUP_PROTOCOL
    return code


def commit_code(
    seats: Seats, phase: ClassicPhase, generation: int, request: CommitCheck
) -> ClassicCode:
    """Whether offsets may be stored. While a group prepares, those of the generation before may;
    who has joined has heard that it is over.
    """
    if request.generation < 0 and phase is ClassicPhase.EMPTY:
        return ClassicCode.NONE
    if request.generation >= 0 or request.member_id or request.instance is not None:
        code = generation_code(seats, generation, request)
    elif request.in_transaction:
        code = ClassicCode.NONE  # old versions name no member
    else:
        code = ClassicCode.UNKNOWN_MEMBER_ID
    if code is not ClassicCode.NONE or request.in_transaction:
        return code
    busy = phase is ClassicPhase.COMPLETING
    return ClassicCode.REBALANCE_IN_PROGRESS if busy else ClassicCode.NONE
