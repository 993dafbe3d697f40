"""What ZooKeeper holds of groups, for requests that are no member's: a tool's, or a client's that
asks where it stands. Everything here blocks, on a thread of the gateway's pool.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from kafka.structs import TopicPartition as KafkaPartition

from consumer.core import messages as msg
from consumer.core.messages import CommitOutcome
from consumer.gateway.wire.requests import WireCode
from consumer.member.multis import metadata_ops, offset_op
from consumer.offsets.committed import stored_of, stored_reads
from consumer.offsets.memberless import MemberlessCommits, hidden
from zkcoord.admin.common import Progress
from zkcoord.admin.delete_group import Deletion
from zkcoord.admin.offsets.delete import OffsetsDeletion
from zkcoord.core.model import TopicPartition
from zkcoord.errors import UnavailableError, UnknownGroupError, ZkcoordError
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import Children, GetChildren, Op, SetData
from zkcoord.zk.sync.client import SyncClient, fitting
from zkcoord.zk.sync.group_snapshot import (
    GroupListed,
    GroupSnapshot,
    describe_group,
    list_groups,
)
from zkcoord.znodes import names
from zkcoord.znodes.paths import Layout

READ_DEADLINE_MS = 5_000
PARTITIONS_PER_MULTI_MAX = 100
TOPIC_BYTES_MAX = 256
PARTITIONS_PER_READ_MAX = 500
DELETION_S = 5.0
PROG = "zkcoord gateway"
DELETION_PAUSE_S = 0.05

T = TypeVar("T")
Offsets = dict[TopicPartition, tuple[int, str]]


class GroupStore:
    """One session of its own; any thread of the pool."""

    def __init__(self, zk: ZkOptions, layout: Layout) -> None:
        self._zk = zk
        self._layout = layout
        self._lock = threading.Lock()
        self._client: SyncClient | None = None

    def close(self) -> None:
        """End the session."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def using(self, use: Callable[[SyncClient], T]) -> T:
        """Use the session; one at a time. Raises `UnavailableError`."""
        with self._lock:
            if self._client is None:
                client = SyncClient(self._zk, READ_DEADLINE_MS)
                client.__enter__()
                self._client = client
            return use(self._client)

    def groups(self) -> list[GroupListed]:
        """All groups. Raises `UnavailableError`."""
        return self.using(lambda client: list_groups(client, self._layout))

    def describe(self, group: str) -> GroupSnapshot | None:
        """One group; None where there is none. Raises `UnavailableError`."""
        try:
            return self.using(lambda client: describe_group(client, self._layout, group))
        except UnknownGroupError:
            return None

    def offsets(
        self, group: str, partitions: Sequence[TopicPartition] | None, found: Offsets
    ) -> Iterator[None]:
        """Into `found`: next offsets, and what stands beside each, of these partitions (None: of
        all that have one); those without one are left out. In parts, between which it yields: then
        others have their turn. Raises `UnavailableError`.
        """
        if partitions is None:
            partitions = self.using(lambda client: self._stored(client, group))
        for at in range(0, len(partitions), PARTITIONS_PER_READ_MAX):
            if at:
                yield
            part = partitions[at : at + PARTITIONS_PER_READ_MAX]
            found |= self.using(partial(self._offsets, group, part))

    def _offsets(
        self, group: str, partitions: Sequence[TopicPartition], client: SyncClient
    ) -> Offsets:
        """Each part after a sync of its own: the session may be another one than before."""
        client.sync()
        wanted = [KafkaPartition(*tp) for tp in partitions]
        reads = stored_reads(self._layout, group, wanted)
        answers = client.read(reads)
        secret = hidden(reads, answers)
        if secret:
            raise UnavailableError(f"ZooKeeper does not let the gateway read {secret}")
        found, unreadable = stored_of(wanted, answers)
        if unreadable:
            raise UnavailableError(f"what is stored of {min(unreadable)} is no offset")
        return {TopicPartition(*tp): (one.offset, one.metadata) for tp, one in found.items()}

    def _stored(self, client: SyncClient, group: str) -> list[TopicPartition]:
        client.sync()
        root = self._layout.offsets(group)
        (answer,) = client.read([GetChildren(root)])
        topics = [t for t in _names(answer) if names.is_topic(t)]
        answers = client.read([GetChildren(self._layout.offset_topic(group, t)) for t in topics])
        return [
            TopicPartition(topic, int(number))
            for topic, answer in zip(topics, answers, strict=True)
            for number in _names(answer)
            if names.is_partition(topic, number)
        ]

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        codes: dict[TopicPartition, WireCode],
    ) -> Iterator[None]:
        """Store offsets as a tool does, while the group has no member; into `codes`: of each what
        became of it. In parts, as `offsets`.
        """
        message = msg.Commit(
            0,
            {tp: offset for tp, (offset, _) in offsets.items()},
            0,
            {tp: text for tp, (_, text) in offsets.items() if text},
        )
        commits = MemberlessCommits(self._layout, group, self._zk.acl)
        named = sorted(offsets)
        while named:
            first = named[:PARTITIONS_PER_MULTI_MAX]
            part = named[: fitting([self._written(group, message, tp) for tp in first])]
            code = self._commit(commits, message, part)
            codes.update(dict.fromkeys(part, code))
            named = named[len(part) :]
            if named:
                yield

    def _written(self, group: str, message: msg.Commit, tp: TopicPartition) -> list[Op]:
        """At most what one partition is in a multi, with what may be said of its topic."""
        layout, acl, offset = self._layout, self._zk.acl, message.offsets[tp]
        text = message.metadata.get(tp, "")
        return [
            SetData(layout.offset_topic(group, tp.topic), bytes(TOPIC_BYTES_MAX), -1),
            offset_op(layout, group, acl, tp, offset, None),
            *metadata_ops(layout, group, acl, tp, offset, text, False),
        ]

    def _commit(
        self, commits: MemberlessCommits, message: msg.Commit, part: Sequence[TopicPartition]
    ) -> WireCode:
        try:
            refusal = self.using(lambda client: commits.store(client, message, part))
        except ZkcoordError:
            return WireCode.COORDINATOR_NOT_AVAILABLE
        if refusal is None:
            return WireCode.NONE
        alive = refusal.outcome is CommitOutcome.GROUP_ALIVE
        return WireCode.UNKNOWN_MEMBER_ID if alive else WireCode.COORDINATOR_NOT_AVAILABLE

    def delete(self, group: str) -> WireCode:
        """Delete a group without members."""
        found = self.describe(group)
        if found is None:
            return WireCode.GROUP_ID_NOT_FOUND
        if found.members:
            return WireCode.NON_EMPTY_GROUP
        try:
            return self.using(lambda client: _deleted(client, self._layout, group))
        except UnknownGroupError:
            return WireCode.GROUP_ID_NOT_FOUND
        except ZkcoordError:
            return WireCode.COORDINATOR_NOT_AVAILABLE

    def delete_offsets(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> tuple[WireCode, dict[TopicPartition, WireCode]]:
        """Delete offsets of topics that no member subscribes to (KIP-496): a code for the whole,
        and one for each.
        """
        codes = dict.fromkeys(partitions, WireCode.NONE)
        found = self.describe(group)
        if found is None:
            return WireCode.GROUP_ID_NOT_FOUND, codes
        read = {topic for topics in found.subscribed.values() for topic in topics}
        chosen: dict[str, tuple[int, ...]] = {}
        for tp in partitions:
            if tp.topic in read:
                codes[tp] = WireCode.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                chosen[tp.topic] = (*chosen.get(tp.topic, ()), tp.partition)
        if not chosen:
            return WireCode.NONE, codes
        try:
            refusal = self.using(
                lambda client: OffsetsDeletion(
                    client, self._layout, group, chosen, Progress(PROG)
                ).execute()
            )
        except ZkcoordError:
            return WireCode.COORDINATOR_NOT_AVAILABLE, codes
        return (WireCode.COORDINATOR_NOT_AVAILABLE if refusal else WireCode.NONE), codes


def _deleted(client: SyncClient, layout: Layout, group: str) -> WireCode:
    deadline = time.monotonic() + DELETION_S
    deletion = Deletion(
        client,
        layout,
        group,
        False,
        lambda: int(1000 * (deadline - time.monotonic())),
        lambda: time.sleep(DELETION_PAUSE_S),
        Progress(PROG),
    )
    return WireCode.NON_EMPTY_GROUP if deletion.execute().refusal else WireCode.NONE


def _names(answer: object) -> tuple[str, ...]:
    return answer.names if isinstance(answer, Children) else ()
