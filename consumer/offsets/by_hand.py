"""Partitions that an application assigns itself in a group's name (`assign` with a `group_id`):
where they begin, and their commits, without a membership.

What is stored is the group's, as members find it. So a commit is refused while the group has a
member, and fenced against one that comes: the registrations are read, after a sync, with the
versions of the offsets, and each offset is written at the version read. A member's start moves the
version, so either its start is older, and the commit fails, or it is newer, and begins at what was
committed. Two consumers that assign the same partitions overwrite each other, as in Kafka.

Everything that waits for ZooKeeper or Kafka is done on a thread of its own, one thing at a time, on
a session that is opened when it is needed first.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping

import kafka.errors
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.assignment.state import AssignmentState
from consumer.core import messages as msg
from consumer.core.messages import CommitDone, CommitOutcome
from consumer.errors import (
    CommitUnavailableError,
    ConsumerError,
    SessionRefusedError,
    UnreadableOffsetError,
    ZooKeeperDeniedError,
    described,
    kafka_away,
    kafka_refused,
)
from consumer.fetch.client import FetchClient
from consumer.fetch.group_offsets import GroupOffsets
from consumer.member.cluster_check import CLUSTER_READS, NamedBrokers
from consumer.member.joining.without_member import have_made
from consumer.offsets.committed import committed_in_kafka, hidden, stored_of, stored_reads
from consumer.offsets.memberless import MemberlessCommits
from consumer.offsets.store import public_offsets
from zkcoord.core.model import Malformed
from zkcoord.core.model import TopicPartition as ModelPartition
from zkcoord.errors import UnavailableError
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import Read, ReadAnswer
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import Layout

log = logging.getLogger(__name__)

RETRY_S = 0.2
LASTING_RETRY_S = 1.0
READ_DEADLINE_MS = 5_000
KAFKA_DEADLINE_S = 5.0


class HandAssignment:
    """One consumer's, from the first `assign` until `unsubscribe` or `close`. `answer` takes the
    outcome of each commit, on the thread of this.
    """

    def __init__(
        self,
        zk: ZkOptions,
        layout: Layout,
        kafka_side: GroupOffsets,
        named: NamedBrokers,
        data: FetchClient,
        state: AssignmentState,
        storage: str,
        initial: str,
        answer: Callable[[CommitDone], None],
    ) -> None:
        self._zk = zk
        self._layout = layout
        self._group = kafka_side.group
        self._kafka = kafka_side
        self._named = named
        self._data = data
        self._state = state
        self._storage = storage
        self._initial = initial
        self._answer = answer
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        # Set while no partition waits to be told where it begins.
        self.placed = threading.Event()
        self.placed.set()
        # This thread's only.
        self._client: SyncClient | None = None
        self._memberless = MemberlessCommits(layout, kafka_side.group, zk.acl, self._have_made)
        # Whether the group's nodes are asked for now.
        self._asking = False
        self._said = ""
        # When (`time.monotonic`) it is tried again to find out where some begin; None: never.
        self._retry_at: float | None = None
        # Why it cannot be said where these begin: they may not be read. Replaced as a whole.
        self._hidden: Mapping[TopicPartition, ConsumerError] = {}
        # What is stored of these is no offset: they are not consumed. Replaced as a whole.
        self._unreadable: Mapping[TopicPartition, ConsumerError] = {}
        self._thread = threading.Thread(
            target=self._run, name=f"by-hand-{self._group}", daemon=True
        )
        self._thread.start()

    # any thread

    def place(self) -> None:
        """Find out where the assigned partitions begin that have no position."""
        self.placed.clear()
        self._tasks.put(self._place_anew)

    def commit(self, message: msg.Commit) -> None:
        """Store offsets; answered by `answer`."""
        self._tasks.put(lambda: self._answer(self._stored(message)))

    def close(self, timeout_s: float) -> None:
        """End the thread and its session, after what was asked for before."""
        self._tasks.put(None)
        self._thread.join(timeout_s)

    @property
    def waits(self) -> bool:
        """Whether some partitions wait for somebody to mend what is stored of them. Any thread."""
        return bool(self._hidden or self._unreadable)

    def why_waits(self, partition: TopicPartition) -> ConsumerError | None:
        """What is to be mended of this one; None: nothing. Any thread."""
        return self._hidden.get(partition) or self._unreadable.get(partition)

    def unanswered(self) -> str:
        """Who has not answered a commit yet. Any thread."""
        return f"no coordinator made the nodes of group {self._group}" if self._asking else ""

    # the thread

    def _run(self) -> None:
        while True:
            left = None if self._retry_at is None else self._retry_at - time.monotonic()
            if left is not None and left <= 0:
                self._place()
                continue
            try:
                task = self._tasks.get(timeout=left)
            except queue.Empty:
                continue
            if task is None:
                break
            task()
        if self._client is not None:
            self._client.close()

    def _ask(self) -> SyncClient:
        """The session. Raises `UnavailableError`, `SessionRefusedError`."""
        if self._client is not None and self._client.refused:
            self._client.close()
            self._client = None
        if self._client is None:
            client = SyncClient(self._zk, READ_DEADLINE_MS)
            try:
                client.__enter__()
            except UnavailableError as e:
                if client.refused:
                    raise SessionRefusedError(client.refused) from e
                raise
            try:
                self._refuse_another_cluster(client)
            except (UnavailableError, SessionRefusedError):
                client.close()
                raise
            self._client = client
        return self._client

    def _refuse_another_cluster(self, client: SyncClient) -> None:
        error = self._named.refused(client.read(CLUSTER_READS)) if self._named.servers else None
        if error is not None:
            self._state.fail(error)
            raise SessionRefusedError(str(error))

    # where partitions begin

    def _place_anew(self) -> None:
        self._hidden = {}
        self._place()

    def _place(self) -> None:
        """Once; what cannot be found out now is tried again between the commits."""
        self._retry_at = None
        missing = self._data.without_place(self._data.assigned())
        try:
            found, hidden = self._begin_of(missing) if missing else ({}, {})
        except (UnavailableError, CommitUnavailableError, kafka.errors.KafkaError) as e:
            self._warn(f"it cannot be found out where group {self._group} stands", e)
            lasting = isinstance(e, SessionRefusedError)
            self._retry_at = time.monotonic() + (LASTING_RETRY_S if lasting else RETRY_S)
            return
        self._said = ""
        with self._data.lock:
            for tp in self._data.without_place(missing):
                if tp in found:
                    self._data.seek(tp, found[tp].offset)
                    self._state.ledger.committed[tp] = found[tp]
            rest = self._data.without_place(missing) - self._unreadable.keys() - hidden.keys()
            if self._initial == "refuse" or not self._data.reset(rest):
                self._state.ledger.unset |= rest
            self._refuse_hidden(hidden)
        if hidden:
            self._retry_at = time.monotonic() + LASTING_RETRY_S
        self.placed.set()
        self._data.wakeup.set()

    def _refuse_hidden(self, hidden: Mapping[TopicPartition, ConsumerError]) -> None:
        """Have a poll raise why nobody can say where these begin, once for each reason. Under the
        lock.
        """
        before = {str(error) for error in self._hidden.values()}
        for said, error in {str(error): error for error in hidden.values()}.items():
            if said not in before:
                self._state.raise_later(error)
        self._hidden = hidden

    def _begin_of(
        self, partitions: Collection[TopicPartition]
    ) -> tuple[dict[TopicPartition, OffsetAndMetadata], dict[TopicPartition, ConsumerError]]:
        """Where those begin of which something is stored, and those of which that may not be
        read.
        """
        wanted = sorted(partitions)
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        secret: dict[TopicPartition, ConsumerError] = {}
        if self._storage != "kafka":
            client = self._ask()
            client.sync()
            reads = stored_reads(self._layout, self._group, wanted)
            answers = client.read(reads)
            secret = self._hidden_of(wanted, dict(zip(reads, answers, strict=True)))
            found, unreadable = stored_of(wanted, answers)
            self._refuse_unreadable({tp: b for tp, b in unreadable.items() if tp not in secret})
        rest = [
            tp
            for tp in wanted
            if tp not in found and tp not in self._unreadable and tp not in secret
        ]
        if rest and (self._storage == "kafka" or self._initial == "kafka"):
            committed = committed_in_kafka(self._kafka, rest, KAFKA_DEADLINE_S)
            found.update(committed)
            if self._storage != "kafka":
                for tp in committed:
                    # stored in Kafka, not here: the first commit stores it
                    self._state.ledger.committed.pop(tp, None)
        return {tp: one for tp, one in found.items() if tp not in secret}, secret

    def _hidden_of(
        self, partitions: Iterable[TopicPartition], answers: Mapping[Read, ReadAnswer]
    ) -> dict[TopicPartition, ConsumerError]:
        """Those of which something may not be read that says where they begin."""
        found: dict[TopicPartition, ConsumerError] = {}
        for tp in partitions:
            reads = stored_reads(self._layout, self._group, [tp])
            node = hidden(reads, [answers[read] for read in reads])
            if node:
                found[tp] = ZooKeeperDeniedError(node)
        return found

    def _refuse_unreadable(self, unreadable: Mapping[TopicPartition, Malformed]) -> None:
        """Have a poll raise `UnreadableOffsetError` for each of these whose offset is none, once;
        they wait until somebody corrects the node and they are assigned again.
        """
        before = self._unreadable
        self._unreadable = {
            tp: UnreadableOffsetError(
                (tp.topic, tp.partition),
                self._layout.offset(self._group, ModelPartition(*tp)),
                bad.reason,
            )
            for tp, bad in unreadable.items()
        }
        for tp, error in self._unreadable.items():
            if tp not in before:
                with self._data.lock:
                    self._state.raise_later(error)

    def _warn(self, what: str, error: Exception) -> None:
        said = described(error)
        log.log(
            logging.DEBUG if said == self._said else logging.WARNING,
            "%s (%s); it is tried again",
            what,
            said,
        )
        self._said = said

    # commits

    def _have_made(self) -> str:
        self._asking = True
        try:
            return have_made(self._zk, self._layout, self._group)
        finally:
            self._asking = False

    def _stored(self, message: msg.Commit) -> CommitDone:
        named, stores = tuple(sorted(message.offsets)), self._storage != "kafka"
        try:
            for part in self._memberless.parts(message):
                refusal = self._memberless.store(self._ask(), message, part, stores)
                if refusal is not None:
                    return refusal
        except SessionRefusedError as e:
            # nobody answers at this address, or the credentials are refused
            return CommitDone(message.token, CommitOutcome.UNAVAILABLE, named, str(e.args[0]))
        except (UnavailableError, CommitUnavailableError):
            return CommitDone(message.token, CommitOutcome.UNAVAILABLE, named)
        return self._in_kafka(message, named)

    def _in_kafka(self, message: msg.Commit, named: tuple[ModelPartition, ...]) -> CommitDone:
        """Where offsets are kept in Kafka, or mirrored there: store them there, too."""
        done = CommitDone(message.token, CommitOutcome.OK)
        if self._storage == "zookeeper":
            return done
        answered = threading.Event()
        future = self._kafka.start(
            self._kafka.commit_async, public_offsets(message.offsets, message.metadata)
        )
        future.add_both(lambda _: answered.set())
        in_time = answered.wait(KAFKA_DEADLINE_S)
        error: Exception | None = (
            future.exception if in_time else kafka.errors.KafkaTimeoutError("no answer in time")
        )
        if error is None:
            return done
        if self._storage == "dual":
            self._warn(f"offsets of group {self._group} are not mirrored to Kafka", error)
            return done
        if isinstance(error, kafka.errors.RetriableError):
            outcome, why = CommitOutcome.UNAVAILABLE, kafka_away(error)
        else:
            outcome, why = CommitOutcome.REFUSED, kafka_refused(error)
        return CommitDone(message.token, outcome, named, why)
