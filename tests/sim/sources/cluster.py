"""A cluster of brokers that a coordinator may ask, on its way from ZooKeeper to KRaft.

What is so is told at once (`put`); a broker says what was so when it last heard, which may be a
while ago. While it has ZooKeeper underneath it is registered there; Kafka's nodes of topics are
written until the controller is finalised. All that is written to them is written by the world.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tests.sim.kernel import Host, Kernel
from zkcoord.topics.asking import Asking, SaidBroker, SaidCluster
from zkcoord.topics.judging import ClusterAnswer, SaidSince, SaidTopic
from zkcoord.topics.own_nodes import encode_said_broker
from zkcoord.zk.port import Create, Delete, Op
from zkcoord.zk.term.topic_source import Names
from zkcoord.znodes.kafka import CLUSTER_ID

CLUSTER = "c"
IDS = "/brokers/ids"
LATENCY_MAX_MS = 30
SLOW_CHANCE, SLOW_MAX_MS = 0.05, 2_500
SILENT_MS = 300
"""How long an asker takes to find that nobody answers (seconds, as clients do it)."""


@dataclass
class SimBroker:
    """One broker. It says what was so at `heard_ms`, or, if that is None, what is so."""

    number: int
    has_zookeeper: bool = True
    up: bool = True
    heard_ms: int | None = None


class SimCluster:
    """See the module. `commit` writes to ZooKeeper as Kafka would."""

    def __init__(
        self, kernel: Kernel, brokers: int, in_kraft: bool, commit: Callable[[Sequence[Op]], object]
    ) -> None:
        self.kernel = kernel
        self.brokers = [SimBroker(n, not in_kraft) for n in range(1, brokers + 1)]
        self.finalised = in_kraft
        self.latest: dict[str, SaidTopic] = {}
        self._commit = commit
        self._past: dict[str, list[tuple[int, SaidTopic | None]]] = {}
        self._turn = 0
        if not in_kraft:
            cluster = b'{"version":"1","id":"%s"}' % CLUSTER.encode()
            commit([Create(IDS, b""), Create("/cluster", b""), Create(CLUSTER_ID, cluster)])
            for broker in self.brokers:
                self._register(broker)

    # what is so

    def put(self, name: str, topic: SaidTopic | None) -> None:
        """A topic is so from now on (None: gone)."""
        self._past.setdefault(name, []).append((self.kernel.now, topic))
        if topic is None:
            del self.latest[name]
        else:
            self.latest[name] = topic

    def _then(self, name: str, at_ms: int) -> SaidTopic | None:
        found = None
        for since, topic in self._past.get(name, ()):
            if since <= at_ms:
                found = topic
        return found

    # what happens to brokers

    def _register(self, broker: SimBroker) -> None:
        data = encode_said_broker(_said(broker), "PLAINTEXT")
        self._commit([Create(f"{IDS}/{broker.number}", data)])

    def stop(self, broker: SimBroker) -> None:
        """It answers nobody; its node in ZooKeeper is gone."""
        if broker.up and broker.has_zookeeper:
            self._commit([Delete(f"{IDS}/{broker.number}")])
        broker.up, broker.heard_ms = False, None

    def start(self, broker: SimBroker) -> None:
        """It is there again, as it is now."""
        if not broker.up and broker.has_zookeeper:
            self._register(broker)
        broker.up = True

    def migrate(self, gap_ms: int) -> str | None:
        """The next of Kafka's steps: a broker is restarted in KRaft mode, which takes so long; once
        all are, nobody writes to ZooKeeper any more.
        """
        left = [one for one in self.brokers if one.has_zookeeper]
        if left:
            broker = left[0]
            self.stop(broker)
            broker.has_zookeeper = False
            self.kernel.after(gap_ms, lambda: self.start(broker))
            return f"broker {broker.number} restarts in KRaft mode"
        if not self.finalised:
            self.finalised = True
            return "Kafka writes to ZooKeeper no more"
        return None

    def heal(self) -> None:
        """All are there, and say what is so."""
        for broker in self.brokers:
            self.start(broker)
            broker.heard_ms = None

    # who asks

    def asking(self, host: Host) -> Asking:
        """For the coordinator on this host. Of all topics it is told what differs from what it was
        told last.
        """
        last: dict[str, SaidTopic] = {}

        def ask(
            names: Names, servers: Sequence[str], done: Callable[[SaidCluster | None], None]
        ) -> None:
            self.kernel.after(self.kernel.between(0, LATENCY_MAX_MS), lambda: asked(names, done))

        def asked(names: Names, done: Callable[[SaidCluster | None], None]) -> None:
            nonlocal last
            said = self._said(names)
            if said is not None and names is None:
                now = dict(said.answer.topics)
                others = frozenset(n for n in last.keys() | now if last.get(n) != now.get(n))
                answer = replace(said.answer, topics=now, since=SaidSince(last, others))
                said, last = replace(said, answer=answer), now
            is_slow = self.kernel.chance(SLOW_CHANCE)
            wait = self.kernel.between(0, SLOW_MAX_MS if is_slow else LATENCY_MAX_MS)
            if said is None:
                wait = SILENT_MS
            host.after(wait, lambda: done(said))

        return ask

    def _said(self, names: Names) -> SaidCluster | None:
        able = [one for one in self.brokers if one.up]
        if not able:
            return None
        self._turn += 1
        broker = able[self._turn % len(able)]
        at_ms = self.kernel.now if broker.heard_ms is None else broker.heard_ms
        asked = sorted(self._past if names is None else names)
        seen = {name: self._then(name, at_ms) for name in asked}
        topics = {name: one for name, one in seen.items() if one is not None}
        missing = frozenset() if names is None else frozenset(seen) - topics.keys()
        # one that is behind does not know either who is down
        known = able if broker.heard_ms is None else self.brokers
        answer = ClusterAnswer(broker.number, len(known), topics, missing)
        there = {one.number: _said(one) for one in known}
        has_zookeeper = None if names or names is None else broker.has_zookeeper
        return SaidCluster(CLUSTER, there, answer, has_zookeeper)


def _said(broker: SimBroker) -> SaidBroker:
    return SaidBroker(broker.number, f"b{broker.number}", 9092)
