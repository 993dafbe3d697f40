"""Reading both stores: ZooKeeper in batches of requests, Kafka with one request for many groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from migrations.model import GroupNow
from zkcoord.admin.common import refuse_led
from zkcoord.admin.kafka_groups import KafkaGroups
from zkcoord.admin.offsets.log_offsets import LogOffsets
from zkcoord.admin.offsets.reset_plan import Log
from zkcoord.admin.offsets.stored import OffsetsParent, StoredOffset
from zkcoord.check.reader import GroupSeen, read_groups
from zkcoord.check.registration_rules import judge
from zkcoord.core.model import Topic, TopicPartition
from zkcoord.core.shared import KEEPER
from zkcoord.errors import RefusedError
from zkcoord.zk.port import GetData, Node
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.led_groups import led_views
from zkcoord.znodes import codec, names
from zkcoord.znodes.codec import Vacant
from zkcoord.znodes.paths import LAYOUTS, TOPICS

NOTHING = OffsetsParent(Vacant(), None, 0)


class Stores:
    """Where groups are read. For one thread."""

    def __init__(self, client: SyncClient, kafka: KafkaGroups, ends: LogOffsets) -> None:
        self.client = client
        self.kafka = kafka
        self.ends = ends

    def read(self, wanted: Sequence[str]) -> list[GroupNow]:
        """These groups as they are now, in this order. Raises `UnavailableError`,
        `RefusedError`.
        """
        committed = self.kafka.committed(wanted)
        theirs = self.kafka.live_members(wanted)
        self.client.sync()
        seen = {group.name: group for batch in read_groups(self.client, wanted) for group in batch}
        topics = self._topics(
            {at.topic for group in seen.values() for at in group.offsets}
            | {tp.topic for offsets in committed.values() for tp in offsets}
        )
        logs = self._logs(
            {tp for offsets in committed.values() for tp in offsets}
            | {tp for group in seen.values() for tp in _partitions(group, topics)},
            topics,
        )
        led = self._led(wanted)
        return [
            replace(
                _now(seen[name], committed.get(name, {}), theirs.get(name, ()), topics, logs),
                led=led.get(name, ""),
            )
            for name in wanted
        ]

    def _led(self, wanted: Sequence[str]) -> dict[str, str]:
        """Which of them clients lead, and of which nobody knows it."""
        found: dict[str, str] = {}
        for layout in LAYOUTS.values():
            for name in led_views(self.client, layout, frozenset(wanted)):
                try:
                    refuse_led(self.client, layout, name)
                except RefusedError as error:
                    found[name] = str(error)
        return found

    def _topics(self, wanted: set[str]) -> dict[str, Topic]:
        fitting = sorted(filter(names.is_topic, wanted))
        found: dict[str, Topic] = {}
        for name, answer in zip(
            fitting,
            self.client.see([GetData(f"{TOPICS}/{name}") for name in fitting]),
            strict=False,
        ):
            topic = (
                codec.decode_topic(name, answer.data, answer.stat)
                if isinstance(answer, Node) and answer.data
                else None
            )
            if isinstance(topic, Topic):
                found[name] = topic
        return found

    def _logs(
        self, tps: set[TopicPartition], topics: Mapping[str, Topic]
    ) -> dict[TopicPartition, Log]:
        known = [
            tp for tp in tps if tp.topic in topics and tp.partition in topics[tp.topic].partitions
        ]
        starts, ends = self.ends.starts_of(known), self.ends.of(known)
        return {tp: Log(starts[tp], ends[tp]) for tp in known if tp in starts and tp in ends}


def _partitions(
    group: GroupSeen, topics: Mapping[str, Topic]
) -> dict[TopicPartition, StoredOffset]:
    """Its offsets, of partitions that exist."""
    found: dict[TopicPartition, StoredOffset] = {}
    for at in group.offsets:
        topic = topics.get(at.topic)
        if topic is None or not names.is_number(at.child) or int(at.child) not in topic.partitions:
            continue
        value = codec.decode_offset(at.path, at.node.data)
        found[TopicPartition(at.topic, int(at.child))] = StoredOffset(
            value if isinstance(value, int) else None,
            at.node.stat.version,
            at.node.stat.mzxid,
            None,
            False,
            _beside(group, at.topic),
        )
    return found


def _beside(group: GroupSeen, topic: str) -> OffsetsParent:
    node = group.beside.get(topic)
    return (
        NOTHING
        if node is None
        else OffsetsParent(
            codec.decode_incarnation(topic, node.data), node.stat.version, node.stat.mzxid
        )
    )


def _now(
    group: GroupSeen,
    kafka: Mapping[TopicPartition, int],
    theirs: tuple[str, ...],
    topics: Mapping[str, Topic],
    logs: Mapping[TopicPartition, Log],
) -> GroupNow:
    stored = _partitions(group, topics)
    ours: list[str] = []
    old: list[str] = []
    for members in group.members.values():
        for name, (_, node) in members.items():
            if name == KEEPER:
                continue
            subscribed = judge(name, node.data, node.stat).subscribed
            (ours if subscribed is not None and subscribed.ours else old).append(name)
    return GroupNow(
        name=group.name,
        stored=stored,
        beside={topic: _beside(group, topic) for topic in group.beside},
        stray=tuple(
            f"{at.topic}/{at.child}"
            for at in group.offsets
            if not names.is_number(at.child)
            or TopicPartition(at.topic, int(at.child)) not in stored
        ),
        kafka=dict(kafka),
        old=tuple(sorted(old)),
        ours=tuple(sorted(ours)),
        theirs=theirs,
        owned=len(group.owners),
        both_layouts=len(group.members) > 1,
        topics=topics,
        logs=logs,
        unreadable=(*group.denied, *(path for path, _ in group.large)),
    )
