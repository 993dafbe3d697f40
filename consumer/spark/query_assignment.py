"""What a streaming query holds, between the agent's thread and the thread on which Spark calls.

Messages of the agent take effect at once, under the lock. A partition that is asked back is given
at once if the batch under way has nothing of it; else when the batch is written, which is known
when Spark asks for the next one (`Member.settle`). What stays is never touched by what goes.

Contracts:
* `flight` of a partition: the range of it that Spark has, or may have. While there is one, nothing
  else of it is planned and it is not given up.
* `unsettled`: ranges that are durably written, whose offset is not known to be stored. What is
  given up begins behind them (`position`), and nothing more of the partition is planned while there
  is one. They stay when a partition is given up: it may come back before that was carried out.
* A partition that an operator resets, or that is lost, forgets both: what was read of it is not
  stored any more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from consumer.core import messages as msg
from consumer.core.messages import NoticeKind
from consumer.errors import MembershipError, failure
from consumer.fetch.client import FetchClient
from consumer.observer import AssignmentObserver
from consumer.spark.plan import PlannedRange
from zkcoord.core.model import TopicPartition

log = logging.getLogger(__name__)

REST_S = 0.5


@dataclass(slots=True)
class Owned:
    """One partition of this member: what is read next, since which era it is owned; `owner`: the
    czxid of its owner node (-1: not known yet); `planned`: the number of the plan that had it last;
    `rests_until`: it is about to be asked back, as far as is known (`time.monotonic`).
    """

    position: int
    era: int
    owner: int = -1
    planned: int = 0
    revoking: bool = False
    rests_until: float = 0.0
    flight: PlannedRange | None = None


class QueryAssignment:
    """One member's partitions. Everything is read and changed under
    `lock`, which is also notified of each change. `closed` and `failure` are what
    `consumer.offsets.initial_offsets` asks for.
    """

    def __init__(
        self,
        data: FetchClient,
        observer: AssignmentObserver,
        changed: Callable[[], None],
        send: Callable[[msg.FromFetcher], None],
        resolve: Callable[[msg.Resolve], None],
    ) -> None:
        self.data = data
        self.observer = observer
        self.lock = threading.Condition(threading.RLock())
        self.owned: dict[TopicPartition, Owned] = {}
        self.given: dict[TopicPartition, Owned] = {}
        self.unsettled: dict[TopicPartition, PlannedRange] = {}
        self.revokes: dict[int, set[TopicPartition]] = {}
        self.answers: dict[int, msg.CommitDone] = {}
        self.era = 0
        self.failure: MembershipError | None = None
        self.session_lost = ""
        self.closed = False
        self._changed = changed
        # Sends a message to the member's thread.
        self.send = send
        # Answers a question for initial offsets, now or later.
        self._answer_resolve = resolve

    # the agent's thread

    def receive(self, message: msg.ToFetcher) -> None:
        """Take one message of the agent."""
        with self.lock:
            if not self.closed:
                self._HANDLERS[type(message)](self, message)
                self.lock.notify_all()

    def _assigned(self, m: msg.Assigned) -> None:
        self.era = max(self.era, m.era)
        for tp, offset in m.offsets.items():
            self.given.pop(tp, None)
            self.owned[tp] = Owned(offset, m.era)
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
        """Give up what is asked back and not being read. Any thread, under the lock."""
        for token, wanted in list(self.revokes.items()):
            busy = tuple(sorted(tp for tp in wanted if self.owned[tp].flight is not None))
            idle = sorted(wanted.difference(busy))
            if busy and not idle:
                continue
            del self.revokes[token]
            positions = {tp: self.position(tp) for tp in idle}
            for tp in idle:
                self.given[tp] = self.owned.pop(tp)
            self.observer.on_revoked(positions, time.time_ns())
            self.send(msg.Revoked(token, positions, busy))
            self._changed()

    def position(self, tp: TopicPartition) -> int:
        """The first offset of an owned partition that is not durably written."""
        at, written = self.owned[tp].position, self.unsettled.get(tp)
        return written.end if written is not None and written.start == at else at

    def _resumed(self, m: msg.Resumed) -> None:
        back = {}
        for tp in m.partitions:
            if tp in self.given:
                self.owned[tp] = self.given.pop(tp)
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
        self.era = max(self.era, m.era)
        gone = {tp for tp in m.partitions if self.owned.pop(tp, None) is not None}
        for tp in m.partitions:
            self.given.pop(tp, None)
            for wanted in self.revokes.values():
                wanted.discard(tp)
        if gone:
            log.warning("lost %d partitions (%s)", len(gone), m.reason)
        self.observer.on_lost(gone, m.reason, time.time_ns())
        self._changed()

    def _seek(self, m: msg.Seek) -> None:
        self.era = max(self.era, m.era)
        log.warning(
            "the stored offset of %s was reset to %d by somebody else: the next batch goes on"
            " there",
            m.partition,
            m.offset,
        )
        self.unsettled.pop(m.partition, None)
        if m.partition in self.owned:
            self.owned[m.partition].position = m.offset
            self.owned[m.partition].flight = None
        self._changed()

    def _resolve(self, m: msg.Resolve) -> None:
        self._answer_resolve(m)

    def _commit_done(self, m: msg.CommitDone) -> None:
        self.answers[m.token] = m

    def _failed(self, m: msg.Failed) -> None:
        self.failure = self.failure or failure(m)

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
            self.given.clear()

    def _nothing(self, m: Any) -> None:
        """What a custom assignor says is for applications that listen."""

    _HANDLERS: Mapping[type, Callable[[QueryAssignment, Any], None]] = {
        msg.Assigned: _assigned,
        msg.Revoke: _revoke,
        msg.Resumed: _resumed,
        msg.Lost: _lost,
        msg.Seek: _seek,
        msg.Resolve: _resolve,
        msg.CommitDone: _commit_done,
        msg.Failed: _failed,
        msg.Notice: _notice,
        msg.UserData: _nothing,
        msg.Stored: _nothing,
    }
