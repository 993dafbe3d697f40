"""Kafka's protocol: what clients ask a gateway, and what brokers answer."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache
from types import SimpleNamespace
from typing import Any

from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.consumer import (
    HeartbeatResponse,
    OffsetCommitResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorResponse,
    MetadataResponse,
)
from kafka.protocol.producer import ProduceRequest
from kafka.protocol.sasl import SaslAuthenticateResponse
from kafka.protocol.schemas.fields.codecs import UnsignedVarInt32

from consumer.errors import ConsumerError
from consumer.gateway import frames, member_frames
from consumer.gateway.address import Address, is_host, is_ip
from consumer.gateway.cli import address
from consumer.gateway.frames import BadFrameError, Head
from consumer.gateway.relay.acks import front_of
from consumer.gateway.relay.expected import taken
from consumer.gateway.relay.login import ClientLogin
from consumer.gateway.relay.rewriting import REWRITTEN, BadAnswerError, rewritten
from consumer.gateway.relay.software import other_protocol, software_of
from consumer.gateway.rights.questions import Right, UnsaidError, permitted
from consumer.gateway.skimming import skim
from consumer.gateway.tooling.both_kinds import joined
from tests.consumer.gateway.recordings import framed, requests
from tests.fuzz.harness import Harness, Work, equal, holds, one_sentence, text_of
from tests.topics.test_whole_answers import Reader, Said
from zkcoord.errors import ConfigurationError
from zkcoord.kafka_client.frames import after_tags, varint
from zkcoord.topics.whole_answers import NEWEST, OLDEST, WholeAnswers

KEYS = tuple(sorted(frames.MAX_VERSIONS))
VERSIONS = tuple((key, v) for key in KEYS for v in range(frames.MAX_VERSIONS[key] + 1))
LONG = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff\x0f", b"\x80")
WORDS = (*LONG, b"\0\0\0\1", b"\0\1t", b"\xff\xff", b"\2t", b"\1", b"\0", b"\x7f\xff")


def request(data: bytes) -> None:
    """Of the API and version that the first byte says: it is read, or `BadFrameError`. What is
    skimmed is no more than what is decoded, and what is decoded can be encoded.
    """
    if not data:
        return
    key, version = VERSIONS[data[0] % len(VERSIONS)]
    frame = struct.pack(">hhi", key, version, 7) + data[1:]
    weighed: list[int] = []
    try:
        head = frames.decode_head(frame)
        body = frames.decode(head, frame, weighed.append)
        groups = frames.group_of(head, body)
        if key in frames.MEMBERS_APIS:
            member_frames.member_request(head, body)
        elif key == frames.FIND_COORDINATOR:
            frames.coordinator_keys(head, body)
    except BadFrameError as error:
        holds(bool(str(error)), error)
        return
    holds(all(isinstance(group, str) for group in groups), groups)
    equal(weighed, [skim(type(body), frame, version)])
    equal(as_written(body, version), as_written(again(body, version), version))


def as_written(body: Any, version: int) -> bytes:
    body._header = None  # kafka-python keeps the decoded one, which cannot be written
    return bytes(body.encode(version=version))


def again(body: Any, version: int) -> Any:
    return type(body).decode(as_written(body, version), version=version)


def front(data: bytes) -> None:
    """The beginning of a request, however it comes: in pieces it says what it says at once."""
    frame = struct.pack(">i", max(8, len(data))) + data
    one = fronted(frame)
    for size in range(5, len(frame), 1 + len(frame) // 16):
        early = fronted(frame[:size], len(frame) - 4)
        if not isinstance(early, str | None):
            equal(early.head, one.head if not isinstance(one, str | None) else None)
            equal(early.is_answered, getattr(one, "is_answered", None))
    holds(isinstance(other_protocol(data[:4]), str))


def fronted(frame: bytes, length: int | None = None) -> Any:
    try:
        return front_of(bytearray(frame), len(frame) - 4 if length is None else length)
    except BadFrameError as error:
        return str(error)


def software(data: bytes) -> None:
    """Name and version as Kafka allows them, or nothing."""
    frame = struct.pack(">hhi", frames.API_VERSIONS, data[0] % 5 if data else 3, 7) + data[1:]
    try:
        found = software_of(frames.decode_head(frame), frame)
    except BadFrameError:
        return
    holds(found.isascii() and found.isprintable() and len(found) <= 201, found)


AROUND: Any = SimpleNamespace(
    relays_groups=False,
    place=lambda: lambda node, at: Address("gw.example", 9000 + node % 10),
    others=lambda: [(99, Address("gw.example", 9099))],
)


def answer(data: bytes) -> None:
    """Of a broker, rewritten: no address but those that clients may know; or it is not passed."""
    if len(data) < 2:
        return
    key = REWRITTEN[data[0] % len(REWRITTEN)]
    version = data[1] % (frames.MAX_VERSIONS.get(key, {3: 13, 18: 4, 60: 2}.get(key, 0)) + 1)
    head = Head(key, version, 7, "c")
    try:
        found = rewritten(head, data[2:], AROUND)
    except BadAnswerError as error:
        holds(bool(str(error)), error)
        return
    equal(int.from_bytes(found[:4], "big"), len(found) - 4)
    equal(found[4:8], struct.pack(">i", 7))
    if key == frames.METADATA:
        said = MetadataResponse.decode(found[4:], version=version, header=True)
        holds(all(broker.host == "gw.example" for broker in said.brokers), said)


def takes(data: bytes) -> None:
    """Answers one after the other, each once whole."""
    head = Head(3, 1, 7, "")
    answers = bytearray(data)
    while len(answers) >= 4:
        (length,) = struct.unpack_from(">i", answers)
        if length < 4:
            return  # `ClientConnection` looks at that first
        before = len(answers)
        try:
            found = taken(answers, length, head)
        except BadAnswerError:
            return
        if found is None:
            equal(len(answers), before)
            return
        equal((len(found), len(answers)), (length, before - 4 - length))


def rights(data: bytes) -> None:
    """What a broker says may be done, or that it does not say so; and what a login says."""
    if not data:
        return
    right = list(Right)[data[0] % len(Right)]
    try:
        found = permitted(right, ["t", "u"][: 1 + data[0] // 128], data[1:])
        holds(found <= {"t", "u"}, found)
    except UnsaidError as error:
        holds(bool(str(error)), error)
    login = ClientLogin(True)
    login.answered(Head(frames.SASL_AUTHENTICATE, data[0] % 3, 7, ""), data[1:])
    holds(login.awaited in (True, False))


def both(data: bytes) -> None:
    """A broker's answer beside one of ours."""
    keys = (frames.DESCRIBE_GROUPS, frames.DELETE_GROUPS, frames.OFFSET_FETCH)
    key = keys[data[0] % 3] if data else keys[0]
    version = 8 if key == frames.OFFSET_FETCH else 2
    head = Head(key, version, 7, "")
    field = {"results": []} if key == frames.DELETE_GROUPS else {"groups": []}
    ours = frames.encode(head, throttle_time_ms=0, **field)
    try:
        found = joined(head, ours, data[1:])
    except BadAnswerError as error:
        holds(bool(str(error)), error)
        return
    equal(int.from_bytes(found[:4], "big"), len(found) - 4)


def numbers(data: bytes) -> None:
    """A number of one to five bytes, as kafka-python has it, too."""
    try:
        value, at = varint(data, 0)
    except (IndexError, ValueError):
        pass
    else:
        holds(0 < at <= 5 and 0 <= value < 2**35, value)
        if value < 2**32:
            equal(varint(UnsignedVarInt32.encode(value), 0)[0], value)
    try:
        holds(after_tags(data, 0) > 0)
    except (IndexError, ValueError):
        return


def whole_answers(data: bytes) -> None:
    """Read beside the one before, an answer says what kafka-python's decoder says of it."""
    version = OLDEST + (data[0] if data else 0) % (NEWEST - OLDEST + 1)
    reader = Reader()
    reader.reads(version, answered(version))
    for part in (data[1:], answered(version), data[1:]):
        try:
            reader.reads(version, part)
        except AssertionError:
            raise
        except Exception as error:
            holds(isinstance(WholeAnswers().read(version, part), object), error)
            return


@cache
def answered(version: int) -> bytes:
    return Said(5).answer(version)


def host(data: bytes) -> None:
    """A host's name, and an address to listen on."""
    text = text_of(data)
    if is_ip(text):
        holds(is_host(text), text)
    if is_host(text):
        holds("/" not in text.partition("%")[0] and "\n" not in text, text)
    try:
        found = address(text, "--listen")
    except (ConfigurationError, ConsumerError) as error:
        one_sentence(error)
        return
    holds(bool(found.host) and 0 < found.port < 65_536, found)
    if is_host(found.host):  # what is none, who listens on it is told so by the system
        equal(address(str(found), "--listen"), found)


def recorded() -> Iterable[bytes]:
    for key, version, made in requests():
        yield bytes([VERSIONS.index((key, version))]) + framed(version, made)[4 + 8 :]


def fronts() -> Iterable[bytes]:
    yield from (framed(version, made)[4:] for _, version, made in list(requests())[::5])
    for version in (2, 3, 7, 9):
        produce = ProduceRequest(transactional_id="x", acks=0, timeout_ms=1, topic_data=[])
        yield framed(version, produce)[4:]


def encoded(response: Any, version: int) -> bytes:
    response.API_VERSION = version
    response.with_header(correlation_id=7)
    return bytes(response.encode(header=True))


def answers() -> Iterable[bytes]:
    broker = MetadataResponse.MetadataResponseBroker
    for version in (0, 1, 8, 9, 13):
        said = MetadataResponse(
            throttle_time_ms=0,
            brokers=[broker(node_id=1, host="h", port=9092, rack=None)],
            cluster_id="c",
            controller_id=1,
            topics=[Said(5).topics["t1"].encoded("t")] if "t1" in Said(5).topics else [],
        )
        yield bytes([REWRITTEN.index(frames.METADATA), version]) + encoded(said, version)
    of = FindCoordinatorResponse
    for version in (0, 3, 4, 6):
        one = of.Coordinator(key="g", node_id=1, host="h", port=1, error_code=0, error_message=None)
        said = of(throttle_time_ms=0, error_code=0, error_message=None, node_id=1, host="h", port=1)
        said.coordinators = [one]
        yield bytes([REWRITTEN.index(frames.FIND_COORDINATOR), version]) + encoded(said, version)
    said = DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=0,
        error_message=None,
        endpoint_type=1,
        cluster_id="c",
        controller_id=1,
        brokers=[],
    )
    yield bytes([REWRITTEN.index(frames.DESCRIBE_CLUSTER), 0]) + encoded(said, 0)
    api = ApiVersionsResponse.ApiVersion
    for version in (0, 3, 4):
        said = ApiVersionsResponse(
            error_code=0,
            api_keys=[api(api_key=key, min_version=0, max_version=9) for key in (0, 3, 11, 68)],
            throttle_time_ms=0,
        )
        yield bytes([REWRITTEN.index(frames.API_VERSIONS), version]) + encoded(said, version)


def says() -> Iterable[bytes]:
    of_topic = OffsetCommitResponse.OffsetCommitResponseTopic
    part = of_topic.OffsetCommitResponsePartition(partition_index=-1, error_code=3)
    yield bytes([3]) + encoded(
        OffsetCommitResponse(throttle_time_ms=0, topics=[of_topic(name="t", partitions=[part])]), 2
    )
    yield bytes([0]) + encoded(HeartbeatResponse(throttle_time_ms=0, error_code=25), 0)
    yield bytes([1]) + encoded(
        SaslAuthenticateResponse(
            error_code=0, error_message=None, auth_bytes=b"r=x", session_lifetime_ms=0
        ),
        1,
    )


def softwares() -> Iterable[bytes]:
    for version in (3, 4):
        made = ApiVersionsRequest(client_software_name="a-b", client_software_version="1.2")
        yield bytes([version]) + framed(version, made)[12:]


def whole() -> Iterable[bytes]:
    for version in range(OLDEST, NEWEST + 1):
        said = Said(version)
        yield bytes([version - OLDEST]) + said.answer(version)
        said.change("create")
        said.change("move")
        yield bytes([version - OLDEST]) + said.answer(version)


def of(name: str) -> str:
    return f"consumer.gateway.{name}"


PLENTY = Work(lines=30_000, lines_per_byte=120, memory=4_000_000, memory_per_byte=4_000)
HARNESSES = (
    Harness(
        "gateway-request",
        (
            of("frames:decode_head"),
            of("frames:decode"),
            of("skimming:skim"),
            of("member_frames:member_request"),
        ),
        request,
        recorded,
        WORDS,
        PLENTY,
    ),
    Harness("gateway-front", (of("relay.acks:front_of"),), front, fronts, WORDS, PLENTY),
    Harness("client-software", (of("relay.software:software_of"),), software, softwares, WORDS),
    Harness("broker-answer", (of("relay.rewriting:rewritten"),), answer, answers, WORDS, PLENTY),
    Harness(
        "broker-answers",
        (of("relay.expected:taken"),),
        takes,
        lambda: [struct.pack(">ii", 8, 7) + b"abcd" + struct.pack(">ii", 4, 7)],
        LONG,
    ),
    Harness(
        "broker-rights",
        (of("rights.questions:permitted"), of("relay.login:ClientLogin.answered")),
        rights,
        says,
        WORDS,
        PLENTY,
    ),
    Harness(
        "broker-beside-ours",
        (of("tooling.both_kinds:joined"), of("frames:decode_answer")),
        both,
        lambda: [bytes([n]) + bytes(12) for n in range(3)],
        WORDS,
        PLENTY,
    ),
    Harness(
        "kafka-numbers",
        ("zkcoord.kafka_client.frames:varint", "zkcoord.kafka_client.frames:after_tags"),
        numbers,
        lambda: [b"\xff\xff\xff\xff\x0f", b"\2\0\1a\1\2bb", b"\0"],
        bytes_max=64,
    ),
    Harness(
        "all-topics-answer",
        ("zkcoord.topics.whole_answers:WholeAnswers.read",),
        whole_answers,
        whole,
        WORDS,
        Work(lines=60_000, lines_per_byte=200, memory=8_000_000, memory_per_byte=8_000),
        bytes_max=16_384,
    ),
    Harness(
        "gateway-address",
        (of("address:is_host"), of("cli:address")),
        host,
        lambda: [b"gw.example:9192", b"[::1]:9192", b"a_b.c", b"fe80::1%eth0"],
        bytes_max=300,
    ),
)
