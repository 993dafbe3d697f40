"""Of which Kafka cluster an ensemble's groups are: what `source` says, beside topics and brokers of
our own (`cluster_tree`), and what Kafka wrote while it used the ensemble.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from zkcoord.core.model import Malformed
from zkcoord.terminal import printable
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.kafka import CLUSTER_ID, decode_cluster_id
from zkcoord.znodes.strict_json import JsonObject, integer, reading, string

VERSION = 1
ID_CHARS_MAX = 64
IDENTITY_NODES = (CLUSTER_TREE.source, CLUSTER_ID)


def encode_source(cluster_id: str) -> bytes:
    """The data of the node that says of which cluster they are."""
    return json.dumps({"version": VERSION, "cluster": cluster_id}, separators=(",", ":")).encode()


def decode_source(data: bytes) -> str | Malformed:
    """The cluster's id ("": it has none). Never raises."""

    def read(document: JsonObject) -> str:
        integer(document, "version", VERSION, VERSION)
        return string(document, "cluster", ID_CHARS_MAX)

    return reading("source", "source", data, read)


def cluster_of(recorded: bytes | None) -> str:
    """What the node CLUSTER_ID says; "": nothing."""
    found = decode_cluster_id(recorded) if recorded is not None else ""
    return "" if isinstance(found, Malformed) else found


def expected_cluster(nodes: Sequence[bytes | None]) -> tuple[str, str]:
    """The cluster whose groups an ensemble has, by the data of `IDENTITY_NODES` (None: there is no
    such node), and the path of the one that says so; "": neither does.
    """
    source, recorded = nodes
    kept = decode_source(source) if source is not None else ""
    if kept and not isinstance(kept, Malformed):
        return kept, CLUSTER_TREE.source
    return cluster_of(recorded), CLUSTER_ID


def another_cluster(
    servers: Iterable[str],
    said: str,
    groups: str,
    nodes: Sequence[bytes | None],
    option: str = "bootstrap_servers",
) -> str:
    """The sentence for whoever has named, by `option`, brokers of the cluster `said`, where that is
    not the one whose groups `groups` has. "": it is, or one of both has no id (brokers before
    0.10.1).
    """
    expected, node = expected_cluster(nodes)
    if not (said and expected) or said == expected:
        return ""
    return (
        f"the brokers at {','.join(servers)} are of cluster {printable(said)}, and the groups of"
        f" {groups} are of {printable(expected)} ({node}): correct {option}, or, where that"
        " cluster is no more, delete the node and start again"
    )
