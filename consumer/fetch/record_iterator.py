"""Records that iteration has taken out of the fetching side and not yet yielded.

Iteration takes a whole poll's worth at once, so the fetching side's position stands behind records
that the application has not seen. The iterator knows where the application really is: `positions`
corrects the fetching side's, and `put_back` makes them true again when a partition is revoked,
paused, or the lease is over. No work is done per record but stepping through a list. All methods
are called under the fetching side's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from kafka.structs import TopicPartition


class Positions(Protocol):
    """The part of the fetching side that the iterator needs."""

    def put_back(self, tp: TopicPartition, offset: int) -> None:
        """Hand out this partition from `offset` again."""


class TakenRecords(Protocol):
    """Records that were taken out of the fetching side, and are not handed out or not processed
    yet, as far as an assignment must know. All methods are called under the fetching side's lock.
    """

    @property
    def in_hand(self) -> Mapping[TopicPartition, object]:
        """Partitions of records that somebody works on, across polls. Always one mapping, which
        follows.
        """
        ...

    def positions(self) -> dict[TopicPartition, int]:
        """Where partitions with records left really stand."""
        ...

    def put_back(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Let the fetching side hand out what is left of these partitions again (None: of all)."""
        ...

    def discard(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what is left of these partitions."""
        ...

    def added(
        self, partitions: Collection[TopicPartition], streams: Mapping[TopicPartition, int]
    ) -> None:
        """These partitions are assigned now. `streams`: which message stream gets the records of a
        partition; one that is not named keeps its stream.
        """
        ...

    def give_up(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions are given up now: nobody waits any more for what is in hand of them."""
        ...


class _Chunk:
    __slots__ = ("next", "owner", "partition", "records")

    def __init__(self, partition: TopicPartition, records: list[Any]) -> None:
        self.partition = partition
        self.owner = (partition,)
        self.records = records
        self.next = 0

    @property
    def position(self) -> int:
        """The offset after the last record yielded, or of the first one."""
        return int(self.records[self.next - 1].offset + 1 if self.next else self.records[0].offset)


class RecordIterator:
    """The `TakenRecords` of an application that polls or iterates."""

    def __init__(self, data: Positions) -> None:
        self._data = data
        self._chunks: deque[_Chunk] = deque()
        # The partition of the record yielded last, as a tuple of one; nothing before the first.
        self.owner: tuple[TopicPartition, ...] = ()
        # The record that `next` gave last.
        self.given: Any = None
        # Nothing: what was handed out is processed when the application polls again.
        self.in_hand: Mapping[TopicPartition, object] = {}

    def fill(self, records: Mapping[TopicPartition, list[Any]]) -> None:
        """Take what one poll gave."""
        self._chunks.extend(_Chunk(tp, found) for tp, found in records.items() if found)

    def next(self) -> Any:
        """The next record; None when there is none."""
        while self._chunks:
            chunk = self._chunks[0]
            at = chunk.next
            if at < len(chunk.records):
                chunk.next = at + 1
                self.owner = chunk.owner
                self.given = record = chunk.records[at]
                return record
            self._chunks.popleft()
        return None

    def take_back(self) -> None:
        """What `next` gave last did not get to the application: it comes again."""
        for chunk in self._chunks:
            if chunk.next and chunk.records[chunk.next - 1] is self.given:
                chunk.next -= 1
                return

    def positions(self) -> dict[TopicPartition, int]:
        """Where partitions with records left really stand."""
        found: dict[TopicPartition, int] = {}
        for chunk in self._chunks:
            if chunk.next < len(chunk.records):
                found.setdefault(chunk.partition, chunk.position)
        return found

    def put_back(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Let the fetching side hand out what is left of these partitions again (None: of all)."""
        for tp, offset in self.positions().items():
            if partitions is None or tp in partitions:
                self._data.put_back(tp, offset)
        self._keep_others(partitions)

    def discard(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what is left of these partitions."""
        self._keep_others(partitions)

    def added(
        self, partitions: Collection[TopicPartition], streams: Mapping[TopicPartition, int]
    ) -> None:
        """Nothing: all records go to the application."""

    def give_up(self, partitions: Collection[TopicPartition]) -> None:
        """Nothing: see `in_hand`."""

    def _keep_others(self, partitions: Collection[TopicPartition] | None) -> None:
        self._chunks = deque(
            c for c in self._chunks if partitions is not None and c.partition not in partitions
        )
