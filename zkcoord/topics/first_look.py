"""What a keeper of topics begins with: the nodes of our own, as others have left them.

As long as they do not count they may be of any time: whoever wrote them may have ended before they
were complete, long ago. What everybody reads until then is Kafka's nodes, so that is what brokers
have to follow: one that is behind takes nobody back to a topic of before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from zkcoord.core.model import Malformed
from zkcoord.topics.fenced_port import FencedPort, names_of
from zkcoord.topics.judging import KnownTopic, TopicNews
from zkcoord.topics.own_nodes import decode_known_topic, encode_known_topic
from zkcoord.zk.port import GetChildren, GetData, Node, Read, ReadAnswer, data_of
from zkcoord.znodes.cluster_identity import cluster_of, decode_source
from zkcoord.znodes.cluster_tree import ClusterTree
from zkcoord.znodes.kafka import CLUSTER_ID
from zkcoord.znodes.names import is_broker, is_topic
from zkcoord.znodes.paths import TOPICS

K = TypeVar("K", str, int)


@dataclass(frozen=True)
class FirstLook:
    """`cluster`: of which ours are (None: they do not count); `expected`: what Kafka's node says of
    that ("": nothing). `known`: topics as everybody reads them; `written`: what our nodes of topics
    say; `theirs`: when Kafka's nodes were written last, where they count.
    """

    cluster: str | None
    expected: str
    known: dict[str, KnownTopic] = field(default_factory=dict)
    written: dict[str, bytes] = field(default_factory=dict)
    brokers: dict[int, bytes] = field(default_factory=dict)
    theirs: Mapping[str, int] = field(default_factory=dict)

    def wrote(self, name: str, topic: KnownTopic) -> None:
        """A node of ours was written."""
        if topic.gone:
            self.written.pop(name, None)
        else:
            self.written[name] = encode_known_topic(topic)

    def outdated(self, known: Mapping[str, KnownTopic]) -> dict[str, TopicNews]:
        """What is to be written before ours count."""
        there = {name: topic for name, topic in known.items() if not topic.gone}
        found = {
            name: TopicNews(name, topic, anew=True)
            for name, topic in there.items()
            if self.written.get(name) != encode_known_topic(topic)
        }
        gone = KnownTopic("", 0, gone=True)
        return found | {name: TopicNews(name, gone) for name in self.written.keys() - there.keys()}


def first_look(port: FencedPort, tree: ClusterTree, done: Callable[[FirstLook], None]) -> None:
    """Read all of it."""
    reads: list[Read] = [
        GetData(tree.source),
        GetChildren(tree.topics),
        GetChildren(tree.brokers),
        GetData(CLUSTER_ID),
    ]

    def listed(answers: list[ReadAnswer]) -> None:
        source, topics, brokers, cluster_id = answers
        cluster = None
        if isinstance(source, Node):
            said = decode_source(source.data)
            cluster = "" if isinstance(said, Malformed) else said
        names = [name for name in names_of(topics) if is_topic(name)]
        ids = [int(name) for name in names_of(brokers) if is_broker(name)]
        paths = [*map(tree.topic, names), *map(tree.broker, ids)]

        def read(found: list[ReadAnswer]) -> None:
            ours = _nodes(names, found[: len(names)])
            at = {n: one.data for n, one in _nodes(ids, found[len(names) :]).items()}
            written = {name: node.data for name, node in ours.items()}
            expected = cluster_of(data_of(cluster_id))
            if cluster is not None:
                return done(FirstLook(cluster, expected, _known(ours), written, at))
            return read_theirs(
                port,
                lambda theirs: done(
                    FirstLook(None, expected, _found(theirs), written, at, _when(theirs))
                ),
            )

        port.read([GetData(path) for path in paths], read)

    port.sync(lambda: port.read(reads, listed))


def read_theirs(port: FencedPort, done: Callable[[Mapping[str, Node]], None]) -> None:
    """Kafka's own nodes of topics, whether they still count or not."""

    def listed(answers: list[ReadAnswer]) -> None:
        names = [name for name in names_of(answers[0]) if is_topic(name)]
        port.read(
            [GetData(f"{TOPICS}/{name}", frozen=True) for name in names],
            lambda found: done(_nodes(names, found)),
        )

    port.read([GetChildren(TOPICS, frozen=True)], listed)


def unchanged(port: FencedPort, look: FirstLook, done: Callable[[bool], None]) -> None:
    """Whether Kafka's nodes are as they were."""
    port.sync(lambda: read_theirs(port, lambda theirs: done(_when(theirs) == look.theirs)))


def missed(
    port: FencedPort, look: FirstLook, done: Callable[[Mapping[str, KnownTopic]], None]
) -> None:
    """What Kafka's nodes say otherwise, for it was written while `source` was on its way."""

    def read(theirs: Mapping[str, Node]) -> None:
        done(_found({n: one for n, one in theirs.items() if look.theirs.get(n) != one.stat.mzxid}))

    port.sync(lambda: read_theirs(port, read))


def _when(nodes: Mapping[str, Node]) -> dict[str, int]:
    return {name: node.stat.mzxid for name, node in nodes.items()}


def _known(nodes: Mapping[str, Node]) -> dict[str, KnownTopic]:
    found = {name: decode_known_topic(name, node.data, node.stat) for name, node in nodes.items()}
    return {name: topic for name, topic in found.items() if isinstance(topic, KnownTopic)}


def _found(nodes: Mapping[str, Node]) -> dict[str, KnownTopic]:
    """Topics that Kafka's nodes name: they were there before anybody looked."""
    return {
        name: KnownTopic(topic.topic_id, topic.partitions, (), False, True, nodes[name].stat.czxid)
        for name, topic in _known(nodes).items()
    }


def _nodes(keys: Sequence[K], answers: Sequence[ReadAnswer]) -> dict[K, Node]:
    pairs = zip(keys, answers, strict=False)
    return {key: answer for key, answer in pairs if isinstance(answer, Node)}
