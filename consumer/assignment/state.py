"""One member's assignment, between the member's thread and the application's: what may be handed
out, and who answers which revocation.

Messages of the member arrive on its thread (`receive`) and take effect at once, under the fetching
side's lock: a revoked or lost partition is not handed out any more from that moment on, an assigned
one is fetched from that moment on. What needs the application's thread (callbacks, answers that
wait for the records handed out last) is queued as a `PendingCallback` and done inside poll
(`run_callbacks`). A record is handed out only under the lock, with no callback queued: so
`on_partitions_assigned` comes before any record of those partitions, and nothing of a revoked
partition follows its `Revoke`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.assignment.callbacks import CallbackQueue, PendingCallback
from consumer.assignment.listener import RebalanceListenerInvoker
from consumer.core import messages as msg
from consumer.errors import (
    ConsumerError,
    ConsumerRebalanceFailedException,
    MembershipError,
    NoStoredOffsetError,
    UnreadableOffsetError,
    failure,
)
from consumer.fetch.client import FetchClient
from consumer.fetch.record_iterator import TakenRecords
from consumer.observer import AssignmentObserver, Observer
from zkcoord.core.model import TopicPartition as ModelPartition
from zkcoord.core.value_type import assert_never

log = logging.getLogger(__name__)

Send = Callable[[msg.FromFetcher], None]
AssignmentMessage = (
    msg.Assigned
    | msg.Revoke
    | msg.Resumed
    | msg.Lost
    | msg.Seek
    | msg.Failed
    | msg.Notice
    | msg.UserData
)


@dataclass
class PartitionLedger:
    """Bookkeeping by partition."""

    # Assigned, and `on_partitions_assigned` has not run yet. What comes and goes while it is here
    # is never reported to the application.
    unannounced: set[TopicPartition] = field(default_factory=set)
    # To be given up: the token of the `Revoke` that asked for it.
    revoking: dict[TopicPartition, int] = field(default_factory=dict)
    # Given up, and where it stood, in case it comes back (`Resumed`).
    given: dict[TopicPartition, OffsetAndMetadata | None] = field(default_factory=dict)
    # What is stored of it, as far as known here.
    committed: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    # Assigned, and nothing says where it begins: not fetched until the application has sought.
    unset: set[TopicPartition] = field(default_factory=set)


class AssignmentState:
    """One member's partitions, between two threads. Each field may be changed under `lock` only,
    but for those that name their thread.
    """

    def __init__(
        self,
        data: FetchClient,
        records: TakenRecords,
        listener: RebalanceListenerInvoker,
        send: Send,
        auto_commit: bool,
        observer: AssignmentObserver | None = None,
        raises: bool = False,
        in_hand_ms: int = 0,
        eager: bool = False,
        unset_because: str = "",
    ) -> None:
        self.data = data
        self.records = records
        self.listener = listener
        # Sends a message to the member; any thread.
        self.send = send
        # With manual commits a `Revoked` carries no positions: only what was committed is stored.
        self.auto_commit = auto_commit
        self.observer: AssignmentObserver = observer or Observer()
        self.lock = data.lock
        self.ledger = PartitionLedger()
        self.callbacks = CallbackQueue(records.in_hand.keys(), in_hand_ms, data.wakeup)
        # The queue of `callbacks`, which iteration looks at before each record.
        self.due_callbacks = self.callbacks.due
        # Partitions of the records handed out last, which count as processed when the application
        # polls again (`processed`), or closes. A `Revoke` is answered at once for all others,
        # unless a callback has to run first: a slow handler delays only what it works on.
        self.handed_out: Collection[TopicPartition] = records.in_hand
        # What ended this member; set once. Poll raises it from then on.
        self.failure: MembershipError | None = None
        # Whether poll raises that the group cannot be rebalanced.
        self.raises = raises
        # The coordinator's message while it cannot rebalance the group; "" while it can.
        self.rebalance_failure = ""
        # What poll has still to raise, once: the error of `rebalance_failure`, or that what is
        # stored for a partition is no offset.
        self.unraised: ConsumerError | None = None
        self._raised_next: list[ConsumerError] = []
        # What a custom assignor sent to this member last; "" for nothing.
        self.user_data = ""
        # Whether `on_partitions_revoked` comes before the first assignment, as in kafka-python
        # where everything stops in each rebalance.
        self._eager_first = eager
        # Why a partition may be assigned and not know where it begins, and what to do about it.
        self._unset_because = unset_because
        # Whether the application wants a topic: nothing of others is handed out.
        self._wants: Callable[[str], bool] = lambda topic: True
        # Set when the group is left: messages that arrive later are dropped.
        self.closed = False
        # End of the lease (`boot_ms`; asked for with `assignment_epoch`) as the thread that polls
        # read it last. Only good for partitions held since, so it is 0 again when any are lost.
        self.lease_seen_ms = 0
        # The member's count of its changes of the assignment, as far as they took effect here.
        # Positions that are read now are true in it.
        self.assignment_epoch = 0
        # The epoch that the application has seen: it follows with each callback, each hand-out and
        # each look at the assignment. What the application itself chose to commit is only as new as
        # this, so a commit for a partition that was lost and came back meanwhile is refused.
        self.seen_assignment_epoch = 0
        # What went without notice since the application polled last, and why: a commit of the
        # records handed out then is refused with this.
        self.lost: dict[TopicPartition, str] = {}

    # the member's thread

    def receive(self, message: AssignmentMessage) -> None:
        """Carry out one message of the member. Never blocks for longer than a hand-out of records
        takes.
        """
        with self.lock:
            if self.closed:
                return
            match message:
                case msg.Assigned():
                    self._assign(message)
                case msg.Revoke():
                    self._revoke(message)
                case msg.Resumed():
                    self._resume(message)
                case msg.Lost():
                    self._advance_epoch(message.assignment_epoch)
                    self._lose({TopicPartition(*tp) for tp in message.partitions}, message.reason)
                case msg.Seek():
                    self._seek(message)
                case msg.Failed():
                    self.fail(failure(message))
                case msg.Notice():
                    self._notice(message)
                case msg.UserData():
                    self.user_data = message.text
                case _:
                    assert_never(message)

    def _assign(self, m: msg.Assigned) -> None:
        offsets = {TopicPartition(*tp): offset for tp, offset in m.offsets.items()}
        unset = set(map(_public, m.unset))
        metadata = {TopicPartition(*tp): text for tp, text in m.metadata.items()}
        for tp in (*offsets, *unset):
            self.ledger.given.pop(tp, None)
            self.ledger.revoking.pop(tp, None)
        for tp, offset in offsets.items():
            self.ledger.committed[tp] = OffsetAndMetadata(offset, metadata.get(tp, ""), -1)
        self._advance_epoch(m.assignment_epoch)
        if offsets:
            self.observer.on_assigned(offsets, time.time_ns())
        if self._eager_first and self.listener:
            self._queue(PendingCallback("on_partitions_revoked", set(), of_nothing=True))
        self._eager_first = False
        if not offsets and not unset and self.listener:
            self._queue(PendingCallback("on_partitions_assigned", set(), of_nothing=True))
        positions: dict[TopicPartition, OffsetAndMetadata | None] = {
            tp: OffsetAndMetadata(offset, "", -1) for tp, offset in offsets.items()
        }
        self._begin(
            {**positions, **dict.fromkeys(unset)},
            {TopicPartition(*tp): m.streams.get(tp, 0) for tp in (*m.offsets, *m.unset)},
        )

    def _advance_epoch(self, assignment_epoch: int) -> None:
        self.assignment_epoch = max(self.assignment_epoch, assignment_epoch)

    def _begin(
        self,
        positions: Mapping[TopicPartition, OffsetAndMetadata | None],
        streams: Mapping[TopicPartition, int],
    ) -> None:
        """Fetch these from now on, those without a position once the application has sought.
        `streams`: which stream gets the records of a partition; one that is not named keeps its
        stream.
        """
        if not positions:
            return
        self.data.add(positions)
        self.ledger.unset.update(tp for tp, position in positions.items() if position is None)
        self._hold_unwanted(positions)
        if self.listener:
            self.ledger.unannounced.update(positions)
            self._queue(PendingCallback("on_partitions_assigned", set(positions)))
        self.records.added(positions, streams)

    def _revoke(self, m: msg.Revoke) -> None:
        assigned = self.data.assigned()
        wanted = {tp for tp in map(_public, m.partitions) if tp in assigned}
        self.observer.on_revoke(wanted, time.time_ns())
        self.data.hold(wanted)
        self.records.put_back(wanted)
        for tp in wanted:
            self.ledger.revoking[tp] = m.token
        announced = self._unannounce(wanted) if self.listener else set()
        busy = wanted.intersection(self.handed_out)
        if announced or (busy and (busy == wanted or not m.in_part)):
            self._queue(PendingCallback("on_partitions_revoked", announced, m.token, tuple(wanted)))
        else:
            self._answer(m.token, wanted - busy, tuple(sorted(busy)))

    def _answer(
        self,
        token: int,
        partitions: Iterable[TopicPartition],
        busy: tuple[TopicPartition, ...] = (),
    ) -> None:
        """Give up what is still being revoked by this token, and report where it stands. `busy` are
        left to the next command: nothing more of them is handed out until they are resumed.
        """
        mine = [tp for tp in partitions if self.ledger.revoking.get(tp) == token]
        self.records.give_up(mine)
        positions: dict[TopicPartition, int] = {}
        for tp in mine:
            position = self.data.position(tp)
            self.ledger.given[tp] = position
            if position is not None:
                positions[tp] = position.offset
            del self.ledger.revoking[tp]
            self.ledger.unset.discard(tp)
        self.data.remove(mine)
        self.observer.on_revoked(positions, time.time_ns())
        self.send(
            msg.Revoked(
                token,
                model_offsets(positions) if self.auto_commit else {},
                tuple(ModelPartition(*tp) for tp in busy),
            )
        )

    def _resume(self, m: msg.Resumed) -> None:
        back: dict[TopicPartition, OffsetAndMetadata | None] = {}
        for tp in map(_public, m.partitions):
            if tp in self.ledger.given:
                # where it was being looked up, it goes on where it is stored
                back[tp] = self.ledger.given.pop(tp) or self.ledger.committed.get(tp)
            elif self.ledger.revoking.pop(tp, None) is not None:
                self.data.hold([tp], held=not self._wants(tp.topic))
                if self.listener and not self.callbacks.withdraw("on_partitions_revoked", tp):
                    self.ledger.unannounced.add(tp)
                    self._queue(PendingCallback("on_partitions_assigned", {tp}))
        self._begin(back, {})
        if back:
            self.observer.on_assigned(
                {tp: position.offset for tp, position in back.items() if position is not None},
                time.time_ns(),
            )
        self.data.wakeup.set()

    def _unannounce(self, partitions: set[TopicPartition]) -> set[TopicPartition]:
        """Those that the application knows of; the others are taken out of the callbacks that would
        have named them.
        """
        for tp in partitions & self.ledger.unannounced:
            self.callbacks.withdraw("on_partitions_assigned", tp)
        known = partitions - self.ledger.unannounced
        self.ledger.unannounced -= partitions
        return known

    def _lose(self, partitions: set[TopicPartition], reason: str) -> None:
        self.lease_seen_ms = 0
        assigned = partitions & self.data.assigned()
        announced = self._unannounce(assigned)
        self.lost.update(dict.fromkeys(assigned, reason))
        for tp in partitions:
            self.ledger.given.pop(tp, None)
            self.ledger.committed.pop(tp, None)
            self.ledger.unset.discard(tp)
            if self.ledger.revoking.pop(tp, None) is not None and not self.callbacks.withdraw(
                "on_partitions_revoked", tp
            ):
                announced.discard(tp)
        self.records.discard(partitions)
        self.data.remove(partitions)
        self.observer.on_lost(assigned, reason, time.time_ns())
        if assigned:
            log.warning("lost %d partitions (%s)", len(assigned), reason)
        if announced and self.listener:
            self._queue(PendingCallback("on_partitions_lost", announced))

    def _seek(self, m: msg.Seek) -> None:
        tp = TopicPartition(*m.partition)
        self._advance_epoch(m.assignment_epoch)
        log.warning(
            "the stored offset of %s-%d was reset to %d by somebody else: going on there",
            tp.topic,
            tp.partition,
            m.offset,
        )
        self.ledger.committed[tp] = OffsetAndMetadata(m.offset, "", -1)
        self.ledger.unset.discard(tp)
        self.records.discard({tp})
        self.data.seek(tp, m.offset)
        self.data.fetcher.newcomers([tp] if tp in self.data.assigned() else [])

    def fail(self, error: MembershipError) -> None:
        """The member cannot go on: poll raises this from now on. Any thread."""
        with self.lock:
            if self.failure is None:
                self.failure = error
            self._lose(self.data.assigned(), str(error))
        self.data.wakeup.set()

    def _notice(self, m: msg.Notice) -> None:
        self.observer.on_notice(m, time.time_ns())
        if m.kind is msg.NoticeKind.REBALANCE_FAILED:
            self.rebalance_failure = str(m.detail["message"])
            if self.raises:
                self.raise_later(ConsumerRebalanceFailedException(self.rebalance_failure))
        elif m.kind is msg.NoticeKind.REBALANCE_OVER:
            self.rebalance_failure = ""
            if isinstance(self.unraised, ConsumerRebalanceFailedException):
                self.unraised = None
        elif m.kind is msg.NoticeKind.UNREADABLE_OFFSET:
            tp = (str(m.detail["topic"]), int(m.detail["partition"]))
            node, why = str(m.detail["node"]), str(m.detail["reason"])
            self.raise_later(UnreadableOffsetError(tp, node, why))
        if m.kind is msg.NoticeKind.LEASE_BACK or self.unraised is not None:
            self.data.wakeup.set()

    def raise_later(self, error: ConsumerError) -> None:
        """Have a poll raise it, once. Under the lock."""
        if self.unraised is None:
            self.unraised = error
        else:
            self._raised_next.append(error)

    def _queue(self, pending: PendingCallback) -> None:
        self.callbacks.add(pending, self.assignment_epoch)

    def _hold_unwanted(self, partitions: Iterable[TopicPartition]) -> None:
        unwanted = {tp for tp in partitions if not self._wants(tp.topic)}
        self.data.hold(unwanted)
        self.records.put_back(unwanted)

    # the thread that polls: the application's, or that of message streams

    def want(self, wants: Callable[[str], bool]) -> None:
        """From now on nothing of a topic that is not wanted is handed out, whoever leads: what is
        buffered of it was not consumed.
        """
        with self.lock:
            self._wants = wants
            assigned = self.data.assigned()
            self._hold_unwanted(assigned)
            self.data.hold(
                [tp for tp in assigned if wants(tp.topic) and tp not in self.ledger.revoking],
                held=False,
            )
        self.data.wakeup.set()

    def processed(self) -> None:
        """The records handed out last are processed, but for those that message streams have in
        hand.
        """
        self.handed_out = self.records.in_hand
        if self.lost:
            with self.lock:
                self.lost.clear()

    def release(self, all_of_them: bool = False) -> bool:
        """Go on with revocations whose records are processed, or were waited for long enough.
        Whether others are still waited for.
        """
        with self.lock:
            self.callbacks.release(self.assignment_epoch, all_of_them)
            return self.callbacks.parks

    def lost_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """Which of these were lost since the application polled last, and why."""
        with self.lock:
            return {tp: self.lost[tp] for tp in partitions if tp in self.lost}

    def run_callbacks(self) -> None:
        """Run the queued callbacks and answers, in order, without the lock. A callback's error
        waits in `listener` for `raise_error`.
        """
        while self.due_callbacks:
            with self.lock:
                pending = self.due_callbacks.popleft()
                self.seen_assignment_epoch = pending.assignment_epoch
                if pending.callback == "on_partitions_assigned":
                    self.ledger.unannounced -= pending.partitions
            if pending.partitions or pending.of_nothing:
                self.listener.call(pending.callback, set(pending.partitions))
            if (
                pending.token is not None and not self.closed
            ):  # the callback may have left the group
                with self.lock:
                    self._answer(pending.token, pending.answer)

    def raise_error(self) -> None:
        """Raise what ended this member, for ever, or that its group cannot be rebalanced, once."""
        if self.failure is not None:
            raise self.failure
        if self.unraised is not None:
            with self.lock:
                unraised = self.unraised
                self.unraised = self._raised_next.pop(0) if self._raised_next else None
            if unraised is not None:
                raise unraised

    def raise_unset(self) -> None:
        """Raise `NoStoredOffsetError` where nothing says where a partition begins, and the
        application, which knows of it, has not sought. It stays assigned.
        """
        if not self.ledger.unset:
            return
        with self.lock:
            self.ledger.unset = self.data.without_place(self.ledger.unset)
            known = self.ledger.unset - self.ledger.unannounced - self.ledger.revoking.keys()
            if not known or self.due_callbacks:
                return
        raise NoStoredOffsetError(known, self._unset_because)

    def announced(self) -> set[TopicPartition]:
        """What the application knows to be assigned: from now on it has seen it."""
        with self.lock:
            if not self.due_callbacks:
                self.seen_assignment_epoch = self.assignment_epoch
            return self.data.assigned() - self.ledger.unannounced

    def positions(self) -> tuple[dict[TopicPartition, OffsetAndMetadata], int]:
        """Where each partition stands (the offset after the last record handed out), and the
        assignment epoch in which that is so.
        """
        with self.lock:
            consumed = dict(self.data.subscription.all_consumed_offsets())
            consumed.update(
                {
                    tp: OffsetAndMetadata(offset, "", -1)
                    for tp, offset in self.records.positions().items()
                }
            )
            return consumed, self.assignment_epoch

    def leave(self) -> tuple[dict[TopicPartition, int], int]:
        """Hand out nothing any more, and call the application's listener; the last positions, and
        their assignment epoch.
        """
        with self.lock:
            held = self.data.assigned()
            self.data.hold(held)
            self.records.put_back(held)
            announced = self._unannounce(held)
        self.processed()
        self.run_callbacks()
        revoked = announced & self.data.assigned()
        if revoked:
            self.listener.call("on_partitions_revoked", revoked)
        with self.lock:
            left = self.data.assigned()
            positions = {
                tp: position.offset
                for tp in left
                if (position := self.data.position(tp)) is not None
            }
            self.data.remove(left)
            self.closed = True
            return positions, self.assignment_epoch


def _public(tp: ModelPartition) -> TopicPartition:
    return TopicPartition(*tp)


def model_offsets(offsets: Mapping[TopicPartition, int]) -> dict[ModelPartition, int]:
    """These offsets by partition in the member's type."""
    return {ModelPartition(*tp): offset for tp, offset in offsets.items()}
