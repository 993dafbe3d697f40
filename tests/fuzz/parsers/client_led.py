"""Nodes of groups whose leader is a client, and what clients tell each other in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from consumer.gateway.wire.subscription import (
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tests.fuzz.harness import Harness, decoding, equal, holds, one_sentence, sayable
from tests.fuzz.parsers.nodes import MANY, STRANGE
from tests.znodes.classic.test_documents import ANSWERS, ASKS
from zkcoord.core.classic.requests import BlobRef
from zkcoord.core.classic.state import ClassicMember, ClassicPhase, ClassicState
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Malformed, TopicPartition
from zkcoord.znodes.classic import documents
from zkcoord.znodes.classic.assigned import partitions_of
from zkcoord.znodes.classic.consumer_blobs import BadBlobError
from zkcoord.znodes.classic.documents import ClassicAsk, ClassicRound, InParts
from zkcoord.znodes.classic.pin import Machine, Pin, decode_pin, encode_pin
from zkcoord.znodes.classic.presence import ServedBy, decode_presence, encode_presence
from zkcoord.znodes.classic.report import (
    ClassicReport,
    EndedSaid,
    Named,
    WaitsSaid,
    Why,
    decode_report,
    encode_report,
)

ROOM = "zkcoord.znodes.classic."
KEYS = tuple(
    f'"{key}":'.encode()
    for key in (
        "ask answer group member fresh type protocols session rebalance named_first may_skip client"
        " reason protocol assignments assignment skip phase gone rebalances machine by library"
        " gateway since waits ended problems parts"
    ).split()
)
ALL = (*MANY, *KEYS, b'"joined"', b'"synced"', b'"left"', b'"said"', b'["m",null,', b'"AA=="')


def ask(data: bytes) -> None:
    """What is read is written in one piece or in parts, which together say the same."""
    found = documents.decode_ask("n", data)
    if isinstance(found, Malformed):
        sayable(found)
    elif isinstance(found, ClassicAsk):
        first, *parts = documents.encode_ask(found)
        again = documents.decode_ask("n", first)
        if parts:
            equal(again, InParts(len(parts)))
            again = documents.decode_ask("n", b"".join(parts))
        equal(again, found)


def maybe(
    decode: Callable[[bytes], Any], encode: Callable[[Any], bytes]
) -> Callable[[bytes], None]:
    """As `decoding`, where nothing may have been said yet."""

    def check(data: bytes) -> None:
        found = decode(data)
        if isinstance(found, Malformed):
            sayable(found)
        elif found is not None:
            equal(decode(encode(found)), found)

    return check


def state(data: bytes) -> None:
    """Its leader is a member, and no member or instance is there twice."""
    found = documents.decode_state("g", data)
    if isinstance(found, Malformed):
        sayable(found)
        return
    ids = [member.member_id for member in found.members]
    holds(len(ids) == len(set(ids)) and found.leader in (ids or [""]), found)
    equal(documents.decode_state("g", documents.encode_state(found)), found)


def subscription(data: bytes) -> None:
    """What is read can be written, and says the same."""
    try:
        found = decode_subscription(data)
    except BadBlobError as error:
        one_sentence(error)
        return
    if all(len(topic.encode()) < 2**15 for topic in found.topics):
        again = decode_subscription(encode_subscription(found.topics, found.owned))
        equal((again.topics, again.owned), (found.topics, found.owned))


def assignment(data: bytes) -> None:
    found = partitions_of(data)
    if found is not None:
        equal(list(found), sorted(set(found)))
        equal(partitions_of(encode_assignment(found)), found)


def asks() -> Iterable[bytes]:
    return [*(documents.encode_ask(ClassicAsk("g", one))[0] for one in ASKS), *STRANGE]


BLOB = BlobRef("a" * 64, 3)
MEMBER = ClassicMember("m", "i", "c", "h", 10_000, 60_000, (("range", BLOB),), BLOB)
STATE = ClassicState(ClassicPhase.STABLE, 7, "consumer", "range", "m", (MEMBER,))
WAITS = WaitsSaid(Why("join", "m"), 1, 2, False, Named(1, ("m",)), Named(), Named(), "m")
REPORT = ClassicReport(
    ClassicPhase.STABLE, 3, 5, WAITS, EndedSaid(Why("left", "m", "w"), 1, 2, 3, 4, 5), ("p",)
)
TPS = [TopicPartition("t", 0), TopicPartition("t", 3), TopicPartition("u", 1)]
HARNESSES = (
    Harness(
        "led-ask", (f"{ROOM}documents:decode_ask", f"{ROOM}fields:from_base64"), ask, asks, ALL
    ),
    Harness(
        "led-answer",
        (f"{ROOM}documents:decode_answer",),
        maybe(lambda data: documents.decode_answer("n", data), documents.encode_answer),
        lambda: [*map(documents.encode_answer, ANSWERS), *STRANGE],
        ALL,
    ),
    Harness(
        "led-state",
        (f"{ROOM}documents:decode_state",),
        state,
        lambda: [documents.encode_state(STATE), *STRANGE],
        ALL,
    ),
    Harness(
        "led-round",
        (f"{ROOM}documents:decode_round",),
        decoding(lambda data: documents.decode_round("g", data), documents.encode_round),
        lambda: [
            documents.encode_round(ClassicRound(3, {"d": WireCode.UNKNOWN_MEMBER_ID})),
            *STRANGE,
        ],
        ALL,
    ),
    Harness(
        "led-pin",
        (f"{ROOM}pin:decode_pin",),
        decoding(lambda data: decode_pin("g", data), encode_pin),
        lambda: [encode_pin(Pin(Machine.CLIENT_LED, "me")), *STRANGE],
        ALL,
    ),
    Harness(
        "led-presence",
        (f"{ROOM}presence:decode_presence",),
        decoding(lambda data: decode_presence("n", data), encode_presence),
        lambda: [encode_presence(ServedBy("l", "g")), *STRANGE],
        ALL,
    ),
    Harness(
        "led-report",
        (f"{ROOM}report:decode_report",),
        maybe(lambda data: decode_report("g", data), encode_report),
        lambda: [encode_report(REPORT), *STRANGE],
        ALL,
    ),
    Harness(
        "client-subscription",
        (
            "consumer.gateway.wire.subscription:decode_subscription",
            f"{ROOM}consumer_blobs:BlobReader.text",
        ),
        subscription,
        lambda: [encode_subscription(["t", "u"], TPS), b"\0\3" + encode_subscription(["t"])[2:]],
    ),
    Harness(
        "client-assignment",
        (f"{ROOM}assigned:partitions_of",),
        assignment,
        lambda: [encode_assignment(TPS), encode_assignment([])],
    ),
)
