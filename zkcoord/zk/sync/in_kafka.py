"""Which groups have their offsets in Kafka, as gateways say that were begun so
(`--offsets-in-kafka`): clients lead those, whatever else was said.
"""

from __future__ import annotations

from zkcoord.core.model import Malformed
from zkcoord.zk.port import Children, GetChildren, GetData, Node
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.gateway_nodes import NODES_READ_MAX, AnnouncedGateway, announced
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.patterns import compiled


def kept_in_kafka(reader: SyncClient, layout: Layout, group: str) -> str:
    """Where a gateway is that keeps the offsets of a group in Kafka; "": none, as far as gateways
    may announce themselves. Raises `UnavailableError`.
    """
    (answer,) = reader.read([GetChildren(layout.gateways)])
    names = sorted(answer.names)[:NODES_READ_MAX] if isinstance(answer, Children) else []
    nodes = reader.read([GetData(f"{layout.gateways}/{name}") for name in names])
    for name, node in zip(names, nodes, strict=True):
        if not isinstance(node, Node):
            continue
        found = announced(name, node.data, node.stat.ephemeral_owner)
        if isinstance(found, AnnouncedGateway) and _names(found.in_kafka, group):
            return f"{found.host}:{found.port}"
    return ""


def _names(expressions: str, group: str) -> bool:
    engines = map(compiled, expressions.split())
    return any(not isinstance(one, Malformed) and one.fullmatch(group) for one in engines)
