"""Which node of our own stands for which of Kafka's."""

from __future__ import annotations

import pytest

from zkcoord.znodes.cluster_tree import CLUSTER_TREE, ClusterTree

OURS = ClusterTree("/a/b")


@pytest.mark.parametrize(
    ("kafkas", "ours"),
    [
        ("/brokers/topics", "/a/b/topics"),
        ("/brokers/topics/t", "/a/b/topics/t"),
        ("/brokers/topics/t/partitions/0/state", "/a/b/topics/t/partitions/0/state"),
        ("/brokers/ids", "/a/b/brokers"),
        ("/brokers/ids/7", "/a/b/brokers/7"),
    ],
)
def test_there_and_back(kafkas: str, ours: str) -> None:
    assert OURS.of(kafkas) == ours
    assert OURS.instead_of(ours) == kafkas


@pytest.mark.parametrize("path", ["/", "/brokers", "/brokers/topicsx", "/brokers/ids7", "/cluster"])
def test_none_stands_for_these(path: str) -> None:
    assert OURS.of(path) == ""


@pytest.mark.parametrize("path", ["/a/b", "/a/b/source", "/a/b/topicsx", "/brokers/topics/t"])
def test_these_stand_for_none(path: str) -> None:
    assert OURS.instead_of(path) == ""


def test_where_they_are() -> None:
    assert OURS.topic("t") == OURS.of("/brokers/topics/t")
    assert OURS.broker(7) == OURS.of("/brokers/ids/7")
    assert OURS.above() == ("/a", "/a/b", "/a/b/topics", "/a/b/brokers")
    assert CLUSTER_TREE.source == f"{CLUSTER_TREE.root}/source"
