"""What a streaming query owns, between the member's thread and the thread on which Spark calls.

Messages of the member take effect at once, under the lock. A partition that is to be revoked is
given up at once if the batch under way has nothing of it; else when the batch is written, which is
known when Spark asks for the next one (`QueryMember.commit_written`). What stays is never touched
by what goes. A partition that an operator resets, or that is lost, forgets what is in flight of it
and what is not committed: what was read of it is not stored any more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from consumer.core import messages as msg
from consumer.core.messages import NoticeKind
from consumer.errors import MembershipError, failure
from consumer.fetch.client import FetchClient
from consumer.observer import AssignmentObserver
from consumer.spark.plan import PlannedRange
from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import assert_never

log = logging.getLogger(__name__)

REST_S = 0.5


@dataclass(slots=True)
class Owned:
    """One partition of this member. Changed under the lock of `QueryAssignment` only."""

    # The offset that is read next.
    position: int
    # The assignment epoch since which it is owned.
    assignment_epoch: int
    # The czxid of its owner node; -1: not known yet.
    owner: int = -1
    # The number of the plan that had it last; 0: none had it.
    planned: int = 0
    # Whether it is to be given up.
    revoking: bool = False
    # Nothing is planned of it until then (`time.monotonic`, s), because another `Revoke` is about
    # to come.
    rests_until: float = 0.0
    # The range of it that Spark has, or may have. While there is one, nothing else of it is planned
    # and it is not given up.
    in_flight: PlannedRange | None = None


class QueryAssignment:
    """One member's partitions. Each field may be read and changed under `lock` only, but for those
    that say otherwise. `closed` and `failure` are what `consumer.offsets.initial_offsets` asks for.
    """

    def __init__(
        self,
        data: FetchClient,
        observer: AssignmentObserver,
        changed: Callable[[], None],
        send: Callable[[msg.FromFetcher], None],
        resolve: Callable[[msg.Resolve], None],
    ) -> None:
        # Asks the brokers; any thread, without the lock.
        self.data = data
        # Hears of each change, under the lock.
        self.observer = observer
        # Notified of each change.
        self.lock = threading.Condition(threading.RLock())
        self.owned: dict[TopicPartition, Owned] = {}
        # Given up, and as it was then, in case it comes back (`Resumed`).
        self.released: dict[TopicPartition, Owned] = {}
        # Ranges that are durably written, whose offset is not known to be stored. What is given up
        # begins behind them (`position`), and nothing more of the partition is planned while there
        # is one. They stay when a partition is given up: it may come back before that was carried
        # out.
        self.uncommitted: dict[TopicPartition, PlannedRange] = {}
        # What each `Revoke` that is not answered yet still waits for, by its token.
        self.revokes: dict[int, set[TopicPartition]] = {}
        # Answers to commits that nobody has fetched yet, by their token.
        self.answers: dict[int, msg.CommitDone] = {}
        # The latest assignment epoch; rises only. Spark's thread reads it without the lock.
        self.assignment_epoch = 0
        # What ended this member; set once.
        self.failure: MembershipError | None = None
        # Why this is not the member any more that it was; "" once that was reported.
        self.session_lost = ""
        # Whether the group was left; set once. No message takes effect after that.
        self.closed = False
        # Called under the lock when partitions came or went.
        self._changed = changed
        # Sends a message to the member; any thread.
        self.send = send
        # Answers a question for initial offsets, now or later.
        self._answer_resolve = resolve

    # the member's thread

    def receive(self, message: msg.ToFetcher) -> None:
        """Carry out one message of the member."""
        with self.lock:
            if not self.closed:
                self._receive(message)
                self.lock.notify_all()

    def _receive(self, message: msg.ToFetcher) -> None:
        match message:
            case msg.Assigned():
                self._assigned(message)
            case msg.Revoke():
                self._revoke(message)
            case msg.Resumed():
                self._resumed(message)
            case msg.Lost():
                self._lost(message)
            case msg.Seek():
                self._seek(message)
            case msg.Resolve():
                self._answer_resolve(message)
            case msg.CommitDone():
                self.answers[message.token] = message
            case msg.Failed():
                self.failure = self.failure or failure(message)
            case msg.Notice():
                self._notice(message)
            case msg.UserData() | msg.Stored() | msg.Starting():
                pass  # for applications that listen
            case _:
                assert_never(message)

    def _assigned(self, m: msg.Assigned) -> None:
        self.assignment_epoch = max(self.assignment_epoch, m.assignment_epoch)
        for tp, offset in m.offsets.items():
            self.released.pop(tp, None)
            self.owned[tp] = Owned(offset, m.assignment_epoch)
        if m.offsets:
            self.observer.on_assigned(m.offsets, time.time_ns())
        self._changed()

    def _revoke(self, m: msg.Revoke) -> None:
        wanted = {tp for tp in m.partitions if tp in self.owned}
        self.observer.on_revoke(wanted, time.time_ns())
        for tp in wanted:
            self.owned[tp].revoking = True
        self.revokes[m.token] = wanted
        self.release()

    def release(self) -> None:
        """Give up what is to be revoked and not in flight. Any thread, under the lock."""
        for token, wanted in list(self.revokes.items()):
            busy = tuple(sorted(tp for tp in wanted if self.owned[tp].in_flight is not None))
            idle = sorted(wanted.difference(busy))
            if busy and not idle:
                continue
            del self.revokes[token]
            positions = {tp: self.position(tp) for tp in idle}
            for tp in idle:
                self.released[tp] = self.owned.pop(tp)
            self.observer.on_revoked(positions, time.time_ns())
            self.send(msg.Revoked(token, positions, busy))
            self._changed()

    def clear_in_flight(self) -> None:
        """Spark has no range of any partition. Under the lock."""
        for owned in self.owned.values():
            owned.in_flight = None

    def position(self, tp: TopicPartition) -> int:
        """The first offset of an owned partition that is not durably written."""
        at, written = self.owned[tp].position, self.uncommitted.get(tp)
        return written.end if written is not None and written.start == at else at

    def _resumed(self, m: msg.Resumed) -> None:
        back = {}
        for tp in m.partitions:
            if tp in self.released:
                self.owned[tp] = self.released.pop(tp)
                back[tp] = self.position(tp)
            if tp in self.owned:
                self.owned[tp].revoking = False
                self.owned[tp].rests_until = time.monotonic() + REST_S
            for wanted in self.revokes.values():
                wanted.discard(tp)
        if back:
            self.observer.on_assigned(back, time.time_ns())
        self._changed()

    def _lost(self, m: msg.Lost) -> None:
        self.assignment_epoch = max(self.assignment_epoch, m.assignment_epoch)
        gone = {tp for tp in m.partitions if self.owned.pop(tp, None) is not None}
        for tp in m.partitions:
            self.released.pop(tp, None)
            for wanted in self.revokes.values():
                wanted.discard(tp)
        if gone:
            log.warning("lost %d partitions (%s)", len(gone), m.reason)
        self.observer.on_lost(gone, m.reason, time.time_ns())
        self._changed()

    def _seek(self, m: msg.Seek) -> None:
        self.assignment_epoch = max(self.assignment_epoch, m.assignment_epoch)
        log.warning(
            "the stored offset of %s was reset to %d by somebody else: the next batch goes on"
            " there",
            m.partition,
            m.offset,
        )
        self.uncommitted.pop(m.partition, None)
        if m.partition in self.owned:
            self.owned[m.partition].position = m.offset
            self.owned[m.partition].in_flight = None
        self._changed()

    def _notice(self, m: msg.Notice) -> None:
        self.observer.on_notice(m, time.time_ns())
        if m.kind in (NoticeKind.SESSION_LOST, NoticeKind.EVICTED):
            self.session_lost = (
                "its ZooKeeper session ended"
                if m.kind is NoticeKind.SESSION_LOST
                else (
                    "it was taken out of the group, because it did not carry out a command in time"
                    " or somebody deleted its node"
                )
            )
            self.revokes.clear()
            self.released.clear()
