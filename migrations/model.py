"""What a migration looks at, and what it wants to write: values, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zkcoord.admin.offsets.reset_plan import Log
from zkcoord.admin.offsets.stored import OffsetsParent, StoredOffset
from zkcoord.core.model import Topic, TopicPartition

NAMES_SHOWN_MAX = 5


@dataclass(frozen=True)
class GroupNow:
    """One group in both stores. `stored` holds every offset node of a partition that exists
    (`StoredOffset.offset` None: what it holds is no number); `stray` are offset nodes of nothing
    that exists.

    `old` and `ours` are the members registered in ZooKeeper, old consumers' and zkcoord's, `owned`
    how many owner nodes there are, `theirs` the live members of Kafka's own protocol.
    `both_layouts`: members in both of zkcoord's layouts. `led`: that clients lead it, or that
    nobody knows whether they do, as a sentence. `logs` are those that brokers answered for.
    """

    name: str
    stored: Mapping[TopicPartition, StoredOffset] = field(default_factory=dict)
    beside: Mapping[str, OffsetsParent] = field(default_factory=dict)
    stray: tuple[str, ...] = ()
    kafka: Mapping[TopicPartition, int] = field(default_factory=dict)
    old: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()
    owned: int = 0
    both_layouts: bool = False
    topics: Mapping[str, Topic] = field(default_factory=dict)
    logs: Mapping[TopicPartition, Log] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()
    led: str = ""

    def counts(self, tp: TopicPartition) -> bool:
        """Whether ZooKeeper has an offset of the topic as it is now. One written before the topic
        was made is of an earlier one, whoever forgot to say so.
        """
        stored, topic = self.stored.get(tp), self.topics.get(tp.topic)
        return (
            stored is not None
            and topic is not None
            and stored.counts(topic)
            and not self.earlier(tp)
        )

    def earlier(self, tp: TopicPartition) -> bool:
        """Whether ZooKeeper's offset is of an earlier topic of this name."""
        stored, topic = self.stored.get(tp), self.topics.get(tp.topic)
        if stored is None or topic is None or stored.offset is None:
            return False
        return not stored.counts(topic) or stored.written < topic.created

    def zookeeper(self) -> dict[TopicPartition, int]:
        """The offsets that count."""
        return {
            tp: stored.offset
            for tp, stored in sorted(self.stored.items())
            if stored.offset is not None and self.counts(tp)
        }


@dataclass(frozen=True, slots=True)
class ZkOffset:
    """An offset node: `after` None deletes it. `version` None: there is none yet."""

    tp: TopicPartition
    before: int | None
    after: int | None
    version: int | None


@dataclass(frozen=True, slots=True)
class ZkNote:
    """The data of the node above a topic's offsets: which topic they are of. `version` None: there
    is no such node yet.
    """

    topic: str
    before: str
    after: str
    version: int | None


@dataclass(frozen=True, slots=True)
class KafkaOffset:
    """An offset committed in Kafka: `after` None deletes it."""

    tp: TopicPartition
    before: int | None
    after: int | None


Change = ZkOffset | ZkNote | KafkaOffset


@dataclass(frozen=True)
class Choices:
    """What the operator has decided where a plan cannot. `highest`: of two offsets the higher one
    counts (old consumers with dual commit go by that). `allow_rewind`: the other store may go back.
    `off_by_one`: "correct" or "keep" what looks like the last processed offset ("": not decided).
    """

    highest: bool = False
    allow_rewind: bool = False
    off_by_one: str = ""


@dataclass(frozen=True)
class MigrationPlan:
    """What is to be done for a group. With `refusals` nothing is written. `live` are refusals of
    another kind: the plan would do, but somebody is at work. `same`: offsets that are as they
    should be.
    """

    group: str
    changes: tuple[Change, ...] = ()
    refusals: tuple[str, ...] = ()
    live: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    same: int = 0

    @property
    def reasons(self) -> tuple[str, ...]:
        """All that stands against it."""
        return (*self.refusals, *self.live)
