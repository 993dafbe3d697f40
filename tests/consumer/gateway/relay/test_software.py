"""Name and version of a client's library, as clients say it and as nobody should."""

from __future__ import annotations

import random
import time

import pytest
from kafka.protocol.metadata import ApiVersionsRequest

from consumer.gateway.frames import Head, decode_head
from consumer.gateway.relay.software import asks_again, other_protocol, software_of
from zkcoord.kafka_client.frames import TAGS_MAX


def frame_of(name: str, version: str, api_version: int = 3, client_id: str = "me") -> bytes:
    """An ApiVersions request, without its length."""
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    request.API_VERSION = api_version
    request.with_header(correlation_id=7, client_id=client_id)
    return bytes(request.encode(header=True, framed=True))[4:]


def software(frame: bytes) -> str:
    """As the gateway reads it."""
    return software_of(decode_head(frame), frame)


@pytest.mark.parametrize("client_id", ["", "me", "ü" * 200])
@pytest.mark.parametrize("api_version", [3, 4])
def test_a_library_and_its_version(client_id: str, api_version: int) -> None:
    frame = frame_of("apache-kafka-java", "3.9.2", api_version, client_id)
    assert software(frame) == "apache-kafka-java 3.9.2"


def test_before_version_3_none_is_said() -> None:
    assert software(frame_of("librdkafka", "2.16.0", 2)) == ""


def test_another_api_says_none() -> None:
    assert software_of(Head(3, 4, 7, "me"), frame_of("librdkafka", "2.16.0")) == ""


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("", "1"),
        ("a", ""),
        ("a b", "1"),
        ("-a", "1"),
        ("a\n", "1"),
        ("a\x1b[2J", "1"),
        ("ü", "1"),
        ("a" * 101, "1"),
        ("a", "1" * 101),
    ],
)
def test_what_kafka_refuses_is_none(name: str, version: str) -> None:
    assert software(frame_of(name, version)) == ""


def test_tagged_fields_of_the_head_are_passed_over() -> None:
    frame = frame_of("librdkafka", "2.16.0")
    at = 10 + len("me")
    assert frame[at] == 0
    tagged = frame[:at] + b"\x01\x05\x03abc" + frame[at + 1 :]
    assert software(tagged) == "librdkafka 2.16.0"


def test_tags_that_never_end_are_not_read() -> None:
    frame = frame_of("librdkafka", "2.16.0")
    at = 10 + len("me")
    before = time.process_time()
    assert software(frame[:at] + b"\xff\xff\xff\xff\x07" + bytes(8 * 1024 * 1024)) == ""
    assert time.process_time() - before < 0.1
    many = bytes([TAGS_MAX]) + b"\x05\x00" * TAGS_MAX
    assert software(frame[:at] + many + frame[at + 1 :]) == "librdkafka 2.16.0"


def test_junk_raises_nothing() -> None:
    drawn = random.Random(7)
    good = frame_of("librdkafka", "2.16.0")
    for _ in range(5_000):
        mutant = bytearray(good[: drawn.randrange(12, len(good) + 1)])
        for _ in range(drawn.randrange(4)):
            mutant[drawn.randrange(len(mutant))] = drawn.randrange(256)
        found = software_of(Head(18, 3, 7, "me"), bytes(mutant))
        assert len(found) <= 201 and found.isprintable()


@pytest.mark.parametrize(
    ("name", "again"),
    [
        ("apache-kafka-java 3.9.2", True),
        ("librdkafka 2.16.0", True),
        ("confluent-kafka-python 2.16.1-rdkafka-2.16.0", True),
        ("kgo 1.20", False),
        ("apache-kafka-javascript 1", False),
        ("", False),
    ],
)
def test_who_sends_the_next_heartbeat_soon(name: str, again: bool) -> None:
    assert asks_again(name) is again


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        (b"\x16\x03\x01\x02\x00\x01", "--listen-tls"),
        (b"GET / HTTP/1.1", "HTTP"),
        (b"OPTIONS * HTTP/1.1", "HTTP"),
        (b"\x00\x00\x00\x07", ""),
        (b"SSH-2.0", ""),
    ],
)
def test_what_is_another_protocol_has_its_name(begin: bytes, said: str) -> None:
    found = other_protocol(begin[:4])
    assert said in found and bool(found) == bool(said)
