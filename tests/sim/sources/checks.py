"""What our own nodes of topics may say (S1), and when they count (S2).

S1: a topic's node says what is so, or was: it goes only when that topic is gone, becomes another
one only when that one follows it, and its partitions are never fewer than before, nor more than
there are. Whatever a broker that is behind has said, nothing goes back; but a topic that Kafka
makes again while `source` is written (`JUST_MS`), after its nodes were looked at for the last time,
is the former one until the next look, and then the latter again.
S2: `source` appears when all topics are there, and is of this cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection

from tests.sim.sources.cluster import CLUSTER, SimCluster
from tests.sim.tree import Rec, Tree, Txn

SOURCE = "/zkcoord/cluster/source"
JUST_MS = 1_000
OURS, THEIRS = "/zkcoord/cluster/topics/", "/brokers/topics/"


def counts(tree: Tree) -> bool:
    """Whether our nodes are read."""
    return SOURCE in tree.nodes


def topic_node(tree: Tree, name: str) -> Rec | None:
    """The one that is read."""
    return tree.nodes.get(f"{OURS if counts(tree) else THEIRS}{name}")


class SourceChecks:
    """Of one world. `violate` records a broken promise; `seen(name)` is told when everybody can
    read another topic than the one that was there before.
    """

    def __init__(
        self,
        cluster: SimCluster,
        tree: Tree,
        violate: Callable[[str, str], None],
        seen: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._tree = tree
        self._violate = violate
        self._seen = seen
        self._ids: dict[str, str] = {}
        self._former: dict[str, set[str]] = {}
        self._past: dict[str, set[str]] = {}
        self._made_ms: dict[str, int] = {}

    def committed(self, txn: Txn) -> None:
        """Look at one transaction, just after it happened."""
        turned = False
        for path, before, after in txn.changes:
            if path == SOURCE:
                turned = True
                self._turned(after)
            elif path.startswith(THEIRS) and after is not None and after.czxid == txn.zxid:
                self._made_ms[path[len(THEIRS) :]] = txn.time_ms
            elif path.startswith(OURS):
                self._ours(path[len(OURS) :], before, after)
        touched = {
            path.rpartition("/")[2]
            for path, _, _ in txn.changes
            if path.startswith((OURS, THEIRS)) and path.count("/") <= OURS.count("/")
        }
        for name in sorted(self._ids if turned else touched):
            late = turned and txn.time_ms - self._made_ms.get(name, -JUST_MS) < JUST_MS
            self._look(name, late)

    def _look(self, name: str, late: bool) -> None:
        node = topic_node(self._tree, name)
        if node is None:
            return
        now = _id(node)
        before, self._ids[name] = self._ids.get(name), now
        if before is not None and before != now:
            past = self._past.setdefault(name, set())
            if now in past and not late:
                self._violate("S1", f"everybody reads {name} as {now} again")
            if not late:
                past.add(before)
            self._seen(name)

    def _ours(self, name: str, before: Rec | None, after: Rec | None) -> None:
        so = self._cluster.latest.get(name)
        node = self._tree.nodes.get(f"{OURS}{name}")
        if node is None or after is None:
            if (
                node is None
                and before is not None
                and so is not None
                and so.topic_id == _id(before)
            ):
                self._violate("S1", f"{name} is there and its node is gone")
            return
        now = _id(after)
        if now in self._former.get(name, ()):
            self._violate("S1", f"{name} is {now} again, which others have followed")
        if before is not None and _id(before) != now:
            self._former.setdefault(name, set()).add(_id(before))
            if so is not None and so.topic_id == _id(before):
                self._violate("S1", f"{name} is {_id(before)}, and its node says {now}")
        elif before is not None and _partitions(after) < _partitions(before):
            self._violate("S1", f"{name} has {_partitions(after)} partitions of its former")
        if so is not None and so.topic_id == now and _partitions(after) > so.partitions:
            self._violate("S1", f"{name} has more partitions than there are")

    def _turned(self, after: Rec | None) -> None:
        if after is not None and json.loads(after.data)["cluster"] != CLUSTER:
            self._violate("S2", f"{SOURCE} says {after.data!r}")

    def unsettled(self, named: Collection[str]) -> str:
        """What of these topics, which groups name, is not as it is so; "" where all is."""
        for name, topic in sorted(self._cluster.latest.items()):
            if name not in named:
                continue
            node = topic_node(self._tree, name)
            said = None if node is None else (_id(node), _partitions(node))
            if said != (topic.topic_id, topic.partitions):
                return f"{name} is {topic}, and everybody reads {said}"
        return ""


def _id(node: Rec) -> str:
    return str(json.loads(node.data).get("topic_id", ""))


def _partitions(node: Rec) -> int:
    return len(json.loads(node.data)["partitions"])
