"""Documents of groups whose leader is a client: what is written is read, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zkcoord.core.classic.requests import (
    BlobRef,
    ClassicAnswer,
    ClassicDelete,
    ClassicDescribed,
    ClassicJoin,
    ClassicJoined,
    ClassicLeave,
    ClassicLeft,
    ClassicSaid,
    ClassicSync,
    ClassicSynced,
    JoinedPeer,
    Leaver,
)
from zkcoord.core.classic.state import (
    ASSIGNMENT_BYTES_MAX,
    GROUP_METADATA_BYTES_MAX,
    INSTANCE_CHARS_MAX,
    PROTOCOL_CHARS_MAX,
    PROTOCOLS_MAX,
    WORDS_CHARS_MAX,
    ClassicMember,
    ClassicPhase,
    ClassicState,
)
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Malformed
from zkcoord.znodes.classic import documents
from zkcoord.znodes.classic.documents import (
    AskedOfGroup,
    ClassicAsk,
    ClassicRound,
    InParts,
    decode_answer,
    decode_ask,
    decode_round,
    decode_state,
    encode_answer,
    encode_ask,
    encode_round,
    encode_state,
    state_bytes,
)
from zkcoord.znodes.classic.fields import BLOB_BYTES_MAX

A, B = BlobRef("a" * 64, 3), BlobRef("b" * 64, BLOB_BYTES_MAX)
JOIN = ClassicJoin(
    "m-1",
    "m-2",
    "connect",
    (("eager", b"\0\1\xff"), ("compatible", b"")),
    10_000,
    60_000,
    "i-1",
    False,
    True,
    "client \u00e9",
    "10.0.0.1",
    "why\n",
)
SYNC = ClassicSync("m-1", 7, None, "connect", None, (("m-1", b"x"), ("m-2", b"")))
LEAVE = ClassicLeave((Leaver("m-1", None, "bye"), Leaver("", "i-1")))
ASKS: tuple[AskedOfGroup, ...] = (
    JOIN,
    replace(JOIN, member_id="", instance=None, named_first=True, may_skip=False),
    SYNC,
    replace(SYNC, instance="i-1", protocol_type=None, protocol="range", assignments=()),
    LEAVE,
    ClassicDelete(),
)
ANSWERS: tuple[ClassicAnswer, ...] = (
    ClassicJoined(WireCode.NONE, "m-1", 7, "connect", "eager", "m-1", (), True),
    ClassicJoined(
        WireCode.NONE,
        "m",
        0,
        None,
        None,
        "m",
        (JoinedPeer("m", "i", A), JoinedPeer("n", None, b"")),
    ),
    ClassicJoined(WireCode.MEMBER_ID_REQUIRED, "m-1"),
    ClassicSynced(WireCode.NONE, "connect", "eager", B),
    ClassicSynced(WireCode.REBALANCE_IN_PROGRESS),
    ClassicLeft(WireCode.NONE, (WireCode.NONE, WireCode.UNKNOWN_MEMBER_ID)),
    ClassicSaid(WireCode.GROUP_ID_NOT_FOUND),
)
MEMBER = ClassicMember(
    "m-1", "i-1", "client", "host", 10_000, 60_000, (("eager", A), ("range", b"")), B
)
STATE = ClassicState(
    ClassicPhase.STABLE,
    7,
    "connect",
    "eager",
    "m-1",
    (MEMBER, replace(MEMBER, member_id="m-2", instance=None, assignment=b"")),
)
EMPTY = ClassicState(ClassicPhase.EMPTY, 7, "connect")


def decoded(ask: ClassicAsk) -> ClassicAsk | Malformed:
    """As a coordinator reads it."""
    whole, *parts = encode_ask(ask)
    assert all(len(part) <= documents.PART_BYTES for part in (whole, *parts))
    found = decode_ask("r", whole)
    if parts:
        assert found == InParts(len(parts))
        found = decode_ask("r", b"".join(parts))
    assert not isinstance(found, InParts)
    return found


@pytest.mark.parametrize("request_", ASKS, ids=lambda one: type(one).__name__)
def test_a_request_is_read_as_it_was_written(request_: AskedOfGroup) -> None:
    ask = ClassicAsk("orders", request_)
    assert decoded(ask) == ask


@settings(max_examples=50, deadline=None)
@given(data=st.binary(max_size=1_000), text=st.text(max_size=WORDS_CHARS_MAX))
def test_whatever_clients_bring_is_read_as_it_was_written(data: bytes, text: str) -> None:
    text = text.encode("utf-8", "ignore").decode()
    ask = ClassicAsk("g", replace(JOIN, protocols=(("p", data),), client_id=text, reason=text))
    assert decoded(ask) == ask


def test_a_long_request_is_in_parts() -> None:
    ask = ClassicAsk("g", replace(SYNC, assignments=(("m", bytes(ASSIGNMENT_BYTES_MAX)),)))
    assert len(encode_ask(ask)) > 10
    assert decoded(ask) == ask
    just = ClassicAsk("g", replace(SYNC, assignments=(("m", bytes(390_000)),)))
    assert len(encode_ask(just)) == 1 and decoded(just) == just


def test_what_no_request_holds_is_not_written() -> None:
    with pytest.raises(ValueError, match="a request of"):
        encode_ask(ClassicAsk("g", replace(SYNC, assignments=(("m", bytes(7_000_000)),))))


def test_words_for_people_are_cut() -> None:
    long = "x" * 1_000
    found = decoded(ClassicAsk("g", replace(JOIN, client_id=long, host=long, reason=long)))
    assert isinstance(found, ClassicAsk) and isinstance(found.request, ClassicJoin)
    assert found.request.client_id == found.request.host == "x" * WORDS_CHARS_MAX
    assert found.request.reason == "x" * WORDS_CHARS_MAX
    left = decoded(ClassicAsk("g", ClassicLeave((Leaver("m", None, long),))))
    assert isinstance(left, ClassicAsk)
    assert left.request == ClassicLeave((Leaver("m", None, "x" * WORDS_CHARS_MAX),))


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda one: type(one).__name__)
def test_an_answer_is_read_as_it_was_written(answer: ClassicAnswer) -> None:
    assert decode_answer("r", encode_answer(answer)) == answer


def test_what_is_described_is_answered_with_its_code_only() -> None:
    described = ClassicDescribed(WireCode.NONE, "Stable")
    assert decode_answer("r", encode_answer(described)) == ClassicSaid(WireCode.NONE)


@pytest.mark.parametrize("request_", [*ASKS, InParts(3)], ids=lambda one: type(one).__name__)
def test_a_request_is_no_answer_yet(request_: AskedOfGroup | InParts) -> None:
    data = (
        b'{"version":1,"parts":3}'
        if isinstance(request_, InParts)
        else encode_ask(ClassicAsk("g", request_))[0]
    )
    assert decode_answer("r", data) is None


@pytest.mark.parametrize("state", [STATE, EMPTY, replace(STATE, phase=ClassicPhase.COMPLETING)])
def test_a_state_is_read_as_it_was_written(state: ClassicState) -> None:
    assert decode_state("g", encode_state(state)) == state


def test_how_much_room_a_member_takes_is_not_less_than_it_does() -> None:
    one = len(encode_state(replace(STATE, members=STATE.members[:1])))
    two = len(encode_state(STATE))
    assert two - one <= state_bytes(STATE.members[1]) <= two - one + 300
    with_it = replace(STATE.members[1], assignment=B)
    grown = len(encode_state(replace(STATE, members=(MEMBER, with_it))))
    assert grown - one <= state_bytes(STATE.members[1])


@pytest.mark.parametrize(
    "since",
    [
        ClassicRound(),
        ClassicRound(0),
        ClassicRound(
            7, {"a" * 32: WireCode.UNKNOWN_MEMBER_ID, "b" * 32: WireCode.FENCED_INSTANCE_ID}
        ),
    ],
)
def test_a_round_is_read_as_it_was_written(since: ClassicRound) -> None:
    assert decode_round("g", encode_round(since)) == since


def test_a_round_that_was_never_written() -> None:
    assert decode_round("g", b"") == ClassicRound()


Change = Callable[[dict[str, Any]], object]


def changed(data: bytes, change: Change) -> bytes:
    """A document with one thing changed."""
    document = json.loads(data)
    change(document)
    return json.dumps(document, separators=(",", ":")).encode()


def put(key: str, value: object) -> Change:
    """Another value."""
    return lambda document: document.__setitem__(key, value)


def drop(key: str) -> Change:
    """No value."""
    return lambda document: document.pop(key)


LONG_ID = "x" * (documents.MEMBER_ID_CHARS_MAX + 1)
LONG_NAME = "x" * (PROTOCOL_CHARS_MAX + 1)
LONG_INSTANCE = "x" * (INSTANCE_CHARS_MAX + 1)
LONG_WORDS = "x" * (WORDS_CHARS_MAX + 1)
BAD_IN_ALL: tuple[Change, ...] = (put("version", 2), drop("version"), put("version", "1"))
BAD_IN_ASKS: tuple[Change, ...] = (
    put("group", ""),
    put("group", "a/b"),
    put("group", "coordinator"),
    put("group", 3),
    drop("group"),
    put("ask", "beat"),
    drop("ask"),
    put("parts", 0),
    put("parts", documents.PARTS_MAX + 1),
    put("parts", "2"),
)
BAD_IN_JOINS: tuple[Change, ...] = (
    *(drop(key) for key in ("member", "fresh", "type", "protocols", "session", "rebalance")),
    *(drop(key) for key in ("instance", "named_first", "may_skip")),
    put("member", LONG_ID),
    put("member", None),
    put("fresh", LONG_ID),
    put("type", LONG_NAME),
    put("protocols", {}),
    put("protocols", [[]]),
    put("protocols", [["p"]]),
    put("protocols", [["p", "=="]]),
    put("protocols", [["p", "AAA"]]),
    put("protocols", [["p", "\u00e9AAA"]]),
    put("protocols", [["p", "AA==", "more"]]),
    put("protocols", [["p", None]]),
    put("protocols", [[3, "AA=="]]),
    put("protocols", [[LONG_NAME, "AA=="]]),
    put("protocols", [["p", "AA=="]] * (PROTOCOLS_MAX + 1)),
    put("session", -1),
    put("session", 2**31),
    put("rebalance", -1),
    put("rebalance", 2**31),
    put("rebalance", True),
    put("instance", LONG_INSTANCE),
    put("instance", 1),
    put("named_first", 1),
    put("may_skip", None),
    put("client", LONG_WORDS),
    put("host", LONG_WORDS),
    put("reason", LONG_WORDS),
    put("reason", 1),
)
BAD_IN_SYNCS: tuple[Change, ...] = (
    *(drop(key) for key in ("member", "generation", "instance", "type", "protocol")),
    drop("assignments"),
    put("member", LONG_ID),
    put("generation", 2**31),
    put("generation", -(2**31)),
    put("generation", "1"),
    put("instance", LONG_INSTANCE),
    put("type", LONG_NAME),
    put("protocol", LONG_NAME),
    put("assignments", "x"),
    put("assignments", [[LONG_ID, ""]]),
    put("assignments", [["m", ""]] * (documents.MEMBERS_MAX + 1)),
)
BAD_IN_LEAVES: tuple[Change, ...] = (
    drop("members"),
    put("members", [["m", None]]),
    put("members", [["m", None, "", ""]]),
    put("members", [[1, None, ""]]),
    put("members", [["m", 1, ""]]),
    put("members", [["m", None, None]]),
    put("members", [[LONG_ID, None, ""]]),
    put("members", [["m", LONG_INSTANCE, ""]]),
    put("members", [["m", None, LONG_WORDS]]),
    put("members", [["m", None, ""]] * (documents.LEAVERS_MAX + 1)),
)
BAD_IN_JOINED: tuple[Change, ...] = (
    *(drop(key) for key in ("code", "member", "generation", "type", "protocol", "leader")),
    *(drop(key) for key in ("members", "skip")),
    put("answer", "gone"),
    put("answer", 1),
    put("code", 1_000),
    put("code", True),
    put("code", "0"),
    put("member", LONG_ID),
    put("generation", -2),
    put("generation", 2**31),
    put("type", LONG_NAME),
    put("protocol", LONG_NAME),
    put("leader", LONG_ID),
    put("skip", 0),
    put("members", [["m"]]),
    put("members", [["m", 1]]),
    put("members", [[1, None]]),
    put("members", [["m", None, "a" * 64]]),
    put("members", [["m", None, "a" * 63, 1]]),
    put("members", [["m", None, "A" * 64, 1]]),
    put("members", [["m", None, "a" * 64, 0]]),
    put("members", [["m", None, "a" * 64, True]]),
    put("members", [["m", None, "a" * 64, BLOB_BYTES_MAX + 1]]),
    put("members", [["m", None, "a" * 64, 1, 1]]),
    put("members", [[LONG_ID, None]]),
    put("members", [["m", LONG_INSTANCE]]),
    put("members", [["m", None]] * (documents.MEMBERS_MAX + 1)),
)
BAD_IN_SYNCED: tuple[Change, ...] = (
    drop("type"),
    drop("protocol"),
    drop("assignment"),
    put("type", LONG_NAME),
    put("protocol", LONG_NAME),
    put("assignment", "AAAA"),
    put("assignment", None),
)
BAD_IN_LEFT: tuple[Change, ...] = (
    drop("members"),
    put("members", ["0"]),
    put("members", [1_000]),
    put("members", [0] * (documents.LEAVERS_MAX + 1)),
)
BAD_IN_STATES: tuple[Change, ...] = (
    *(drop(key) for key in ("phase", "generation", "type", "protocol", "leader", "members")),
    put("phase", "PreparingRebalance"),
    put("phase", "Dead"),
    put("phase", "Empty"),
    put("generation", -1),
    put("generation", 2**31),
    put("type", LONG_NAME),
    put("protocol", "other"),
    put("protocol", LONG_NAME),
    put("leader", "nobody"),
    put("leader", ""),
    put("members", []),
    put("members", [3]),
    lambda document: document["members"].append(document["members"][0]),
    *(
        (lambda document, key=key: document["members"][0].pop(key))
        for key in ("member", "instance", "session", "rebalance", "protocols", "assignment")
    ),
    lambda document: document["members"][1].__setitem__("member", LONG_ID),
    lambda document: document["members"][0].__setitem__("instance", LONG_INSTANCE),
    lambda document: document["members"][0].__setitem__("client", LONG_WORDS),
    lambda document: document["members"][0].__setitem__("host", LONG_WORDS),
    lambda document: document["members"][0].__setitem__("session", -1),
    lambda document: document["members"][0].__setitem__("session", 2**31),
    lambda document: document["members"][0].__setitem__("rebalance", -1),
    lambda document: document["members"][0].__setitem__("rebalance", 2**31),
    lambda document: document["members"][0].__setitem__("protocols", [["eager", "AAAA"]]),
    lambda document: document["members"][0].__setitem__(
        "protocols", [["eager"]] * (PROTOCOLS_MAX + 1)
    ),
    lambda document: document["members"][0].__setitem__("assignment", ["a" * 64]),
)
BAD_IN_ROUNDS: tuple[Change, ...] = (
    drop("rebalances"),
    drop("gone"),
    put("rebalances", -1),
    put("rebalances", 2**31),
    put("rebalances", "1"),
    put("gone", []),
    put("gone", {"a": 1_000}),
    put("gone", {str(number): 25 for number in range(documents.MEMBERS_MAX + 1)}),
)
ASKED = {
    one: encode_ask(ClassicAsk("g", request))[0]
    for one, request in (("join", JOIN), ("sync", SYNC), ("leave", LEAVE))
}
BAD: list[tuple[Callable[[str, bytes], object], bytes, Change]] = [
    *((decode_ask, ASKED["join"], c) for c in (*BAD_IN_ALL, *BAD_IN_ASKS, *BAD_IN_JOINS)),
    *((decode_ask, ASKED["sync"], c) for c in BAD_IN_SYNCS),
    *((decode_ask, ASKED["leave"], c) for c in BAD_IN_LEAVES),
    *((decode_answer, encode_answer(ANSWERS[1]), c) for c in (*BAD_IN_ALL, *BAD_IN_JOINED)),
    *((decode_answer, encode_answer(ANSWERS[3]), c) for c in BAD_IN_SYNCED),
    *((decode_answer, encode_answer(ANSWERS[5]), c) for c in BAD_IN_LEFT),
    *((decode_state, encode_state(STATE), c) for c in (*BAD_IN_ALL, *BAD_IN_STATES)),
    *((decode_state, encode_state(EMPTY), c) for c in (put("phase", "Stable"), put("leader", "m"))),
    *((decode_round, encode_round(ClassicRound(1)), c) for c in (*BAD_IN_ALL, *BAD_IN_ROUNDS)),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_what_is_no_document_is_malformed(number: int) -> None:
    decode, data, change = BAD[number]
    assert not isinstance(decode("x", data), Malformed)
    assert isinstance(decode("x", changed(data, change)), Malformed)


@pytest.mark.parametrize("decode", [decode_ask, decode_answer, decode_state, decode_round])
@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=200))
def test_nothing_raises(decode: Callable[[str, bytes], object], data: bytes) -> None:
    decode("x", data)
    decode("x", b'{"version":1,' + data)


def test_what_clients_bring_together_is_bounded() -> None:
    half = bytes(GROUP_METADATA_BYTES_MAX // 2)
    assert isinstance(
        decoded(ClassicAsk("g", replace(JOIN, protocols=(("p", half), ("q", half))))), ClassicAsk
    )
    more = (("p", half), ("q", half), ("r", b"x"))
    assert isinstance(decoded(ClassicAsk("g", replace(JOIN, protocols=more))), Malformed)
    halves = (("m", bytes(ASSIGNMENT_BYTES_MAX)), ("n", b"x"))
    assert isinstance(decoded(ClassicAsk("g", replace(SYNC, assignments=halves))), Malformed)
