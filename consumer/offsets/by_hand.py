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
from collections.abc import Callable, Collection, Mapping

import kafka.errors
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.assignment.state import AssignmentState
from consumer.core import messages as msg
from consumer.core.messages import CommitDone, CommitOutcome
from consumer.errors import CommitUnavailableError, UnreadableOffsetError, described
from consumer.fetch.client import FetchClient
from consumer.fetch.group_offsets import GroupOffsets
from consumer.offsets.committed import committed_in_kafka, stored_of, stored_reads
from consumer.offsets.memberless import MemberlessCommits, hidden
from consumer.offsets.store import public_offsets
from zkcoord.core.model import Malformed
from zkcoord.core.model import TopicPartition as ModelPartition
from zkcoord.errors import UnavailableError
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import Layout

log = logging.getLogger(__name__)

RETRY_S = 0.2
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
        self._data = data
        self._state = state
        self._storage = storage
        self._initial = initial
        self._answer = answer
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        # Set while no partition waits to be told where it begins.
        self.placed = threading.Event()
        self.placed.set()
        # This thread's only.
        self._client: SyncClient | None = None
        self._memberless = MemberlessCommits(layout, kafka_side.group, zk.acl)
        self._said = ""
        # What is stored of these is no offset: they are not consumed.
        self._unreadable: set[TopicPartition] = set()
        self._thread = threading.Thread(
            target=self._run, name=f"by-hand-{self._group}", daemon=True
        )
        self._thread.start()

    # any thread

    def place(self) -> None:
        """Find out where the assigned partitions begin that have no position."""
        self.placed.clear()
        self._tasks.put(self._place)

    def commit(self, message: msg.Commit) -> None:
        """Store offsets; answered by `answer`."""
        self._tasks.put(lambda: self._answer(self._stored(message)))

    def close(self, timeout_s: float) -> None:
        """End the thread and its session, after what was asked for before."""
        self._closing.set()
        self._tasks.put(None)
        self._thread.join(timeout_s)

    # the thread

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
        if self._client is not None:
            self._client.close()

    def _ask(self) -> SyncClient:
        """The session. Raises `UnavailableError`."""
        if self._client is None:
            client = SyncClient(self._zk, READ_DEADLINE_MS)
            client.__enter__()
            self._client = client
        return self._client

    # where partitions begin

    def _place(self) -> None:
        """Until there is an answer, or nothing to ask for any more."""
        while not self._closing.is_set():
            missing = self._data.without_place(self._data.assigned())
            try:
                found = self._begin_of(missing) if missing else {}
            except (UnavailableError, CommitUnavailableError, kafka.errors.KafkaError) as e:
                self._warn(f"it cannot be found out where group {self._group} stands", e)
                self._closing.wait(RETRY_S)
                continue
            self._said = ""
            with self._data.lock:
                for tp in self._data.without_place(missing):
                    if tp in found:
                        self._data.seek(tp, found[tp].offset)
                        self._state.ledger.committed[tp] = found[tp]
                rest = self._data.without_place(missing) - self._unreadable
                if self._initial == "refuse" or not self._data.reset(rest):
                    self._state.ledger.unset |= rest
            break
        self.placed.set()
        self._data.wakeup.set()

    def _begin_of(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        wanted = sorted(partitions)
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        if self._storage != "kafka":
            client = self._ask()
            client.sync()
            reads = stored_reads(self._layout, self._group, wanted)
            answers = client.read(reads)
            secret = hidden(reads, answers)
            if secret:
                raise UnavailableError(f"ZooKeeper does not let this client read {secret}")
            found, unreadable = stored_of(wanted, answers)
            self._refuse_unreadable(unreadable)
        rest = [tp for tp in wanted if tp not in found and tp not in self._unreadable]
        if rest and (self._storage == "kafka" or self._initial == "kafka"):
            committed = committed_in_kafka(self._kafka, rest, KAFKA_DEADLINE_S)
            found.update(committed)
            if self._storage != "kafka":
                for tp in committed:
                    # stored in Kafka, not here: the first commit stores it
                    self._state.ledger.committed.pop(tp, None)
        return found

    def _refuse_unreadable(self, unreadable: Mapping[TopicPartition, Malformed]) -> None:
        """Have a poll raise `UnreadableOffsetError` for each of these whose offset is none, once;
        they wait until somebody corrects the node and they are assigned again.
        """
        before, self._unreadable = self._unreadable, set(unreadable)
        for tp, bad in unreadable.items():
            if tp not in before:
                node = self._layout.offset(self._group, ModelPartition(*tp))
                with self._data.lock:
                    self._state.raise_later(
                        UnreadableOffsetError((tp.topic, tp.partition), node, bad.reason)
                    )

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

    def _stored(self, message: msg.Commit) -> CommitDone:
        named, stores = tuple(sorted(message.offsets)), self._storage != "kafka"
        try:
            for part in self._memberless.parts(message):
                refusal = self._memberless.store(self._ask(), message, part, stores)
                if refusal is not None:
                    return refusal
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
        passing = isinstance(error, kafka.errors.RetriableError)
        outcome = CommitOutcome.UNAVAILABLE if passing else CommitOutcome.REFUSED
        return CommitDone(message.token, outcome, named, described(error))
