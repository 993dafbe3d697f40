"""Who may ask what: the codes of Kafka's coordinator, in its order."""

from __future__ import annotations

from zkcoord.core.error_codes import WireCode

from .requests import ClassicBeat, ClassicSync, CommitCheck
from .seats import Seats
from .state import ClassicPhase


def member_code(seats: Seats, member_id: str, instance: str | None) -> WireCode:
    """Whether it is a member, and who it says it is."""
    if instance is not None:
        current = seats.by_instance.get(instance)
        if current is None:
            return WireCode.UNKNOWN_MEMBER_ID
        if current != member_id:
            return WireCode.FENCED_INSTANCE_ID
    return WireCode.NONE if member_id in seats.seats else WireCode.UNKNOWN_MEMBER_ID


def generation_code(
    seats: Seats, generation: int, request: ClassicBeat | ClassicSync | CommitCheck
) -> WireCode:
    """The same, and whether it is of this generation."""
    code = member_code(seats, request.member_id, request.instance)
    if code is WireCode.NONE and request.generation != generation:
        return WireCode.ILLEGAL_GENERATION
    return code


def protocol_code(
    seats: Seats, generation: int, protocol_type: str, protocol: str, request: ClassicSync
) -> WireCode:
    """The same, and whether it is of this protocol."""
    code = generation_code(seats, generation, request)
    if code is WireCode.NONE and (
        request.protocol_type not in (None, protocol_type)
        or request.protocol not in (None, protocol)
    ):
        return WireCode.INCONSISTENT_GROUP_PROTOCOL
    return code


def commit_code(
    seats: Seats, phase: ClassicPhase, generation: int, request: CommitCheck
) -> WireCode:
    """Whether offsets may be stored. While a group prepares, those of the generation before may;
    who has joined has heard that it is over.
    """
    if request.generation < 0 and phase is ClassicPhase.EMPTY:
        return WireCode.NONE
    if request.generation >= 0 or request.member_id or request.instance is not None:
        code = generation_code(seats, generation, request)
    elif request.in_transaction:
        code = WireCode.NONE  # old versions name no member
    else:
        code = WireCode.UNKNOWN_MEMBER_ID
    if code is not WireCode.NONE or request.in_transaction:
        return code
    busy = phase is ClassicPhase.COMPLETING
    return WireCode.REBALANCE_IN_PROGRESS if busy else WireCode.NONE
