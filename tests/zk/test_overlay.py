"""Nodes of our own beside Kafka's: whoever reads Kafka's gets those that count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from zkcoord.core.model import Topic, same_incarnation
from zkcoord.topics.asking import SaidBroker
from zkcoord.topics.judging import KnownTopic
from zkcoord.topics.own_nodes import encode_known_topic, encode_said_broker, servers_of
from zkcoord.zk import overlay
from zkcoord.zk.overlay import OverlaidEnsemble
from zkcoord.zk.port import (
    Change,
    Children,
    Fired,
    GetChildren,
    GetData,
    Missing,
    Node,
    Port,
    PortEvent,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Suspended,
    Unanswered,
    WatchMode,
)
from zkcoord.znodes.cluster_tree import ClusterTree
from zkcoord.znodes.kafka import BrokerData, decode_broker, decode_topic
from zkcoord.znodes.stat import Stat

TREE = ClusterTree("/zkcoord/cluster")
T, OURS = "/brokers/topics/t", "/zkcoord/cluster/topics/t"
STAT = Stat(7, 7, 0, 0, 0, 0)


class Nodes:
    """A `Port` and its `Ensemble`: these nodes, read at once."""

    def __init__(self, nodes: dict[str, bytes]) -> None:
        self.nodes = nodes
        self.stats: dict[str, Stat] = {}
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
        return Missing() if data is None else Node(data, self.stats.get(read.path, STAT))

    def watch(self, path: str, mode: WatchMode, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self.watched.append(path)
        done(ReadDone(()))

    def unwatch(self, path: str, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self.watched.remove(path)
        done(ReadDone(()))


def overlaid(nodes: Nodes, events: list[PortEvent] | None = None) -> Port:
    """A session of these nodes."""
    return OverlaidEnsemble(nodes, TREE).open((events if events is not None else []).append)


def read(nodes: Nodes, *reads: Read) -> tuple[ReadAnswer, ...]:
    """What is answered through the port."""
    answers: list[ReadResult] = []
    overlaid(nodes).read(reads, answers.append)
    (result,) = answers
    assert isinstance(result, ReadDone)
    return result.answers


def test_without_nodes_of_ours_kafkas_count() -> None:
    nodes = Nodes({T: b"theirs", "/other": b"x"})
    answers = read(nodes, GetData("/other"), GetData(T), GetChildren("/brokers/topics"))
    assert answers == (Node(b"x", STAT), Node(b"theirs", STAT), Children(("t",)))
    assert [len(one) for one in nodes.reads] == [4], "of one moment, and nothing twice"


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


def test_what_was_written_before_it_counted_says_since_when_it_does() -> None:
    topics = {name: encode_known_topic(KnownTopic(name, 1)) for name in ("early", "late")}
    nodes = Nodes(
        {TREE.source: b"", "/other": b"x", **{TREE.topic(n): d for n, d in topics.items()}}
    )
    nodes.stats = {
        TREE.source: STAT._replace(czxid=20),
        TREE.topic("early"): STAT._replace(czxid=10),
        TREE.topic("late"): STAT._replace(czxid=30),
    }
    reads = [GetData(f"/brokers/topics/{name}") for name in topics]
    other, *found = read(nodes, GetData("/other"), *reads)
    assert other == Node(b"x", STAT)
    made = {
        name: decode_topic(name, answer.data, answer.stat)
        for name, answer in zip(topics, found, strict=True)
        if isinstance(answer, Node)
    }
    assert made == {
        "early": Topic("early", "10.early", (0,), 20),
        "late": Topic("late", "30.late", (0,), 30),
    }


def test_what_is_not_kafkas_is_read_as_it_is() -> None:
    nodes = Nodes({"/a": b"a"})
    read(nodes, GetData("/a"), GetData("/brokers/topicsx"), GetChildren("/brokers"))
    assert nodes.reads == [
        (GetData("/a"), GetData("/brokers/topicsx"), GetChildren("/brokers")),
    ]


def test_more_than_a_request_holds_is_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay, "READS_PER_REQUEST_MAX", 3)
    nodes = Nodes({TREE.source: b"", **{f"{TREE.topics}/{n}": str(n).encode() for n in range(5)}})
    answers = read(nodes, *(GetData(f"/brokers/topics/{n}") for n in range(5)))
    assert answers == tuple(Node(str(n).encode(), STAT) for n in range(5))
    assert [len(one) for one in nodes.reads[-2:]] == [3, 3]


def test_without_a_connection_nothing_is_answered() -> None:
    nodes = Nodes({})
    nodes.connected = False
    answers: list[ReadResult] = []
    overlaid(nodes).read([GetData(T)], answers.append)
    assert answers == [Unanswered()]


def test_changes_of_ours_are_told_as_kafkas() -> None:
    nodes, events = Nodes({}), list[PortEvent]()
    port = overlaid(nodes, events)
    for path in (T, "/brokers/topics", "/other"):
        port.watch(path, WatchMode.PERSISTENT, lambda result: None)
    both = [OURS, T, TREE.topics, "/brokers/topics"]
    assert nodes.watched == [TREE.source, *both, "/other"], "which count is not known yet"
    for path in (OURS, T, TREE.topics, "/other"):
        nodes.event(Fired(Change.DATA, path))
    assert [e.path for e in events if isinstance(e, Fired)] == [T, T, "/brokers/topics", "/other"]
    port.unwatch(T, lambda result: None)
    assert nodes.watched == [TREE.source, TREE.topics, "/brokers/topics", "/other"]


def test_that_others_count_is_told_of_each_that_is_watched() -> None:
    nodes, events = Nodes({T: b"theirs"}), list[PortEvent]()
    port = overlaid(nodes, events)
    port.read([GetData(T)], lambda result: None)
    port.watch(T, WatchMode.PERSISTENT, lambda result: None)
    port.watch("/brokers/ids", WatchMode.PERSISTENT, lambda result: None)
    assert nodes.watched == [TREE.source, T, "/brokers/ids"], "Kafka's count"
    nodes.nodes[TREE.source] = nodes.nodes[OURS] = b""
    nodes.event(Fired(Change.CREATED, TREE.source))
    assert nodes.watched == [TREE.source, T, "/brokers/ids", OURS, TREE.brokers]
    assert events == [Fired(Change.DATA, T), Fired(Change.DATA, "/brokers/ids")]
    port.read([GetData(T)], lambda result: None)
    port.watch("/brokers/topics", WatchMode.PERSISTENT, lambda result: None)
    assert nodes.watched[-1] == TREE.topics, "ours count"
    del nodes.nodes[TREE.source]
    nodes.event(Fired(Change.DELETED, TREE.source))
    assert nodes.watched[-1] == "/brokers/topics"
    assert len(events) == 5


def test_after_a_lost_connection_nothing_is_watched() -> None:
    nodes, events = Nodes({}), list[PortEvent]()
    port = overlaid(nodes, events)
    port.watch(T, WatchMode.PERSISTENT, lambda result: None)
    nodes.watched.clear()
    nodes.event(Suspended())
    nodes.event(Fired(Change.CREATED, TREE.source))
    assert events == [Suspended()]
    port.watch(T, WatchMode.PERSISTENT, lambda result: None)
    assert nodes.watched == [TREE.source, OURS, T]


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


def test_where_brokers_are_is_read_from_their_nodes() -> None:
    nodes = [
        encode_said_broker(SaidBroker(1, "b1", 9092), "PLAINTEXT"),
        encode_said_broker(SaidBroker(2, "::1", 9093), "SSL"),
        b'{"version":1,"host":"old","port":9091}',
        b"nonsense",
    ]
    assert servers_of(nodes, "PLAINTEXT") == ("b1:9092", "old:9091")
    assert servers_of(nodes, "SSL") == ("[::1]:9093",)
