"""Nodes of ZooKeeper that coordinators, members, tools, brokers and old consumers write."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tests.fuzz.harness import Harness, decoding, equal, holds, sayable
from tests.znodes import seeds
from tests.znodes.mutants import BOMBS, WORDS
from tests.znodes.seeds import STAT
from zkcoord.core.model import Malformed, Member
from zkcoord.topics.judging import KnownTopic
from zkcoord.topics.own_nodes import decode_known_topic, encode_known_topic
from zkcoord.znodes import codec, kafka
from zkcoord.znodes.cluster_identity import decode_source, encode_source
from zkcoord.znodes.gateway_nodes import (
    AnnouncedGateway,
    RememberedClient,
    decode_client,
    decode_gateway,
    encode_client,
    encode_gateway,
)
from zkcoord.znodes.legacy_json import LegacyDocument, decode_legacy_document, unusable
from zkcoord.znodes.registration import decode_registration, encode_registration
from zkcoord.znodes.strict_json import Reason, strict_json, to_bytes

KEYS = tuple(
    f'"{key}":'.encode()
    for key in (
        "version subscription pattern timestamp zkcoord assignors protocols process grace_ms"
        " instance user_data option epoch seq generation incarnation ownershipMap partitions more"
        " code fatal message topics departed members endpoints host port topic_id leader"
    ).split()
)
MANY = (*WORDS, *KEYS, b'"static"', b'"white_list"', b'"black_list"', b'"1"', b':{"t":1}')
NAME = "zkcoord.znodes."
STRANGE = (b"", b"{}", b"[]", b"[" * 3_000, b'{"a":' * 700, *(make(400) for make in BOMBS))


def of_codec(kind: str) -> Callable[[], Iterable[bytes]]:
    return lambda: (*seeds.DECODERS[kind][1], *STRANGE)


def plain(
    kind: str, module: str, encode: Callable[[Any], bytes] | None = None, **more: Any
) -> Harness:
    """A kind of `codec` whose value can be written again as it is."""
    function = f"decode_{kind.replace(' ', '_')}"
    return Harness(
        kind.replace(" ", "-"),
        (f"{NAME}{module}:{function}",),
        decoding(seeds.DECODERS[kind][0], encode),
        of_codec(kind),
        MANY,
        **more,
    )


def registration(data: bytes) -> None:
    """What is read of one can be written, and says the same; an old consumer's is one whose text
    the parsers of old consumers can read.
    """
    found = decode_registration("m", data, STAT)
    if isinstance(found, Malformed):
        sayable(found)
        return
    if found.legacy:
        document = decode_legacy_document("m", data)
        strict = strict_json(data)
        holds(isinstance(document, LegacyDocument) or isinstance(strict, dict), found)
        holds(found.unfollowed.isprintable(), found)
        holds(not found.unfollowed or isinstance(document, LegacyDocument), found)
        return
    again = decode_registration("m", written(found), STAT)
    equal(again, found)


def written(member: Member) -> bytes:
    return encode_registration(
        member.subscription,
        timestamp_ms=1,
        assignors=member.assignors,
        protocols=member.protocols,
        instance=member.instance,
        process=member.process,
        grace_ms=member.grace_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        user_data=member.user_data,
        client=member.client,
        host=member.host,
        session_timeout_ms=member.session_timeout_ms,
        library=member.library,
        gateway=member.gateway,
        ended=member.ended,
    )


def legacy_document(data: bytes) -> None:
    """Whatever the strict reader takes, one of the lax ones takes, and reads the same."""
    found = decode_legacy_document("m", data)
    strict = strict_json(data)
    if isinstance(found, Malformed):
        sayable(found)
        holds(isinstance(strict, Reason) or controls(data), strict, found)
        return
    for why in (unusable(found), found.before_10, found.since_10, *found.large):
        holds(why.isprintable(), why)
    holds(not (found.before_10 and found.since_10), found)
    if isinstance(strict, dict) and not found.large and b"\\" not in data:
        equal(found.fields, strict)


def controls(data: bytes) -> bool:
    return any(byte < 0x20 for byte in data)


def command(data: bytes) -> None:
    """It is for the member whose channel it is in; what is read can be written."""
    found = codec.decode_command("m", "n", data)
    if isinstance(found, Malformed):
        sayable(found)
        return
    holds(all(thread.member == "m" for thread in found.start.values()), found)
    holds(len(set(found.stop)) == len(found.stop), found)
    equal(codec.decode_command("m", "n", codec.encode_command(found)), found)


def offset(data: bytes) -> None:
    """A number of 64 bits that Python reads the same."""
    found = codec.decode_offset("t-0", data)
    if isinstance(found, Malformed):
        sayable(found)
        return
    holds(0 <= found < 2**63, found)
    equal(found, int(data.decode("utf-8")))
    equal(codec.decode_offset("t-0", codec.encode_offset(found)), found)


def owner(data: bytes) -> None:
    found = codec.decode_owner("t-0", data, STAT)
    if isinstance(found, Malformed):
        sayable(found)
        return
    equal(codec.encode_owner(found.thread), data)
    refused = codec.decode_owner("t-0", data, replace_owner())
    holds(isinstance(refused, Malformed), refused)


def replace_owner() -> Any:
    return STAT._replace(ephemeral_owner=0)


def filled(
    decode: Callable[[bytes], Any], encode: Callable[[Any], bytes]
) -> Callable[[bytes], None]:
    """As `decoding`, of a node that may be empty."""

    def check(data: bytes) -> None:
        found = decode(data)
        if isinstance(found, Malformed):
            sayable(found)
        elif isinstance(found, codec.Vacant):
            equal(data, b"")
        else:
            equal(decode(encode(found)), found)

    return check


def topic(data: bytes) -> None:
    """Its partitions are ascending, each once but for other spellings, of which there are none."""
    found = codec.decode_topic("t", data, STAT)
    if isinstance(found, Malformed):
        sayable(found)
        return
    equal(list(found.partitions), sorted(set(found.partitions)))
    holds(found.created <= STAT.czxid and codec.is_incarnation(found.incarnation), found)


def broker(data: bytes) -> None:
    found = codec.decode_broker("0", data)
    if isinstance(found, Malformed):
        sayable(found)
        return
    holds(found.host.isprintable() and -1 <= found.port <= kafka.PORT_MAX, found)
    holds(set(found.endpoints) == set(found.protocols), found)
    holds(all(0 <= port <= kafka.PORT_MAX for _, port in found.endpoints.values()), found)


def known_topic(data: bytes) -> None:
    found = decode_known_topic("t", data, STAT)
    if isinstance(found, Malformed):
        sayable(found)
        return
    again = decode_known_topic("t", encode_known_topic(found), STAT)
    equal(again, found)


def client(data: bytes) -> None:
    """What is written of a client is cut where it is too long, and else the same."""
    found = decode_client("i", data)
    if isinstance(found, Malformed):
        sayable(found)
        return
    equal(decode_client("i", encode_client(found)), found)


def group_state(data: bytes) -> None:
    found, whole = codec.decode_group_state("g", data), codec.decode_metadata("g", data)
    if isinstance(found, Malformed):
        sayable(found)
        holds(isinstance(whole, Malformed), "the state of what can be read cannot be")
    elif not isinstance(whole, Malformed):
        equal(found, whole.state)


def gateway(data: bytes) -> None:
    node = "gateway-0000000007"
    found = decode_gateway(node, data)
    if isinstance(found, Malformed):
        sayable(found)
        return
    again = encode_gateway(found.host, found.port, found.options, found.in_kafka)
    equal(decode_gateway(node, again), found)


CLIENT = RememberedClient(
    "m-1", "i", 3, "range", ("range",), ("t",), frozenset(), 10_000, 60_000, "c", "h", by="g"
)
GATEWAY = AnnouncedGateway(7, "h", 9092, {"a": "0123456789abcdef"}, "^a.*$")
KNOWN = KnownTopic("Bl8", 3, ("a", "b"), False, True, 5)
TOPIC_KEYS = (b'"former":["a"]', b'"found":true', b'"created":5', b'"partitions":{"0":[]}')
HARNESSES = (
    Harness(
        "registration",
        (f"{NAME}registration:decode_registration",),
        registration,
        lambda: (
            *of_codec("registration")(),
            b'{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"1"}',
            b'{"version":1,"subscription":{"a,b.*":2},"pattern":"white_list","timestamp":"1"}',
            b'{"version":1,"subscription":{"(?!x).*":2},"pattern":"white_list"} x',
        ),
        MANY,
    ),
    Harness(
        "legacy-document",
        (f"{NAME}legacy_json:decode_legacy_document",),
        legacy_document,
        of_codec("legacy document"),
        (*MANY, b"\\u", b"\\\\", b"1.5", b"1e3", b"\x1a", b"\x0b"),
    ),
    Harness("command", (f"{NAME}command:decode_command",), command, of_codec("command"), MANY),
    Harness(
        "owner",
        (f"{NAME}owner_offset_epoch:decode_owner",),
        owner,
        of_codec("owner"),
        bytes_max=700,
    ),
    Harness(
        "offset",
        (f"{NAME}owner_offset_epoch:decode_offset",),
        offset,
        of_codec("offset"),
        ("٣".encode(), "９".encode(), b"+", b"-", b"_"),
        bytes_max=160,
    ),
    plain("commit metadata", "commit_metadata", codec.encode_commit_metadata),
    plain("request", "request", codec.encode_request),
    plain("mode", "mode", codec.encode_mode),
    plain("publication", "publication", codec.encode_publication),
    plain("replayed plan", "replayed_plan", codec.encode_replayed_plan),
    plain("metadata", "metadata", codec.encode_metadata),
    Harness(
        "group-state",
        (f"{NAME}metadata:decode_group_state",),
        group_state,
        of_codec("metadata"),
        MANY,
    ),
    plain("partition state", "kafka"),
    plain("leader", "owner_offset_epoch", codec.encode_leader),
    Harness(
        "incarnation",
        (f"{NAME}owner_offset_epoch:decode_incarnation",),
        filled(seeds.DECODERS["incarnation"][0], codec.encode_incarnation),
        of_codec("incarnation"),
        bytes_max=160,
    ),
    Harness(
        "epoch",
        (f"{NAME}owner_offset_epoch:decode_epoch",),
        filled(codec.decode_epoch, codec.encode_epoch),
        of_codec("epoch"),
        (*MANY, b'"older_lease_ms":', b'"lease_max_ms":', b'"protocol":'),
    ),
    Harness("topic", (f"{NAME}kafka:decode_topic",), topic, of_codec("topic"), MANY + TOPIC_KEYS),
    Harness("broker", (f"{NAME}kafka:decode_broker",), broker, of_codec("broker"), MANY),
    Harness(
        "cluster-id",
        (f"{NAME}kafka:decode_cluster_id",),
        decoding(kafka.decode_cluster_id, lambda found: to_bytes({"id": found})),
        lambda: (b'{"version":"1","id":"abc"}', *STRANGE),
        MANY,
    ),
    Harness(
        "cluster-source",
        (f"{NAME}cluster_identity:decode_source",),
        decoding(decode_source, encode_source),
        lambda: (encode_source("c"), *STRANGE),
        (*MANY, b'"cluster":'),
    ),
    Harness(
        "known-topic",
        ("zkcoord.topics.own_nodes:decode_known_topic",),
        known_topic,
        lambda: (encode_known_topic(KNOWN), encode_known_topic(replace(KNOWN, former=()))),
        MANY + TOPIC_KEYS,
    ),
    Harness(
        "gateway-client",
        (f"{NAME}gateway_nodes:decode_client",),
        client,
        lambda: (encode_client(CLIENT), encode_client(replace(CLIENT, lists=("a",)))),
        MANY,
    ),
    Harness(
        "gateway-node",
        (f"{NAME}gateway_nodes:decode_gateway",),
        gateway,
        lambda: (encode_gateway(GATEWAY.host, 1, GATEWAY.options, GATEWAY.in_kafka), *STRANGE),
        MANY,
    ),
)
