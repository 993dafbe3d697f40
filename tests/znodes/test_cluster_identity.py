"""Of which Kafka cluster an ensemble's groups are, where our own node or Kafka's says so, and what
whoever names brokers of another one is told.
"""

from __future__ import annotations

import pytest

from zkcoord.core.model import Malformed
from zkcoord.znodes.cluster_identity import (
    ID_CHARS_MAX,
    another_cluster,
    cluster_of,
    decode_source,
    encode_source,
    expected_cluster,
)
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.kafka import CLUSTER_ID

OF_KAFKA = b'{"version":"1","id":"k"}'


@pytest.mark.parametrize("cluster_id", ["", "c", "x" * ID_CHARS_MAX])
def test_there_and_back(cluster_id: str) -> None:
    assert decode_source(encode_source(cluster_id)) == cluster_id


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"version":0,"cluster":"c"}',
        b'{"version":2,"cluster":"c"}',
        b'{"cluster":"c"}',
        b'{"version":1}',
        b'{"version":1,"cluster":7}',
        encode_source("x" * (ID_CHARS_MAX + 1)),
    ],
)
def test_what_says_of_no_cluster(data: bytes) -> None:
    assert isinstance(decode_source(data), Malformed)


def test_what_kafka_wrote() -> None:
    assert cluster_of(OF_KAFKA) == "k"
    assert cluster_of(None) == cluster_of(b"") == cluster_of(b'{"id":7}') == ""


@pytest.mark.parametrize(
    ("source", "recorded", "cluster", "node"),
    [
        (encode_source("c"), OF_KAFKA, "c", CLUSTER_TREE.source),
        (encode_source("c"), None, "c", CLUSTER_TREE.source),
        (None, OF_KAFKA, "k", CLUSTER_ID),
        (encode_source(""), OF_KAFKA, "k", CLUSTER_ID),
        (b"{", OF_KAFKA, "k", CLUSTER_ID),
        (b"{", None, "", CLUSTER_ID),
        (None, None, "", CLUSTER_ID),
    ],
)
def test_our_own_node_comes_first(
    source: bytes | None, recorded: bytes | None, cluster: str, node: str
) -> None:
    assert expected_cluster((source, recorded)) == (cluster, node)


@pytest.mark.parametrize(
    ("said", "source"),
    [("c", encode_source("c")), ("", encode_source("c")), ("c", None), ("", None)],
)
def test_the_same_cluster_or_one_without_an_id(said: str, source: bytes | None) -> None:
    assert another_cluster(("b:1",), said, "zk:2181", (source, None)) == ""


def test_another_cluster() -> None:
    nodes = (encode_source("c"), None)
    assert another_cluster(("b:1", "b:2"), "d\n", "zk:2181", nodes, "brokers") == (
        "the brokers at b:1,b:2 are of cluster d\\n, and the groups of zk:2181 are of c"
        f" ({CLUSTER_TREE.source}): correct brokers, or, where that cluster is no more, delete the"
        " node and start again"
    )
