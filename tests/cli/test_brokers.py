"""Brokers that a command is told of: those of another cluster say nothing of the groups here."""

from __future__ import annotations

import socket

import pytest

from tests.harness.kafka import create_topic, unique
from tests.harness.zookeeper import connect, disconnect
from zkcoord.admin.kafka_groups import KafkaGroups
from zkcoord.cli.main import main
from zkcoord.stack.ports import HOST
from zkcoord.stack.servers import KafkaBroker
from zkcoord.topics.judging import KnownTopic
from zkcoord.topics.own_nodes import encode_known_topic
from zkcoord.znodes.cluster_identity import encode_source
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.kafka import CLUSTER_ID
from zkcoord.znodes.paths import TOPICS

pytestmark = pytest.mark.kafka

OF_ANOTHER = [
    (CLUSTER_ID, b'{"version":"1","id":"of-another"}'),
    (CLUSTER_TREE.source, encode_source("of-another")),
]
ASKING = [
    ["groups", "describe", "billing"],
    ["groups", "health", "billing"],
    ["offsets", "show", "billing"],
    ["offsets", "reset", "billing", "--to-latest", "--execute", "--topic"],
    ["migrate", "plan", "2"],
    ["check", "--kafka"],
]


@pytest.mark.parametrize(("node", "data"), OF_ANOTHER)
def test_those_of_another_cluster_are_refused(
    kafka_broker: KafkaBroker,
    zk_hosts: str,
    node: str,
    data: bytes,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = create_topic(kafka_broker.address, unique("orders"), 1)
    client = connect(zk_hosts)
    client.create(node, data, makepath=True)
    root = TOPICS if node == CLUSTER_ID else CLUSTER_TREE.topics
    client.create(f"{root}/{topic}", encode_known_topic(KnownTopic("", 1)), makepath=True)
    client.create(f"/consumers/billing/offsets/{topic}/0", b"5", makepath=True)
    told = ["--zookeeper", zk_hosts, "--bootstrap-servers", kafka_broker.address]
    for words in ASKING:
        arguments = [*words, *([topic] if words[-1] == "--topic" else [])]
        status, err = main([*arguments, *told]), capsys.readouterr().err
        assert status == 1 and "Traceback" not in err, (words, err)
        assert f"the brokers at {kafka_broker.address} are of cluster" in err, (words, err)
        assert f"of-another ({node})" in err, (words, err)
    assert client.get(f"/consumers/billing/offsets/{topic}/0")[0] == b"5"
    disconnect(client)


def test_its_own_are_believed(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["--zookeeper", kafka_zk_hosts, "--bootstrap-servers", kafka_broker.address]
    assert main(["check", "--kafka", "--fail-on", "never", *told]) == 0
    assert "are of cluster" not in capsys.readouterr().err


def test_one_that_is_no_broker_is_not_waited_for_twice(
    zk_hosts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever needs its answer says that there is none."""
    monkeypatch.setattr(KafkaGroups, "cluster_id", pytest.fail)
    client = connect(zk_hosts)
    client.create(CLUSTER_ID, b'{"version":"1","id":"c"}', makepath=True)
    client.create("/consumers/billing/offsets/t/0", b"5", makepath=True)
    disconnect(client)
    with socket.socket() as bound:  # nobody listens
        bound.bind((HOST, 0))
        told = ["--bootstrap-servers", f"{HOST}:{bound.getsockname()[1]}"]
        assert main(["groups", "describe", "billing", "--zookeeper", zk_hosts, *told]) == 0
