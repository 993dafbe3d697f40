"""Keeps the nodes of our own (`own_nodes`) as a cluster's topics and brokers are: brokers are asked
again and again, elsewhere, and what is new is written, fenced by the term. One of these is of one
connection of a term: it reads first what others have written.

Topics that groups name are asked for, all topics where a group has a pattern, and all once in a
while, so that what tools are asked about is there. What has to be said again is asked for by name
between these. Asking takes a bounded share of the time, however many topics there are, and what is
done with an answer of all is in proportion to what differs from the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice

from zkcoord.core.events import Record
from zkcoord.core.value_type import value
from zkcoord.topics.asking import Asking, SaidBroker, SaidCluster
from zkcoord.topics.fenced_port import FencedPort
from zkcoord.topics.first_look import FirstLook, first_look, missed, unchanged
from zkcoord.topics.judging import KnownTopic, TopicJudge, TopicNews
from zkcoord.topics.options import TopicOptions
from zkcoord.topics.own_nodes import (
    encode_known_topic,
    encode_said_broker,
    servers_of,
)
from zkcoord.zk.port import (
    MULTI_BYTES_MAX,
    Create,
    Delete,
    GetData,
    Missing,
    Node,
    Op,
    ReadAnswer,
    Rejected,
    SetData,
    ZkError,
    encoded_bytes,
)
from zkcoord.zk.term.topic_source import Names
from zkcoord.znodes.cluster_identity import encode_source
from zkcoord.znodes.cluster_tree import ClusterTree

NEWS_PER_WRITE_MAX = 100
ABSENT_TIMES = 3
SOON_MS = 200
AT_ONCE_MS = 50
ALL_SOON_MS, ALL_EVERY_MS = 2_000, 60_000
PAUSE_PER_ALL = 200
"""All topics are asked for again after so many times the work that it was, between these."""
NAMED_PER_ASK_MAX = 1_000
NO_ANSWER = "no broker answers: what is new of topics is not heard"
REFUSED = "a node cannot be written"
PAUSE_PER_WORK = 20
"""For a millisecond of work nobody is asked for so many."""
WORK_AHEAD_MS = 2_000
"""So much work may be done before that, as with the first answer of all topics."""
PAUSE_PER_WAIT = 2
"""For a millisecond that answers take nobody is asked for so many: brokers work at them, too."""
WRITE_BYTES_MAX = MULTI_BYTES_MAX // 2
SEEN_EVERY_MS = 5_000
HELD_MS, HELD_MAX_MS = 10_000, 300_000
"""For so long a node is left alone that cannot be written, and then for twice as long."""


class TopicKeeper:
    """See the module. `ask` asks brokers elsewhere and answers on the loop's thread; `wanted()`
    names the topics that groups name (None: all); `record` takes what people should know, `another`
    that a broker is of another cluster.
    """

    def __init__(
        self,
        port: FencedPort,
        tree: ClusterTree,
        clock: Callable[[], int],
        ask: Asking,
        wanted: Callable[[], Names],
        record: Callable[[Record], None],
        options: TopicOptions,
    ) -> None:
        self._port = port
        self._tree = tree
        self._clock = clock
        self._ask = ask
        self._wanted = wanted
        self._record = record
        self._options = options
        self._judge: TopicJudge | None = None
        self._nodes: set[str] = set()  # of topics, whatever they say
        self._brokers: dict[int, bytes] = {}
        self._absent: dict[int, int] = {}
        self._expected = ""
        self._cluster: str | None = None  # None: the nodes are not complete yet
        self._look: FirstLook | None = None  # as long as they are not
        self._news: dict[str, TopicNews] = {}
        self._writing = self._asking = False
        self._singly = self._is_refused = False
        self._held: dict[str, _LeftAlone] = {}  # nodes that cannot be written
        self._see = _LeftAlone(0, 0)  # again that nodes are there
        self._ask_at_ms: int | None = None
        self._begin_at_ms: int | None = None
        self._look_at_ms: int | None = None
        self._all_at_ms: int | None = None
        self._asked_all_ms = 0
        self._took_ms = 0
        self._share = _WorkShare()
        self._unmentioned: list[str] = []
        self._hidden: set[str] = set()  # of which nobody says anything
        self._strange: frozenset[str] = frozenset()
        self._other_told = ""
        self.problem = ""
        """Why nothing new is heard; "" where it is."""
        self.uncounted: Callable[[], None] = self.begin
        """What is done where somebody has deleted the node by which ours count."""

    @property
    def is_complete(self) -> bool:
        """Whether the nodes count: all topics are there."""
        return self._cluster is not None

    # the beginning

    def begin(self) -> None:
        """Read what others have written."""
        first_look(self._port, self._tree, self._begun)

    def _begun(self, look: FirstLook) -> None:
        self._look = look if look.cluster is None else None
        self._cluster, self._expected = look.cluster, look.expected
        self._nodes.update(look.written)
        self._brokers.update(look.brokers)
        self._judge = TopicJudge(look.known)
        self._port.make(self._tree.above(), self._made)

    def _made(self) -> None:
        self._ask_at_ms = self._clock()
        self._all_at_ms = self._ask_at_ms + ALL_SOON_MS if self.is_complete else None
        self.tick()

    # asking

    def groups_changed(self) -> None:
        """Somebody may name a topic that is not known, which is asked for at once."""
        if self._look_at_ms is None:
            self._look_at_ms = self._clock() + AT_ONCE_MS

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""
        if self._begin_at_ms is not None:
            return self._begin_at_ms
        if self._port.dead or self._asking or self._ask_at_ms is None:
            return None
        return min(self._ask_at_ms, self._look_at_ms or self._ask_at_ms)

    def tick(self) -> None:
        """Ask, if it is time."""
        now = self._clock()
        if self._begin_at_ms is not None and now >= self._begin_at_ms:
            self._begin_at_ms = None
            return self.begin()
        if self._port.dead or self._asking or self._ask_at_ms is None or self._judge is None:
            return
        if self._look_at_ms is not None and now >= self._look_at_ms:
            self._look_at_ms = None
            names = self._wanted() or frozenset()
            unknown = frozenset(name for name in names if name not in self._judge.known)
            if not unknown <= self._strange:
                self._ask_at_ms = now
            self._strange = unknown
        if now < self._ask_at_ms:
            return
        self._asking, asked = True, self._names(now)

        def answered(said: SaidCluster | None) -> None:
            if not self._port.dead:
                self._asking = False
                self._answered(now, asked, said)

        self._ask(asked, servers_of(self._brokers.values(), self._options.protocol), answered)

    def _names(self, now: int) -> Names:
        wanted = self._wanted()
        if self._all_at_ms is None and self._unmentioned:
            return frozenset(self._unmentioned[:NAMED_PER_ASK_MAX])
        if self._all_at_ms is None or now >= self._all_at_ms:
            return None
        if wanted is None and now >= self._asked_all_ms + self._options.refresh_ms:
            return None
        if self._unmentioned:
            return frozenset(self._unmentioned[:NAMED_PER_ASK_MAX])
        return wanted

    def _answered(self, asked_ms: int, names: Names, said: SaidCluster | None) -> None:
        now, judge = self._clock(), self._judge
        if judge is None:
            return  # it is read anew
        if said is None:
            self.problem = NO_ANSWER
            self._ask_at_ms = now + self._options.refresh_ms
            return
        self._ask_at_ms = now + self._options.refresh_ms
        expected = self._cluster or self._expected
        if expected and said.cluster_id and said.cluster_id != expected:
            return self._is_another(said.cluster_id, expected)
        self.problem = ""
        topics = said.answer.topics
        for one in judge.answered(now, said.answer, are_found=not self.is_complete):
            self._news[one.name] = one
        if names is None:
            pause_ms = max(ALL_SOON_MS, said.work_ms * PAUSE_PER_ALL)
            self._all_at_ms = now + min(ALL_EVERY_MS, pause_ms) if self.is_complete else None
            self._asked_all_ms = asked_ms
            self._unmentioned = [one for one in judge.unmentioned() if one not in self._hidden]
        else:
            silent = {n for n in names if n in judge.known and n not in topics}
            self._hidden |= silent - said.answer.missing
            self._unmentioned = [one for one in self._unmentioned if one not in names]
        self._hidden = {name for name in self._hidden if name not in topics}
        since = self._asked_all_ms if self._wanted() is None else asked_ms
        self._ask_at_ms = max(now, since + self._options.refresh_ms)
        if judge.doubted or self._unmentioned:
            self._ask_at_ms = min(self._ask_at_ms, now + SOON_MS)
            self._unmentioned = self._unmentioned or sorted(judge.doubted)
        took, self._took_ms = min(self._took_ms, now - asked_ms), now - asked_ms
        self._ask_at_ms = max(
            self._ask_at_ms,
            now + PAUSE_PER_WAIT * took,  # not if only this one was slow
            self._share.after(now, said.work_ms),
        )
        self._look_at_brokers(said)
        self._write_on(names, said)
        self._see_what_is_there(now)
        return None

    def _is_another(self, cluster_id: str, expected: str) -> None:
        """What brokers of another cluster say is not believed."""
        self.problem = f"brokers of cluster {cluster_id} answer, and not of {expected}"
        if self._other_told != cluster_id:
            self._other_told = cluster_id
            detail = {"event": "another cluster", "cluster": cluster_id, "expected": expected}
            self._record(Record("topics", "", detail))

    # what others do to the nodes

    def _see_what_is_there(self, now: int) -> None:
        """Somebody may have deleted nodes: what is there is read anew then, at first soon."""
        if not self.is_complete or self._writing or now < self._see.until_ms:
            return
        self._see = _LeftAlone(now + SEEN_EVERY_MS, self._see.for_ms)
        expected = [len(self._nodes), len(self._brokers)]

        def seen(answers: list[ReadAnswer]) -> None:
            source, *above = answers
            found = [one.stat.num_children if isinstance(one, Node) else -1 for one in above]
            if not isinstance(source, Missing) and found == expected:
                self._see = _LeftAlone(self._see.until_ms, 0)
            elif self._judge is not None:
                self._see = self._see.after_another(self._clock())
                self._again()
                if isinstance(source, Missing):
                    self._cluster = self._begin_at_ms = None
                    self.uncounted()

        paths = (self._tree.source, self._tree.topics, self._tree.brokers)
        self._port.read([GetData(path) for path in paths], seen)

    # writing

    def _look_at_brokers(self, said: SaidCluster) -> None:
        """Who is not named may be unknown to the one that was asked: it is gone when others, or the
        same one again, say so too.
        """
        ops: list[SetData | Create | Delete] = []
        for broker_id, broker in said.brokers.items():
            self._absent.pop(broker_id, None)
            data = encode_said_broker(broker, self._options.protocol)
            if self._brokers.get(broker_id) != data and self._may_write(
                self._tree.broker(broker_id)
            ):
                ops.append(self._put_broker(broker, data))
        for broker_id in self._brokers.keys() - said.brokers.keys():
            if not self._may_write(self._tree.broker(broker_id)):
                continue
            self._absent[broker_id] = self._absent.get(broker_id, 0) + 1
            if self._absent[broker_id] >= ABSENT_TIMES:
                del self._absent[broker_id], self._brokers[broker_id]
                ops.append(Delete(self._tree.broker(broker_id)))
        for op in ops:
            self._port.write([op], partial(self._wrote_broker, op.path))

    def _wrote_broker(self, path: str, refused: Rejected | None) -> None:
        if refused is None:
            self._held.pop(path, None)
        else:
            self._hold(path, refused)
            self._again()

    def _put_broker(self, broker: SaidBroker, data: bytes) -> SetData | Create:
        path, there = self._tree.broker(broker.broker_id), broker.broker_id in self._brokers
        self._brokers[broker.broker_id] = data
        return SetData(path, data, -1) if there else Create(path, data, acl=self._port.acl)

    def _write_on(self, names: Names, said: SaidCluster) -> None:
        """What is refused keeps nothing else from being written: each topic is written by itself
        then.
        """
        if self._writing:
            return
        if not self._news and not self._is_refused:
            return self._complete(names, said)
        batch, ops = self._batch()
        if not batch:
            self._singly = False
            return self._again() if self._is_refused else None
        self._writing = True

        def written(refused: Rejected | None) -> None:
            self._writing = False
            if refused is not None and len(batch) > 1:
                self._singly = True
                return self._write_on(names, said)
            if refused is not None:
                self._is_refused = True
                for name in batch:
                    self._hold(self._tree.topic(name), refused)
                    self._news.pop(name, None)
                return self._write_on(names, said)
            for name, one in batch.items():
                self._held.pop(self._tree.topic(name), None)
                (self._nodes.discard if one.topic.gone else self._nodes.add)(name)
                if self._look is not None:
                    self._look.wrote(name, one.topic)
                if self._news.get(name) is one:
                    del self._news[name]
            return self._write_on(names, said)

        if ops:
            return self._port.write(ops, written)
        return written(None)

    def _batch(self) -> tuple[dict[str, TopicNews], list[Op]]:
        """What fits into one write."""
        batch: dict[str, TopicNews] = {}
        ops: list[Op] = []
        size = 0
        may = (it for it in self._news.items() if self._may_write(self._tree.topic(it[0])))
        for name, one in islice(may, 1 if self._singly else NEWS_PER_WRITE_MAX):
            its = self._ops(one)
            size += sum(map(encoded_bytes, its))
            if batch and size > WRITE_BYTES_MAX:
                break
            batch[name] = one
            ops += its
        return batch, ops

    def _ops(self, one: TopicNews) -> list[Op]:
        path, there = self._tree.topic(one.name), one.name in self._nodes
        data = encode_known_topic(one.topic)
        delete: list[Op] = [Delete(path)] if there else []
        if one.topic.gone:
            return delete
        if there and not one.anew:
            return [SetData(path, data, -1)]
        return [*delete, Create(path, data, acl=self._port.acl)]

    def _may_write(self, path: str) -> bool:
        held = self._held.get(path)
        return held is None or self._clock() >= held.until_ms

    def _hold(self, path: str, refused: Rejected) -> None:
        """At first only until what is there has been read anew: somebody else wrote it. What cannot
        be written then either is left alone for longer, so that all else can be heard of meanwhile.
        """
        held = self._held.get(path)
        self._held[path] = _LeftAlone(0, 0) if held is None else held.after_another(self._clock())
        if refused.error is ZkError.NOT_EMPTY:
            self._port.clear(path, lambda: None)
        if held is not None and not held.for_ms:
            detail = {"event": REFUSED, "path": path}
            self._record(Record("topics", "", {**detail, "why": refused.error.value}))

    def _again(self) -> None:
        """Somebody else writes there: what is there is read anew, after a while."""
        self._is_refused = False
        self._nodes.clear()
        self._news.clear()
        self._brokers.clear()
        self._ask_at_ms, self._judge = None, None
        self._begin_at_ms = self._clock() + self._options.refresh_ms

    def _complete(self, names: Names, said: SaidCluster) -> None:
        """Once there are all topics the nodes count, if nothing is doubted."""
        judge, look = self._judge, self._look
        if names is not None or judge is None or look is None:
            return
        if judge.doubted or self._unmentioned:
            return
        self._news.update(look.outdated(judge.known))
        if self._news:
            return self._write_on(names, said)
        self._writing = True

        def looked(is_so: bool) -> None:
            self._writing = False
            if is_so:
                self._count(said.cluster_id)
            else:
                self._again()

        return unchanged(self._port, look, looked)

    def _count(self, cluster_id: str) -> None:
        source = Create(self._tree.source, encode_source(cluster_id), acl=self._port.acl)

        def made(refused: Rejected | None) -> None:
            look, self._look = self._look, None
            if refused is None and look is not None:
                self._cluster = cluster_id
                self._all_at_ms = self._clock() + ALL_SOON_MS
                self._record(Record("topics", "", {"event": "from Kafka", "cluster": cluster_id}))
                missed(self._port, look, self._see_what_was_missed)
            else:
                self._again()

        self._port.write([source], made)

    def _see_what_was_missed(self, topics: Mapping[str, KnownTopic]) -> None:
        """A topic that was made again while ours began to count is what it was to everybody before;
        it is not waited for brokers to say so.
        """
        for name, topic in topics.items():
            news = self._judge.seen(name, topic) if self._judge is not None else None
            if news is not None:
                self._news[name] = news
        self._ask_at_ms = self._clock()


@value
class _LeftAlone:
    """Until when, and for how long a node is left alone."""

    until_ms: int
    for_ms: int

    def after_another(self, now: int) -> _LeftAlone:
        """It could not be written again."""
        for_ms = min(HELD_MAX_MS, 2 * self.for_ms or HELD_MS)
        return _LeftAlone(now + for_ms, for_ms)


class _WorkShare:
    """Work that time has not yet made up for."""

    def __init__(self) -> None:
        self._owed_ms = 0.0
        self._seen_ms = 0

    def after(self, now: int, work_ms: int) -> int:
        """So much was done now: from when on there may be more."""
        paid = (now - self._seen_ms) / PAUSE_PER_WORK
        self._owed_ms = max(0.0, self._owed_ms - paid) + work_ms
        self._seen_ms = now
        return now + int(max(0.0, self._owed_ms - WORK_AHEAD_MS) * PAUSE_PER_WORK)
