"""What message streams have in the place of a `RecordIterator`: a queue for each stream, and what
each stream's thread has in hand.

The poller (`consumer.streams.poller`) fills the queues, the application's threads drain them. To
the rest of the consumer they are its `TakenRecords`: records taken out of the fetching side that
the application has not seen. So positions, commits, revocations and resets are true without knowing
of streams. Everything here is under the fetching side's lock.

* A partition belongs to the stream that its owner node names; its records go to that stream's
  queue, in order.
* The record handed out last is *in hand* until the stream's thread asks for the next one, commits,
  or shuts the connector down. Until then its partition stands before it.
* A queue that is full has its partitions paused while others have room, so that those are filled
  on; half empty, it gets more. While all are full nothing is taken from the fetching side, and
  nothing is paused.
* Nothing is handed out without the lease, nor of a partition that is being given up: its records
  leave the queue when its `Revoke` takes effect.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kafka.structs import TopicPartition

from consumer.fetch.client import FetchClient

log = logging.getLogger(__name__)

ANY_TOPIC = ""
LEASE_LOOK_S = 0.02
THREAD_LOOK_S = 0.1


class _StreamChunk:
    __slots__ = ("next", "partition", "records")

    def __init__(self, partition: TopicPartition, records: list[Any]) -> None:
        self.partition = partition
        self.records = records
        self.next = 0

    @property
    def left(self) -> int:
        return len(self.records) - self.next

    @property
    def position(self) -> int:
        """The offset after the last record handed out, or of the first one."""
        return int(self.records[self.next - 1].offset + 1 if self.next else self.records[0].offset)


class Hand:
    """A record that was handed out and is not processed yet; `thread` holds it."""

    __slots__ = ("offset", "partition", "thread")

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        self.partition = partition
        self.offset = offset
        self.thread = threading.current_thread()


class Line:
    """One stream's queue."""

    def __init__(self, queues: StreamQueues, number: int) -> None:
        # Which of its topic's streams this is, from 0.
        self.number = number
        self._queues = queues
        # Records of one partition each, in the order in which they came.
        self._chunks: deque[_StreamChunk] = deque()
        # Notified when there may be something for the stream's thread.
        self.waiting = threading.Condition(queues.lock)
        # How many records are queued.
        self.count = 0
        # Whether it has been full, and is not half empty since.
        self.full = False
        # Whether its partitions are paused.
        self.paused = False
        # What the stream's thread works on.
        self.hand: Hand | None = None
        # What fetching raised: the next call of `next` raises it, once.
        self.error: Exception | None = None

    def next(self, timeout_s: float) -> Any:
        """The next record, once the one before is processed; None after `timeout_s`, or when the
        streams are closed. Raises what ended the consumer, or what fetching raised, once.
        """
        queues = self._queues
        with queues.lock:
            queues.processed(self)
            deadline = time.monotonic() + timeout_s
            while True:
                self._raise_error()
                if queues.closed:
                    return None
                found = self._step()
                left = deadline - time.monotonic()
                if found is not None or left <= 0:
                    return found
                wait_s = min(left, LEASE_LOOK_S if self._chunks else threading.TIMEOUT_MAX)
                self.waiting.wait(wait_s)

    def _raise_error(self) -> None:
        if self._queues.failure is not None:
            raise self._queues.failure
        error, self.error = self.error, None
        if error is not None:
            raise error

    def _step(self) -> Any:
        while self._chunks and not self._chunks[0].left:
            self._chunks.popleft()
        if not self._chunks or not self._queues.may_hand_out():
            return None
        chunk = self._chunks[0]
        record = chunk.records[chunk.next]
        # In this order: a signal handler's exception may come at any call. What is in hand comes
        # again, wherever the queue stands.
        self._queues.handed_out(self, Hand(chunk.partition, record.offset))
        chunk.next += 1
        self.count -= 1
        return record

    def take_back(self, before: Hand | None) -> None:
        """What was handed out after `before` did not get to the stream's thread."""
        queues = self._queues
        with queues.lock:
            hand = self.hand
            if hand is None or hand is before:
                return
            if queues.in_hand.get(hand.partition) is hand:
                chunk = self._chunks[0]
                if chunk.next and chunk.records[chunk.next - 1].offset == hand.offset:
                    chunk.next -= 1
                    self.count += 1
                del queues.in_hand[hand.partition]
            self.hand = None

    def put(self, partition: TopicPartition, records: list[Any]) -> None:
        """Records of one of its partitions, after those that are there."""
        self._chunks.append(_StreamChunk(partition, records))
        self.count += len(records)
        self.waiting.notify_all()

    def drop(self, partitions: Collection[TopicPartition] | None) -> None:
        """Forget what is left of these partitions (None: of all)."""
        self._chunks = deque(
            c for c in self._chunks if partitions is not None and c.partition not in partitions
        )
        self.count = sum(c.left for c in self._chunks)
        self._queues.look_for_room(self)

    def positions(self) -> dict[TopicPartition, int]:
        """Where partitions with records left stand."""
        found: dict[TopicPartition, int] = {}
        for chunk in self._chunks:
            if chunk.left:
                found.setdefault(chunk.partition, chunk.position)
        return found


class StreamQueues:
    """The queues of one consumer's streams: its `TakenRecords`."""

    def __init__(self, data: FetchClient, limit: int, may_hand_out: Callable[[], bool]) -> None:
        self._data = data
        self.lock = data.lock
        # A queue with so many records is full.
        self.limit = limit
        # Whether the lease holds; called under the lock.
        self.may_hand_out = may_hand_out
        # Whether the poller waits for a record in hand: then it is woken when one is processed.
        self.awaited = False
        # The streams' queues by topic (or `ANY_TOPIC`); set once, by `open`.
        self.lines: dict[str, list[Line]] = {}
        # Which queue gets the records of a partition.
        self.route: dict[TopicPartition, Line] = {}
        # The records in hand that still count: one whose partition was given up or lost is not
        # here any more, though its stream's thread may go on working on it.
        self.in_hand: dict[TopicPartition, Hand] = {}
        # Notified when a record is processed after the end.
        self.idle = threading.Condition(self.lock)
        # Set when the streams end: nothing is handed out from then on.
        self.closed = False
        # What ended the consumer; every stream raises it.
        self.failure: Exception | None = None

    def open(self, streams: Mapping[str, int]) -> dict[str, list[Line]]:
        """Make the queues: so many for each topic, or for `ANY_TOPIC`."""
        self.lines = {
            topic: [Line(self, number) for number in range(count)]
            for topic, count in streams.items()
        }
        return self.lines

    def all_lines(self) -> list[Line]:
        """Every queue."""
        return [line for lines in self.lines.values() for line in lines]

    # the records taken, as the assignment and the poller see them

    def fill(self, records: Mapping[TopicPartition, list[Any]]) -> None:
        """What one turn gave: to the streams of its partitions."""
        for tp, found in records.items():
            if found:
                line = self.route[tp]
                line.put(tp, found)
                line.full = line.full or line.count >= self.limit

    def positions(self) -> dict[TopicPartition, int]:
        """Where partitions really stand: before what is in hand, else before what is queued."""
        return {**self._queued(), **{tp: hand.offset for tp, hand in self.in_hand.items()}}

    def _queued(self) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for line in self.all_lines():
            found.update(line.positions())
        return found

    def put_back(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Let the fetching side hand out what is queued of these partitions again (None: of all).
        What is in hand stays there.
        """
        for tp, offset in self._queued().items():
            if partitions is None or tp in partitions:
                self._data.put_back(tp, offset)
        for line in self.all_lines():
            line.drop(partitions)

    def discard(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what is queued and in hand of these partitions: they are gone, or stand elsewhere
        now.
        """
        for line in self.all_lines():
            line.drop(partitions)
        self.void(partitions)

    # who has what

    def added(
        self, partitions: Collection[TopicPartition], streams: Mapping[TopicPartition, int]
    ) -> None:
        """The streams own these partitions from now on. Those that come to a queue whose others are
        paused wait as well.
        """
        for tp, number in streams.items():
            lines = self.lines.get(tp.topic) or self.lines[ANY_TOPIC]
            self.route[tp] = lines[number % len(lines)]
        waiting = [tp for tp in partitions if self.route[tp].paused]
        if waiting:
            self._data.kafka.pause(*waiting)

    def handed_out(self, line: Line, hand: Hand) -> None:
        """A stream's thread has this now."""
        line.hand = self.in_hand[hand.partition] = hand

    def processed(self, line: Line) -> None:
        """What the stream's thread had in hand is processed."""
        hand = line.hand
        if hand is not None and self.in_hand.get(hand.partition) is hand:
            del self.in_hand[hand.partition]
            line.hand = None
            self._out_of_hand()
        line.hand = None
        self.look_for_room(line)

    def look_for_room(self, line: Line) -> None:
        """Wake the poller for a full queue that is half empty."""
        if line.full and line.count <= self.limit // 2:
            self._data.wakeup.set()

    def _out_of_hand(self) -> None:
        if self.awaited:
            self._data.wakeup.set()
        if self.closed:
            self.idle.notify_all()

    def processed_by(self, thread: threading.Thread) -> None:
        """What this thread, which calls, has in hand is processed."""
        with self.lock:
            for line in self.all_lines():
                if (
                    line.hand is not None
                    and line.hand.thread is thread
                    and self.in_hand.get(line.hand.partition) is line.hand
                ):
                    self.processed(line)

    def stale(self, thread: threading.Thread) -> set[TopicPartition]:
        """Partitions that were given up or lost while this thread worked on their record: its
        commits of them are of an earlier assignment.
        """
        with self.lock:
            hands = [
                line.hand
                for line in self.all_lines()
                if line.hand is not None and line.hand.thread is thread
            ]
            return {
                hand.partition for hand in hands if self.in_hand.get(hand.partition) is not hand
            }

    def give_up(self, partitions: Collection[TopicPartition]) -> None:
        """What is in hand of these is delivered again, to whoever gets them."""
        for tp, offset in self.void(partitions).items():
            log.warning(
                "%s-%d is given up while its record %d is still being processed: it is delivered"
                " again",
                tp.topic,
                tp.partition,
                offset,
            )
            self._data.put_back(tp, offset)

    def void(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Nobody waits any more for what is in hand of these; the offsets of those records."""
        found = {tp: self.in_hand.pop(tp).offset for tp in partitions if tp in self.in_hand}
        if found:
            self._out_of_hand()
        return found

    def have_room(self) -> bool:
        """May more be taken from the fetching side? Only queues with room get it."""
        for line in self.all_lines():
            line.full = line.full and line.count > self.limit // 2
        if any(line.full for line in self.all_lines()) and all(
            self.route[tp].full for tp in self._data.assigned()
        ):
            return False
        for line in self.all_lines():
            if line.paused != line.full:
                line.paused = line.full
                self._pause(line)
        return True

    def _pause(self, line: Line) -> None:
        concerned = [tp for tp in self._data.assigned() if self.route[tp] is line]
        if concerned:
            (self._data.kafka.pause if line.paused else self._data.kafka.resume)(*concerned)

    # the end

    def report(self, error: Exception) -> None:
        """Every stream raises this, once."""
        with self.lock:
            for line in self.all_lines():
                line.error = error
                line.waiting.notify_all()

    def close(self, failure: Exception | None = None) -> None:
        """Hand out nothing more: streams end, or raise `failure`."""
        with self.lock:
            self.closed = True
            self.failure = self.failure or failure
            for line in self.all_lines():
                line.waiting.notify_all()

    def settle(self, timeout_s: float, closer: threading.Thread | None) -> None:
        """Wait for what living threads but `closer` have in hand, not for long; what remains is not
        processed.
        """
        deadline = time.monotonic() + timeout_s
        with self.lock:
            while time.monotonic() < deadline and any(
                hand.thread.is_alive() and hand.thread is not closer
                for hand in self.in_hand.values()
            ):
                self.idle.wait(THREAD_LOOK_S)
            self.put_back()
            for tp, offset in self.void(set(self.in_hand)).items():
                self._data.put_back(tp, offset)
