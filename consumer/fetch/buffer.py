"""What was fetched and not handed out yet: by partition, given out in turns, within a limit of
bytes.

kafka-python hands out one response until it is empty, then the next; a partition behind a long
response waits, and how long depends on how much others have. Here (KIP-41, the proportional form):

* **Turns.** A poll gives each partition that has something buffered the same number of records, so
  that 300 records over A, B and C are 100 of each, or 150 of two if the third has nothing; what one
  cannot use goes to the others, and a poll is full whenever enough is buffered. What cannot be
  divided, as where there are more partitions than a poll gives records, goes to those that are
  next, one each, and the next poll goes on behind them. So between any two partitions that both
  have something buffered the number of records given differs by one at most, and with `n` of them
  none waits longer than `n` polls. `FairTurns` is that rule and knows nothing else.
* **Fetching again, by share** (KIP-41's second heuristic). A partition is fetched again, from the
  end of what is buffered of it, when that is less than its share of a poll: `max_poll_records` by
  the number of assigned partitions. The others are not asked for: that one has a backlog keeps no
  other from being fetched.
* **Bytes.** Each assigned partition may have its part of `max_buffered_bytes` buffered; one request
  asks for at most half of that, and only while it fits. So all together stay below the limit, but
  for batches that are larger than what was asked for (a broker gives at least one) and where a part
  would be smaller than `CHUNK_BYTES_MIN`; then nothing is fetched while the limit is reached, and
  what is paused is dropped.
* **The position is the truth.** What is buffered is good for exactly one position: where its first
  record begins. After a seek, a reset, or records that were put back it is not what comes next, and
  is dropped. A response that does not continue what is buffered is dropped when it arrives.

Records are decoded when they are given out, a slice at a time, by kafka-python. Everything here is
done under the fetching side's lock.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import kafka.errors
from kafka.structs import OffsetAndMetadata, TopicPartition

CHUNK_BYTES_MIN = 16 * 1024

_BEGIN = struct.Struct(">qiib")  # base offset, length of what follows it, leader epoch, format
_REST = struct.Struct(">23xi30xi")  # distance of the last offset, number of records
_OVERHEAD = 12
_FORMAT_WITH_COUNTS = 2

Key = TypeVar("Key")
Give = Callable[[Key, int], tuple[int, bool]]


class FairTurns(Generic[Key]):
    """Who is next, and for how many records. Keys are those that have something to give."""

    def __init__(self) -> None:
        self._queue: deque[Key] = deque()

    def __contains__(self, key: Key) -> bool:
        return key in self._queue

    def add(self, key: Key) -> None:
        """It has something now: it comes after the others."""
        self._queue.append(key)

    def remove(self, key: Key) -> None:
        """It has nothing any more."""
        if key in self._queue:
            self._queue.remove(key)

    def run(self, room: int, give: Give[Key]) -> None:
        """One poll: call `give(key, n)` until `room` records are given or nobody has any. It
        answers how many it gave, and whether it may have more; who gave less than asked and may
        have more waits for the next poll. What `give` raises ends the poll, and the key that raised
        is out.
        """
        later: list[Key] = []
        try:
            while room > 0 and self._queue:
                waiting = len(self._queue)
                share = max(1, room // waiting)
                for _ in range(min(waiting, room)):
                    room -= self._serve(share, give, later)
        finally:
            self._queue.extend(later)

    def _serve(self, wanted: int, give: Give[Key], later: list[Key]) -> int:
        """The first gives so many, and goes behind the others."""
        key = self._queue.popleft()
        given, more = give(key, wanted)
        if given == wanted:
            self._queue.append(key)
        elif more:
            later.append(key)
        return given


class Extent(NamedTuple):
    """What a response holds: how many records at most (format 2 says it; an older batch counts as
    one), and where the next response begins (None: nowhere new).
    """

    records: int
    end: OffsetAndMetadata | None


def extent_of(data: bytes | memoryview) -> Extent:
    """Read the heads of complete batches; nothing is unpacked."""
    at, size, count = 0, len(data), 0
    end: OffsetAndMetadata | None = None
    while at + _BEGIN.size <= size:
        base, length, epoch, form = _BEGIN.unpack_from(data, at)
        after = at + _OVERHEAD + length
        if after > size or after < at + _BEGIN.size:
            break
        if form < _FORMAT_WITH_COUNTS:
            count, last, epoch = count + 1, base, -1
        elif at + _REST.size > after:
            break
        else:
            distance, records = _REST.unpack_from(data, at)
            count, last = count + records, base + distance
        end = OffsetAndMetadata(last + 1, "", epoch)
        at = after
    return Extent(count, end)


class CompletedFetch(NamedTuple):
    """A response for one partition, with its extent."""

    completed: Any
    extent: Extent
    size: int


class PartitionBuffer:
    """What is buffered of one partition, oldest first: what is being handed out, and responses
    behind it.
    """

    __slots__ = ("_count", "current", "records", "responses", "size")

    def __init__(self) -> None:
        self.records: Any = None
        self.current: CompletedFetch | None = None
        self.responses: deque[CompletedFetch] = deque()
        self.size = 0
        self._count = 0

    @property
    def start(self) -> int:
        """The one position for which this is good."""
        return int(
            self.records.next_fetch_offset
            if self.records
            else self.responses[0].completed.fetched_offset
        )

    @property
    def end(self) -> OffsetAndMetadata | None:
        """Where to fetch more; None where something is to be dealt with first (an error, an empty
        response).
        """
        last = self.responses[-1] if self.responses else self.current
        return None if last is None else last.extent.end

    @property
    def left(self) -> int:
        """How many records, at most."""
        return self._count - (self.records.records_read if self.records else 0)

    def put(self, fetched: CompletedFetch) -> None:
        self.responses.append(fetched)
        self.size += fetched.size
        self._count += fetched.extent.records

    def next(self, parse: Callable[[Any], Any]) -> None:
        """Begin with the next response; afterwards there may be no records (an error that was dealt
        with, a response that came too late).
        """
        self.finish()
        self.current = self.responses.popleft()
        self.records = parse(self.current.completed)
        if not self.records:
            self.finish()

    def finish(self) -> None:
        """What was being handed out is empty, or not wanted any more."""
        if self.records:
            self.records.drain()
        if self.current is not None:
            self.size -= self.current.size
            self._count -= self.current.extent.records
        self.records = self.current = None


class DeferredError(NamedTuple):
    """What went wrong with a partition at an offset, while records of others were being given
    out.
    """

    partition: TopicPartition
    offset: int
    error: Exception


class FetchBuffer:
    """All partitions. `subscriptions` and `parse` are kafka-python's; `parse` makes records of a
    response, or raises what is wrong with it. `size`: bytes in all. `lag`: of the partition that
    lags most among those that the last `take` gave (-1: unknown).
    """

    def __init__(self, subscriptions: Any, parse: Callable[[Any], Any]) -> None:
        self._subscriptions = subscriptions
        self._parse = parse
        self._of: dict[TopicPartition, PartitionBuffer] = {}
        self._turns: FairTurns[TopicPartition] = FairTurns()
        self._given: dict[TopicPartition, list[Any]] = {}
        self._failed: tuple[TopicPartition, int] | None = None
        self._noted: DeferredError | None = None
        self.size = 0
        self.lag = -1

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self._of

    def put(self, completed: Any) -> None:
        """A response for one partition arrived."""
        tp, data = completed.topic_partition, completed.partition_data.records or b""
        buffered = self._of.get(tp)
        if (
            buffered is None
            and not data
            and completed.partition_data.error_code == kafka.errors.NoError.errno
        ):
            self._look_at(completed)
            return
        fetched = CompletedFetch(completed, extent_of(data), len(data))
        if buffered is None:
            buffered = self._of[tp] = PartitionBuffer()
            self._turns.add(tp)
        elif buffered.end is None or buffered.end.offset != completed.fetched_offset:
            _void(completed)
            return
        buffered.put(fetched)
        self.size += fetched.size

    def _look_at(self, completed: Any) -> None:
        """An answer without records says where the partition ends, and where to fetch it."""
        records = self._parse(completed)
        if records:
            records.drain()

    def drop(self, tp: TopicPartition) -> None:
        """Forget what is buffered of a partition."""
        buffered = self._of.pop(tp, None)
        if buffered is not None:
            self._turns.remove(tp)
            self.size -= buffered.size
            buffered.finish()
            for fetched in buffered.responses:
                _void(fetched.completed)

    def wanted(
        self, max_poll_records: int, chunk_max: int, bytes_max: int
    ) -> tuple[dict[TopicPartition, OffsetAndMetadata], int]:
        """What to fetch: from where, by partition, and how many bytes of each (`chunk_max` at
        most), so that all that is buffered stays below `bytes_max`.
        """
        assigned = len(self._subscriptions.assignment)
        part = bytes_max // max(1, assigned)
        chunk = min(chunk_max, max(CHUNK_BYTES_MIN, part // 2))
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        if self.size >= bytes_max:
            self._make_room()
        for tp in self._subscriptions.fetchable_partitions():
            position = self._subscriptions.assignment[tp].position
            buffered = self._of.get(tp)
            if buffered is not None and buffered.start != position.offset:
                self.drop(tp)
                buffered = None
            if buffered is None:
                found[tp] = position
            elif (
                buffered.left * assigned < max_poll_records
                and buffered.size + chunk <= part
                and buffered.end is not None
            ):
                found[tp] = buffered.end
        return ({} if self.size >= bytes_max else found), chunk

    def _make_room(self) -> None:
        """What is paused may stay so for ever: it is fetched again when it goes on."""
        for tp in set(self._of).difference(self._subscriptions.fetchable_partitions()):
            self.drop(tp)

    def has_plenty(self, max_poll_records: int) -> bool:
        """For certain, and quickly: is nothing wanted after the last `take`?"""
        assigned = len(self._subscriptions.assignment)
        if len(self._of) < assigned:
            return False
        return all(
            (buffered := self._of.get(tp)) is not None
            and buffered.left * assigned >= max_poll_records
            for tp in self._given
        )

    def take(self, room: int, given: dict[TopicPartition, list[Any]]) -> None:
        """Put up to `room` records by partition, in turns, into `given`, each before the position
        moves on. What parsing or decoding raises is raised by a take that gives nothing: this one,
        or the next while the position is still the same.
        """
        noted, self._noted = self._noted, None
        if noted is not None and self._stands_at(noted.partition, noted.offset):
            raise noted.error
        self._given = given
        self.lag = -1
        try:
            self._turns.run(room, self._give)
        except BaseException as e:
            if given and self._failed is not None and isinstance(e, Exception):
                self._noted = DeferredError(*self._failed, e)
                return
            self._take_back()
            raise

    def _stands_at(self, tp: TopicPartition, offset: int) -> bool:
        state = self._subscriptions.assignment.get(tp)
        return state is not None and state.is_fetchable() and state.position.offset == offset

    def _take_back(self) -> None:
        for tp, records in self._given.items():
            state = self._subscriptions.assignment.get(tp)
            if state is not None and state.has_valid_position:
                state.position = OffsetAndMetadata(records[0].offset, "", -1)
        self._given.clear()

    def _give(self, tp: TopicPartition, wanted: int) -> tuple[int, bool]:
        """See `FairTurns.run`."""
        buffered, given = self._of[tp], 0
        state = self._subscriptions.assignment.get(tp)
        try:
            while given < wanted:
                if state is None or not state.is_fetchable():
                    if (
                        state is not None
                        and state.has_valid_position
                        and not state.awaiting_validation
                    ):
                        # paused, or held until it is given up: it may go on from here
                        return given, True
                    break
                if not buffered.records:
                    if not self._next(buffered):
                        break
                    continue
                if buffered.records.next_fetch_offset != state.position.offset:
                    break
                given += self._slice(tp, state, buffered.records, wanted - given)
                if buffered.records and given < wanted:
                    return given, True  # what comes next cannot be decoded: the next poll says so
        except BaseException:
            self._failed = (
                None if state is None or state.position is None else (tp, state.position.offset)
            )
            self.drop(tp)
            raise
        if given < wanted:
            self.drop(tp)
        return given, given == wanted

    def _next(self, buffered: PartitionBuffer) -> bool:
        """Begin with the next response, if there is one."""
        if not buffered.responses:
            return False
        before = buffered.size
        try:
            buffered.next(self._parse)
        finally:
            self.size += buffered.size - before
        return True

    def _slice(self, tp: TopicPartition, state: Any, records: Any, wanted: int) -> int:
        found = records.take(wanted)
        if found:
            if tp in self._given:
                self._given[tp] += found
            else:
                self._given[tp] = found
        state.position = OffsetAndMetadata(records.next_fetch_offset, "", records.leader_epoch)
        if state.highwater is not None:
            self.lag = max(self.lag, state.highwater - records.next_fetch_offset)
        return len(found)


def _void(completed: Any) -> None:
    """Nothing is handed out of this response."""
    if completed.metric_aggregator:
        completed.metric_aggregator.record(completed.topic_partition, 0, 0)
