"""Deleting stored offsets of some topics or partitions, as kafka-consumer-groups.sh does with
--delete-offsets: for what a group does not read any more.

Each is deleted at the version that was read together with its owner node, in bounded transactions.
A start ack re-writes the offset of what it takes, so nobody's is deleted who has begun to read it;
whoever begins later begins as `auto_offset_reset` says, and is named. A topic that a member
subscribes to, or owns a partition of, is refused, before anything is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zkcoord.admin.common import Progress, argument, children, refuse_led, some
from zkcoord.admin.offsets.stored import StoredOffset, read_stored
from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value
from zkcoord.errors import RefusedError
from zkcoord.zk.port import Committed, Delete, GetChildren, GetData, Node, Rejected, ZkError
from zkcoord.zk.sync.client import SyncClient, fitting, give_others
from zkcoord.zk.sync.group_snapshot import describe_group
from zkcoord.znodes import names
from zkcoord.znodes.paths import Layout

BATCH_MAX = 200
TRIES_MAX = 5
CHANGED = (ZkError.BAD_VERSION, ZkError.NO_NODE)


@value
class DeletedOffset:
    """One partition. `offset` None: what was stored was no number."""

    tp: TopicPartition
    offset: int | None


class OffsetsDeletion:
    """The deletion of one group's offsets: `chosen` is topic -> partitions, None for all of it.
    `denied`: a right was missing.
    """

    def __init__(
        self,
        client: SyncClient,
        layout: Layout,
        group: str,
        chosen: Mapping[str, tuple[int, ...] | None],
        progress: Progress,
    ) -> None:
        self.client = client
        self.layout = layout
        self.group = group
        self.chosen = chosen
        self.progress = progress
        self.done: list[DeletedOffset] = []
        self.denied = False

    def plan(self) -> list[DeletedOffset]:
        """What would be deleted; deletes nothing. Raises `RefusedError`, `UnknownGroupError`."""
        return [DeletedOffset(tp, one.offset) for tp, one in self._stored().items()]

    def execute(self) -> str:
        """Delete; what is deleted is in `done`, also when this raises. A sentence where it ended
        early, or where somebody has come meanwhile.
        """
        first: dict[TopicPartition, StoredOffset] | None = None
        for _ in range(TRIES_MAX):
            try:
                left = self._stored()
            except RefusedError as error:
                if not self.done:
                    raise
                return str(error)
            first = first or left
            # what an answer was lost of is gone, or it is still there
            self.done = [DeletedOffset(tp, first[tp].offset) for tp in first if tp not in left]
            if not left:
                self._topics()
                return self._came()
            refusal = self._delete(left)
            if refusal:
                return refusal
        return (
            f"somebody writes these offsets of {self.group} again and again, or ZooKeeper does not"
            " answer: look who does, then repeat the command"
        )

    def _stored(self) -> dict[TopicPartition, StoredOffset]:
        """What there is to delete. Raises `RefusedError` where somebody reads it."""
        self.client.sync()
        readers = self._readers()
        if readers:
            raise RefusedError(
                f"members of the group {self.group} read {some(readers)}: stop them, or have them"
                " subscribe to something else, before these offsets are deleted"
            )
        stored = read_stored(self.client, self.layout, self.group, self._partitions())
        owned = [tp for tp, one in stored.items() if one.owned]
        if owned:
            raise RefusedError(
                f"{some(owned)} of the group {self.group} is owned: stop who owns it, or wait until"
                " that session ends"
            )
        return {tp: one for tp, one in stored.items() if one.version is not None}

    def _readers(self) -> list[str]:
        """Of the chosen topics those that a member subscribes to."""
        refuse_led(self.client, self.layout, self.group)
        found = describe_group(self.client, self.layout, self.group)
        read = {topic for topics in found.subscribed.values() for topic in topics}
        return sorted(read & set(self.chosen))

    def _partitions(self) -> list[TopicPartition]:
        """The chosen ones; of whole topics those that have a node, also if Kafka has them not."""
        found = []
        whole = [topic for topic, numbers in self.chosen.items() if numbers is None]
        paths = [self.layout.offset_topic(self.group, topic) for topic in whole]
        answers = self.client.read([GetChildren(path) for path in paths])
        for topic, path, answer in zip(whole, paths, answers, strict=True):
            listed = filter(names.is_number, children(answer, path))
            found += [TopicPartition(topic, int(number)) for number in listed]
        for topic, numbers in self.chosen.items():
            found += [TopicPartition(topic, number) for number in numbers or ()]
        return sorted(found)

    def _delete(self, stored: Mapping[TopicPartition, StoredOffset]) -> str:
        """One pass over all of them, which ends early where something is not as it was read."""
        left: Sequence[TopicPartition] = list(stored)
        while left:
            groups = self._operations(left[:BATCH_MAX], stored)
            count = fitting(groups)
            ops = [op for group in groups[:count] for op in group]
            result = self.client.multi(ops)
            if isinstance(result, Rejected) and result.error not in CHANGED:
                self.denied = result.error is ZkError.NO_AUTH
                return (
                    f"ZooKeeper refused to delete {ops[result.index].path} ({result.error.value}):"
                    f" {give_others(self.client.given)}"
                )
            if not isinstance(result, Committed):
                return ""
            self.done += [DeletedOffset(tp, stored[tp].offset) for tp in left[:count]]
            left = left[count:]
            self.progress.say(f"{len(self.done)} offsets deleted")
        return ""

    def _operations(
        self, tps: Sequence[TopicPartition], stored: Mapping[TopicPartition, StoredOffset]
    ) -> list[list[Delete]]:
        """For each its offset and, where there is one, what was committed beside it."""
        paths = [self.layout.commit_metadata(self.group, tp) for tp in tps]
        found = []
        for tp, path, beside in zip(
            tps, paths, self.client.see([GetData(path) for path in paths]), strict=True
        ):
            version = stored[tp].version
            assert version is not None
            ops = [Delete(self.layout.offset(self.group, tp), version)]
            if isinstance(beside, Node):
                ops.append(Delete(path, beside.stat.version))
            found.append(ops)
        return found

    def _topics(self) -> None:
        """The nodes of whole topics, as far as nothing is left in them."""
        for topic, numbers in self.chosen.items():
            if numbers is None:
                root = self.layout.commit_metadata_root(self.group)
                for path in (self.layout.offset_topic(self.group, topic), f"{root}/{topic}"):
                    self.client.multi([Delete(path)])

    def _came(self) -> str:
        self.client.sync()
        readers = self._readers()
        return (
            f"members that read {some(readers)} have joined the group {self.group} meanwhile: see"
            f" zkcoord offsets show {argument(self.group)} for where they began"
            if readers
            else ""
        )
