"""Topics and brokers as nodes of our own, where Kafka keeps none in ZooKeeper: what is in them.

The coordinator writes them (`keeper`) in Kafka's own formats, so that whoever reads Kafka's nodes
reads these (`overlay`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from zkcoord.core.model import Malformed
from zkcoord.terminal import printable
from zkcoord.topics.asking import SaidBroker
from zkcoord.topics.judging import FORMER_MAX, KnownTopic
from zkcoord.zk.port import Node, ReadAnswer
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.kafka import (
    CLUSTER_ID,
    BrokerData,
    decode_broker,
    decode_cluster_id,
    decode_topic,
)
from zkcoord.znodes.stat import Stat
from zkcoord.znodes.strict_json import JsonObject, UnfitField, integer, reading, string, strings

VERSION, TOPIC_VERSION, BROKER_VERSION = 1, 3, 5
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


def encode_source(cluster_id: str) -> bytes:
    """The data of the node that says of which cluster they are."""
    return json.dumps({"version": VERSION, "cluster": cluster_id}, separators=(",", ":")).encode()


def decode_source(data: bytes) -> str | Malformed:
    """The cluster's id ("": it has none). Never raises."""

    def read(document: JsonObject) -> str:
        integer(document, "version", VERSION, VERSION)
        return string(document, "cluster", ID_CHARS_MAX)

    return reading("source", "source", data, read)


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


def cluster_of(node: ReadAnswer) -> str:
    """What the node CLUSTER_ID says; "": nothing."""
    found = decode_cluster_id(node.data) if isinstance(node, Node) else ""
    return "" if isinstance(found, Malformed) else found


def expected_cluster(source: ReadAnswer, recorded: ReadAnswer) -> tuple[str, str]:
    """The cluster whose groups an ensemble has, by what the nodes `source` and CLUSTER_ID say, and
    the path of the one that does; "": neither does.
    """
    kept = decode_source(source.data) if isinstance(source, Node) else ""
    if kept and not isinstance(kept, Malformed):
        return kept, CLUSTER_TREE.source
    return cluster_of(recorded), CLUSTER_ID


def of_another_cluster(
    servers: Iterable[str],
    said: str,
    groups: str,
    of: str,
    node: str,
    option: str = "bootstrap_servers",
) -> str:
    """The sentence for whoever has named brokers of another cluster than the one of these groups,
    by `option`.
    """
    return (
        f"the brokers at {','.join(servers)} are of cluster {printable(said)}, and the groups of"
        f" {groups} are of {printable(of)} ({node}): correct {option}, or, where that"
        " cluster is no more, delete the node and start again"
    )
