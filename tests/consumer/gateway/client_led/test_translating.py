"""What the coordinator cannot read is not asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.gateway.client_led.translating import drawn_id, left, to_join, to_leave, to_sync
from consumer.gateway.wire.actions import GroupLimits
from consumer.gateway.wire.requests import (
    Caller,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    SyncRequest,
)
from zkcoord.core.classic.requests import (
    ClassicJoin,
    ClassicLeave,
    ClassicLeft,
    ClassicSync,
)
from zkcoord.core.error_codes import WireCode
from zkcoord.znodes.classic.documents import ClassicAsk, decode_ask, encode_ask

LONG = "x" * 1_001
JOIN = JoinRequest("g", "m", 10_000, 60_000, "connect", (("own", b"1"),), "i", True, True, "why")
CALLER = Caller(1, "client", "host")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"session_timeout_ms": 5_999}, WireCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, WireCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, WireCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, WireCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "x" * 256}, WireCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("own", b""),) * 65}, WireCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("own", bytes(262_145)),)}, WireCode.GROUP_MAX_SIZE_REACHED),
        ({"member_id": LONG}, WireCode.UNKNOWN_MEMBER_ID),
        ({"instance": "x" * 250}, WireCode.INVALID_REQUEST),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_what_is_refused_of_a_join(change: dict[str, object], code: WireCode) -> None:
    assert to_join(replace(JOIN, **change), CALLER, "new", GroupLimits()) is code  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "asked",
    [
        to_join(JOIN, CALLER, "new", GroupLimits()),
        to_join(replace(JOIN, rebalance_timeout_ms=-1), CALLER, "new", GroupLimits()),
        to_sync(SyncRequest("g", "m", 3, "i", "connect", "own", (("m", b"1"), (LONG, b"2")))),
        to_leave(LeaveRequest("g", (("m", None), ("", "i")), True, ("why",))),
    ],
    ids=["join", "no rebalance timeout", "sync", "leave"],
)
def test_what_is_asked_can_be_read(asked: ClassicJoin | ClassicSync | ClassicLeave) -> None:
    (data,) = encode_ask(ClassicAsk("g", asked))
    assert decode_ask("node", data) == ClassicAsk("g", asked)


def test_what_a_leader_gives_to_nobody_is_left_out() -> None:
    found = to_sync(SyncRequest("g", "m", 3, assignments=(("m", b"1"), (LONG, b"2"))))
    assert isinstance(found, ClassicSync) and found.assignments == (("m", b"1"),)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (SyncRequest("g", LONG, 1), WireCode.UNKNOWN_MEMBER_ID),
        (SyncRequest("g", "m", 1, "x" * 250), WireCode.UNKNOWN_MEMBER_ID),
        (SyncRequest("g", "m", 1, None, "x" * 256), WireCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_what_is_refused_of_a_sync(request_: SyncRequest, code: WireCode) -> None:
    assert to_sync(request_) is code


def test_what_is_refused_of_a_leave() -> None:
    assert to_leave(LeaveRequest("g", ((LONG, None),))) is WireCode.UNKNOWN_MEMBER_ID
    many = tuple((str(n), None) for n in range(10_001))
    assert to_leave(LeaveRequest("g", many)) is WireCode.INVALID_REQUEST


def test_an_id_begins_with_what_the_client_is_called() -> None:
    assert drawn_id(JOIN, CALLER, "7") == "i-7"
    assert drawn_id(replace(JOIN, instance=None), CALLER, "7") == "client-7"
    assert len(drawn_id(replace(JOIN, instance=LONG), CALLER, "7")) == 202


def test_before_there_were_batches_the_code_of_one_is_that_of_all() -> None:
    one = ClassicLeft(WireCode.NONE, (WireCode.UNKNOWN_MEMBER_ID,))
    request = LeaveRequest("g", (("m", None),), False)
    assert left(request, one) == LeaveAnswer(WireCode.UNKNOWN_MEMBER_ID, one.members)
    assert left(replace(request, batch=True), one) == LeaveAnswer(WireCode.NONE, one.members)
