"""What ZooKeeper holds of groups, for requests that are no member's: a tool's, or a client's that
asks where it stands. Everything here blocks, on a thread of the gateway's pool.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from kafka.structs import TopicPartition as KafkaPartition

from consumer.core import messages as msg
from consumer.core.messages import CommitDone, CommitOutcome
from consumer.gateway.client_led.commits import Codes, MembersCommit
from consumer.gateway.client_led.reading import list_led, read_led, with_blobs
from consumer.gateway.client_led.watching import LedSeen
from consumer.gateway.operation.seldom import Seldom
from consumer.member.joining.without_member import have_made
from consumer.offsets.committed import hidden, stored_of, stored_reads
from consumer.offsets.memberless import ByMember, MemberlessCommits
from zkcoord.admin.common import Progress, argument
from zkcoord.admin.delete_group import Deletion
from zkcoord.admin.offsets.delete import OffsetsDeletion
from zkcoord.core.classic.requests import ClassicDescribed
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition
from zkcoord.errors import RefusedError, UnavailableError, UnknownGroupError, ZkcoordError
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import Children, GetChildren
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.group_snapshot import (
    GroupListed,
    GroupSnapshot,
    describe_group,
    list_groups,
)
from zkcoord.zk.sync.offsets_alone import groups_without_a_node
from zkcoord.znodes import names
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.names import shown
from zkcoord.znodes.paths import Layout

log = logging.getLogger(__name__)

READ_DEADLINE_MS = 5_000
PARTITIONS_PER_READ_MAX = 500
DELETION_S = 5.0
PROG = "zkcoord gateway"
DELETION_PAUSE_S = 0.05
NOT_DELETED = "group %s is not deleted, as a client asks: %s"
OFFSETS_NOT_DELETED = "offsets of group %s are not deleted, as a client asks: %s"
NOT_STORED = "clients' offsets of topic %s of group %s are not stored: %s"
TOPICS_TOLD_MAX = 1_000
TOLD_AGAIN_S = 600.0
NOT_MADE = "the coordinator has not made its nodes yet"

T = TypeVar("T")
Offsets = dict[TopicPartition, tuple[int, str]]

OF_NO_MEMBER: Mapping[CommitOutcome, WireCode] = {
    CommitOutcome.GROUP_ALIVE: WireCode.UNKNOWN_MEMBER_ID,
    CommitOutcome.NO_LONGER_MEMBER: WireCode.UNKNOWN_MEMBER_ID,
}
OF_MEMBERS: Mapping[CommitOutcome, WireCode] = {
    CommitOutcome.GROUP_ALIVE: WireCode.TOPIC_AUTHORIZATION_FAILED,
    CommitOutcome.NO_LONGER_MEMBER: WireCode.ILLEGAL_GENERATION,
}
"""Of what an old consumer owns beside it a member is told TOPIC_AUTHORIZATION_FAILED: the one code
that clients (Java, librdkafka, kafka-python) take as an error of these partitions. They look at the
others, tell the application, and stay members. UNKNOWN_MEMBER_ID and ILLEGAL_GENERATION have them
join again, GROUP_AUTHORIZATION_FAILED means the whole group, and all codes that are tried again
(COORDINATOR_LOAD_IN_PROGRESS, UNKNOWN_TOPIC_OR_PARTITION) keep Java's commitSync, and a rebalance
that waits for it, for a minute, ten times a second: as long as the owner lives it would not help.
"""


class SharedSession:
    """A session that is begun when it is needed; any thread."""

    def __init__(self, zk: ZkOptions) -> None:
        self._zk = zk
        self._lock = threading.Lock()
        self._client: SyncClient | None = None

    def close(self) -> None:
        """End it."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def using(self, use: Callable[[SyncClient], T]) -> T:
        """Use it; one at a time. Raises `UnavailableError`."""
        with self._lock:
            if self._client is None:
                client = SyncClient(self._zk, READ_DEADLINE_MS)
                client.__enter__()
                self._client = client
            return use(self._client)


class GroupStore:
    """Two sessions: one for offsets, for which members wait, and one for what takes longer, so that
    who lists, describes and deletes groups holds up nobody else (`slowly`).
    """

    def __init__(self, zk: ZkOptions, layout: Layout) -> None:
        self._zk = zk
        self._layout = layout
        self._led = ClassicPaths(layout)
        self._asking = threading.Lock()
        self._seldom = Seldom(TOLD_AGAIN_S, TOPICS_TOLD_MAX)
        self._sessions = SharedSession(zk), SharedSession(zk)
        self.using, self.slowly = (session.using for session in self._sessions)

    def close(self) -> None:
        """End the sessions."""
        for session in self._sessions:
            session.close()

    def groups(self) -> list[GroupListed]:
        """All groups that `describe` knows. Raises `UnavailableError`."""

        def listed(client: SyncClient) -> list[GroupListed]:
            found = list_groups(client, self._layout)
            known = {group.name for group in found}
            return found + groups_without_a_node(client, self._layout, known)

        return self.slowly(listed)

    def describe(self, group: str) -> GroupSnapshot | None:
        """One group; None where there is none. Raises `UnavailableError`."""
        try:
            return self.slowly(lambda client: describe_group(client, self._layout, group))
        except UnknownGroupError:
            return None

    def listed_led(self) -> dict[str, LedSeen]:
        """All groups whose leader is a client. Raises `UnavailableError`."""
        return self.slowly(lambda client: list_led(client, self._led))

    def led(self, groups: Sequence[str]) -> dict[str, LedSeen]:
        """Those of these whose leader is a client, or was. Raises `UnavailableError`."""

        def read(client: SyncClient) -> dict[str, LedSeen]:
            client.sync()
            return read_led(client, self._led, groups)

        return self.slowly(read)

    def brought(self, group: str, said: ClassicDescribed) -> dict[str, bytes]:
        """What its clients have brought for each other, by digest. Raises `UnavailableError`."""
        return self.slowly(lambda client: with_blobs(client, self._led, group, said))

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
        commits, missed = self._commits(group)
        message = _message(offsets)
        for number, part in enumerate(commits.parts(message)):
            if number:
                yield
            store = partial(commits.store, message=message, part=part)
            codes.update(dict.fromkeys(part, _code(self._refusal(store, missed), OF_NO_MEMBER)))

    def _refusal(
        self, store: Callable[[SyncClient], CommitDone | None], missed: Sequence[str]
    ) -> CommitDone | None:
        """`missed`: the group, once its nodes are not there, and are the coordinator's to make."""
        try:
            refusal = self.using(store)
            may_lack = refusal is not None and refusal.outcome is CommitOutcome.REFUSED
            if missed and may_lack and self._have_made(missed[0]):
                refusal = self.using(store)
        except ZkcoordError:
            return CommitDone(0, CommitOutcome.UNAVAILABLE)
        return refusal

    def _commits(
        self, group: str, by_member: ByMember | None = None
    ) -> tuple[MemberlessCommits, list[str]]:
        """And where it is noted that its nodes are the coordinator's to make."""
        missed: list[str] = []

        def have_them_made() -> str:
            missed.append(group)
            return NOT_MADE

        acl = self._zk.acl
        tell = partial(self._not_stored, group)
        commits = MemberlessCommits(self._layout, group, acl, have_them_made, by_member, tell)
        return commits, missed

    def commit_of_member(self, commit: MembersCommit, codes: Codes) -> Iterator[bool]:
        """See `CommitsOfMembers`."""
        message = _message(commit.offsets)
        by_member = ByMember(commit.member_id, commit.version, commit.session, commit.forward)
        commits, missed = self._commits(commit.group, by_member)
        for part in commits.parts(message):
            left = part
            while left:
                store = partial(commits.store, message=message, part=left)
                refusal = self._refusal(store, missed)
                code, named = _code(refusal, OF_MEMBERS), left
                if refusal is not None and refusal.outcome is CommitOutcome.GROUP_ALIVE:
                    named = refusal.partitions
                codes.update(dict.fromkeys(named, code))
                left = tuple(tp for tp in left if tp not in named)
                yield code is WireCode.ILLEGAL_GENERATION

    def _not_stored(self, group: str, topic: str, why: str) -> None:
        if self._seldom.is_due(f"{group}/{topic}"):
            log.warning(NOT_STORED, shown(topic), shown(group), why)

    def _have_made(self, group: str) -> bool:
        """Have the coordinator make the nodes of a group. It takes as long as that takes, so one
        does it at a time, without the sessions; who comes meanwhile is to come again.
        """
        if not self._asking.acquire(blocking=False):
            return False
        try:
            why = have_made(self._zk, self._layout, group)
        finally:
            self._asking.release()
        if why:
            log.warning("a client's offsets of group %s are not stored: %s", shown(group), why)
        return not why

    def delete(self, group: str) -> WireCode:
        """Delete a group without members. What stands against it the log says."""
        try:
            found = self.describe(group)
            if found is None:
                return WireCode.GROUP_ID_NOT_FOUND
            if found.members:
                return WireCode.NON_EMPTY_GROUP
            return self.slowly(partial(self._delete, group))
        except UnknownGroupError:
            return WireCode.GROUP_ID_NOT_FOUND
        except RefusedError as error:
            log.warning(NOT_DELETED, shown(group), error)
            return WireCode.NON_EMPTY_GROUP
        except ZkcoordError:
            return WireCode.COORDINATOR_NOT_AVAILABLE

    def _delete(self, group: str, client: SyncClient) -> WireCode:
        deadline = time.monotonic() + DELETION_S
        by_hand = (
            f"zkcoord groups delete --unreadable --layout {self._layout.name} {argument(group)}"
        )
        deletion = Deletion(
            client,
            self._layout,
            group,
            False,
            lambda: int(1000 * (deadline - time.monotonic())),
            lambda: time.sleep(DELETION_PAUSE_S),
            Progress(PROG),
            advice=f"to delete them with the group run {by_hand}",
        )
        refusal = deletion.execute().refusal
        if not refusal:
            return WireCode.NONE
        log.warning(NOT_DELETED, shown(group), refusal)
        denied = deletion.denied
        return WireCode.GROUP_AUTHORIZATION_FAILED if denied else WireCode.NON_EMPTY_GROUP

    def delete_offsets(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> tuple[WireCode, dict[TopicPartition, WireCode]]:
        """Delete offsets of topics that no member subscribes to (KIP-496): a code for the whole,
        and one for each.
        """
        codes = dict.fromkeys(partitions, WireCode.NONE)
        try:
            led = self.led([group])
            if led and led[group].view.state.members:
                return WireCode.NON_EMPTY_GROUP, codes  # which topics they read only they know
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
            return self.slowly(partial(self._delete_offsets, group, chosen)), codes
        except RefusedError as error:
            log.warning(OFFSETS_NOT_DELETED, shown(group), error)
        except ZkcoordError:
            pass
        return WireCode.COORDINATOR_NOT_AVAILABLE, codes

    def _delete_offsets(
        self, group: str, chosen: Mapping[str, tuple[int, ...]], client: SyncClient
    ) -> WireCode:
        deletion = OffsetsDeletion(client, self._layout, group, chosen, Progress(PROG))
        refusal = deletion.execute()
        if not refusal:
            return WireCode.NONE
        log.warning(OFFSETS_NOT_DELETED, shown(group), refusal)
        if deletion.denied:
            return WireCode.GROUP_AUTHORIZATION_FAILED
        return WireCode.COORDINATOR_NOT_AVAILABLE


def _code(refusal: CommitDone | None, codes: Mapping[CommitOutcome, WireCode]) -> WireCode:
    if refusal is None:
        return WireCode.NONE
    return codes.get(refusal.outcome, WireCode.COORDINATOR_NOT_AVAILABLE)


def _message(offsets: Mapping[TopicPartition, tuple[int, str]]) -> msg.Commit:
    return msg.Commit(
        0,
        {tp: offset for tp, (offset, _) in offsets.items()},
        0,
        {tp: text for tp, (_, text) in offsets.items() if text},
    )


def _names(answer: object) -> tuple[str, ...]:
    return answer.names if isinstance(answer, Children) else ()
