"""What many groups have stored in ZooKeeper, in a few rounds of large requests: who has offsets of
which topics, of which partitions, and what they are. One node that may not be read, or holds what
is no offset, leaves all others whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from zkcoord.core.model import (
    GroupMetadata,
    GroupState,
    Malformed,
    Topic,
    TopicPartition,
    same_incarnation,
)
from zkcoord.core.value_type import value
from zkcoord.health.window import StoredSeen
from zkcoord.zk.clock import boot_ms, wall_ms
from zkcoord.zk.port import Children, Denied, GetChildren, GetData, Node, Read, ReadAnswer
from zkcoord.zk.sync.beliefs import left_alone
from zkcoord.zk.sync.client import SyncClient, not_allowed
from zkcoord.zk.sync.group_snapshot import CHILDREN_LISTED_MAX, shown_state
from zkcoord.zk.sync.led_groups import led_doubts, led_views
from zkcoord.zk.sync.written import WrittenAnswer, WrittenNode, read_written
from zkcoord.znodes import codec, names
from zkcoord.znodes.codec import OffsetsOf
from zkcoord.znodes.paths import Layout

JUDGED_MAX = 200
OFFSETS_AT_ONCE = 10_000
"""Offsets that are read between two looks at the clock."""


@dataclass
class GroupStored:
    """What one look found of a group. `exists`: it has nodes; `paused`: by whom. `offsets` are
    those that count: of topics that exist, and not of one that was deleted and made again.
    `unreadable` says why for each that cannot be judged, `failures` what of the group could not be
    seen, `doubts` why it is not served, or why nobody knows who is in it.
    """

    exists: bool = False
    state: GroupState | None = None
    offsets: dict[TopicPartition, StoredSeen] = field(default_factory=dict)
    unreadable: dict[TopicPartition, str] = field(default_factory=dict)
    hidden: dict[TopicPartition, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    paused: str = ""


@value
class _OffsetsHead:
    """The parent of a group's offsets of one topic: whose they are, and since when."""

    incarnation: OffsetsOf | None
    written: int


class StoredOffsets:
    """Looks at what is stored. The wall clock is read once: how far this machine's clock goes
    from then on does not change what a node's time means.
    """

    def __init__(
        self,
        reader: SyncClient,
        layout: Layout,
        now_ms: Callable[[], int] = boot_ms,
        wall: Callable[[], int] = wall_ms,
        judges: bool = False,
    ) -> None:
        """`judges`: of few groups, who may write their nodes is asked."""
        self._reader = reader
        self._layout = layout
        self._now_ms = now_ms
        self._boot_of_wall = now_ms() - wall()
        self._judges = judges
        self._topics: dict[str, Topic | None] = {}

    def look(self, groups: Sequence[str]) -> dict[str, GroupStored]:
        """Each of these groups. Raises `UnavailableError` where ZooKeeper does not answer."""
        found = {group: GroupStored() for group in groups}
        self._reader.sync()
        with_offsets = self._heads(found)
        topics = self._listed(
            found, {(group,): self._layout.offsets(group) for group in with_offsets}
        )
        heads = self._topic_heads(found, topics)
        partitions = self._listed(
            found, {key: self._layout.offset_topic(*key) for key in heads}, of_topics=True
        )
        self._read_topics({topic for _, topic in heads})
        self._offsets(found, heads, partitions)
        return found

    def _judge(self, found: Mapping[str, GroupStored], led: Iterable[str]) -> None:
        """Which of them coordinators do not serve."""
        alone = left_alone(self._reader, self._layout, list(found))
        for group, why in {**led_doubts(self._reader, self._layout, led), **alone}.items():
            found[group].doubts = [f"no coordinator serves it: {why}"]

    def _heads(self, found: Mapping[str, GroupStored]) -> list[str]:
        """States, and who has offsets. A group is what its members are: of one that has none whom
        the coordinator assigns, what was decided counts where clients lead it.
        """
        layout = self._layout
        led = led_views(self._reader, layout, found)
        answers = iter(
            self._reader.read(
                [
                    GetData(path)
                    for group in found
                    for path in (layout.group(group), layout.ids(group), layout.offsets(group))
                ]
            )
        )
        with_offsets = []
        for group, stored in found.items():
            node, ids, offsets = next(answers), next(answers), next(answers)
            there = (node, ids, offsets)
            stored.exists = group in led or any(isinstance(one, (Node, Denied)) for one in there)
            stored.state, stored.paused = _state(group, node, ids)
            said = led.get(group)
            if isinstance(said, Malformed):
                bad = f"what is said of clients that lead it counts for nothing: {said.reason}"
                stored.doubts.append(bad)
            if group in led and not _registered(ids):
                view = led[group]
                known = None if isinstance(view, Malformed) else view.phase.value
                stored.state = None if known is None else GroupState(known)
            if self._may_be_listed(offsets, layout.offsets(group), stored):
                with_offsets.append(group)
        if self._judges and len(found) <= JUDGED_MAX:
            self._judge(found, led)
        return with_offsets

    def _topic_heads(
        self, found: Mapping[str, GroupStored], topics: Mapping[tuple[str, ...], tuple[str, ...]]
    ) -> dict[tuple[str, str], _OffsetsHead]:
        keys = [
            (group, topic)
            for (group,), listed in topics.items()
            for topic in filter(names.is_topic, listed)
        ]
        paths = [self._layout.offset_topic(*key) for key in keys]
        heads = {}
        for key, path, answer in zip(
            keys, paths, self._reader.read([GetData(path) for path in paths]), strict=True
        ):
            if self._may_be_listed(answer, path, found[key[0]]) and isinstance(answer, Node):
                said = codec.decode_incarnation(key[1], answer.data)
                heads[key] = _OffsetsHead(
                    said if isinstance(said, OffsetsOf) else None, answer.stat.mzxid
                )
        return heads

    def _may_be_listed(self, answer: ReadAnswer, path: str, stored: GroupStored) -> bool:
        if isinstance(answer, Denied):
            stored.failures.append(not_allowed(path, answer))
        if not isinstance(answer, Node) or not answer.stat.num_children:
            return False
        count = answer.stat.num_children
        if count > CHILDREN_LISTED_MAX:
            stored.failures.append(
                f"there are {count} nodes below {path}, more than the {CHILDREN_LISTED_MAX} that"
                " are listed"
            )
        return count <= CHILDREN_LISTED_MAX

    def _listed(
        self,
        found: Mapping[str, GroupStored],
        paths: Mapping[tuple[str, ...], str],
        of_topics: bool = False,
    ) -> dict[tuple[str, ...], tuple[str, ...]]:
        """The children of these nodes."""
        reads: list[Read] = [GetChildren(path) for path in paths.values()]
        listed = {}
        for key, path, answer in zip(paths, paths.values(), self._reader.read(reads), strict=True):
            if isinstance(answer, Denied):
                found[key[0]].failures.append(not_allowed(path, answer))
            listed[key] = answer.names if isinstance(answer, Children) else ()
        return listed

    def _read_topics(self, wanted: Iterable[str]) -> None:
        listed = sorted(wanted)
        answers = self._reader.read([GetData(self._layout.topic(topic)) for topic in listed])
        self._topics = {
            topic: _topic(topic, answer) for topic, answer in zip(listed, answers, strict=True)
        }

    def _offsets(
        self,
        found: Mapping[str, GroupStored],
        heads: Mapping[tuple[str, str], _OffsetsHead],
        partitions: Mapping[tuple[str, ...], tuple[str, ...]],
    ) -> None:
        wanted = [
            (group, TopicPartition(topic, int(number)))
            for group, topic in heads
            for number in partitions[group, topic]
            if names.is_number(number) and self._there(topic, int(number))
        ]
        for at in range(0, len(wanted), OFFSETS_AT_ONCE):
            some = wanted[at : at + OFFSETS_AT_ONCE]
            answers = read_written(self._reader, [self._layout.offset(*one) for one in some])
            now = self._now_ms()
            for (group, tp), answer in zip(some, answers, strict=True):
                self._take(found[group], group, tp, answer, heads[group, tp.topic], now)

    def _there(self, topic: str, partition: int) -> bool:
        """Whether the topic has the partition; one that cannot be read may have it."""
        known = self._topics.get(topic)
        return known is None or partition in known.partitions

    def _take(
        self,
        stored: GroupStored,
        group: str,
        tp: TopicPartition,
        answer: WrittenAnswer,
        head: _OffsetsHead,
        now: int,
    ) -> None:
        if isinstance(answer, Denied):
            stored.hidden[tp] = not_allowed(self._layout.offset(group, tp), answer)
        if not isinstance(answer, WrittenNode) or not self._counts(tp.topic, head, answer.mzxid):
            return
        value = codec.decode_offset(str(tp), answer.data)
        if isinstance(value, Malformed):
            stored.unreadable[tp] = value.reason
            return
        wrote = None if answer.mtime_ms is None else answer.mtime_ms + self._boot_of_wall
        stored.offsets[tp] = StoredSeen(value, now, answer.mzxid, wrote)

    def _counts(self, topic: str, head: _OffsetsHead, written: int) -> bool:
        """Whether an offset is of the topic as it is now."""
        known = self._topics.get(topic)
        if known is None or head.incarnation is None:
            return True
        return same_incarnation(head.incarnation.incarnation, known.incarnation) and (
            not head.incarnation.newer_only or written >= head.written
        )


GONE = Topic("", "", ())


def _topic(name: str, answer: ReadAnswer) -> Topic | None:
    """The topic; one without partitions where it is gone, None where it cannot be read."""
    if isinstance(answer, Node):
        found = codec.decode_topic(name, answer.data, answer.stat) if answer.data else GONE
        return found if isinstance(found, Topic) else None
    return None if isinstance(answer, Denied) else GONE


def _state(group: str, node: ReadAnswer, ids: ReadAnswer) -> tuple[GroupState | None, str]:
    """The state, and who paused it, as `groups list` shows it; None where the group's node is not
    there or unread.
    """
    if not isinstance(node, Node):
        return None, ""
    metadata = codec.decode_metadata(group, node.data)
    if not isinstance(metadata, GroupMetadata):
        return None, ""
    return shown_state(metadata, _registered(ids)), metadata.paused


def _registered(ids: ReadAnswer) -> int:
    return ids.stat.num_children if isinstance(ids, Node) else 0
