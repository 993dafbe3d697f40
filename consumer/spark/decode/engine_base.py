"""What an engine is to its reader, and the queue that all engines share."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from consumer.spark.decode.arrays import ROWS_MAX, Chunk, Fields, arrays_of
from consumer.spark.decode.errors import ReadError
from consumer.spark.plan import PlannedRange


class Channel(Protocol):
    """One partition that is being fetched; `position` is where its next record begins at the
    earliest.
    """

    position: int

    def take(self, timeout_s: float) -> Chunk | None:
        """What is there, or comes within the time; None when nothing did. Records at or behind the
        end of the range are not given. Raises `ReadError`.
        """
        ...

    def close(self) -> None:
        """Stop fetching."""
        ...


class Handle(Protocol):
    """Connections to the brokers. `ahead`: how many ranges it may fetch before their turn. Not for
    two threads at a time.
    """

    ahead: int

    def open(self, wanted: PlannedRange, start: int, columns: Sequence[str]) -> Channel:
        """Fetch this partition from `start` on; it is not open yet. Raises `ReadError`."""
        ...

    def bounds(self, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
        """The first offset that is there and the one after the last that can be read. Raises
        `ReadError`.
        """
        ...

    def trouble(self) -> ReadError | None:
        """What happened to the handle since the last call, where no waiting cures it."""
        ...

    def close(self) -> None:
        """No channel is open."""
        ...


class _Block(NamedTuple):
    """Records that came together."""

    rows: int
    columns: Mapping[str, pa.Array]
    # The offset after the last one.
    end: int


class Queued:
    """A channel of an engine whose client brings the records of all partitions by one queue. They
    are converted as they come, a run of them at a time, so that the client's objects live for a
    moment only. One thread.
    """

    def __init__(
        self,
        wanted: PlannedRange,
        start: int,
        columns: Sequence[str],
        fields: Fields,
        pump: Callable[[float], None],
        stop: Callable[[], None],
    ) -> None:
        # The offset after the last record that was handed out.
        self.position = start
        # Records from here on are not wanted.
        self._end = wanted.end
        self._columns = columns
        self._fields = fields
        # Waits for records, so many seconds at most, and puts them into the channels by `add`,
        # `seen` and `fail`.
        self._pump = pump
        # Ends fetching.
        self._stop = stop
        # Converted, and not handed out.
        self._blocks: deque[_Block] = deque()
        # How many records are in `_blocks`.
        self._rows = 0
        # Nothing more comes before this offset.
        self._reached = start
        # Raised behind what was added.
        self._error: ReadError | None = None
        # Whether the client fetches.
        self._open = True

    def add(self, records: Sequence[Any]) -> None:
        """The next records, one at least. Raises `CorruptRecordError` for what the client cannot
        decode.
        """
        offsets = array("q", self._fields.offset(records))
        inside = len(offsets) if offsets[-1] < self._end else bisect_left(offsets, self._end)
        for at in range(0, inside, ROWS_MAX):
            until = min(at + ROWS_MAX, inside)
            self._blocks.append(
                _Block(
                    until - at,
                    arrays_of(records[at:until], offsets[at:until], self._columns, self._fields),
                    offsets[until - 1] + 1,
                )
            )
        self._rows += inside
        self.seen(offsets[-1] + 1)

    def seen(self, position: int) -> None:
        """Nothing more comes before `position`."""
        self._reached = max(self._reached, min(position, self._end))
        if self._reached >= self._end:
            self._end_fetching()

    def fail(self, error: ReadError) -> None:
        """After what was added."""
        self._error = self._error or error

    def take(self, timeout_s: float) -> Chunk | None:
        """As `Channel` says."""
        until = time.monotonic() + timeout_s
        while (
            not self._blocks
            and self._error is None
            and self._reached == self.position
            and time.monotonic() < until
        ):
            self._pump(max(0.0, until - time.monotonic()))
        before = 0
        # and what came with it
        while before < self._rows < ROWS_MAX and self._open and self._error is None:
            before = self._rows
            self._pump(0.0)
        if self._blocks:
            return self._taken()
        error, self._error = self._error, None
        if error is not None:
            raise error
        if self._reached > self.position:
            self.position = self._reached
            return Chunk(0, {}, self.position, self.position >= self._end)
        return None

    def _taken(self) -> Chunk:
        """As many blocks as one batch may hold, one at least."""
        taken = [self._blocks.popleft()]
        rows = taken[0].rows
        while self._blocks and rows + self._blocks[0].rows <= ROWS_MAX:
            taken.append(self._blocks.popleft())
            rows += taken[-1].rows
        self._rows -= rows
        self.position = taken[-1].end if self._blocks else self._reached
        columns = {
            name: (
                pa.concat_arrays([block.columns[name] for block in taken])
                if len(taken) > 1
                else only
            )
            for name, only in taken[0].columns.items()
        }
        return Chunk(rows, columns, self.position, self.position >= self._end)

    def close(self) -> None:
        """Stop fetching."""
        self._end_fetching()
        self._blocks.clear()
        self._rows = 0

    def _end_fetching(self) -> None:
        if self._open:
            self._open = False
            self._stop()
