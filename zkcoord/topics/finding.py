"""Whether Kafka's nodes in ZooKeeper are still written: for as long as they are, nothing else needs
to be known.

A broker that has no ZooKeeper underneath has no node in /brokers/ids, and once all are such and the
migration has been finished /brokers/topics says what was so then, for ever. Neither says so itself.
So addresses of brokers are kept as nodes of our own, while there are any; and one that is there no
more is asked what it is. It may just be down, or cut off from ZooKeeper: only one that says that it
has none underneath decides, or any that answers where ZooKeeper has never heard of brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zkcoord.core.events import Record
from zkcoord.topics.asking import Asking, SaidCluster
from zkcoord.topics.fenced_port import FencedPort, names_of
from zkcoord.topics.options import TopicOptions
from zkcoord.topics.own_nodes import servers_of
from zkcoord.topics.whole_answers import BROKERS_MAX
from zkcoord.zk.port import (
    Create,
    GetChildren,
    GetData,
    Missing,
    Node,
    Op,
    Read,
    ReadAnswer,
    SetData,
    data_of,
)
from zkcoord.znodes.cluster_identity import cluster_of
from zkcoord.znodes.cluster_tree import ClusterTree
from zkcoord.znodes.kafka import CLUSTER_ID
from zkcoord.znodes.names import is_broker
from zkcoord.znodes.paths import BROKERS

ASK_EVERY_MS = 5_000
READ_EVERY_MS = 10_000
NO_BROKER = (
    "no broker is registered in ZooKeeper, and none that is known says that it needs none (see"
    " bootstrap_servers)"
)

NOT_LOOKED = "no broker is registered in ZooKeeper, and topic_source has none looked for elsewhere"


class FrozenTree:
    """See the module. Of one connection of a term; Kafka's nodes are read where they count
    (`overlay`). `done` is called once others count, or are to.
    """

    def __init__(
        self,
        port: FencedPort,
        tree: ClusterTree,
        clock: Callable[[], int],
        ask: Asking,
        record: Callable[[Record], None],
        options: TopicOptions,
        done: Callable[[], None],
    ) -> None:
        self._port = port
        self._tree = tree
        self._clock = clock
        self._ask = ask
        self._record = record
        self._options = options
        self._done = done
        self._look_at_ms: int | None = None
        self._watch_at_ms: int | None = None
        self._ask_at_ms = self._read_at_ms = 0
        self._kept: dict[str, bytes] = {}
        self._there: tuple[list[str], list[str]] = ([], [])
        self._tried = False
        self._told = ""
        self.problem = ""
        """Why no broker is known; "" where one is, or is looked for elsewhere."""

    def begin(self) -> None:
        """Look."""
        self._port.sync(self._look)

    def watch(self) -> None:
        """Look whether any broker is registered, for `problem`: Kafka's nodes count anyway."""
        self._port.read([GetChildren(BROKERS)], self._watched)

    def _watched(self, answers: list[ReadAnswer]) -> None:
        self.problem = "" if _ids(answers[0]) else NOT_LOOKED
        self._watch_at_ms = self._clock() + READ_EVERY_MS

    def keep_registered(self) -> None:
        """Where others are to count whatever brokers are: those that are registered may be the only
        ones that anybody has named.
        """
        reads: list[Read] = [GetChildren(BROKERS), GetChildren(self._tree.brokers)]

        def seen(answers: list[ReadAnswer]) -> None:
            live, kept = answers
            self._read_brokers(_ids(live), _ids(kept), self._done)

        self._port.make(self._tree.above(), lambda: self._port.read(reads, seen))

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""
        return None if self._port.dead else self._look_at_ms or self._watch_at_ms

    def tick(self) -> None:
        """Look, if it is time."""
        if self._look_at_ms is not None and self._clock() >= self._look_at_ms:
            self._look()
        if self._watch_at_ms is not None and self._clock() >= self._watch_at_ms:
            self._watch_at_ms = None
            self.watch()

    def _look(self) -> None:
        self._look_at_ms = None
        reads: list[Read] = [
            GetData(self._tree.source),
            GetChildren(self._tree.brokers),
            GetData(CLUSTER_ID),
            GetChildren(BROKERS),
        ]
        self._port.read(reads, self._seen)

    def _seen(self, answers: list[ReadAnswer]) -> None:
        source, kept, cluster, live = answers
        if not isinstance(source, Missing):
            self.problem = ""
            return self._done()
        if isinstance(kept, Missing) and not self._tried:
            # before anybody else makes them (docs/security.md)
            self._tried = True
            return self._port.make(self._tree.above(), self._look)
        ids, ours = _ids(live), _ids(kept)
        never = isinstance(live, Missing)
        self.problem = "" if ids else NO_BROKER

        def known() -> None:
            away = not ids or bool(self._kept.keys() - set(ids))
            if away and self._clock() >= self._ask_at_ms:
                return self._question(cluster_of(data_of(cluster)), never)
            return self._again()

        if (ids, ours) == self._there and self._clock() < self._read_at_ms:
            return known()
        return self._read_brokers(ids, ours, known)

    def _read_brokers(self, ids: list[str], ours: list[str], done: Callable[[], None]) -> None:
        """Where they are, once others are there, and now and then: one may have moved."""
        paths = [f"{BROKERS}/{n}" for n in ids] + [self._tree.broker(int(n)) for n in ours]

        def read(found: list[ReadAnswer]) -> None:
            there = dict(zip(ids, found, strict=False))
            kept = dict(zip(ours, found[len(ids) :], strict=True))
            self._kept = {n: a.data for n, a in kept.items() if isinstance(a, Node)}
            self._keep({n: a.data for n, a in there.items() if isinstance(a, Node)}, self._kept)
            self._there, self._read_at_ms = (ids, ours), self._clock() + READ_EVERY_MS
            done()

        self._port.read([GetData(path) for path in paths], read)

    def _again(self) -> None:
        self._look_at_ms = self._clock() + self._options.refresh_ms

    def _keep(self, there: Mapping[str, bytes], kept: Mapping[str, bytes]) -> None:
        """Those that are gone are kept: they may be what is looked for."""
        new = {name: data for name, data in there.items() if kept.get(name) != data}
        ops: list[Op] = []
        for name, data in new.items():
            path = self._tree.broker(int(name))
            ops.append(
                SetData(path, data, -1) if name in kept else Create(path, data, acl=self._port.acl)
            )
        for op in ops:
            self._port.write([op], lambda refused: None)

    def _question(self, cluster: str, never: bool) -> None:
        def answered(said: SaidCluster | None) -> None:
            if self._port.dead:
                return None
            if said is not None and self._is_it(said, cluster, never):
                detail = {"event": "ZooKeeper has no brokers", "cluster": said.cluster_id}
                self._record(Record("topics", "", detail))
                self.problem = ""
                return self._done()
            self._ask_at_ms = self._clock() + ASK_EVERY_MS
            return self._again()

        self._ask(frozenset(), servers_of(self._kept.values(), self._options.protocol), answered)

    def _is_it(self, said: SaidCluster, cluster: str, never: bool) -> bool:
        if cluster and said.cluster_id and said.cluster_id != cluster:
            if self._told != said.cluster_id:
                self._told = said.cluster_id
                detail = {
                    "event": "another cluster",
                    "cluster": said.cluster_id,
                    "expected": cluster,
                }
                self._record(Record("topics", "", detail))
            return False
        return never or said.has_zookeeper is False


def _ids(answer: ReadAnswer) -> list[str]:
    return [name for name in names_of(answer) if is_broker(name)][:BROKERS_MAX]
