"""Where topics and brokers come from (`zkcoord.topics`), and whether that is still so: states of a
cluster on its way from ZooKeeper to KRaft that somebody should know of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from zkcoord.check.rules import CheckFinding
from zkcoord.core.model import Malformed
from zkcoord.zk.port import (
    Children,
    Denied,
    GetChildren,
    GetData,
    Node,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    data_of,
)
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.term.election import leads
from zkcoord.znodes.cluster_identity import cluster_of, decode_source
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.kafka import CLUSTER_ID
from zkcoord.znodes.names import is_broker, shown
from zkcoord.znodes.paths import BROKERS, LAYOUTS, TOPICS

Hide = Callable[[str, Denied], None]
SHOWN_MAX = 8


@dataclass(frozen=True)
class SourceSeen:
    """What ZooKeeper says of brokers. `theirs` are those that are registered there, `ours` those
    that a coordinator keeps; `source` is the cluster of which ours are (None: Kafka's nodes count),
    `cluster` the one that /cluster/id names ("": none); `topics` whether Kafka has any there.
    """

    theirs: frozenset[str] = frozenset()
    ours: frozenset[str] = frozenset()
    source: str | Malformed | None = None
    cluster: str = ""
    topics: bool = False
    is_led: bool = False
    is_whole: bool = True
    """Whether all of it may be read."""

    @property
    def counts(self) -> bool:
        """Whether topics and brokers are read from nodes of our own."""
        return self.source is not None


def read_source(reader: SyncClient, hide: Hide) -> SourceSeen:
    """As it is written, whichever nodes count. Raises `UnavailableError`."""
    paths = [BROKERS, CLUSTER_TREE.brokers, TOPICS]
    seats = [layout.leader for layout in LAYOUTS.values()]
    named: list[Read] = [GetData(path) for path in (CLUSTER_TREE.source, CLUSTER_ID, *seats)]
    reads: list[Read] = [*map(GetChildren, paths), *named]
    answers = _as_written(reader, reads)
    for read, answer in zip(reads, answers, strict=False):
        if isinstance(answer, Denied):
            hide(read.path, answer)
    theirs, ours, topics, source, cluster, *leaders = answers
    return SourceSeen(
        _ids(theirs),
        _ids(ours),
        decode_source(source.data) if isinstance(source, Node) else None,
        cluster_of(data_of(cluster)),
        isinstance(topics, Children) and bool(topics.names),
        any(isinstance(one, Node) and leads(one) for one in leaders),
        not any(isinstance(answer, Denied) for answer in answers),
    )


def _as_written(reader: SyncClient, reads: Sequence[Read]) -> Sequence[ReadAnswer]:
    """Kafka's nodes, also where ours count instead of them."""
    answered: list[ReadResult] = reader.ask_all([lambda port, done: port.read(reads, done)])
    (result,) = answered
    if not isinstance(result, ReadDone):
        raise reader.unanswered()
    return result.answers


def _ids(answer: ReadAnswer) -> frozenset[str]:
    names = answer.names if isinstance(answer, Children) else ()
    return frozenset(filter(is_broker, names))


def sources(seen: SourceSeen, groups: int, old_members: int = 0) -> Iterator[CheckFinding]:
    """What is wrong with it, where there are so many groups, and old consumers in them; nothing is
    said of what may not be read, and nothing of an ensemble that nobody uses: it has no group, and
    no coordinator.
    """
    if not seen.is_whole:
        return
    if old_members and not seen.theirs:
        what = f"it lists no broker, and there are {old_members} old consumers"
        yield CheckFinding("old-consumers-without-brokers", "", BROKERS, what)
    if not seen.counts:
        if not seen.theirs and (seen.topics or seen.ours):
            known = f"; {_named(seen.ours)} known from before" if seen.ours else ""
            yield CheckFinding("brokers-left-zookeeper", "", BROKERS, f"it lists no broker{known}")
        elif not seen.theirs and (groups or seen.is_led):
            yield CheckFinding("no-broker-known", "", BROKERS, "ZooKeeper never heard of a broker")
        return
    path = CLUSTER_TREE.source
    if isinstance(seen.source, Malformed):
        yield CheckFinding("source-unreadable", "", path, seen.source.reason)
    elif seen.source and seen.cluster and seen.source != seen.cluster:
        what = f"{shown(seen.source)}, and {CLUSTER_ID} names {shown(seen.cluster)}"
        yield CheckFinding("source-of-another-cluster", "", path, what)
    if not seen.ours:
        yield CheckFinding("no-broker-known", "", CLUSTER_TREE.brokers, "there is none below it")
    if not seen.is_led:
        yield CheckFinding("source-unkept", "", path, "no coordinator leads")
    if seen.theirs and seen.ours <= seen.theirs:
        what = f"{BROKERS} lists all of them ({_named(seen.theirs)})"
        yield CheckFinding("brokers-came-back", "", path, what)
    elif seen.theirs:
        what = f"{BROKERS} lists {_named(seen.theirs)}, and not {_named(seen.ours - seen.theirs)}"
        yield CheckFinding("brokers-of-both-kinds", "", path, what)


def _named(ids: frozenset[str]) -> str:
    first = sorted(ids, key=int)[:SHOWN_MAX]
    more = f" and {len(ids) - len(first)} more" if len(ids) > len(first) else ""
    return f"broker{'' if len(ids) == 1 else 's'} {', '.join(first)}{more}"
