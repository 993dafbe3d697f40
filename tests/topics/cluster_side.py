"""A term of a coordinator on the simulated ensemble, and brokers that say what they are told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.sim.kernel import Host, Kernel
from tests.sim.zookeeper import SimEnsemble
from tests.zk.classic.served_side import SESSION_MS, SETTLED_MS, STILL
from zkcoord.core.events import Record
from zkcoord.core.model import Topic
from zkcoord.topics.asking import SaidBroker, SaidCluster
from zkcoord.topics.judging import ClusterAnswer, KnownTopic, SaidSince, SaidTopic
from zkcoord.topics.options import TopicOptions, TopicSourceKind
from zkcoord.topics.own_nodes import decode_known_topic, encode_said_broker
from zkcoord.topics.source import ClusterSource
from zkcoord.zk.overlay import OverlaidEnsemble
from zkcoord.zk.port import (
    OPEN_ACL,
    Check,
    Create,
    GetData,
    Node,
    Op,
    ReadDone,
    ReadResult,
)
from zkcoord.zk.term.topic_source import Names
from zkcoord.znodes.cluster_tree import ClusterTree
from zkcoord.znodes.kafka import CLUSTER_ID, decode_topic
from zkcoord.znodes.paths import TOPICS
from zkcoord.znodes.stat import Stat

TREE = ClusterTree("/zkcoord/cluster")
EPOCH = "/zkcoord/groups"
OPTIONS = TopicOptions()


class Side:
    """A term of a coordinator, and a cluster of two brokers."""

    def __init__(
        self,
        topics: dict[str, SaidTopic] | None = None,
        begins: bool = True,
        kind: TopicSourceKind = TopicSourceKind.KAFKA,
    ) -> None:
        self.options = TopicOptions(kind)
        self.kernel = Kernel(1)
        self.zk = SimEnsemble(self.kernel, 1, STILL)
        self.port = self.zk.open_for(Host(self.kernel, "k"), SESSION_MS).open(lambda event: None)
        self.settle()
        self.write(Create("/zkcoord", b""), Create(EPOCH, b""))
        self.topics = dict(topics or {})
        self.brokers = {n: SaidBroker(n, f"b{n}", 9092) for n in (1, 2)}
        self.cluster = "c"
        self.answers = True
        self.hidden: set[str] = set()
        self.all: dict[str, SaidTopic] = {}
        self.has_zookeeper = False
        self.work_ms = 0
        self.took_ms = 1
        self.wanted: Names = frozenset({"t"})
        self.asked: list[tuple[int, Names]] = []
        self.records: list[Record] = []
        self.ends: list[str] = []
        self.later = 0  # terms that have come after its own
        self.servers: tuple[str, ...] = ()
        if begins:
            self.lead()

    def lead(self) -> ClusterSource:
        """Another one of these, with a connection of its own."""
        session = self.zk.open_for(Host(self.kernel, "k"), SESSION_MS)
        port = OverlaidEnsemble(session, TREE).open(lambda event: None)
        self.settle()
        self.source = ClusterSource(
            self._ask,
            lambda: self.kernel.now,
            OPEN_ACL,
            self.options,
            port,
            Check(EPOCH, self.zk.tree.nodes[EPOCH].version - self.later),
            lambda: self.wanted,
            self.records.append,
            self.ends.append,
            TREE,
        )
        self.source.begin()
        self.settle()
        return self.source

    def _ask(
        self, names: Names, servers: Sequence[str], done: Callable[[SaidCluster | None], None]
    ) -> None:
        self.asked.append((self.kernel.now, names))
        self.servers = tuple(servers)
        asked = set(self.topics) if names is None else names
        topics = {
            name: one
            for name, one in self.topics.items()
            if name in asked and name not in self.hidden
        }
        missing = frozenset(asked - self.topics.keys())
        since = self._since(topics) if names is None else None
        answer = ClusterAnswer(len(self.asked) % 2 + 1, len(self.brokers), topics, missing, since)
        said = SaidCluster(
            self.cluster, dict(self.brokers), answer, self.has_zookeeper, self.work_ms
        )
        said_or_none = said if self.answers else None
        self.kernel.after(self.took_ms, lambda: done(said_or_none))

    def _since(self, topics: dict[str, SaidTopic]) -> SaidSince:
        before, self.all = self.all, topics
        named = before.keys() | topics.keys()
        return SaidSince(before, frozenset(n for n in named if before.get(n) != topics.get(n)))

    def settle(self) -> None:
        """What is under way ends."""
        self.kernel.run_until(self.kernel.now + SETTLED_MS)

    def write(self, *ops: Op) -> None:
        """By somebody else."""
        self.port.multi(ops, lambda result: None)
        self.settle()

    def wait(self, ms: int) -> None:
        """Time passes."""
        until = self.kernel.now + ms
        while self.kernel.now < until:
            due = self.source.next_wake_ms()
            self.kernel.run_until(min(until, max(due or until, self.kernel.now + 1)))
            self.source.tick()
            self.settle()

    def found(self, topic_id: str, partitions: int, name: str = "t") -> KnownTopic:
        """A topic that was there before anybody looked: it is as old as Kafka's node."""
        created = self.zk.tree.nodes[f"{TOPICS}/{name}"].czxid
        return KnownTopic(topic_id, partitions, found=True, created=created)

    def topic(self, name: str = "t") -> KnownTopic | None:
        """What its node says."""
        answers: list[ReadResult] = []
        self.port.read([GetData(TREE.topic(name))], answers.append)
        self.settle()
        (done,) = answers
        assert isinstance(done, ReadDone)
        (node,) = done.answers
        if not isinstance(node, Node):
            return None
        found = decode_known_topic(name, node.data, node.stat)
        assert isinstance(found, KnownTopic), found
        return found

    def created(self, name: str) -> int:
        """When it was made, as groups have it."""
        node = self.zk.tree.nodes[TREE.topic(name)]
        stat = Stat(node.czxid, node.mzxid, 0, 0, 0, 0)
        topic = decode_topic(name, node.data, stat)
        assert isinstance(topic, Topic)
        return topic.created

    @property
    def nodes(self) -> list[str]:
        """All that there are."""
        return sorted(path for path in self.zk.tree.nodes if path.startswith(TREE.root))

    def theirs(self, *names: str, brokers: Sequence[int] = ()) -> None:
        """Kafka's nodes in ZooKeeper: these topics, these brokers."""
        self.write(Create("/brokers", b""))
        for path in ("/brokers/topics", "/brokers/ids", "/cluster"):
            self.write(Create(path, b""))
        self.write(Create(CLUSTER_ID, b'{"version":"1","id":"c"}'))
        for name in names:
            self.write(Create(f"/brokers/topics/{name}", b'{"version":1,"partitions":{"0":[1]}}'))
        for number in brokers:
            data = encode_said_broker(self.brokers[number], "PLAINTEXT")
            self.write(Create(f"/brokers/ids/{number}", data))

    @property
    def events(self) -> list[object]:
        """What people were told."""
        return [one.detail["event"] for one in self.records]
