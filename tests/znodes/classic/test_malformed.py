"""What is no document of groups whose leader is a client: one thing changed in one that is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.znodes.classic.test_documents import ANSWERS, EMPTY, JOIN, LEAVE, STATE, SYNC
from zkcoord.core.classic.state import (
    INSTANCE_CHARS_MAX,
    PROTOCOL_CHARS_MAX,
    PROTOCOLS_MAX,
    WORDS_CHARS_MAX,
)
from zkcoord.core.model import Malformed
from zkcoord.znodes.classic import documents
from zkcoord.znodes.classic.documents import (
    ClassicAsk,
    ClassicRound,
    decode_answer,
    decode_ask,
    decode_round,
    decode_state,
    encode_answer,
    encode_ask,
    encode_round,
    encode_state,
)
from zkcoord.znodes.classic.fields import BLOB_BYTES_MAX

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
    put("parts", 1),
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
    put("code", False),
    put("code", []),
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
    put("generation", 2_000_000_001),
    put("type", LONG_NAME),
    put("protocol", "other"),
    put("protocol", LONG_NAME),
    put("leader", "nobody"),
    put("leader", ""),
    put("members", []),
    put("members", [3]),
    lambda document: document["members"].append(document["members"][0]),
    lambda document: document["members"].append(document["members"][1]),
    lambda document: document["members"][1].__setitem__("instance", "i-1"),
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
