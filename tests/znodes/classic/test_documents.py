"""Documents of groups whose leader is a client: what is written is read, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
THREE = replace(STATE, members=(*STATE.members, replace(STATE.members[1], member_id="m-3")))
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


def of_size(size: int) -> ClassicAsk:
    """A request of so many bytes: four for three of an assignment, the rest are of an id."""
    bare = ClassicAsk("g", replace(SYNC, member_id="", assignments=(("", b""),)))
    fours, rest = divmod(size - len(encode_ask(bare)[0]), 4)
    sync = replace(SYNC, member_id="m" * rest, assignments=(("", bytes(3 * fours)),))
    return ClassicAsk("g", sync)


def test_a_request_that_just_fits_one_node() -> None:
    just, more = of_size(documents.PART_BYTES), of_size(documents.PART_BYTES + 1)
    assert [len(part) for part in encode_ask(just)] == [documents.PART_BYTES]
    assert len(encode_ask(more)) == 3
    assert decoded(just) == just and decoded(more) == more


def test_what_no_request_holds_is_not_written() -> None:
    assert len(encode_ask(of_size(documents.REQUEST_BYTES_MAX))) == 1 + documents.PARTS_MAX
    with pytest.raises(ValueError, match="a request of"):
        encode_ask(of_size(documents.REQUEST_BYTES_MAX + 1))


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


@pytest.mark.parametrize(
    "state", [STATE, THREE, EMPTY, replace(STATE, phase=ClassicPhase.COMPLETING)]
)
def test_a_state_is_read_as_it_was_written(state: ClassicState) -> None:
    assert decode_state("g", encode_state(state)) == state


LONGEST = "x" * documents.MEMBER_ID_CHARS_MAX
AT_BOUNDS = ClassicMember(
    LONGEST,
    "i" * INSTANCE_CHARS_MAX,
    "c" * WORDS_CHARS_MAX,
    "h" * WORDS_CHARS_MAX,
    0,
    0,
    (("p" * PROTOCOL_CHARS_MAX, BlobRef("0" * 64, 1)),) * PROTOCOLS_MAX,
)


def test_what_is_just_not_too_long_in_requests() -> None:
    one = AT_BOUNDS
    join = ClassicJoin(
        one.member_id,
        one.member_id,
        one.protocols[0][0],
        ((one.protocols[0][0], b"x"),) * PROTOCOLS_MAX,
        0,
        0,
        one.instance,
        client_id=one.client_id,
        host=one.host,
        reason=one.host,
    )
    leaver = Leaver(one.member_id, one.instance, one.host)
    given = ((LONGEST, b"x"), *((("m", b""),) * (documents.MEMBERS_MAX - 1)))
    sync = ClassicSync(LONGEST, -documents.INT32_MAX, one.instance, assignments=given)
    leave = ClassicLeave((leaver, *(Leaver("m"),) * (documents.LEAVERS_MAX - 1)))
    longest = replace(
        join, session_timeout_ms=documents.INT32_MAX, rebalance_timeout_ms=documents.INT32_MAX
    )
    for request in (join, longest, sync, leave):
        ask = ClassicAsk("g", request)
        assert decode_ask("r", b"".join(encode_ask(ask)[1:]) or encode_ask(ask)[0]) == ask


def test_what_is_just_not_too_long_in_answers_and_states() -> None:
    peers = (JoinedPeer(LONGEST, AT_BOUNDS.instance, b""),) * 100
    joined = ClassicJoined(WireCode.NONE, LONGEST, documents.INT32_MAX, None, None, LONGEST, peers)
    left = ClassicLeft(WireCode.NONE, (WireCode.NONE,) * documents.LEAVERS_MAX)
    for answer in (joined, left):
        assert decode_answer("r", encode_answer(answer)) == answer
    name = AT_BOUNDS.protocols[0][0]
    state = ClassicState(ClassicPhase.STABLE, 0, name, name, LONGEST, (AT_BOUNDS,))
    for one in (state, replace(state, generation=documents.GENERATION_MAX)):
        assert decode_state("g", encode_state(one)) == one
    gone = {str(n): WireCode.UNKNOWN_MEMBER_ID for n in range(documents.MEMBERS_MAX)}
    since = ClassicRound(documents.INT32_MAX, gone)
    assert decode_round("g", encode_round(since)) == since


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
