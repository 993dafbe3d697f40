"""Keeps the nodes of our own (`own_tree`) as a cluster's topics and brokers are: brokers are asked
again and again, elsewhere, and what is new is written, fenced by the term. One of these is of one
connection of a term: it reads first what others have written.

Only topics that groups name are asked for, unless a group has a pattern. Topics that nobody names
any more stay as they were last: who comes back to one reads on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zkcoord.core.events import Record
from zkcoord.core.model import Malformed
from zkcoord.topics.asking import SaidBroker, SaidCluster
from zkcoord.topics.judging import KnownTopic, TopicJudge, TopicNews
from zkcoord.topics.own_tree import (
    KafkaTree,
    decode_known_topic,
    decode_source,
    encode_known_topic,
    encode_said_broker,
    encode_source,
)
from zkcoord.zk.port import (
    AclEntry,
    Check,
    Children,
    Committed,
    Create,
    Delete,
    GetChildren,
    GetData,
    MultiResult,
    Node,
    Op,
    Port,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Rejected,
    SetData,
    ZkError,
)
from zkcoord.znodes.names import is_number, is_topic
from zkcoord.znodes.paths import parents

READS_MAX = 500
NEWS_PER_WRITE_MAX = 100
ABSENT_TIMES = 3
SOON_MS = 200

Names = frozenset[str] | None
Asking = Callable[[Names, Callable[[SaidCluster | None], None]], None]


@dataclass(frozen=True, slots=True)
class KeeperOptions:
    """How often brokers are asked, and with which security protocol clients reach them."""

    refresh_ms: int = 1_000
    protocol: str = "PLAINTEXT"


class TopicKeeper:
    """See the module. `ask(names, done)` asks brokers elsewhere and answers on the loop's thread,
    None where none answers; `wanted()` names the topics that groups name (None: all); `fenced` is
    told that another coordinator leads, `record` what people should know.
    """

    def __init__(
        self,
        port: Port,
        tree: KafkaTree,
        fence: Check,
        acl: tuple[AclEntry, ...],
        clock: Callable[[], int],
        ask: Asking,
        wanted: Callable[[], Names],
        record: Callable[[Record], None],
        fenced: Callable[[str], None],
        options: KeeperOptions = KeeperOptions(),
    ) -> None:
        self._port = port
        self._tree = tree
        self._fence = fence
        self._acl = acl
        self._clock = clock
        self._ask = ask
        self._wanted = wanted
        self._record = record
        self._fenced = fenced
        self._options = options
        self._dead = False
        self._judge: TopicJudge | None = None
        self._nodes: set[str] = set()  # of topics, whatever they say
        self._brokers: dict[int, bytes] = {}
        self._absent: dict[int, int] = {}
        self._cluster: str | None = None  # None: the nodes are not complete yet
        self._news: dict[str, TopicNews] = {}
        self._writing = self._asking = False
        self._ask_at_ms: int | None = None
        self._begin_at_ms: int | None = None
        self._other_told = ""

    @property
    def is_complete(self) -> bool:
        """Whether the nodes count: all that groups name is there."""
        return self._cluster is not None

    # the beginning

    def begin(self) -> None:
        """Read what others have written."""
        self._port.sync(self._synced)

    def lost(self) -> None:
        """The connection is gone: answers still to come mean nothing."""
        self._dead = True

    def _synced(self, result: ReadResult) -> None:
        tree = self._tree
        reads: list[Read] = [
            GetData(tree.source),
            GetChildren(tree.topics),
            GetChildren(tree.brokers),
        ]
        self._read(reads, self._listed)

    def _read(self, reads: Sequence[Read], done: Callable[[list[ReadAnswer]], None]) -> None:
        found: list[ReadAnswer] = []

        def read(result: ReadResult) -> None:
            if self._dead or not isinstance(result, ReadDone):
                return
            found.extend(result.answers)
            following()

        def following() -> None:
            part = reads[len(found) : len(found) + READS_MAX]
            if part:
                self._port.read(part, read)
            else:
                done(found)

        following()

    def _listed(self, answers: list[ReadAnswer]) -> None:
        source, topics, brokers = answers
        if isinstance(source, Node):
            cluster = decode_source(source.data)
            self._cluster = "" if isinstance(cluster, Malformed) else cluster
        names = [n for n in _names(topics) if is_topic(n)]
        ids = [int(n) for n in _names(brokers) if is_number(n)]
        self._nodes.update(names)
        paths = [*map(self._tree.topic, names), *map(self._tree.broker, ids)]

        def read(found: list[ReadAnswer]) -> None:
            self._begun(names, ids, found)

        self._read([GetData(path) for path in paths], read)

    def _begun(self, names: list[str], ids: list[int], found: list[ReadAnswer]) -> None:
        known: dict[str, KnownTopic] = {}
        for name, answer in zip(names, found, strict=False):
            if isinstance(answer, Node):
                topic = decode_known_topic(name, answer.data, answer.stat)
                if isinstance(topic, KnownTopic):
                    known[name] = topic
        for broker_id, answer in zip(ids, found[len(names) :], strict=True):
            if isinstance(answer, Node):
                self._brokers[broker_id] = answer.data
        self._judge = TopicJudge(known)
        tree = self._tree
        above = [*parents(tree.root), tree.root, tree.topics, tree.brokers]
        self._make(above)

    def _make(self, paths: list[str]) -> None:
        """One by one: a refusal says that it is there, or that this term is over."""
        if not paths:
            self._ask_at_ms = self._clock()
            return self.tick()
        op = Create(paths[0], b"", acl=self._acl)
        return self._write([op], lambda refused: self._make(paths[1:]))

    # asking

    def nudge(self) -> None:
        """Somebody names a topic that is not known: ask at once."""
        if self._ask_at_ms is not None:
            self._ask_at_ms = self._clock()

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""
        if self._begin_at_ms is not None:
            return self._begin_at_ms
        return None if self._dead or self._asking else self._ask_at_ms

    def tick(self) -> None:
        """Ask, if it is time."""
        now = self._clock()
        if self._begin_at_ms is not None and now >= self._begin_at_ms:
            self._begin_at_ms = None
            return self.begin()
        if self._dead or self._asking or self._ask_at_ms is None or now < self._ask_at_ms:
            return
        self._asking, names = True, self._wanted()

        def answered(said: SaidCluster | None) -> None:
            if not self._dead:
                self._asking = False
                self._answered(names, said)

        self._ask(names, answered)

    def _answered(self, names: Names, said: SaidCluster | None) -> None:
        now, judge = self._clock(), self._judge
        if judge is None:
            return  # it is read anew
        self._ask_at_ms = now + self._options.refresh_ms
        if said is None:
            return
        if self._cluster and said.cluster_id and said.cluster_id != self._cluster:
            return self._is_another(said.cluster_id)
        for one in judge.answered(now, said.answer):
            self._news[one.name] = one
        if judge.doubted:
            self._ask_at_ms = now + min(SOON_MS, self._options.refresh_ms)
        self._look_at_brokers(said)
        self._write_on(names, said)
        return None

    def _is_another(self, cluster_id: str) -> None:
        """What brokers of another cluster say is not believed."""
        if self._other_told != cluster_id:
            self._other_told = cluster_id
            detail = {"event": "another cluster", "cluster": cluster_id, "expected": self._cluster}
            self._record(Record("topics", "", detail))

    # writing

    def _look_at_brokers(self, said: SaidCluster) -> None:
        """Who is not named may be unknown to the one that was asked: it is gone when others, or the
        same one again, say so too.
        """
        ops: list[Op] = []
        for broker_id, broker in said.brokers.items():
            self._absent.pop(broker_id, None)
            data = encode_said_broker(broker, self._options.protocol)
            if self._brokers.get(broker_id) != data:
                ops.append(self._put_broker(broker, data))
        for broker_id in self._brokers.keys() - said.brokers.keys():
            self._absent[broker_id] = self._absent.get(broker_id, 0) + 1
            if self._absent[broker_id] >= ABSENT_TIMES:
                del self._absent[broker_id], self._brokers[broker_id]
                ops.append(Delete(self._tree.broker(broker_id)))
        for op in ops:
            self._write([op], lambda refused: self._again() if refused is not None else None)

    def _put_broker(self, broker: SaidBroker, data: bytes) -> Op:
        path, there = self._tree.broker(broker.broker_id), broker.broker_id in self._brokers
        self._brokers[broker.broker_id] = data
        return SetData(path, data, -1) if there else Create(path, data, acl=self._acl)

    def _write_on(self, names: Names, said: SaidCluster) -> None:
        if self._writing:
            return
        if not self._news:
            return self._complete(names, said)
        batch = dict(list(self._news.items())[:NEWS_PER_WRITE_MAX])
        ops = [op for one in batch.values() for op in self._ops(one)]
        self._writing = True

        def written(refused: Rejected | None) -> None:
            self._writing = False
            if refused is not None:
                return self._again()
            for name, one in batch.items():
                (self._nodes.discard if one.topic.gone else self._nodes.add)(name)
                if self._news.get(name) is one:
                    del self._news[name]
            return self._write_on(names, said)

        if ops:
            return self._write(ops, written)
        return written(None)

    def _ops(self, one: TopicNews) -> list[Op]:
        path, there = self._tree.topic(one.name), one.name in self._nodes
        data = encode_known_topic(one.topic)
        delete: list[Op] = [Delete(path)] if there else []
        if one.topic.gone:
            return delete
        if there and not one.anew:
            return [SetData(path, data, -1)]
        return [*delete, Create(path, data, acl=self._acl)]

    def _again(self) -> None:
        """Somebody else writes there: what is there is read anew, after a while."""
        self._nodes.clear()
        self._news.clear()
        self._brokers.clear()
        self._ask_at_ms, self._judge = None, None
        self._begin_at_ms = self._clock() + self._options.refresh_ms

    def _complete(self, names: Names, said: SaidCluster) -> None:
        """Once all that groups name has been asked for the nodes count."""
        answered = said.answer.topics.keys() | said.answer.missing
        if self._cluster is not None or (names is not None and not names <= answered):
            return
        source = Create(self._tree.source, encode_source(said.cluster_id), acl=self._acl)

        def made(refused: Rejected | None) -> None:
            if refused is None:
                self._cluster = said.cluster_id
                self._record(
                    Record("topics", "", {"event": "from Kafka", "cluster": said.cluster_id})
                )

        self._write([source], made)

    def _write(self, ops: Sequence[Op], done: Callable[[Rejected | None], None]) -> None:
        def ended(result: MultiResult) -> None:
            match result:
                case _ if self._dead:
                    return
                case Committed():
                    done(None)
                case Rejected(0, ZkError.BAD_VERSION | ZkError.NO_NODE):
                    self._fenced("another epoch is in force")
                case Rejected():
                    done(Rejected(result.index - 1, result.error))
                case _:
                    pass  # whoever reads next knows

        self._port.multi([self._fence, *ops], ended)


def _names(answer: ReadAnswer) -> tuple[str, ...]:
    return answer.names if isinstance(answer, Children) else ()
