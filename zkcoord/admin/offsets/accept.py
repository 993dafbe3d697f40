"""Having stored offsets count for the topics that are there now.

A topic that was deleted and made again is another one, and the offsets stored for the first do not
count for the second. A moved ensemble looks the same: topics without ids have other transactions
there. Only an operator can tell the two apart, and says so by setting what the offsets' parent says
of whose they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zkcoord.admin.common import Progress, members_now, some, write_refused
from zkcoord.admin.offsets.stored import OffsetsParent, StoredOffset, read_stored
from zkcoord.core.model import Malformed, Topic, TopicPartition
from zkcoord.core.value_type import value
from zkcoord.zk.port import Committed, Rejected, SetData, ZkError
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.codec import OffsetsOf, encode_incarnation
from zkcoord.znodes.paths import Layout

TRIES_MAX = 5


@value
class Acceptance:
    """One topic. `before` is what the offsets' parent says now, `after` what it is to say; `gains`
    are the partitions whose offsets begin to count.
    """

    topic: str
    before: str
    after: str
    gains: tuple[TopicPartition, ...]
    version: int


class Accept:
    """The acceptance of some topics' offsets by one group."""

    def __init__(
        self,
        client: SyncClient,
        layout: Layout,
        group: str,
        topics: Mapping[str, Topic],
        partitions: Sequence[TopicPartition],
        progress: Progress,
    ) -> None:
        self.client = client
        self.layout = layout
        self.group = group
        self.topics = topics
        self.partitions = partitions
        self.progress = progress
        self.stored: dict[TopicPartition, StoredOffset] = {}

    def plan(self) -> list[Acceptance]:
        """The topics with offsets that do not count now. Writes nothing."""
        self.client.sync()
        self.stored = read_stored(self.client, self.layout, self.group, self.partitions)
        found = []
        for topic in sorted(self.topics):
            gains = tuple(
                tp
                for tp, one in self.stored.items()
                if tp.topic == topic
                and one.offset is not None
                and not one.counts(self.topics[topic])
            )
            if gains:
                beside = self.stored[gains[0]].beside
                assert beside.version is not None
                found.append(
                    Acceptance(
                        topic, _said(beside), self.topics[topic].incarnation, gains, beside.version
                    )
                )
        return found

    def refusal(self) -> str:
        """What stands against it now; "" where nothing does. Raises `RefusedError`."""
        members = members_now(self.client, self.layout, self.group)
        return (
            f"the group {self.group} has members ({some(members)}), which have begun without these"
            " offsets already: stop them first"
            if members
            else ""
        )

    def execute(self) -> tuple[list[Acceptance], str]:
        """Write it, topic by topic: what was accepted, and a sentence where it ended early."""
        done: list[Acceptance] = []
        for _ in range(TRIES_MAX):
            refusal = self.refusal()
            if refusal:
                return done, refusal
            pending = self.plan()
            if not pending:
                return done, ""
            for one in pending:
                data = encode_incarnation(OffsetsOf(one.after))
                op = SetData(self.layout.offset_topic(self.group, one.topic), data, one.version)
                result = self.client.multi([op])
                if isinstance(result, Committed):
                    done.append(one)
                elif isinstance(result, Rejected) and result.error not in (
                    ZkError.BAD_VERSION,
                    ZkError.NO_NODE,
                ):
                    return done, write_refused(self.client, op, result.error)
                self.progress.say(f"{len(done)} topics accepted")
        return (
            done,
            (
                "somebody else writes these offsets, or ZooKeeper does not answer: look, then"
                " repeat the command"
            ),
        )


def _said(beside: OffsetsParent) -> str:
    value = beside.value
    if isinstance(value, OffsetsOf):
        return value.incarnation + (" (newer only)" if value.newer_only else "")
    return f"unreadable: {value.reason}" if isinstance(value, Malformed) else ""
