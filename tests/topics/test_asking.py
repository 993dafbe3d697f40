"""What brokers are asked, and what becomes of answers that do not come."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from queue import SimpleQueue
from typing import cast

import pytest
from kafka.errors import KafkaProtocolError, KafkaTimeoutError
from kafka.future import Future
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.metadata import MetadataResponse

from tests.bench import topics_broker
from tests.harness.kafka import add_partitions, create_topic, delete_topic, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import PATIENCE_S
from zkcoord.core.model import Malformed
from zkcoord.errors import UnavailableError
from zkcoord.stack import jars
from zkcoord.stack.java import Java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import CONTROLLER, KafkaBroker, KRaftNode
from zkcoord.topics import asking
from zkcoord.topics.asking import (
    OTHER_BYTES_MAX,
    PARTITIONS_MAX,
    RACK_CHARS_MAX,
    AskingThread,
    ClusterAsker,
    SaidCluster,
    _said,
)
from zkcoord.topics.judging import SaidSince, SaidTopic
from zkcoord.topics.whole_answers import BROKERS_MAX, WholeReading
from zkcoord.znodes.kafka import CLUSTER_ID_CHARS_MAX

NOBODY = f"127.0.0.1:{free_port()}"


@pytest.fixture(params=[jars.KAFKA, jars.KAFKA_4], ids=["kraft-3.9", "kraft-4"])
def kraft(
    request: pytest.FixtureRequest, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KRaftNode]:
    """A broker that has no ZooKeeper underneath."""
    home = tmp_path_factory.mktemp("kraft")
    node = KRaftNode(home, free_port(), java, CONTROLLER, free_port(), artifact=request.param)
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


def all_is_said(broker: str) -> None:
    """Of all topics an asker is told what it is told by name, while they change."""
    asker, named = ClusterAsker((broker,), {}), ClusterAsker((broker,), {})
    topics = [create_topic(broker, unique("whole"), n) for n in (1, 3, 130)]
    before: Mapping[str, SaidTopic] = asker._all

    def whole(changed: set[str], gone: Sequence[str] = ()) -> None:
        nonlocal before

        def is_so() -> bool:
            nonlocal before
            said = asker.ask(None).answer
            assert said.since is not None and said.since.before is before
            before = said.topics
            asked = frozenset(topics)
            found = named.ask(asked).answer.topics
            assert {n: said.topics[n] for n in asked & said.topics.keys()} == found
            seen.update(said.since.names)
            return found.keys() == asked and not said.topics.keys() & set(gone)

        seen: set[str] = set()
        wait_until(is_so, PATIENCE_S, "all that there is")
        assert seen >= changed and not seen & set(topics) - changed

    whole(set(topics))
    whole(set())
    add_partitions(broker, topics[1], 5)
    whole({topics[1]})
    assert before[topics[1]].partitions == 5
    delete_topic(broker, gone := topics.pop(0))
    topics.append(create_topic(broker, unique("whole"), 2))
    whole({gone, topics[-1]}, [gone])
    asker.close()
    named.close()


@pytest.mark.kafka
def test_all_that_a_broker_on_zookeeper_says_is_read(kafka_broker: KafkaBroker) -> None:
    all_is_said(kafka_broker.address)


@pytest.mark.kafka
def test_all_that_a_broker_without_it_says_is_read(kraft: KRaftNode) -> None:
    all_is_said(kraft.address)


def test_all_topics_are_taken_as_bytes() -> None:
    """Whoever decodes them all again and again has no time for anything else."""
    cluster = topics_broker.started()
    asker = ClusterAsker((f"127.0.0.1:{cluster.port}",), {})
    decoded: list[int] = []
    for n in range(50):
        cluster.put(f"t{n}", uuid.uuid4(), 3, 0)
    read = asker._whole.read

    def counted(version: int, data: bytes) -> WholeReading | Malformed:
        reading = read(version, data)
        assert isinstance(reading, WholeReading)
        decoded.append(len(reading.response.topics))
        return reading

    asker._whole.read = counted  # type: ignore[method-assign]  # to be counted
    first = asker.ask(None)
    assert first.answer.topics.keys() == cluster.topics.keys()
    cluster.change("move", "t7", 3)
    cluster.change("grow", "t9", 3)
    cluster.change("delete", "t3", 3)
    second = asker.ask(None).answer
    assert decoded == [50, 1] and second.since == SaidSince(first.answer.topics, {"t3", "t9"})
    assert second.topics["t9"].partitions == 4 and "t3" not in second.topics
    asker.close()


def test_an_answer_that_cannot_be_read_is_told_and_loses_nothing() -> None:
    cluster = topics_broker.started()
    asker = ClusterAsker((f"127.0.0.1:{cluster.port}",), {})
    cluster.put("t", uuid.uuid4(), 3, 0)
    before = asker.ask(None).answer
    answer = cluster.answer

    def cut(names: list[str] | None, version: int) -> bytes:
        return answer(names, version)[: -1 if names is None else None]

    cluster.answer = cut  # type: ignore[method-assign]  # as a broken one
    with pytest.raises(UnavailableError, match="what it says of topics: it is cut off"):
        asker.ask(None)
    cluster.answer = answer  # type: ignore[method-assign]  # again
    cluster.change("grow", "t", 3)
    after = asker.ask(None).answer
    assert after.since == SaidSince(before.topics, frozenset({"t"}))
    asker.close()


def test_an_answer_that_is_lost_is_asked_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were kafka-python to lose it, or its thread to end."""
    cluster = topics_broker.started()
    cluster.put("t", uuid.uuid4(), 3, 0)
    asker = ClusterAsker((f"127.0.0.1:{cluster.port}",), {})
    assert asker.ask(None).answer.topics.keys() == {"t"}
    monkeypatch.setattr(asking, "REQUEST_MS", 100)
    monkeypatch.setattr(KafkaConnectionManager, "send", lambda *told, **more: Future())
    with pytest.raises(UnavailableError, match="Timed out"):
        asker.ask(None)
    monkeypatch.undo()
    assert asker.ask(None).answer.topics.keys() == {"t"}
    asker._client._net.stop()  # and whatever else ends its thread
    asker._client._net._exception = RuntimeError("of its thread")
    asker._client._net._io_thread = threading.current_thread()
    with pytest.raises(UnavailableError):
        asker.ask(None)
    assert asker.ask(None).answer.topics.keys() == {"t"}
    asker.close()


def test_of_what_is_said_that_no_node_can_hold_nothing_is_believed() -> None:
    broker = MetadataResponse.MetadataResponseBroker
    topic = MetadataResponse.MetadataResponseTopic
    partition = topic.MetadataResponsePartition(partition_index=0)
    huge = [partition] * (PARTITIONS_MAX + 1)
    response = MetadataResponse(
        brokers=[
            broker(node_id=1, host="h", port=1, rack="r" * 1_000_000),
            broker(node_id=2, host="h" * 1_000_000, port=1, rack=None),
            broker(node_id=3, host=None, port=1, rack=None),
            broker(node_id=4, host="h", port=-1, rack=None),
        ],
        cluster_id="c" * 1_000_000,
        topics=[
            topic(error_code=0, name="huge", topic_id=uuid.UUID(int=1), partitions=huge),
            topic(error_code=0, name="none", topic_id=uuid.UUID(int=1), partitions=None),
            topic(error_code=0, name="t", topic_id=uuid.UUID(int=1), partitions=[partition]),
        ],
    )
    said = _said(response, 1)
    assert list(said.brokers) == [1] and len(said.brokers[1].rack) == RACK_CHARS_MAX
    assert len(said.cluster_id) == CLUSTER_ID_CHARS_MAX and list(said.answer.topics) == ["t"]
    assert not _said(MetadataResponse(brokers=None, topics=None), 1).brokers
    for unseen in "\0", "a\n", "\u2028":
        assert not _said(MetadataResponse(cluster_id=unseen, brokers=None), 1).cluster_id


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
    assert caplog.messages == [
        "topics cannot be asked for: no broker is known (see bootstrap_servers)"
    ]


def test_a_server_that_is_none_is_left_out() -> None:
    """Whoever may register a broker would end all asking with it, in each term."""
    cluster = topics_broker.started()
    asker = ClusterAsker((f"127.0.0.1:{cluster.port}",), {})
    assert asker.ask(frozenset(), ("[x:1", "h:", "[::1")).cluster_id == topics_broker.CLUSTER
    asker.close()
    with pytest.raises(UnavailableError, match=r"'foo:bar' is not HOST:PORT"):
        ClusterAsker(("foo:bar", "[x:1"), {}).ask(frozenset())


class Broken:
    """Asks for nothing."""

    def __init__(self) -> None:
        self.asked = self.closed = 0

    def ask(self, names: object, others: object) -> SaidCluster:
        """It is at its end."""
        self.asked += 1
        raise IndexError("of whatever kind")

    def close(self) -> None:
        """What it had begun goes."""
        self.closed += 1


def test_whatever_comes_of_a_question_the_next_one_is_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers: SimpleQueue[SaidCluster | None] = SimpleQueue()
    broken = Broken()
    thread = AskingThread(cast(ClusterAsker, broken), lambda thunk: thunk())
    for _ in range(3):
        thread.ask(frozenset(), (), answers.put)
        assert answers.get(timeout=PATIENCE_S) is None
    thread.close()
    assert broken.asked == 3 and broken.closed >= 3, "each begins anew"
    assert caplog.messages == ["topics cannot be asked for"], "it is told once"


class Slow:
    """Says what it was asked for, once it may."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.begun, self.may = threading.Event(), threading.Event()

    def ask(self, names: object, others: object) -> SaidCluster:
        """See the class."""
        self.asked.append(names)
        self.begun.set()
        assert self.may.wait(PATIENCE_S)
        return SaidCluster("", {})

    def close(self) -> None:
        """Nothing."""


def test_who_asks_does_not_wait_for_questions_of_terms_before() -> None:
    """ZooKeeper's connection may come and go while a broker does not answer."""
    answers: SimpleQueue[SaidCluster | None] = SimpleQueue()
    slow = Slow()
    thread = AskingThread(cast(ClusterAsker, slow), lambda thunk: thunk())
    thread.ask(frozenset({"first"}), (), answers.put)
    assert slow.begun.wait(PATIENCE_S)
    for n in range(100):
        thread.ask(frozenset({str(n)}), (), answers.put)
    slow.may.set()
    said = [answers.get(timeout=PATIENCE_S) for _ in range(101)]
    assert slow.asked == [{"first"}, {"99"}]
    assert [one is not None for one in said] == [True, *[False] * 99, True]
    thread.close()


def naming(cluster: topics_broker.ManyTopics, brokers: Mapping[int, int]) -> None:
    """From now on it names brokers with these ports besides itself."""
    kind = MetadataResponse.MetadataResponseBroker
    named = [kind(node_id=n, host="127.0.0.1", port=port, rack=None) for n, port in brokers.items()]
    whole = cluster._response

    def response(topics: list[object]) -> MetadataResponse:
        found: MetadataResponse = whole(topics)
        found.brokers += named
        return found

    cluster._response = response  # type: ignore[method-assign]  # as a broken one
    cluster.encoded.clear()


def test_brokers_are_not_more_than_nodes_may_be_made_of() -> None:
    cluster = topics_broker.started()
    cluster.put("t", uuid.uuid4(), 3, 0)
    asker = ClusterAsker((f"127.0.0.1:{cluster.port}",), {})
    assert len(asker.ask(None).brokers) == 1
    naming(cluster, dict.fromkeys(range(2, BROKERS_MAX + 2), 1))
    for names in None, frozenset({"t"}):
        with pytest.raises(KafkaProtocolError, match=f"it has more than {BROKERS_MAX} brokers"):
            asker._one(names, topics_broker.BROKER)
    many = [MetadataResponse.MetadataResponseBroker(1, "h", 1, None)] * (BROKERS_MAX + 1)
    with pytest.raises(KafkaProtocolError, match="more than"):
        _said(MetadataResponse(brokers=many, topics=None), 1)
    asker.close()


def test_what_kafka_python_asks_for_by_itself_is_short() -> None:
    """It makes an object of each that an answer says it has."""
    cluster = topics_broker.started()
    naming(cluster, dict.fromkeys(range(2, OTHER_BYTES_MAX // 20), 1))
    with pytest.raises(UnavailableError, match="Unable to bootstrap"):
        ClusterAsker((f"127.0.0.1:{cluster.port}",), {}).ask(frozenset())


def test_brokers_that_are_tried_in_vain_keep_nobody_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And each has its turn."""
    cluster = topics_broker.started()
    naming(cluster, dict.fromkeys(range(100, 140), 1))
    asker = ClusterAsker((f"127.0.0.1:{cluster.port}",), {})
    tried: list[int | None] = []

    def in_vain(names: object, broker_id: int | None) -> SaidCluster:
        tried.append(broker_id)
        monkeypatch.setattr(asking, "REQUEST_MS", 0)  # it took its time
        raise KafkaTimeoutError("it does not answer")

    monkeypatch.setattr(asker, "_one", in_vain)
    for _ in range(50):
        monkeypatch.undo()
        monkeypatch.setattr(asker, "_one", in_vain)
        with pytest.raises(UnavailableError):
            asker.ask(frozenset())
    assert len(tried) == 50 and {*range(100, 140), topics_broker.BROKER} <= set(tried)
