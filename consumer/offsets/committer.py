"""Commits: the application's, waiting or not, and the automatic ones.

A commit goes to the member's thread and is answered there (`answered`). The waiting form waits for
the answer, and tries again as long as ZooKeeper is away and time is left; the other form gives a
future whose callback runs on the application's thread (`run_callbacks`), as in kafka-python.
Nothing waits without a limit. Only one automatic commit is under way at a time; one that failed is
tried again at the next interval with the positions of then.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from kafka.errors import IllegalStateError, OffsetMetadataTooLargeError
from kafka.future import Future
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.assignment.state import AssignmentState
from consumer.core import messages as msg
from consumer.core.messages import CommitOutcome
from consumer.errors import (
    CommitRefusedError,
    CommitUnavailableError,
    NotOwnedError,
    OffsetResetError,
)
from zkcoord.core.model import TopicPartition as ModelPartition
from zkcoord.words import is_utf8
from zkcoord.zk.bell import Bell
from zkcoord.zk.clock import boot_ms
from zkcoord.znodes import names
from zkcoord.znodes.commit_metadata import COMMIT_METADATA_CHARS_MAX, fits
from zkcoord.znodes.owner_offset_epoch import OFFSET_MAX

log = logging.getLogger(__name__)

RETRY_MS = 100
CommitCallback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], Any], Any]


class Pending:
    """One commit under way."""

    def __init__(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        assignment_epoch: int,
        then: Callable[[Pending], None] | None = None,
    ) -> None:
        # What is to be stored.
        self.offsets = offsets
        # The assignment that they are of.
        self.assignment_epoch = assignment_epoch
        # Set once `answer` is.
        self.answered = Bell()
        # On the member's thread; None while there is none.
        self.answer: msg.CommitDone | None = None
        # Called after that, on the member's thread.
        self.then = then

    def error(
        self, lost: Mapping[TopicPartition, str] | None = None, unanswered: str = ""
    ) -> Exception | None:
        """What the application gets; None when the commit happened. `lost`: what it lost since
        it polled, and why; `unanswered`: who did not answer, if it was not ZooKeeper.
        """
        done = self.answer
        if done is not None and done.outcome is CommitOutcome.REFUSED:
            return CommitRefusedError(done.partitions, done.why)
        if done is not None and done.outcome is CommitOutcome.UNAVAILABLE and done.why:
            return CommitUnavailableError(
                f"{done.why}: the commit may not have happened, try it again"
            )
        if done is None or done.outcome is CommitOutcome.UNAVAILABLE:
            return CommitUnavailableError(
                f"{unanswered or 'ZooKeeper did not answer'} in time: the commit may not have"
                " happened, try it again"
            )
        if done.outcome is CommitOutcome.OK:
            return None
        if done.outcome is CommitOutcome.GROUP_ALIVE:
            return NotOwnedError(
                done.partitions,
                f"the group has live members ({done.why}), which own its partitions: stop them, or"
                " use a group_id of its own for partitions that you assign yourself",
            )
        if done.outcome is CommitOutcome.OVERRULED:
            return OffsetResetError(done.partitions)
        if lost:
            return lost_error(lost)
        if done.outcome is CommitOutcome.NOT_OWNED:
            return NotOwnedError(
                done.partitions,
                "this consumer does not own them (any more); what it processed of them may be"
                " delivered again elsewhere",
            )
        return NotOwnedError(
            done.partitions or tuple(self.offsets),
            "this consumer is not a member of its group at the moment: once subscribed, the next"
            " polls make it one, with positions of then",
        )


def lost_error(lost: Mapping[TopicPartition, str]) -> NotOwnedError:
    """The error of a commit of records whose partitions were lost after they were handed out."""
    return NotOwnedError(
        lost,
        f"lost since the last poll, because {'; '.join(sorted(set(lost.values())))}. What was"
        " processed of them may be delivered again, here or elsewhere",
    )


class Committer:
    """Commits of one membership."""

    def __init__(
        self,
        state: AssignmentState,
        default_callback: CommitCallback,
        interval_ms: int | None,
        timeout_ms: int,
    ) -> None:
        self.state = state
        # Called where the application gives no callback, and for automatic commits.
        self.default_callback = default_callback
        # Of automatic commits; None where there are none.
        self.interval_ms = interval_ms
        # For how long a commit is waited for, where the application does not say.
        self.timeout_ms = timeout_ms
        # Who has not answered yet; "": ZooKeeper.
        self.unanswered: Callable[[], str] = lambda: ""
        # When the next automatic commit is due (`boot_ms`).
        self.due_ms: int | None = None if interval_ms is None else boot_ms() + interval_ms
        self._tokens = itertools.count(1)
        # Commits under way by token. Added to by the application's thread, taken out by whichever
        # answers.
        self._pending: dict[int, Pending] = {}
        # Callbacks of commits that ended, for the application's thread.
        self._finished: deque[Callable[[], Any]] = deque()
        # The last automatic commit.
        self._automatic: Pending | None = None
        # Why the last automatic commit was not stored, which is logged once; "" where it was.
        self._unstored = ""

    def answered(self, done: msg.CommitDone) -> None:
        """Take the answer to a commit, on the member's thread."""
        pending = self._pending.pop(done.token, None)
        if pending is None:
            return
        pending.answer = done
        if done.outcome is CommitOutcome.OK:
            self.state.ledger.committed.update(
                {tp: one._replace(leader_epoch=-1) for tp, one in pending.offsets.items()}
            )
        pending.answered.set()
        if pending.then is not None:
            pending.then(pending)

    def abandon(self) -> None:
        """No more answers come: the ones waited for are `UNAVAILABLE`."""
        for token in list(self._pending):
            self.answered(msg.CommitDone(token, CommitOutcome.UNAVAILABLE))

    def _send(self, pending: Pending) -> int:
        token = next(self._tokens)
        self._pending[token] = pending
        self.state.send(
            msg.Commit(
                token,
                {ModelPartition(*tp): given.offset for tp, given in pending.offsets.items()},
                pending.assignment_epoch,
                {
                    ModelPartition(*tp): given.metadata
                    for tp, given in pending.offsets.items()
                    if given.metadata
                },
            )
        )
        return token

    # the application's commits

    def wait(self, given: Mapping[TopicPartition, Any] | None, timeout_ms: float | None) -> None:
        """Commit and wait; None: the positions of all that is owned, whatever else left meanwhile.

        Raises what `stored_form` raises, `OffsetMetadataTooLargeError`, `NotOwnedError`, or
        `CommitUnavailableError` when ZooKeeper did not answer within `timeout_ms` (default
        `commit_timeout_ms`).
        """
        deadline = time.monotonic() + (self.timeout_ms if timeout_ms is None else timeout_ms) / 1000
        assignment_epoch = self.state.seen_assignment_epoch
        wanted = None if given is None else stored_form(given)
        offsets = wanted
        too_large = metadata_error(wanted or {})
        if too_large is not None:
            raise too_large
        said: Exception | None = None
        while True:
            if wanted is None:
                self._refuse_lost()
                offsets, assignment_epoch = self.state.positions()
            if not offsets:
                return
            pending = Pending(offsets, assignment_epoch)
            error = self._once(pending, deadline)
            if pending.answer is None:
                error = said or error  # the time was over before it was said again
            elif pending.answer.why:
                said = error
            left = deadline - time.monotonic()
            if error is None:
                return
            left_meanwhile = (
                wanted is None
                and isinstance(error, NotOwnedError)
                and self.state.announced() != set(offsets)
            )
            if left <= 0 or not (isinstance(error, CommitUnavailableError) or left_meanwhile):
                raise error
            if not left_meanwhile:
                threading.Event().wait(min(RETRY_MS / 1000, left))

    def _refuse_lost(self) -> None:
        """Raises `NotOwnedError` where a commit of everything would silently leave out the records
        that the application has just processed.
        """
        lost = self.state.lost_of(self.state.handed_out)
        if lost and self.state.failure is None:
            raise lost_error(lost)

    def _once(self, pending: Pending, deadline: float) -> Exception | None:
        if self.state.failure is not None:
            raise self.state.failure
        token = self._send(pending)
        unanswered = ""
        if not pending.answered.wait(max(0.0, deadline - time.monotonic())):
            self._pending.pop(token, None)
            unanswered = self.unanswered()
        return pending.error(self.state.lost_of(pending.offsets), unanswered)

    def start(
        self, given: Mapping[TopicPartition, Any] | None, callback: CommitCallback | None
    ) -> Future:
        """Commit without waiting; None: the positions of all that is owned. The future, and the
        callback beside the offsets, get None, or what went wrong. Raises what `stored_form` raises.
        """
        future = CommitFuture()
        report = callback or self.default_callback
        assignment_epoch = self.state.seen_assignment_epoch
        lost: dict[TopicPartition, str] = {}
        if given is None:
            lost = self.state.lost_of(self.state.handed_out)
            given, assignment_epoch = self.state.positions()
        offsets, stored = given, stored_form(given)
        refused = lost_error(lost) if lost else metadata_error(stored)

        def finish(error: Exception | None) -> None:
            future.settle(error)
            self._finished.append(lambda: report(offsets, error))
            self._finished.append(future.tell)

        if stored and refused is None:
            self._send(
                Pending(
                    stored,
                    assignment_epoch,
                    lambda pending: finish(pending.error(self.state.lost_of(stored))),
                )
            )
        else:
            finish(refused)
        return future

    def run_callbacks(self) -> None:
        """Call the callbacks of commits that ended, on the application's thread."""
        while self._finished:
            self._finished.popleft()()

    # automatic commits

    def automatic_now(self) -> None:
        """Commit what was processed, where commits are automatic; it is not waited for."""
        if self.due_ms is not None:
            self.due_ms = 0
            self.automatic(boot_ms())

    def automatic(self, now_ms: int) -> None:
        """Commit what was processed, when it is time."""
        if self.due_ms is None or self.interval_ms is None or now_ms < self.due_ms:
            return
        self.due_ms = now_ms + self.interval_ms
        if self._automatic is not None and not self._automatic.answered.is_set():
            return
        positions, assignment_epoch = self.state.positions()
        committed = self.state.ledger.committed
        changed = {
            tp: p
            for tp, p in positions.items()
            if tp not in committed or committed[tp].offset != p.offset
        }
        if changed:
            self._automatic = Pending(
                changed,
                assignment_epoch,
                lambda pending: self._automatic_done(changed, pending),
            )
            self._send(self._automatic)

    def _automatic_done(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], pending: Pending
    ) -> None:
        error = pending.error()
        alive = pending.answer is not None and pending.answer.outcome is CommitOutcome.GROUP_ALIVE
        lasting = alive or isinstance(error, (CommitUnavailableError, CommitRefusedError))
        unstored = str(error) if lasting else ""
        if unstored and unstored != self._unstored and not self.state.closed:
            log.warning(
                "the automatic commit of %d partitions was not stored; it is tried again every"
                " %d ms: %s",
                len(offsets),
                self.interval_ms,
                unstored,
            )
        elif error is None and self._unstored:
            log.info("the automatic commit of %d partitions was stored", len(offsets))
        self._unstored = unstored
        self._finished.append(lambda: self.default_callback(offsets, error))


def stored_form(given: Mapping[Any, Any]) -> dict[TopicPartition, OffsetAndMetadata]:
    """{partition: what is to be stored} of what the application gave: numbers or
    `OffsetAndMetadata`. As kafka-python's, metadata that is no text is written as text, and None as
    none. Raises what `numbers_of` raises.
    """
    numbers = numbers_of(given)
    texts = {
        tp: "" if one.metadata is None else str(one.metadata)
        for tp, one in given.items()
        if isinstance(one, OffsetAndMetadata)
    }
    return {tp: OffsetAndMetadata(n, texts.get(tp, ""), -1) for tp, n in numbers.items()}


def metadata_error(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Exception | None:
    """What a broker answers to metadata that is too large, and what is wrong with text that nobody
    could write; None where nothing is.
    """
    for tp, one in sorted(offsets.items()):
        text = one.metadata or ""
        if not is_utf8(text):
            return CommitRefusedError(
                (tp,), "the metadata has half a character in it (a lone surrogate): give whole text"
            )
        if not fits(text):
            error: Exception = OffsetMetadataTooLargeError(
                f"the metadata of {tp.topic}-{tp.partition} has"
                f" {len(text.encode('utf-16-le')) // 2} units of UTF-16, as brokers count, and"
                f" {COMMIT_METADATA_CHARS_MAX} are stored at most"
            )
            return error
    return None


class CommitFuture(Future):  # type: ignore[misc]  # kafka-python has no types
    """What `commit_async` gives. It is done as soon as there is an answer, on whichever thread;
    what was added before is called on the application's, in a poll, as other callbacks are: it may
    close the consumer, or commit, which waits for the thread that answers.
    """

    def settle(self, error: Exception | None) -> None:
        """There is an answer."""
        with self._lock:
            self.exception = error
            self.is_done = True

    def tell(self) -> None:
        """Call what waits for the answer. What that raises is logged, as kafka-python does it."""
        told = Future()
        with self._lock:
            for name in ("_callbacks", "_errbacks"):
                setattr(told, name, getattr(self, name))
                setattr(self, name, None)
        if self.exception is None:
            told.success(self.value)
        else:
            told.failure(self.exception)


def numbers_of(offsets: Any) -> dict[TopicPartition, int]:
    """{partition: next offset} of what the application gave: numbers or `OffsetAndMetadata`. Raises
    `TypeError` for anything else, `ValueError` for what can be no offset.
    """
    if not isinstance(offsets, Mapping):
        raise TypeError(
            f"offsets are given as {{TopicPartition: OffsetAndMetadata}}, not as {offsets!r:.100}"
        )
    numbers: dict[TopicPartition, int] = {}
    for tp, given in offsets.items():
        if not isinstance(tp, TopicPartition):
            raise TypeError("offsets are given as {TopicPartition: OffsetAndMetadata}")
        checked_partition(tp)
        numbers[tp] = checked_offset(
            tp, given.offset if isinstance(given, OffsetAndMetadata) else given
        )
    return numbers


def checked_partition(tp: TopicPartition) -> TopicPartition:
    """The partition. Raises `TypeError` and `ValueError` for what cannot be one."""
    if type(tp[0]) is not str or type(tp[1]) is not int:
        raise TypeError(f"{tp!r:.200} is no partition: give a topic's name and a whole number")
    if not names.is_partition(tp[0], str(tp[1])):
        raise ValueError(
            f"{names.shown(tp[0])} with the number {tp[1]} is no partition: a topic's name has 1 to"
            f" {names.NAME_CHARS_MAX} of the characters A-Z a-z 0-9 . _ -, and partitions count"
            " from 0"
        )
    return tp


def checked_offset(tp: TopicPartition, offset: Any) -> int:
    """The offset. Raises `TypeError` and `ValueError` for what is none."""
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise TypeError(
            f"the offset of {tp[0]}-{tp[1]} is {offset!r}: give an OffsetAndMetadata or a whole"
            " number"
        )
    if not 0 <= offset <= OFFSET_MAX:
        raise ValueError(
            f"the offset of {tp[0]}-{tp[1]} is {offset}: an offset is a number from 0 to 2^63-1"
        )
    return offset


def needs_group(group: str | None) -> None:
    """Raises `IllegalStateError`, as kafka-python does, where there is no group to commit for."""
    if group is None:
        raise IllegalStateError("Requires group_id")
