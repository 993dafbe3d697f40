"""Stored offsets with all that a conditional write of them needs: versions, owners, and which
incarnation of the topic they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zkcoord.core.model import Malformed, Owner, Topic, TopicPartition, same_incarnation
from zkcoord.core.value_type import value
from zkcoord.zk.port import GetData, Node, Read, ReadAnswer
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes import codec
from zkcoord.znodes.codec import OffsetsOf, Vacant
from zkcoord.znodes.paths import Layout

PARTITIONS_PER_READ = 300


@value
class OffsetsParent:
    """The parent of a topic's offsets: whose they are. `version` None: there is no such node."""

    value: OffsetsOf | Vacant | Malformed
    version: int | None
    written: int


@value
class StoredOffset:
    """One partition. `offset` None: none is stored, or none that can be read; `version` None: there
    is no node. `owned`: a session holds its owner node, whatever that says (a persistent one is
    nobody's); `written` is the transaction that wrote the offset.
    """

    offset: int | None
    version: int | None
    written: int
    owner: Owner | None
    owned: bool
    beside: OffsetsParent

    def counts(self, topic: Topic | None) -> bool:
        """Whether the offset belongs to the topic as it is now; one of a topic that was deleted and
        made again does not.
        """
        value = self.beside.value
        if self.offset is None or topic is None:
            return False
        if not isinstance(value, OffsetsOf):
            return True
        return same_incarnation(value.incarnation, topic.incarnation) and (
            not value.newer_only or self.written >= self.beside.written
        )


def read_stored(
    reader: SyncClient, layout: Layout, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, StoredOffset]:
    """What is stored of these partitions; each `PARTITIONS_PER_READ` of them are one snapshot,
    owner and offset together. Raises `UnavailableError`, `RefusedError`.
    """
    wanted = sorted(partitions)
    found: dict[TopicPartition, StoredOffset] = {}
    for start in range(0, len(wanted), PARTITIONS_PER_READ):
        found.update(_read(reader, layout, group, wanted[start : start + PARTITIONS_PER_READ]))
    return found


def _read(
    reader: SyncClient, layout: Layout, group: str, tps: Sequence[TopicPartition]
) -> dict[TopicPartition, StoredOffset]:
    topics = sorted({tp.topic for tp in tps})
    reads: list[Read] = [GetData(layout.offset_topic(group, topic)) for topic in topics]
    reads += [
        read
        for tp in tps
        for read in (GetData(layout.offset(group, tp)), GetData(layout.owner(group, tp)))
    ]
    answers = reader.see(reads)
    beside = {topic: _beside(topic, answer) for topic, answer in zip(topics, answers, strict=False)}
    pairs = iter(answers[len(topics) :])
    return {
        tp: _stored(tp, offset, owner, beside[tp.topic])
        for tp, offset, owner in zip(tps, pairs, pairs, strict=False)
    }


def _beside(topic: str, answer: ReadAnswer) -> OffsetsParent:
    return (
        OffsetsParent(
            codec.decode_incarnation(topic, answer.data), answer.stat.version, answer.stat.mzxid
        )
        if isinstance(answer, Node)
        else OffsetsParent(Vacant(), None, 0)
    )


def _stored(
    tp: TopicPartition, offset: ReadAnswer, owner: ReadAnswer, beside: OffsetsParent
) -> StoredOffset:
    holder = (
        codec.decode_owner(str(tp), owner.data, owner.stat) if isinstance(owner, Node) else None
    )
    value = codec.decode_offset(str(tp), offset.data) if isinstance(offset, Node) else None
    return StoredOffset(
        offset=value if isinstance(value, int) else None,
        version=offset.stat.version if isinstance(offset, Node) else None,
        written=offset.stat.mzxid if isinstance(offset, Node) else 0,
        owner=holder if isinstance(holder, Owner) else None,
        owned=isinstance(owner, Node) and bool(owner.stat.ephemeral_owner),
        beside=beside,
    )
