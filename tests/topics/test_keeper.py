"""What brokers say becomes nodes: on the simulated ensemble, with brokers that say what they are
told to.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.sim.kernel import Host, Kernel
from tests.sim.zookeeper import SimEnsemble
from tests.zk.classic.served_side import SESSION_MS, SETTLED_MS, STILL
from zkcoord.core.events import Record
from zkcoord.topics.asking import SaidBroker, SaidCluster
from zkcoord.topics.judging import ClusterAnswer, KnownTopic, SaidTopic
from zkcoord.topics.keeper import ABSENT_TIMES, KeeperOptions, Names, TopicKeeper
from zkcoord.topics.own_tree import KafkaTree, OverlaidPort, decode_known_topic, decode_source
from zkcoord.zk.port import (
    OPEN_ACL,
    Check,
    Create,
    GetData,
    Node,
    Op,
    ReadDone,
    ReadResult,
    SetData,
)

TREE = KafkaTree("/zkcoord/cluster")
EPOCH = "/zkcoord/groups"
OPTIONS = KeeperOptions()


class Side:
    """A term of a coordinator, and a cluster of two brokers."""

    def __init__(self, topics: dict[str, SaidTopic] | None = None, begins: bool = True) -> None:
        self.kernel = Kernel(1)
        self.zk = SimEnsemble(self.kernel, 1, STILL)
        self.port = self.zk.open_for(Host(self.kernel, "k"), SESSION_MS).open(lambda event: None)
        self.settle()
        self.write(Create("/zkcoord", b""), Create(EPOCH, b""))
        self.topics = dict(topics or {})
        self.brokers = {n: SaidBroker(n, f"b{n}", 9092) for n in (1, 2)}
        self.cluster = "c"
        self.answers = True
        self.wanted: Names = frozenset({"t"})
        self.asked: list[tuple[int, Names]] = []
        self.records: list[Record] = []
        self.ends: list[str] = []
        if begins:
            self.lead()

    def lead(self) -> TopicKeeper:
        """Another one of these."""
        self.keeper = TopicKeeper(
            self.port,
            TREE,
            Check(EPOCH, self.zk.tree.nodes[EPOCH].version),
            OPEN_ACL,
            lambda: self.kernel.now,
            self._ask,
            lambda: self.wanted,
            self.records.append,
            self.ends.append,
            OPTIONS,
        )
        self.keeper.begin()
        self.settle()
        return self.keeper

    def _ask(self, names: Names, done: Callable[[SaidCluster | None], None]) -> None:
        self.asked.append((self.kernel.now, names))
        asked = set(self.topics) if names is None else names
        topics = {name: one for name, one in self.topics.items() if name in asked}
        answer = ClusterAnswer(
            len(self.asked) % 2 + 1, len(self.brokers), topics, frozenset(asked - topics.keys())
        )
        said = SaidCluster(self.cluster, dict(self.brokers), answer) if self.answers else None
        self.kernel.after(1, lambda: done(said))

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
            due = self.keeper.next_wake_ms()
            self.kernel.run_until(min(until, max(due or until, self.kernel.now + 1)))
            self.keeper.tick()
            self.settle()

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

    @property
    def nodes(self) -> list[str]:
        """All that there are."""
        return sorted(path for path in self.zk.tree.nodes if path.startswith(TREE.root))


def test_what_groups_name_is_there_before_it_counts() -> None:
    side = Side({"t": SaidTopic("a", 3), "other": SaidTopic("b", 3)})
    side.wait(10)
    assert side.topic() == KnownTopic("a", 3) and side.keeper.is_complete
    assert decode_source(side.zk.tree.nodes[TREE.source].data) == "c"
    assert side.topic("other") is None, "nobody names it"
    assert [one.detail["event"] for one in side.records] == ["from Kafka"]
    assert TREE.broker(1) in side.nodes and TREE.broker(2) in side.nodes
    made = [side.zk.tree.nodes[path].czxid for path in (TREE.topic("t"), TREE.source)]
    assert made == sorted(made)


def test_it_does_not_count_while_brokers_do_not_answer() -> None:
    side = Side(begins=False)
    side.answers = False
    side.lead()
    side.wait(5 * OPTIONS.refresh_ms)
    assert not side.keeper.is_complete and TREE.source not in side.nodes
    assert len(side.asked) >= 5


def test_changes_are_written_as_they_are_believed() -> None:
    side = Side()
    side.topics["t"] = SaidTopic("a", 3)
    side.wait(OPTIONS.refresh_ms)
    made = side.zk.tree.nodes[TREE.topic("t")].czxid
    side.topics["t"] = SaidTopic("a", 5)
    side.wait(OPTIONS.refresh_ms)
    assert side.topic() == KnownTopic("a", 5)
    assert side.zk.tree.nodes[TREE.topic("t")].czxid == made, "it is the same topic"
    side.topics["t"] = SaidTopic("b", 2)
    side.wait(3 * OPTIONS.refresh_ms)
    assert side.topic() == KnownTopic("b", 2, ("a",))
    assert side.zk.tree.nodes[TREE.topic("t")].czxid > made, "another one"
    del side.topics["t"]
    side.wait(3 * OPTIONS.refresh_ms)
    assert side.topic() is None
    side.topics["t"] = SaidTopic("c", 1)
    side.wait(3 * OPTIONS.refresh_ms)
    assert side.topic() == KnownTopic("c", 1, ("a", "b"))


def test_the_next_coordinator_knows_what_the_one_before_has_found_out() -> None:
    side = Side()
    side.topics["t"] = SaidTopic("a", 3)
    side.wait(OPTIONS.refresh_ms)
    side.topics["t"] = SaidTopic("b", 1)
    side.wait(3 * OPTIONS.refresh_ms)
    side.keeper.lost()
    before = side.nodes, {path: side.zk.tree.nodes[path].mzxid for path in side.nodes}
    side.topics["t"] = SaidTopic("a", 3)
    side.lead()
    assert side.keeper.is_complete
    side.wait(5 * OPTIONS.refresh_ms)
    assert side.topic() == KnownTopic("b", 1, ("a",)), "a broker that is behind is not believed"
    after = side.nodes, {path: side.zk.tree.nodes[path].mzxid for path in side.nodes}
    assert after == before, "nothing is written"


def test_with_a_pattern_all_topics_are_asked_for() -> None:
    side = Side({f"t{n}": SaidTopic(str(n), 1) for n in range(250)}, begins=False)
    side.wanted = None
    side.lead()
    side.wait(10)
    assert len([path for path in side.nodes if path.startswith(f"{TREE.topics}/")]) == 250
    assert side.keeper.is_complete and side.asked[0][1] is None


def test_a_topic_that_somebody_names_is_asked_for_at_once() -> None:
    side = Side()
    side.topics.update(t=SaidTopic("a", 1), u=SaidTopic("b", 1))
    side.wait(OPTIONS.refresh_ms + 10)
    side.wanted = frozenset({"t", "u"})
    side.keeper.nudge()
    side.wait(1)
    assert side.topic("u") == KnownTopic("b", 1)


def test_a_broker_that_goes_is_gone_when_that_was_said_again() -> None:
    side = Side()
    side.topics["t"] = SaidTopic("a", 1)
    side.wait(OPTIONS.refresh_ms)
    gone = side.brokers.pop(2)
    side.wait((ABSENT_TIMES - 2) * OPTIONS.refresh_ms)
    assert TREE.broker(2) in side.nodes
    side.wait(3 * OPTIONS.refresh_ms)
    assert TREE.broker(2) not in side.nodes and TREE.broker(1) in side.nodes
    side.brokers[2] = gone
    side.brokers[1] = SaidBroker(1, "moved", 9093)
    side.wait(2 * OPTIONS.refresh_ms)
    assert TREE.broker(2) in side.nodes and b"moved" in side.zk.tree.nodes[TREE.broker(1)].data


def test_another_cluster_is_not_believed_and_told_once() -> None:
    side = Side()
    side.topics["t"] = SaidTopic("a", 3)
    side.wait(OPTIONS.refresh_ms)
    side.cluster, side.topics["t"] = "another", SaidTopic("z", 9)
    side.wait(10 * OPTIONS.refresh_ms)
    assert side.topic() == KnownTopic("a", 3)
    assert [one.detail.get("event") for one in side.records] == ["from Kafka", "another cluster"]


def test_who_leads_no_more_writes_nothing() -> None:
    side = Side()
    side.write(SetData(EPOCH, b"later", -1))
    side.topics["t"] = SaidTopic("a", 3)
    side.wait(2 * OPTIONS.refresh_ms)
    assert side.topic() is None and side.ends


def test_what_somebody_else_writes_there_is_put_right() -> None:
    side = Side()
    side.topics["t"] = SaidTopic("a", 3)
    side.write(Create(TREE.topic("t"), b"nonsense"))
    side.wait(3 * OPTIONS.refresh_ms)
    assert side.topic() == KnownTopic("a", 3)


def test_who_reads_kafkas_nodes_reads_these() -> None:
    side = Side({"t": SaidTopic("a", 3)}, begins=False)
    side.write(Create("/brokers", b""), Create("/brokers/topics", b""))
    side.write(Create("/brokers/topics/t", b"frozen"))
    answers: list[ReadResult] = []
    overlaid = OverlaidPort(side.port, TREE)
    overlaid.read([GetData("/brokers/topics/t")], answers.append)
    side.lead()
    side.wait(10)
    overlaid.read([GetData("/brokers/topics/t")], answers.append)
    side.settle()
    before, after = (done.answers[0] for done in answers if isinstance(done, ReadDone))
    assert isinstance(before, Node) and before.data == b"frozen"
    assert isinstance(after, Node) and b'"topic_id":"a"' in after.data
