"""The desk between the agent's thread and the application's: who may hand out what, and who answers
which request.

Messages of the agent arrive on its thread (`receive`) and take effect at once, under the fetching
side's lock: a revoked or lost partition is not handed out any more from that moment on, an assigned
one is fetched from that moment on. What needs the application's thread (callbacks, answers that
wait for the records handed out last) is queued as a `PendingCallback` and done inside poll
(`run_tasks`).

Ordering contracts:
* A record is handed out only under the lock, with no task queued. So `on_partitions_assigned` comes
  before any record of those partitions, and nothing of a revoked partition follows its `Revoke`.
* Records of one poll count as processed when the application polls again (`processed`), or closes.
  A `Revoke` is answered at once on the agent's thread for all that they are not of, unless a
  callback has to run first: a slow handler delays only what it works on, which the coordinator asks
  for again.
* What came and went before the application was told is never told: its callbacks cancel out.
* `era` is the agent's count of what it said of assignments, as far as it was taken here; positions
  read now are true in it. What the application itself chose to commit is only as new as what the
  application was told: `heard_era`, which follows with each callback, each hand-out and each look
  at the assignment. So a commit for a partition that was lost and came back meanwhile is refused.
* `lease_seen_ms` is the end of the lease (asked for with `era`) as the application's thread read it
  last; it is only good for partitions held since, so it is forgotten when any are lost.
* `rebalance_failure` is what the coordinator says while it cannot rebalance the group ("" while it
  can); `unraised` is the error of it that poll shall raise, once, where the application wants that.
* `lost` is what went without notice since the application polled last, and why: a commit of the
  records handed out then is refused, and says so.
* With manual commits a `Revoked` carries no positions: nothing is stored that the application did
  not commit.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.assignment.listener import RebalanceListenerInvoker
from consumer.core import messages as msg
from consumer.errors import ConsumerRebalanceFailedException, MembershipError, failure
from consumer.fetch.client import FetchClient
from consumer.fetch.record_iterator import RecordIterator
from consumer.observer import AssignmentObserver, Observer
from zkcoord.core.model import TopicPartition as ModelPartition

log = logging.getLogger(__name__)

Tell = Callable[[msg.FromFetcher], None]


@dataclass
class PendingCallback:
    """Something for the application's thread: a callback for `partitions`, or (with `token`) the
    answer to a `Revoke`.
    """

    callback: str
    partitions: set[TopicPartition]
    token: int | None = None
    answer: tuple[TopicPartition, ...] = ()
    era: int = 0


@dataclass
class PartitionLedger:
    """Bookkeeping by partition. `unannounced`: assigned, callback not run yet. `revoking`: by which
    token. `given`: answered, and where it stood, in case it comes back (`Resumed`). `committed`:
    stored, as far as known here.
    """

    unannounced: set[TopicPartition] = field(default_factory=set)
    revoking: dict[TopicPartition, int] = field(default_factory=dict)
    given: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)


class AssignmentState:
    """One member's partitions, between two threads."""

    def __init__(
        self,
        data: FetchClient,
        cursor: RecordIterator,
        listening: RebalanceListenerInvoker,
        tell: Tell,
        auto_commit: bool,
        observer: AssignmentObserver | None = None,
        raises: bool = False,
    ) -> None:
        self.data = data
        self.cursor = cursor
        self.listening = listening
        self.tell = tell
        self.auto_commit = auto_commit
        self.observer = observer or Observer()
        self.lock = data.lock
        self.desk = PartitionLedger()
        self.tasks: deque[PendingCallback] = deque()
        self.handed_out: Collection[TopicPartition] = ()
        self.failure: MembershipError | None = None
        self.raises = raises
        self.rebalance_failure = ""
        self.unraised: ConsumerRebalanceFailedException | None = None
        self.user_data = ""
        self.on_commit_done: Callable[[msg.CommitDone], None] = lambda done: None
        self.on_resolve: Callable[[msg.Resolve], None] = lambda question: None
        self.closed = False
        self.lease_seen_ms = 0
        self.era = 0
        self.heard_era = 0
        self.lost: dict[TopicPartition, str] = {}

    # the agent's thread

    def receive(self, message: msg.ToFetcher) -> None:
        """Take one message of the agent. Never blocks for longer than a hand-out of records
        takes.
        """
        with self.lock:
            if not self.closed:
                self._HANDLERS[type(message)](self, message)

    def _assigned(self, m: msg.Assigned) -> None:
        offsets = {TopicPartition(*tp): offset for tp, offset in m.offsets.items()}
        for tp, offset in offsets.items():
            self.desk.given.pop(tp, None)
            self.desk.revoking.pop(tp, None)
            self.desk.committed[tp] = offset
        self._hear(m.era)
        self.observer.on_assigned(offsets, time.time_ns())
        self._come({tp: OffsetAndMetadata(offset, "", -1) for tp, offset in offsets.items()})

    def _hear(self, era: int) -> None:
        self.era = max(self.era, era)

    def _come(self, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if not positions:
            return
        self.data.add(positions)
        if self.listening:
            self.desk.unannounced.update(positions)
            self._queue(PendingCallback("on_partitions_assigned", set(positions)))

    def _revoke(self, m: msg.Revoke) -> None:
        assigned = self.data.assigned()
        wanted = {tp for tp in map(_public, m.partitions) if tp in assigned}
        self.observer.on_revoke(wanted, time.time_ns())
        self.data.hold(wanted)
        self.cursor.put_back(wanted)
        for tp in wanted:
            self.desk.revoking[tp] = m.token
        told = self._unannounce(wanted) if self.listening else set()
        busy = wanted.intersection(self.handed_out)
        if told or (busy and (busy == wanted or not m.in_part)):
            self._queue(PendingCallback("on_partitions_revoked", told, m.token, tuple(wanted)))
        else:
            self._answer(m.token, wanted - busy, tuple(sorted(busy)))

    def _answer(
        self,
        token: int,
        partitions: Iterable[TopicPartition],
        busy: tuple[TopicPartition, ...] = (),
    ) -> None:
        """Give up what is still being revoked by this token, and say where it stands. `busy` are
        left to the next command: nothing more of them is handed out until they are resumed.
        """
        mine = [tp for tp in partitions if self.desk.revoking.get(tp) == token]
        positions: dict[TopicPartition, int] = {}
        for tp in mine:
            position = self.data.position(tp)
            if position is not None:
                self.desk.given[tp] = position
                positions[tp] = position.offset
            del self.desk.revoking[tp]
        self.data.remove(mine)
        self.observer.on_revoked(positions, time.time_ns())
        self.tell(
            msg.Revoked(
                token,
                model_offsets(positions) if self.auto_commit else {},
                tuple(ModelPartition(*tp) for tp in busy),
            )
        )

    def _resumed(self, m: msg.Resumed) -> None:
        back: dict[TopicPartition, OffsetAndMetadata] = {}
        for tp in map(_public, m.partitions):
            position = self.desk.given.pop(tp, None)
            if position is not None:
                back[tp] = position
            elif self.desk.revoking.pop(tp, None) is not None:
                self.data.hold([tp], held=False)
                if self.listening and not self._still_queued("on_partitions_revoked", tp):
                    self.desk.unannounced.add(tp)
                    self._queue(PendingCallback("on_partitions_assigned", {tp}))
        self._come(back)
        if back:
            self.observer.on_assigned(
                {tp: position.offset for tp, position in back.items()}, time.time_ns()
            )
        self.data.bell.set()

    def _still_queued(self, callback: str, tp: TopicPartition) -> bool:
        """Take a partition out of the queued calls of a callback; False when none named it."""
        found = False
        for task in self.tasks:
            if task.callback == callback and tp in task.partitions:
                task.partitions.discard(tp)
                found = True
        return found

    def _unannounce(self, partitions: set[TopicPartition]) -> set[TopicPartition]:
        """Those that the application knows of; the others are taken out of the calls that would
        have told it.
        """
        for tp in partitions & self.desk.unannounced:
            self._still_queued("on_partitions_assigned", tp)
        known = partitions - self.desk.unannounced
        self.desk.unannounced -= partitions
        return known

    def _lost(self, m: msg.Lost) -> None:
        self._hear(m.era)
        self._drop({TopicPartition(*tp) for tp in m.partitions}, m.reason)

    def _drop(self, partitions: set[TopicPartition], reason: str) -> None:
        self.lease_seen_ms = 0
        assigned = partitions & self.data.assigned()
        told = self._unannounce(assigned)
        self.lost.update(dict.fromkeys(assigned, reason))
        for tp in partitions:
            self.desk.given.pop(tp, None)
            self.desk.committed.pop(tp, None)
            if self.desk.revoking.pop(tp, None) is not None and not self._still_queued(
                "on_partitions_revoked", tp
            ):
                told.discard(tp)
        self.cursor.discard(partitions)
        self.data.remove(partitions)
        self.observer.on_lost(assigned, reason, time.time_ns())
        if assigned:
            log.warning("lost %d partitions (%s)", len(assigned), reason)
        if told and self.listening:
            self._queue(PendingCallback("on_partitions_lost", told))

    def _seek(self, m: msg.Seek) -> None:
        tp = TopicPartition(*m.partition)
        self._hear(m.era)
        log.warning(
            "the stored offset of %s-%d was reset to %d by somebody else: going on there",
            tp.topic,
            tp.partition,
            m.offset,
        )
        self.desk.committed[tp] = m.offset
        self.cursor.discard({tp})
        self.data.seek(tp, m.offset)
        self.data.fetcher.newcomers([tp] if tp in self.data.assigned() else [])

    def _resolve(self, m: msg.Resolve) -> None:
        self.on_resolve(m)

    def _commit_done(self, m: msg.CommitDone) -> None:
        self.on_commit_done(m)

    def _failed(self, m: msg.Failed) -> None:
        self.fail(failure(m))

    def fail(self, error: MembershipError) -> None:
        """The member cannot go on: poll raises this from now on."""
        with self.lock:
            if self.failure is None:
                self.failure = error
            self._drop(self.data.assigned(), str(error))
        self.data.bell.set()

    def _notice(self, m: msg.Notice) -> None:
        self.observer.on_notice(m, time.time_ns())
        if m.kind is msg.NoticeKind.REBALANCE_FAILED:
            self.rebalance_failure = str(m.detail["message"])
            self.unraised = (
                ConsumerRebalanceFailedException(self.rebalance_failure) if self.raises else None
            )
        elif m.kind is msg.NoticeKind.REBALANCE_OVER:
            self.rebalance_failure, self.unraised = "", None
        if m.kind is msg.NoticeKind.LEASE_BACK or self.unraised is not None:
            self.data.bell.set()

    def _user_data(self, m: msg.UserData) -> None:
        self.user_data = m.text

    def _queue(self, task: PendingCallback) -> None:
        task.era = self.era
        self.tasks.append(task)
        self.data.bell.set()

    _HANDLERS: ClassVar[dict[type, Callable[[AssignmentState, Any], None]]] = {
        msg.Assigned: _assigned,
        msg.Revoke: _revoke,
        msg.Resumed: _resumed,
        msg.Lost: _lost,
        msg.Seek: _seek,
        msg.Resolve: _resolve,
        msg.CommitDone: _commit_done,
        msg.Failed: _failed,
        msg.Notice: _notice,
        msg.UserData: _user_data,
    }

    # the application's thread

    def processed(self) -> None:
        """The records handed out last are processed."""
        self.handed_out = ()
        if self.lost:
            with self.lock:
                self.lost.clear()

    def lost_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """Which of these were lost since the application polled last, and why."""
        with self.lock:
            return {tp: self.lost[tp] for tp in partitions if tp in self.lost}

    def run_tasks(self) -> None:
        """Run the queued callbacks and answers, in order, without the lock. A callback's error
        waits in `listening` for `raise_error`.
        """
        while self.tasks:
            with self.lock:
                task = self.tasks.popleft()
                self.heard_era = task.era
                if task.callback == "on_partitions_assigned":
                    self.desk.unannounced -= task.partitions
            self.listening.call(task.callback, set(task.partitions))
            if task.token is not None and not self.closed:  # the callback may have left the group
                with self.lock:
                    self._answer(task.token, task.answer)

    def raise_error(self) -> None:
        """Raise what ended this member, for ever, or that its group cannot be rebalanced, once."""
        if self.failure is not None:
            raise self.failure
        if self.unraised is not None:
            with self.lock:
                unraised, self.unraised = self.unraised, None
            if unraised is not None:
                raise unraised

    def announced(self) -> set[TopicPartition]:
        """What the application knows to be assigned: from now on it has heard of it."""
        with self.lock:
            if not self.tasks:
                self.heard_era = self.era
            return self.data.assigned() - self.desk.unannounced

    def positions(self) -> tuple[dict[TopicPartition, OffsetAndMetadata], int]:
        """Where each partition stands (the offset after the last record handed out), and the era in
        which that is so.
        """
        with self.lock:
            consumed = dict(self.data.subscription.all_consumed_offsets())
            consumed.update(
                {
                    tp: OffsetAndMetadata(offset, "", -1)
                    for tp, offset in self.cursor.positions().items()
                }
            )
            return consumed, self.era

    def let_go(self) -> tuple[dict[TopicPartition, int], int]:
        """Leave: nothing is handed out any more, the application is told; gives the last positions
        and their era.
        """
        with self.lock:
            held = self.data.assigned()
            self.data.hold(held)
            self.cursor.put_back(held)
            told = self._unannounce(held)
        self.processed()
        self.run_tasks()
        self.listening.call("on_partitions_revoked", told & self.data.assigned())
        with self.lock:
            left = self.data.assigned()
            positions = {
                tp: position.offset
                for tp in left
                if (position := self.data.position(tp)) is not None
            }
            self.data.remove(left)
            self.closed = True
            return positions, self.era


def _public(tp: ModelPartition) -> TopicPartition:
    return TopicPartition(*tp)


def model_offsets(offsets: Mapping[TopicPartition, int]) -> dict[ModelPartition, int]:
    """The same with the agent's type."""
    return {ModelPartition(*tp): offset for tp, offset in offsets.items()}
