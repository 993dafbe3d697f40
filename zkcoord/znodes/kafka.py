"""What Kafka's brokers write: topics, states of partitions, and live brokers. Fields that are not
needed are not looked at, since every release added some.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from zkcoord.core.model import Malformed, Topic
from zkcoord.core.value_type import value
from zkcoord.znodes import names
from zkcoord.znodes.stat import Stat
from zkcoord.znodes.strict_json import JsonObject, UnfitField, integer, mapping, reading, string

TOPIC_BYTES_MAX = 1024 * 1024
TOPIC_VERSION_MAX = 3
TOPIC_ID_CHARS_MAX = 64
HOST_CHARS_MAX = 255
PORT_MAX = 65_535
CLUSTER_ID_CHARS_MAX = 64
CLUSTER_ID = "/cluster/id"
NO_LEADER = -1
ENDPOINTS_MAX = 64

_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_ENDPOINT = re.compile(
    r"([A-Za-z0-9_.-]{1,100})://(\[[0-9A-Fa-f:.%a-z]{0,60}\]|[^\[\]/:\s]{0,255}):([0-9]{1,5})",
    re.ASCII,
)


@value
class BrokerData:
    """A live broker."""

    # The plaintext listener's; "" and -1: it has none.
    host: str
    port: int
    # A listener's name -> (host, port).
    endpoints: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    # A listener's name -> its security protocol.
    protocols: Mapping[str, str] = field(default_factory=dict)
    # The format of its node; 0: the node does not name it.
    version: int = 0


@value
class PartitionState:
    """A partition's state, as the controller wrote it last."""

    # The id of the broker that leads it; -1: none does.
    leader: int


def decode_topic(name: str, data: bytes, stat: Stat) -> Topic | Malformed:
    """The topic `name`: its partitions, ascending, and its incarnation (`<czxid>.<topic id>`, or
    `<czxid>` where the broker writes no id). Never raises.
    """
    if not names.is_topic(name):
        return Malformed("topic", name, "Kafka allows no such name")
    return reading(
        "topic", name, data, lambda document: _topic(name, stat, document), TOPIC_BYTES_MAX
    )


def decode_broker(name: str, data: bytes) -> BrokerData | Malformed:
    """The live broker with the id `name`, in any format from 0.8 to 3.9. Never raises."""
    return reading("broker", name, data, _broker)


def decode_cluster_id(data: bytes) -> str | Malformed:
    """The id of the cluster whose brokers use this ensemble. Never raises."""
    return reading("cluster", "id", data, lambda doc: string(doc, "id", CLUSTER_ID_CHARS_MAX))


def decode_partition_state(name: str, data: bytes) -> PartitionState | Malformed:
    """The state of the partition `name`. Never raises."""
    return reading("partition state", name, data, _partition_state)


def _partition_state(document: JsonObject) -> PartitionState:
    return PartitionState(integer(document, "leader", NO_LEADER))


def _topic(name: str, stat: Stat, document: JsonObject) -> Topic:
    integer(document, "version", 1, TOPIC_VERSION_MAX)
    partitions = mapping(document, "partitions")
    bad = next((key for key in partitions if not names.is_number(key)), None)
    if bad is not None:
        raise UnfitField(f"{names.shown(bad)} is not a partition's number")
    given = document.get("topic_id") or ""
    if type(given) is not str or (given and _TOPIC_ID.fullmatch(given) is None):
        raise UnfitField(
            f"topic_id is not at most {TOPIC_ID_CHARS_MAX} of the characters A-Z a-z 0-9 _ -"
        )
    incarnation = f"{stat.czxid}.{given}" if given else str(stat.czxid)
    # who owned partitions of it before it was read owned those of another one of its name
    made = max(stat.czxid, stat.read_since)
    created = _found_at(stat, document) if document.get("found") is True else made
    return Topic(name, incarnation, tuple(sorted(map(int, partitions))), created)


def _found_at(stat: Stat, document: JsonObject) -> int:
    """How old a topic is whose node, one of ours (`zkcoord.topics`), is younger; 0: nobody knows,
    as in an ensemble to which nodes were copied.
    """
    known = integer(document, "created") if "created" in document else 0
    return known if known <= stat.czxid else 0


def _broker(document: JsonObject) -> BrokerData:
    host = document.get("host")
    if host is not None:
        string(document, "host", HOST_CHARS_MAX)
    port = integer(document, "port", -1, PORT_MAX) if "port" in document else -1
    endpoints, protocols = _endpoints(
        document.get("endpoints", []), mapping(document, "listener_security_protocol_map", {})
    )
    if not endpoints and not (host and port >= 0):
        raise UnfitField("it names no listener")
    version = document.get("version")
    return BrokerData(
        host or "", port, endpoints, protocols, version if type(version) is int else 0
    )


def _endpoints(
    found: Any, protocols: JsonObject
) -> tuple[dict[str, tuple[str, int]], dict[str, str]]:
    if type(found) is not list or len(found) > ENDPOINTS_MAX:
        raise UnfitField(f"endpoints is not a list of at most {ENDPOINTS_MAX}")
    endpoints: dict[str, tuple[str, int]] = {}
    for text in found:
        match = _ENDPOINT.fullmatch(text) if type(text) is str else None
        if match is None or int(match[3]) > PORT_MAX or match[1] in endpoints:
            raise UnfitField(
                "endpoints holds something that is not LISTENER://host:port, or a listener twice"
            )
        endpoints[match[1]] = (match[2].strip("[]"), int(match[3]))
    return endpoints, {
        listener: string(protocols, listener, HOST_CHARS_MAX, listener) for listener in endpoints
    }
