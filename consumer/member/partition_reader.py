"""Reading what a member needs to know of partitions: its registration, one command, topics, owner
nodes and offsets, in as few requests as fit.

Commands are read before owner nodes (in the same request). The parents of owner and offset nodes
are made on the way where they are missing, so that a start ack never fails for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from consumer.core.events import PartitionReading, PartitionsRead, ReadPartitions, Whose
from consumer.core.topic_incarnations import TopicNote
from consumer.member.joining.missing_nodes import make_missing, with_parents
from zkcoord.core.model import Malformed, TopicPartition
from zkcoord.zk.port import (
    READS_PER_REQUEST_MAX,
    AclEntry,
    Children,
    Denied,
    GetChildren,
    GetData,
    Missing,
    Node,
    Port,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
)
from zkcoord.znodes import codec
from zkcoord.znodes.codec import OffsetsOf
from zkcoord.znodes.paths import Layout


class PartitionReader:
    """Answers one `ReadPartitions`; `done` is called once, or never when the connection is lost.
    `made` is the caller's memory of topics whose parents exist.
    """

    def __init__(
        self,
        port: Port,
        session_id: int,
        layout: Layout,
        group: str,
        name: str,
        made: set[str],
        acl: tuple[AclEntry, ...],
        clock: Callable[[], int],
        done: Callable[[PartitionsRead], None],
    ) -> None:
        self.port = port
        self.session_id = session_id
        self.layout = layout
        self.group = group
        self.name = name
        self.made = made
        self.acl = acl
        self.clock = clock
        self.done = done
        self.answers: list[ReadAnswer] = []
        # By partition what was read of the metadata beside its offset.
        self.beside: dict[TopicPartition, ReadAnswer] = {}

    def read(self, ask: ReadPartitions) -> None:
        """Sync if asked, make parents if needed, then read."""
        if ask.sync:
            self.port.sync(lambda r: self._parents(ask) if isinstance(r, ReadDone) else None)
        else:
            self._parents(ask)

    def _parents(self, ask: ReadPartitions) -> None:
        if ask.sync:
            self.made.clear()
        topics = sorted({tp.topic for tp in ask.partitions} - self.made)
        paths = with_parents(
            path
            for t in topics
            for path in (
                self.layout.owner_topic(self.group, t),
                self.layout.offset_topic(self.group, t),
            )
        )
        self._parents_read(ask, topics, paths, 0, [])

    def _parents_read(
        self,
        ask: ReadPartitions,
        topics: Sequence[str],
        paths: Sequence[str],
        at: int,
        lacking: list[str],
    ) -> None:
        if at >= len(paths):
            self._make(ask, topics, lacking)
            return
        part = paths[at : at + READS_PER_REQUEST_MAX]

        def answered(result: ReadResult) -> None:
            if isinstance(result, ReadDone):
                lacking.extend(
                    p for p, a in zip(part, result.answers, strict=False) if isinstance(a, Missing)
                )
                self._parents_read(ask, topics, paths, at + len(part), lacking)

        self.port.read([GetData(p) for p in part], answered)

    def _make(self, ask: ReadPartitions, topics: Sequence[str], lacking: list[str]) -> None:
        def made() -> None:
            self.made.update(topics)
            self._read(ask)

        make_missing(self.port, lacking, self.acl, made)

    def _read(self, ask: ReadPartitions) -> None:
        lay, group = self.layout, self.group
        reads: list[Read] = [
            GetData(lay.registration(group, self.name)),
            GetData(lay.channel(group, self.name)),
        ]
        if ask.command:
            reads.append(GetData(lay.command(group, self.name, ask.command)))
        reads.append(GetChildren(lay.commit_metadata_root(group)))
        for topic in ask.topics:
            reads += [GetData(lay.offset_topic(group, topic)), GetData(lay.topic(topic))]
        for tp in ask.partitions:
            reads += [GetData(lay.owner(group, tp)), GetData(lay.offset(group, tp))]
        self._next(ask, reads)

    def _next(self, ask: ReadPartitions, reads: Sequence[Read]) -> None:
        if not reads:
            self._read_metadata(ask)
            return
        part, rest = reads[:READS_PER_REQUEST_MAX], reads[READS_PER_REQUEST_MAX:]

        def answered(result: ReadResult) -> None:
            if isinstance(result, ReadDone):
                self.answers.extend(result.answers)
                self._next(ask, rest)

        self.port.read(part, answered)

    def _read_metadata(self, ask: ReadPartitions) -> None:
        """What stands beside the offsets, where the group has anything of these topics."""
        topics = self.answers[3 if ask.command else 2]
        noted = set(topics.names) if isinstance(topics, Children) else set()
        self._next_metadata(ask, [tp for tp in ask.partitions if tp.topic in noted])

    def _next_metadata(self, ask: ReadPartitions, partitions: Sequence[TopicPartition]) -> None:
        if not partitions:
            self.done(self._result(ask))
            return
        part = partitions[:READS_PER_REQUEST_MAX]

        def answered(result: ReadResult) -> None:
            if isinstance(result, ReadDone):
                self.beside.update(zip(part, result.answers, strict=False))
                self._next_metadata(ask, partitions[len(part) :])

        self.port.read(
            [GetData(self.layout.commit_metadata(self.group, tp)) for tp in part], answered
        )

    def _result(self, ask: ReadPartitions) -> PartitionsRead:
        answers = iter(self.answers)
        registration, channel = next(answers), next(answers)
        # without its channel nobody can command it
        mine = (
            isinstance(registration, Node)
            and registration.stat.ephemeral_owner == self.session_id
            and isinstance(channel, Node)
        )
        incarnation = registration.stat.czxid if isinstance(registration, Node) and mine else None
        command = isinstance(next(answers), Node) if ask.command else False
        next(answers)
        topics = [(topic, next(answers), next(answers)) for topic in ask.topics]
        beside = {
            topic: beside_of(topic, said) for topic, said, _ in topics if isinstance(said, Node)
        }
        now = {
            topic: found
            for topic, _, node in topics
            if (found := _incarnation(topic, node, ask.topics[topic])) is not None
        }
        holdings = {tp: self._holding(tp, next(answers), next(answers)) for tp in ask.partitions}
        return PartitionsRead(self.clock(), ask.token, incarnation, command, holdings, beside, now)

    def _holding(
        self, tp: TopicPartition, owner: ReadAnswer, offset: ReadAnswer
    ) -> PartitionReading:
        whose = Whose.NOBODY if isinstance(owner, Missing) else Whose.FOREIGN
        if isinstance(owner, Node) and owner.stat.ephemeral_owner == self.session_id:
            whose = Whose.MINE
        beside = self.beside.get(tp)
        noted = isinstance(beside, Node)
        if isinstance(offset, Denied):
            path = self.layout.offset(self.group, tp)
            hidden = Malformed("offset", path, "ZooKeeper does not let this client read it")
            return PartitionReading(whose, hidden, None, noted=noted)
        if not isinstance(offset, Node):
            return PartitionReading(whose, None, None, noted=noted)
        value = codec.decode_offset(self.layout.offset(self.group, tp), offset.data)
        return PartitionReading(
            whose,
            value,
            offset.stat.version,
            offset.stat.mzxid,
            metadata_of(tp, value, beside),
            noted,
            beside.stat.mzxid if isinstance(beside, Node) else 0,
        )


def metadata_of(tp: TopicPartition, offset: int | Malformed, beside: ReadAnswer | None) -> str:
    """What was committed beside this offset of a partition; "" for nothing, or nothing that can be
    read.
    """
    if not isinstance(beside, Node):
        return ""
    said = codec.decode_commit_metadata(str(tp), beside.data)
    return "" if isinstance(said, Malformed) else said.beside(offset)


def _incarnation(topic: str, answer: ReadAnswer, meant: str) -> str | None:
    """Which incarnation a topic is ("": it does not exist), None where it cannot be told. Mostly
    the one that is meant: then its node, which may name thousands of partitions, is not decoded.
    """
    if not isinstance(answer, Node):
        return "" if isinstance(answer, Missing) else None
    if meant.partition(".")[0] == str(answer.stat.czxid):
        return meant
    value = codec.decode_topic(topic, answer.data, answer.stat)
    return None if isinstance(value, Malformed) else value.incarnation


def beside_of(topic: str, node: Node) -> TopicNote | Malformed:
    """What the node offsets/[topic] says of the offsets below it."""
    value = codec.decode_incarnation(topic, node.data)
    if isinstance(value, Malformed):
        return value
    said = value if isinstance(value, OffsetsOf) else OffsetsOf("")
    return TopicNote(said.incarnation, said.newer_only, node.stat.version, node.stat.mzxid)
