"""What gateways write, there and back, and what is none of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from zkcoord.core.model import Malformed, TopicPartition
from zkcoord.znodes.gateway_nodes import (
    ASSIGNORS_MAX,
    BY_CHARS_MAX,
    CLIENT_CHARS_MAX,
    GENERATION_MAX,
    HOST_CHARS_MAX,
    IN_KAFKA_CHARS_MAX,
    MEMBER_ID_CHARS_MAX,
    OPTIONS_MAX,
    PARTITIONS_MAX,
    PORT_MAX,
    PROTOCOL_CHARS_MAX,
    TIMEOUT_MS_MAX,
    TOPICS_MAX,
    AnnouncedGateway,
    RememberedClient,
    announced,
    decode_client,
    decode_gateway,
    digest_of_option,
    encode_client,
    encode_gateway,
    gateway_number,
    instance_of_client,
    is_instance_of_client,
)

CLIENT = RememberedClient(
    "me-1",
    None,
    4,
    "range",
    ("range", "sticky"),
    ("t", "u"),
    frozenset([TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 7)]),
    10_000,
    60_000,
    "me",
    "10.0.0.1",
)


def changed(**fields: Any) -> bytes:
    """The client's document with other fields; None takes one away."""
    document = {**json.loads(encode_client(CLIENT)), **fields}
    return json.dumps({k: v for k, v in document.items() if v is not None}).encode()


def test_a_document() -> None:
    assert json.loads(encode_client(CLIENT)) == {
        "version": 1,
        "member": "me-1",
        "generation": 4,
        "protocol": "range",
        "assignors": ["range", "sticky"],
        "topics": ["t", "u"],
        "has": {"t": "0-1", "u": "7"},
        "session_timeout": 10_000,
        "rebalance_timeout": 60_000,
        "client": "me",
        "host": "10.0.0.1",
    }


@pytest.mark.parametrize(
    "client",
    [
        replace(CLIENT, assignors=("range",)),
        replace(CLIENT, lists=("own", "range")),
        replace(CLIENT, lists=("range",) * ASSIGNORS_MAX),
        replace(CLIENT, by="gw1:9192"),
        replace(CLIENT, by="g" * BY_CHARS_MAX),
        CLIENT,
        replace(CLIENT, instance="i"),
        replace(CLIENT, library="librdkafka 2.16\n"),
        replace(CLIENT, has=frozenset(), topics=()),
        replace(CLIENT, member_id='"\\\n\x00ü-1', client_id="\x00", host="::1"),
        replace(CLIENT, member_id="m" * MEMBER_ID_CHARS_MAX, client_id="c" * CLIENT_CHARS_MAX),
        replace(CLIENT, generation=GENERATION_MAX, session_timeout_ms=TIMEOUT_MS_MAX),
        replace(CLIENT, rebalance_timeout_ms=TIMEOUT_MS_MAX, host="h" * HOST_CHARS_MAX),
        replace(CLIENT, generation=0, session_timeout_ms=1, rebalance_timeout_ms=1),
        replace(CLIENT, assignors=("range",) * ASSIGNORS_MAX, protocol="p" * PROTOCOL_CHARS_MAX),
        replace(CLIENT, topics=("t",) * TOPICS_MAX),
        replace(CLIENT, has=frozenset(TopicPartition("t", n) for n in range(PARTITIONS_MAX))),
    ],
)
def test_there_and_back(client: RememberedClient) -> None:
    assert decode_client(client.node, encode_client(client)) == client


@pytest.mark.parametrize(
    "fields",
    [
        {"version": 2},
        {"version": 0},
        {"version": None},
        {"member": "other"},
        {"member": 1},
        {"generation": -1},
        {"generation": GENERATION_MAX + 1},
        {"protocol": None},
        {"protocol": "p" * (PROTOCOL_CHARS_MAX + 1)},
        {"assignors": []},
        {"lists": ["range"] * (ASSIGNORS_MAX + 1)},
        {"lists": "range"},
        {"assignors": ["range"] * (ASSIGNORS_MAX + 1)},
        {"assignors": ["a" * (PROTOCOL_CHARS_MAX + 1)]},
        {"topics": ["a/b"]},
        {"topics": ["t"] * (TOPICS_MAX + 1)},
        {"topics": "t"},
        {"has": {"t": "0-999999999"}},
        {"has": {"t": f"0-{PARTITIONS_MAX}"}},
        {"has": {"a/b": "0"}},
        {"has": []},
        {"session_timeout": 0},
        {"session_timeout": TIMEOUT_MS_MAX + 1},
        {"rebalance_timeout": 0},
        {"rebalance_timeout": TIMEOUT_MS_MAX + 1},
        {"client": "c" * (CLIENT_CHARS_MAX + 1)},
        {"host": "h" * (HOST_CHARS_MAX + 1)},
        {"by": "g" * (BY_CHARS_MAX + 1)},
        {"by": 1},
        {"instance": "i"},
    ],
)
def test_malformed_clients(fields: dict[str, Any]) -> None:
    assert isinstance(decode_client(CLIENT.node, changed(**fields)), Malformed)


@pytest.mark.parametrize("instance", ["a/b", ".", CLIENT.node, "x" * 250])
def test_an_instance_that_no_client_may_name(instance: str) -> None:
    found = decode_client(instance, changed(instance=instance))
    assert isinstance(found, Malformed)


def test_a_member_id_that_is_too_long_has_no_node_that_says_so() -> None:
    client = replace(CLIENT, member_id="m" * (MEMBER_ID_CHARS_MAX + 1))
    assert isinstance(decode_client(client.node, encode_client(client)), Malformed)


def test_the_instance_of_a_client_that_names_none() -> None:
    assert CLIENT.node == instance_of_client("me-1")
    assert is_instance_of_client(CLIENT.node)
    assert len({instance_of_client(text) for text in ("", "a", "b", "\udc80")}) == 4
    for other in ("client-", "client-" + "g" * 32, CLIENT.node + "0", "x" + CLIENT.node, "i"):
        assert not is_instance_of_client(other)


def test_what_a_gateway_was_begun_with() -> None:
    options = {"coordinated_groups": digest_of_option("a b"), "x": digest_of_option("")}
    data = encode_gateway("gw1", 9192, options)
    found = decode_gateway("gateway-0000000012", data)
    assert found == AnnouncedGateway(12, "gw1", 9192, options)
    assert options["x"] != options["coordinated_groups"] == digest_of_option("a b")
    many = {f"o{n}": "d" for n in range(OPTIONS_MAX)}
    assert isinstance(
        decode_gateway("gateway-0000000012", encode_gateway("g", 1, many)), AnnouncedGateway
    )
    for bad in ({**many, "one": "more"}, {"o": "d" * 17}):
        data = encode_gateway("g", 1, bad)
        assert isinstance(decode_gateway("gateway-0000000012", data), Malformed)
    for text in ('"options":7', '"options":{"a":1}', '"options":["a"]'):
        data = b'{"version":1,"host":"a","port":1,%s}' % text.encode()
        assert isinstance(decode_gateway("gateway-0000000012", data), Malformed)


def test_which_groups_have_their_offsets_in_kafka() -> None:
    node = "gateway-0000000012"
    data = encode_gateway("gw1", 9192, None, "a b.*")
    assert decode_gateway(node, data) == AnnouncedGateway(12, "gw1", 9192, {}, "a b.*")
    longest = "x" * IN_KAFKA_CHARS_MAX
    found = decode_gateway(node, encode_gateway("gw1", 9192, None, longest))
    assert isinstance(found, AnnouncedGateway) and found.in_kafka == longest
    found = decode_gateway(node, encode_gateway("gw1", 9192, None, longest + "x"))
    assert isinstance(found, AnnouncedGateway) and found.in_kafka == "", (
        "it is announced all the same"
    )
    data = b'{"version":1,"host":"a","port":1,"offsets_in_kafka":7}'
    assert isinstance(decode_gateway(node, data), Malformed)


def test_where_a_gateway_is() -> None:
    data = encode_gateway("gw1", 9192)
    assert json.loads(data) == {"version": 1, "host": "gw1", "port": 9192}
    assert decode_gateway("gateway-0000000012", data) == AnnouncedGateway(12, "gw1", 9192)
    for port in (1, PORT_MAX):
        found = decode_gateway("gateway-0000000012", encode_gateway("g" * HOST_CHARS_MAX, port))
        assert isinstance(found, AnnouncedGateway)


@pytest.mark.parametrize(
    ("node", "data"),
    [
        ("gateway-12", encode_gateway("gw1", 9192)),
        ("gateway-00000000012", encode_gateway("gw1", 9192)),
        ("gateway-000000001x", encode_gateway("gw1", 9192)),
        ("0000000012", encode_gateway("gw1", 9192)),
        ("gateway-0000000012", encode_gateway("", 9192)),
        ("gateway-0000000012", encode_gateway("g" * (HOST_CHARS_MAX + 1), 9192)),
        ("gateway-0000000012", encode_gateway("gw\n1", 9192)),
        ("gateway-0000000012", encode_gateway("gw1", 0)),
        ("gateway-0000000012", encode_gateway("gw1", PORT_MAX + 1)),
        ("gateway-0000000012", b'{"version":2,"host":"a","port":1}'),
        ("gateway-0000000012", b""),
    ],
)
def test_malformed_gateways(node: str, data: bytes) -> None:
    assert isinstance(decode_gateway(node, data), Malformed)


def test_a_gateway_that_stays_without_its_maker_is_none() -> None:
    node, data = "gateway-0000000012", encode_gateway("gw1", 9192)
    assert announced(node, data, 77) == decode_gateway(node, data)
    persistent = announced(node, data, 0)
    assert isinstance(persistent, Malformed) and "not ephemeral" in persistent.reason


def test_numbers_of_gateways() -> None:
    assert gateway_number("gateway-0000000000") == 0
    assert gateway_number("gateway-9999999999") == 9_999_999_999
    assert gateway_number("") is None
    # as digits, but not ASCII
    assert gateway_number("gateway-٠٠٠٠٠٠٠٠٠٠") is None
