"""A coordinator does not begin for the groups of one cluster with the brokers of another."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.harness.zookeeper import connect, disconnect
from zkcoord.config.settings import ClusterOptions
from zkcoord.coordinator.cluster_check import look_at_cluster
from zkcoord.errors import RefusedError, UnavailableError
from zkcoord.topics.asking import ClusterAsker, SaidCluster
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.cluster_identity import encode_source
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.kafka import CLUSTER_ID

NAMED = ClusterOptions(servers=("b1:9092", "b2:9092"))


@pytest.fixture(autouse=True)
def brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They say that they are of cluster c."""

    def ask(self: ClusterAsker, names: object, others: Sequence[str] = ()) -> SaidCluster:
        return SaidCluster("c", {})

    monkeypatch.setattr(ClusterAsker, "ask", ask)


def recorded(zk_hosts: str, id_node: str = "", source: str = "") -> ZkOptions:
    """What ZooKeeper says of the cluster."""
    client = connect(zk_hosts)
    if id_node:
        client.create(CLUSTER_ID, f'{{"version":"1","id":"{id_node}"}}'.encode(), makepath=True)
    if source:
        client.create(CLUSTER_TREE.source, encode_source(source), makepath=True)
    disconnect(client)
    return ZkOptions(zk_hosts)


@pytest.mark.parametrize(
    ("id_node", "source"), [("", ""), ("c", ""), ("", "c"), ("c", "c"), ("former", "c")]
)
def test_it_begins(zk_hosts: str, id_node: str, source: str) -> None:
    look_at_cluster(recorded(zk_hosts, id_node, source), NAMED)


@pytest.mark.parametrize(
    ("id_node", "source", "node"),
    [("d", "", CLUSTER_ID), ("", "d", CLUSTER_TREE.source), ("c", "d", CLUSTER_TREE.source)],
)
def test_it_refuses_by_name(zk_hosts: str, id_node: str, source: str, node: str) -> None:
    zk = recorded(zk_hosts, id_node, source)
    with pytest.raises(RefusedError, match="b1:9092,b2:9092 are of cluster c, .* of d") as raised:
        look_at_cluster(zk, NAMED)
    assert node in str(raised.value)


def test_brokers_that_do_not_answer_keep_nobody_from_beginning(
    zk_hosts: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def ask(self: ClusterAsker, names: object, others: Sequence[str] = ()) -> SaidCluster:
        raise UnavailableError("no broker answers")

    monkeypatch.setattr(ClusterAsker, "ask", ask)
    look_at_cluster(recorded(zk_hosts, "d"), NAMED)
    assert "cannot be asked yet" in caplog.text


def test_where_no_broker_is_named_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterAsker, "ask", pytest.fail)
    look_at_cluster(ZkOptions("nobody:1"), ClusterOptions())
