"""Topics and brokers as nodes of our own, where Kafka keeps none in ZooKeeper: what is in them.

The coordinator writes them (`keeper`) in Kafka's own formats, so that whoever reads Kafka's nodes
reads these (`overlay`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from zkcoord.core.model import Malformed
from zkcoord.topics.asking import SaidBroker
from zkcoord.topics.judging import FORMER_MAX, KnownTopic
from zkcoord.znodes.kafka import (
    BrokerData,
    decode_broker,
    decode_topic,
)
from zkcoord.znodes.stat import Stat
from zkcoord.znodes.strict_json import JsonObject, UnfitField, reading, strings

TOPIC_VERSION, BROKER_VERSION = 3, 5
ID_CHARS_MAX = 64
PLAINTEXT = "PLAINTEXT"


def encode_known_topic(topic: KnownTopic) -> bytes:
    """A topic's data, as Kafka writes it in ZooKeeper, without replicas; what earlier ones of its
    name were is besides.
    """
    document: dict[str, object] = {
        "version": TOPIC_VERSION,
        "partitions": {str(n): [] for n in range(topic.partitions)},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    if topic.topic_id:
        document["topic_id"] = topic.topic_id
    if topic.former:
        document["former"] = list(topic.former)
    if topic.found:
        document["found"] = True
    if topic.created:
        document["created"] = topic.created
    return json.dumps(document, separators=(",", ":")).encode()


def decode_known_topic(name: str, data: bytes, stat: Stat) -> KnownTopic | Malformed:
    """What `encode_known_topic` has written. Never raises."""
    topic = decode_topic(name, data, stat)
    if isinstance(topic, Malformed):
        return topic

    def read(document: JsonObject) -> KnownTopic:
        former = strings(document, "former", ID_CHARS_MAX) if "former" in document else []
        if topic.partitions != tuple(range(len(topic.partitions))) or len(former) > FORMER_MAX:
            raise UnfitField("it is nothing that a coordinator writes")
        _, _, topic_id = topic.incarnation.partition(".")
        found = document.get("found") is True
        created = topic.created if found else 0
        return KnownTopic(topic_id, len(topic.partitions), tuple(former), False, found, created)

    return reading("topic", name, data, read)


def encode_said_broker(broker: SaidBroker, protocol: str) -> bytes:
    """A broker's data, as Kafka writes it: its listener of this security protocol."""
    endpoint = f"{protocol}://{_in_brackets(broker.host)}:{broker.port}"
    document = {
        "version": BROKER_VERSION,
        "host": broker.host,
        "port": broker.port,
        "endpoints": [endpoint],
        "listener_security_protocol_map": {protocol: protocol},
        "rack": broker.rack or None,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def servers_of(nodes: Iterable[bytes], protocol: str) -> tuple[str, ...]:
    """`host:port` of the listeners of brokers with this security protocol; what cannot be read is
    passed over.
    """
    brokers = [
        broker for data in nodes if isinstance(broker := decode_broker("", data), BrokerData)
    ]
    found = [
        place
        for broker in brokers
        for name, place in (broker.endpoints or {PLAINTEXT: (broker.host, broker.port)}).items()
        if broker.protocols.get(name, name) == protocol
    ]
    return tuple(f"{_in_brackets(host)}:{port}" for host, port in found)


def _in_brackets(host: str) -> str:
    return f"[{host}]" if ":" in host else host
