"""Nodes of our own beside Kafka's: whoever reads Kafka's gets those that count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from zkcoord.core.model import Topic, same_incarnation
from zkcoord.topics import own_tree
from zkcoord.topics.asking import SaidBroker
from zkcoord.topics.judging import KnownTopic
from zkcoord.topics.own_tree import (
    KafkaTree,
    OverlaidEnsemble,
    OverlaidPort,
    encode_known_topic,
    encode_said_broker,
)
from zkcoord.zk.port import (
    Change,
    Children,
    Fired,
    GetChildren,
    GetData,
    Missing,
    Node,
    PortEvent,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Unanswered,
    WatchMode,
)
from zkcoord.znodes.kafka import BrokerData, decode_broker, decode_topic
from zkcoord.znodes.stat import Stat

TREE = KafkaTree("/zkcoord/cluster")
T, OURS = "/brokers/topics/t", "/zkcoord/cluster/topics/t"
STAT = Stat(7, 7, 0, 0, 0, 0)


class Nodes:
    """A `Port` and its `Ensemble`: these nodes, read at once."""

    def __init__(self, nodes: dict[str, bytes]) -> None:
        self.nodes = nodes
        self.reads: list[tuple[Read, ...]] = []
        self.watched: list[str] = []
        self.connected = True
        self.event: Callable[[PortEvent], None] = lambda event: None

    def open(self, on_event: Callable[[PortEvent], None]) -> Any:
        """See `Ensemble`."""
        self.event = on_event
        return self

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self.reads.append(tuple(reads))
        done(ReadDone(tuple(map(self._one, reads))) if self.connected else Unanswered())

    def _one(self, read: Read) -> ReadAnswer:
        if isinstance(read, GetChildren):
            above = f"{read.path}/"
            below = {p[len(above) :].partition("/")[0] for p in self.nodes if p.startswith(above)}
            return Children(tuple(sorted(below))) if below or read.path in self.nodes else Missing()
        data = self.nodes.get(read.path)
        return Missing() if data is None else Node(data, STAT)

    def watch(self, path: str, mode: WatchMode, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self.watched.append(path)
        done(ReadDone(()))

    def unwatch(self, path: str, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self.watched.remove(path)
        done(ReadDone(()))


def read(nodes: Nodes, *reads: Read) -> tuple[ReadAnswer, ...]:
    """What is answered through the port."""
    answers: list[ReadResult] = []
    OverlaidPort(nodes, TREE).read(reads, answers.append)  # type: ignore[arg-type]  # as far as used
    (result,) = answers
    assert isinstance(result, ReadDone)
    return result.answers


def test_without_nodes_of_ours_kafkas_count() -> None:
    nodes = Nodes({T: b"theirs", "/other": b"x"})
    answers = read(nodes, GetData("/other"), GetData(T), GetChildren("/brokers/topics"))
    assert answers == (Node(b"x", STAT), Node(b"theirs", STAT), Children(("t",)))
    assert len(nodes.reads) == 1, "of one moment"


def test_with_ours_nobody_looks_at_kafkas() -> None:
    nodes = Nodes(
        {T: b"theirs", "/brokers/topics/gone": b"frozen", TREE.source: b"", OURS: b"ours"}
    )
    answers = read(
        nodes,
        GetData(T),
        GetData("/brokers/topics/gone"),
        GetChildren("/brokers/topics"),
        GetChildren("/brokers/ids"),
    )
    assert answers == (Node(b"ours", STAT), Missing(), Children(("t",)), Missing())


def test_what_is_not_kafkas_is_read_as_it_is() -> None:
    nodes = Nodes({"/a": b"a"})
    read(nodes, GetData("/a"), GetData("/brokers/topicsx"), GetChildren("/brokers"))
    assert nodes.reads == [
        (GetData("/a"), GetData("/brokers/topicsx"), GetChildren("/brokers")),
    ]


def test_more_than_a_request_holds_is_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_tree, "READS_PER_REQUEST_MAX", 3)
    nodes = Nodes({TREE.source: b"", **{f"{TREE.topics}/{n}": str(n).encode() for n in range(5)}})
    answers = read(nodes, *(GetData(f"/brokers/topics/{n}") for n in range(5)))
    assert answers == tuple(Node(str(n).encode(), STAT) for n in range(5))
    assert [len(one) for one in nodes.reads] == [3, 3, 3, 2]


def test_without_a_connection_nothing_is_answered() -> None:
    nodes = Nodes({})
    nodes.connected = False
    answers: list[ReadResult] = []
    port = OverlaidPort(nodes, TREE)  # type: ignore[arg-type]  # as far as it is used
    port.read([GetData(T)], answers.append)
    assert answers == [Unanswered()]


def test_changes_of_ours_are_told_as_kafkas() -> None:
    nodes = Nodes({})
    events: list[PortEvent] = []
    port = OverlaidEnsemble(nodes, TREE).open(events.append)
    for path in (T, "/brokers/topics", "/other"):
        port.watch(path, WatchMode.PERSISTENT, lambda result: None)
    assert nodes.watched == [OURS, T, TREE.topics, "/brokers/topics", "/other"]
    for path in (OURS, T, TREE.topics, "/other"):
        nodes.event(Fired(Change.DATA, path))
    assert [e.path for e in events if isinstance(e, Fired)] == [T, T, "/brokers/topics", "/other"]
    port.unwatch(T, lambda result: None)
    assert nodes.watched == [TREE.topics, "/brokers/topics", "/other"]


def test_a_topic_is_read_as_kafkas_own() -> None:
    data = encode_known_topic(KnownTopic("2WJo1s_CTYmrvOZIlPWNKA", 3, ("older",)))
    topic = decode_topic("t", data, STAT)
    assert isinstance(topic, Topic) and topic.partitions == (0, 1, 2)
    assert same_incarnation(topic.incarnation, "4711.2WJo1s_CTYmrvOZIlPWNKA")
    without = decode_topic("t", encode_known_topic(KnownTopic("", 1)), STAT)
    assert isinstance(without, Topic) and without.incarnation == "7"


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_SSL"])
def test_a_broker_is_read_as_kafkas_own(protocol: str) -> None:
    broker = decode_broker("1", encode_said_broker(SaidBroker(1, "::1", 9092, "r"), protocol))
    assert isinstance(broker, BrokerData)
    assert broker.endpoints == {protocol: ("::1", 9092)}
    assert broker.protocols == {protocol: protocol}
