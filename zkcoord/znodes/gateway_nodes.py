"""What gateways write: which of them are there, and what each of their clients has been told.

A gateway's client keeps its place when its gateway dies: another one reads here what the client has
been told, and goes on. So this is written before a client is told. Whoever may write it can make a
gateway believe that a client has what it has not, or has not what it has: members trust each other
(docs/security.md). Where gateways are is another matter, because clients are sent there, with their
passwords: only coordinators may say it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import field

from zkcoord.core.model import Malformed, TopicPartition
from zkcoord.core.value_type import value
from zkcoord.znodes import names
from zkcoord.znodes.metadata import partitions_in, ranges_of
from zkcoord.znodes.strict_json import (
    JsonObject,
    UnfitField,
    free_text,
    integer,
    mapping,
    reading,
    string,
    strings,
    to_bytes,
)

VERSION = 1
MEMBER_ID_CHARS_MAX = 1_000
CLIENT_CHARS_MAX = 1_000
PROTOCOL_CHARS_MAX = 249
ASSIGNORS_MAX = 20
TOPICS_MAX = 10_000
PARTITIONS_MAX = 100_000
GENERATION_MAX = 2**31 - 1
TIMEOUT_MS_MAX = 2**31 - 1
DOCUMENT_BYTES_MAX = 512 * 1024
HOST_CHARS_MAX = 255
BY_CHARS_MAX = 100
PORT_MAX = 65_535
INSTANCE_DIGITS = 32
OPTION_DIGITS = 16
OPTIONS_MAX = 50
NODES_READ_MAX = 5_000
"""Below the gateways' parent, whoever made them."""

IN_KAFKA_CHARS_MAX = 8_000

_UNNAMED = re.compile(r"client-[0-9a-f]{32}")
_GATEWAY = re.compile(r"gateway-([0-9]{10})")
_TOO_MANY = f"has holds more than {PARTITIONS_MAX} partitions"


def instance_of_client(member_id: str) -> str:
    """The instance under which a client is a member that has not named one itself (KIP-345)."""
    digest = hashlib.sha256(member_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"client-{digest[:INSTANCE_DIGITS]}"


def is_instance_of_client(instance: str) -> bool:
    """Whether an instance is one of `instance_of_client`, which no client may name."""
    return _UNNAMED.fullmatch(instance) is not None


@value
class RememberedClient:
    """What a client has been told. `member_id` and `protocol` are Kafka's; `instance` is the one
    that the client named (None: none); `topics` it subscribes to; `has`: the partitions of the
    assignment that it was given with `generation`; `lists`: all assignors that it lists, by its
    names (none: of an earlier release). Times in ms. `by`: the gateway that goes on with it, as it
    calls itself ("": of an earlier release). `version`: of its node, where it was read.
    """

    member_id: str
    instance: str | None
    generation: int
    protocol: str
    assignors: tuple[str, ...]
    topics: tuple[str, ...]
    has: frozenset[TopicPartition]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str = ""
    host: str = ""
    library: str = ""
    lists: tuple[str, ...] = ()
    by: str = ""
    version: int = field(default=-1, compare=False)

    @property
    def node(self) -> str:
        """The name of its node: that of the instance under which it is a member."""
        return self.instance if self.instance is not None else instance_of_client(self.member_id)


@value
class AnnouncedGateway:
    """Where clients find a gateway, and what tells it from others: the number of its node.
    `options`: by name what `digest_of_option` says of those that all gateways must share;
    `in_kafka`: regular expressions of the groups whose offsets Kafka keeps ("": none, or it says
    nothing of that).
    """

    number: int
    host: str
    port: int
    options: Mapping[str, str] = field(default_factory=dict)
    in_kafka: str = ""


def encode_client(client: RememberedClient) -> bytes:
    """The node's data."""
    document: JsonObject = {
        "version": VERSION,
        "member": client.member_id,
        "generation": client.generation,
        "protocol": client.protocol,
        "assignors": list(client.assignors),
        "topics": list(client.topics),
        "has": ranges_of(client.has),
        "session_timeout": client.session_timeout_ms,
        "rebalance_timeout": client.rebalance_timeout_ms,
        "client": client.client_id[:CLIENT_CHARS_MAX],  # Kafka's may have 32,767
        "host": client.host,
    }
    if client.lists:
        document["lists"] = list(client.lists[:ASSIGNORS_MAX])
    if client.library:
        document["library"] = client.library
    if client.instance is not None:
        document["instance"] = client.instance
    if client.by:
        document["by"] = client.by
    return to_bytes(document)


def decode_client(node: str, data: bytes) -> RememberedClient | Malformed:
    """What the node `node` says of a client. Never raises."""

    def read(document: JsonObject) -> RememberedClient:
        client = _client(document)
        if client.node != node:
            raise UnfitField("it is about another client than its name says")
        return client

    return reading("client of a gateway", node, data, read, DOCUMENT_BYTES_MAX)


def _client(document: JsonObject) -> RememberedClient:
    integer(document, "version", VERSION, VERSION)
    instance = (
        string(document, "instance", names.NAME_CHARS_MAX) if "instance" in document else None
    )
    if instance is not None and (not names.is_topic(instance) or is_instance_of_client(instance)):
        raise UnfitField("instance is no instance that a client may name")
    assignors = strings(document, "assignors", PROTOCOL_CHARS_MAX)
    if not 0 < len(assignors) <= ASSIGNORS_MAX:
        raise UnfitField(f"assignors are not 1 to {ASSIGNORS_MAX}")
    topics = strings(document, "topics", names.NAME_CHARS_MAX)
    if len(topics) > TOPICS_MAX or not all(map(names.is_topic, topics)):
        raise UnfitField(f"topics are not at most {TOPICS_MAX} names of topics")
    return RememberedClient(
        free_text(document, "member", MEMBER_ID_CHARS_MAX),
        instance,
        integer(document, "generation", 0, GENERATION_MAX),
        string(document, "protocol", PROTOCOL_CHARS_MAX),
        tuple(assignors),
        tuple(topics),
        frozenset(partitions_in(mapping(document, "has"), PARTITIONS_MAX, _TOO_MANY)),
        integer(document, "session_timeout", 1, TIMEOUT_MS_MAX),
        integer(document, "rebalance_timeout", 1, TIMEOUT_MS_MAX),
        free_text(document, "client", CLIENT_CHARS_MAX),
        free_text(document, "host", HOST_CHARS_MAX),
        free_text(document, "library", CLIENT_CHARS_MAX),
        _lists(document),
        free_text(document, "by", BY_CHARS_MAX),
    )


def _lists(document: JsonObject) -> tuple[str, ...]:
    """None of an earlier release."""
    found = strings(document, "lists", PROTOCOL_CHARS_MAX) if "lists" in document else []
    if len(found) > ASSIGNORS_MAX:
        raise UnfitField(f"lists are more than {ASSIGNORS_MAX}")
    return tuple(found)


def _options(document: JsonObject) -> dict[str, str]:
    """None of an earlier release."""
    options = mapping(document, "options") if "options" in document else {}
    if len(options) > OPTIONS_MAX:
        raise UnfitField(f"options are more than {OPTIONS_MAX}")
    return {name: string(options, name, OPTION_DIGITS) for name in options}


def gateway_number(node: str) -> int | None:
    """The number of a gateway's node, which tells gateways apart; None: it has none."""
    found = _GATEWAY.fullmatch(node)
    return None if found is None else int(found[1])


def digest_of_option(text: str) -> str:
    """What a gateway's node says of an option's value."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:OPTION_DIGITS]


def encode_gateway(
    host: str, port: int, options: Mapping[str, str] | None = None, in_kafka: str = ""
) -> bytes:
    """The data of a gateway's node. Of expressions that are too long it says nothing."""
    document: JsonObject = {"version": VERSION, "host": host, "port": port}
    if options:
        document["options"] = dict(options)
    if in_kafka and len(in_kafka) <= IN_KAFKA_CHARS_MAX:
        document["offsets_in_kafka"] = in_kafka
    return to_bytes(document)


def announced(node: str, data: bytes, session: int) -> AnnouncedGateway | Malformed:
    """The same of a node that goes with this session (0: with none): what would stay without its
    maker is no gateway's. Never raises.
    """
    if session:
        return decode_gateway(node, data)
    return Malformed("gateway", node, "it is not ephemeral, so no gateway made it: delete it")


def decode_gateway(node: str, data: bytes) -> AnnouncedGateway | Malformed:
    """Where the gateway of the node `node` is. Never raises."""

    def read(document: JsonObject) -> AnnouncedGateway:
        integer(document, "version", VERSION, VERSION)
        number = gateway_number(node)
        if number is None:
            raise UnfitField("its name has no number")
        host = string(document, "host", HOST_CHARS_MAX)
        if not host:
            raise UnfitField("host is empty")
        port = integer(document, "port", 1, PORT_MAX)
        in_kafka = free_text(document, "offsets_in_kafka", IN_KAFKA_CHARS_MAX)
        return AnnouncedGateway(number, host, port, _options(document), in_kafka)

    return reading("gateway", node, data, read)
