"""What waits for the application's thread: rebalance callbacks, and answers to revocations.

A callback is queued as a `PendingCallback` and run inside poll. A revocation whose records are
still in hand of a message stream (`consumer.streams`) is parked before it is queued, until they are
processed or `in_hand_ms` is over.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import KeysView
from dataclasses import dataclass

from kafka.structs import TopicPartition

from zkcoord.zk.bell import Bell


@dataclass
class PendingCallback:
    """Something for the application's thread: a callback for `partitions`, or (with `token`) the
    answer to a `Revoke`.
    """

    # Name of the rebalance listener's method.
    callback: str
    # What the callback is called with. One that was withdrawn meanwhile is taken out.
    partitions: set[TopicPartition]
    # Of the `Revoke` to be answered after the callback.
    token: int | None = None
    # Partitions that this answer gives up.
    answer: tuple[TopicPartition, ...] = ()
    # Which changes of the assignment the application has seen once this has run.
    assignment_epoch: int = 0
    # Whether it is called with nothing, too: that there is nothing is what it says.
    of_nothing: bool = False


class CallbackQueue:
    """Pending callbacks of one member, in order. Everything is called under the fetching side's
    lock.
    """

    def __init__(self, in_hand: KeysView[TopicPartition], in_hand_ms: int, wakeup: Bell) -> None:
        # To be run next time that the application polls. While there is one no record is handed
        # out.
        self.due: deque[PendingCallback] = deque()
        # Revocations that wait for records in hand, and until when (`time.monotonic`).
        self._parked: deque[tuple[PendingCallback, float]] = deque()
        # Partitions of the records in hand, a view that follows them.
        self._in_hand = in_hand
        # For how long a record in hand may delay a revocation.
        self._in_hand_ms = in_hand_ms
        # Set when there is something to do for the thread that polls.
        self._wakeup = wakeup

    @property
    def parks(self) -> bool:
        """Whether a revocation waits for records in hand."""
        return bool(self._parked)

    def add(self, pending: PendingCallback, assignment_epoch: int) -> None:
        """Queue this, or park it."""
        if pending.token is None or self._in_hand.isdisjoint(pending.answer):
            self._add_due(pending, assignment_epoch)
        else:
            self._parked.append((pending, time.monotonic() + self._in_hand_ms / 1000))
            self._wakeup.set()

    def _add_due(self, pending: PendingCallback, assignment_epoch: int) -> None:
        pending.assignment_epoch = assignment_epoch
        self.due.append(pending)
        self._wakeup.set()

    def withdraw(self, callback: str, tp: TopicPartition) -> bool:
        """Take a partition out of the calls of a callback; False when none named it."""
        found = False
        for pending in (*self.due, *(parked for parked, _ in self._parked)):
            if pending.callback == callback and tp in pending.partitions:
                pending.partitions.discard(tp)
                found = True
        return found

    def release(self, assignment_epoch: int, all_of_them: bool) -> None:
        """Queue parked revocations whose records are processed, or were waited for long enough."""
        now, waiting = time.monotonic(), self._parked
        self._parked = deque()
        for pending, until in waiting:
            if all_of_them or now >= until or self._in_hand.isdisjoint(pending.answer):
                self._add_due(pending, assignment_epoch)
            else:
                self._parked.append((pending, until))

    def deadline(self) -> float:
        """When `release` has something to do at the latest (`time.monotonic`)."""
        return min((until for _, until in self._parked), default=math.inf)
