"""What brokers are asked, and what becomes of answers that do not come."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from tests.harness.kafka import create_topic, unique
from tests.kafka.groups import PATIENCE_S
from zkcoord.errors import UnavailableError
from zkcoord.stack import jars
from zkcoord.stack.java import Java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import CONTROLLER, KafkaBroker, KRaftNode
from zkcoord.topics.asking import AskingThread, ClusterAsker, SaidCluster
from zkcoord.topics.judging import SaidTopic

NOBODY = f"127.0.0.1:{free_port()}"


@pytest.fixture
def kraft(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KRaftNode]:
    """A broker that has no ZooKeeper underneath."""
    home = tmp_path_factory.mktemp("kraft")
    node = KRaftNode(home, free_port(), java, CONTROLLER, free_port(), artifact=jars.KAFKA)
    node.start()
    yield node
    node.kill()


@pytest.mark.kafka
def test_a_broker_says_whether_it_has_zookeeper_underneath(
    kafka_broker: KafkaBroker, kraft: KRaftNode
) -> None:
    """DescribeQuorum is a request of the second kind only (KIP-836)."""
    for broker, has in ((kafka_broker, True), (kraft, False)):
        asker = ClusterAsker((broker.address,), {})
        assert asker.ask(frozenset()).has_zookeeper is has
        asker.close()


@pytest.mark.kafka
def test_topics_are_said_with_their_ids_and_what_is_missing(kafka_broker: KafkaBroker) -> None:
    topic, missing = create_topic(kafka_broker.address, unique("asked"), 3), unique("missing")
    asker = ClusterAsker((NOBODY,), {})
    said = asker.ask(frozenset({topic, missing}), (kafka_broker.address,))
    (found,) = said.answer.topics.items()
    assert found == (topic, SaidTopic(found[1].topic_id, 3)) and len(found[1].topic_id) == 22
    assert said.answer.missing == {missing} and said.cluster_id and said.has_zookeeper is None
    assert [f"{one.host}:{one.port}" for one in said.brokers.values()] == [kafka_broker.address]
    assert asker.ask(None).answer.topics[topic] == found[1], "among all, too"
    asker.close()


def test_nobody_is_known() -> None:
    with pytest.raises(UnavailableError, match="no broker is known"):
        ClusterAsker((), {}).ask(frozenset())


def test_that_nobody_answers_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    answers: SimpleQueue[SaidCluster | None] = SimpleQueue()
    thread = AskingThread(ClusterAsker((), {}), lambda thunk: thunk())
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            thread.ask(frozenset(), (), answers.put)
        assert [answers.get(timeout=PATIENCE_S) for _ in range(3)] == [None] * 3
    thread.close()
    assert caplog.messages == ["topics cannot be asked for: no broker is known"]
