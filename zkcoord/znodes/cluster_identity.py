"""Of which Kafka cluster an ensemble's groups are: what `source` says, beside topics and brokers of
our own (`cluster_tree`), and what Kafka wrote while it used the ensemble.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from zkcoord.core.model import Malformed
from zkcoord.terminal import printable
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.kafka import CLUSTER_ID, decode_cluster_id
from zkcoord.znodes.strict_json import JsonObject, integer, reading, string

VERSION = 1
ID_CHARS_MAX = 64


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


def expected_cluster(source: bytes | None, recorded: bytes | None) -> tuple[str, str]:
    """The cluster whose groups an ensemble has, by what the nodes `source` and CLUSTER_ID say, and
    the path of the one that does; "": neither does.
    """
    kept = decode_source(source) if source is not None else ""
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
