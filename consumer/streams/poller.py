"""The consumer under message streams: `KafkaConsumer` with a thread of its own that polls, and
queues for others to drain.

The pump's thread is what the application's thread is to a `KafkaConsumer`: it runs callbacks,
automatic commits and all that waits, and it never works on records, so a slow stream delays neither
the others nor the membership. A revocation is answered at once unless a record of its partitions is
in hand; then it waits until that is processed, `in_hand_ms` at most: after that the partition is
given up before the record, which is then delivered again elsewhere. Meanwhile the other streams go
on.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import kafka.errors
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.api.kafka_consumer import KafkaConsumer
from consumer.assignment.state import AssignmentState, PendingCallback
from consumer.core import messages as msg
from consumer.errors import (
    AgentFailedError,
    CommitUnavailableError,
    ListenerError,
    MembershipError,
    NotOwnedError,
)
from consumer.fetch.record_iterator import RecordIterator
from consumer.offsets.committer import numbers_of
from consumer.streams.queues import Line, StreamQueues
from zkcoord.core.model import Subscription
from zkcoord.zk.fork_guard import CurrentProcess

log = logging.getLogger(__name__)

ERROR_PAUSE_S = 0.2
CLOSE_MARGIN_S = 1.0


class StreamsMembership(AssignmentState):
    """A membership whose records are handed out by streams: what is in hand is theirs to say."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        assert isinstance(self.cursor, StreamQueues)
        self.queues = self.cursor
        self.handed_out = self.queues.in_hand
        self.in_hand_ms = 0
        self.parked: deque[tuple[PendingCallback, float]] = deque()

    def processed(self) -> None:
        """The pump's turn says nothing of what streams have in hand."""
        with self.lock:
            self.lost.clear()

    def _assigned(self, m: msg.Assigned) -> None:
        for tp in m.offsets:
            self.queues.give(TopicPartition(*tp), m.streams.get(tp, 0))
        AssignmentState._assigned(self, m)

    def _come(self, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        super()._come(positions)
        self.queues.pause_too(positions)

    def _queue(self, task: PendingCallback) -> None:
        if task.token is None or self.queues.in_hand.keys().isdisjoint(task.answer):
            super()._queue(task)
        else:
            self.parked.append((task, time.monotonic() + self.in_hand_ms / 1000))
            self.data.bell.set()

    def _still_queued(self, callback: str, tp: TopicPartition) -> bool:
        found = super()._still_queued(callback, tp)
        for task, _ in self.parked:
            if task.callback == callback and tp in task.partitions:
                task.partitions.discard(tp)
                found = True
        return found

    def _answer(self, token: int, partitions: Any, busy: tuple[TopicPartition, ...] = ()) -> None:
        given = [tp for tp in partitions if self.desk.revoking.get(tp) == token]
        for tp, offset in self.queues.void(given).items():
            log.warning(
                "%s-%d is given up while its record %d is still being processed: it is delivered"
                " again",
                tp.topic,
                tp.partition,
                offset,
            )
            self.data.put_back(tp, offset)
        super()._answer(token, given, busy)

    def release(self, all_of_them: bool = False) -> None:
        """Go on with revocations whose records are processed, or were waited for long enough."""
        with self.lock:
            now, waiting = time.monotonic(), self.parked
            self.parked = deque()
            for task, until in waiting:
                if (
                    all_of_them
                    or now >= until
                    or self.queues.in_hand.keys().isdisjoint(task.answer)
                ):
                    super()._queue(task)
                else:
                    self.parked.append((task, until))
            self.queues.awaited = bool(self.parked)

    def deadline(self) -> float:
        """When `release` has something to do at the latest (`time.monotonic`)."""
        return min((until for _, until in self.parked), default=math.inf)

    _HANDLERS: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        **AssignmentState._HANDLERS,
        msg.Assigned: _assigned,
    }


class StreamsConsumer(KafkaConsumer):
    """A consumer that a pump polls. `limit`: records that a stream's queue may hold before its
    partitions are paused (one turn more, at most). `in_hand_ms` is cut to half of
    `rebalance_timeout_ms`, after which the coordinator would evict this member.
    """

    MEMBERSHIP = StreamsMembership

    def __init__(self, limit: int, in_hand_ms: int, **configs: Any) -> None:
        self._limit = limit
        self._pump: threading.Thread | None = None
        self._stopping = threading.Event()
        self._autocommit = True
        self._closer: threading.Thread | None = None
        super().__init__(**configs)
        self._in_hand_ms = min(in_hand_ms, self._options.rebalance_timeout_ms // 2)

    @property
    def closing(self) -> bool:
        """Have the streams ended?"""
        return self._closed or self.queues.closed

    @property
    def closed(self) -> bool:
        """Has it left the group?"""
        return self._closed

    def _new_cursor(self) -> RecordIterator:
        return StreamQueues(self._data, self._limit, self._lease_holds)

    @property
    def queues(self) -> StreamQueues:
        """The streams' queues."""
        assert isinstance(self._cursor, StreamQueues)
        return self._cursor

    @property
    def _streams_member(self) -> StreamsMembership:
        assert isinstance(self._member, StreamsMembership)
        return self._member

    @property
    def member_name(self) -> str:
        """The consumer id of the present session; "" before the first."""
        return "" if self._agent is None else self._agent.member_name

    def begin(
        self, wanted: Subscription, streams: Mapping[str, int], listener: Any
    ) -> dict[str, list[Line]]:
        """Join the group, and start the pump. Raises what `KafkaConsumer.subscribe` raises."""
        self._check()
        lines = self.queues.open(streams)
        self._choose(wanted, listener)
        self._pump = threading.Thread(
            target=self._run, name=f"streams-{self.config['group_id']}", daemon=True
        )
        self._pump.start()
        return lines

    def _join(self) -> None:
        super()._join()
        self._streams_member.in_hand_ms = self._in_hand_ms

    def owned(self) -> dict[TopicPartition, int]:
        """What this consumer owns and has heard of, and which stream gets it."""
        with self._data.lock:
            return {tp: self.queues.route[tp].number for tp in self._member.announced()}

    def store(self, offsets: Mapping[TopicPartition, Any] | None, retry: bool) -> None:
        """Store what is processed, or these; any thread. Raises what `KafkaConsumer.commit`
        raises.
        """
        stale = self.queues.stale(threading.current_thread()) & set(offsets or ())
        if stale:
            raise NotOwnedError(
                stale,
                "they were given up or lost while this thread was processing a record of them,"
                " which is delivered again, here or elsewhere",
            )
        if retry:
            self._committer.wait(None if offsets is None else numbers_of(offsets), None)
            return
        answered = threading.Event()
        future = self._committer.start(offsets, None)
        future.add_both(lambda _: answered.set())
        if not answered.wait(self.config["commit_timeout_ms"] / 1000):
            raise CommitUnavailableError(
                "ZooKeeper did not answer in time: the commit may not have happened, try it again"
            )
        if future.exception is not None:
            raise future.exception

    # the pump's thread

    def _run(self) -> None:
        failure: Exception | None = None
        try:
            while not self._stopping.is_set():
                self._turn()
        except MembershipError as error:
            failure = error
        except Exception as error:  # thread main
            log.exception(
                "the thread that polls for the streams of group %s ended", self.config["group_id"]
            )
            failure = AgentFailedError(
                f"the thread that polls ended: {error!r}; the log has the details, restart the"
                " consumer"
            )
        self.queues.close(failure)
        self.queues.settle(self._in_hand_ms / 1000 if failure is None else 0, self._closer)
        self._streams_member.release(all_of_them=True)
        super().close(self._autocommit)

    def _turn(self) -> None:
        data, member = self._data, self._streams_member
        data.bell.clear()
        member.processed()
        member.release()
        try:
            self._duties()
            data.housekeeping(False)
            took, enough = self._fill()
        except ListenerError:
            return  # logged with its cause; the hand-over happened
        except MembershipError:
            raise
        except kafka.errors.KafkaError as error:
            self.queues.report(error)
            self._stopping.wait(ERROR_PAUSE_S)
            return
        if took:
            if not enough:
                data.fetcher.fetch_soon()
            return
        if not enough and not member.tasks:
            data.fetcher.send_fetches()
        self._wait(member.deadline())

    def _fill(self) -> tuple[bool, bool]:
        """Give the streams what has come; whether anything has, and whether nothing more should be
        fetched now.
        """
        member, data, queues = self._streams_member, self._data, self.queues
        with data.lock:
            if (
                not queues.have_room()
                or member.tasks
                or self._stopping.is_set()
                or not self._lease_holds()
            ):
                return False, True
            member.heard_era = member.era
            records, enough = data.fetcher.take(self.config["max_poll_records"])
            queues.fill(records)
            return bool(records), enough

    # the end

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """End the streams, wait for what other threads have in hand, leave the group; on the pump's
        thread (in a callback) this happens after the callback. Closing twice is closing once.
        """
        if self._closed or self._pid != CurrentProcess.pid:
            return
        if self._pump is None:
            super().close(autocommit, timeout_ms)
            return
        self._autocommit = autocommit
        self._closer = threading.current_thread()
        self.queues.close()
        self._stopping.set()
        self._data.bell.set()
        if threading.current_thread() is not self._pump:
            limit_ms = self.config["commit_timeout_ms"] if timeout_ms is None else timeout_ms
            self._pump.join(limit_ms / 1000 + self._in_hand_ms / 1000 + CLOSE_MARGIN_S)
            if self._pump.is_alive():
                log.warning(
                    "the streams of group %s did not end in time: a rebalance listener has not"
                    " returned",
                    self.config["group_id"],
                )
