"""Reads planned ranges one after the other, exactly: every record with start <= offset < end that
the log holds, once, in order.

* **The end** of a range is known from its last record, from a record behind it, or from a position
  behind it (control records, aborted transactions and what was compacted away move the position
  only). A range is never ended by a time-out.
* **Ahead.** The range that comes next is fetched while one is decoded; a small task opens all its
  ranges together, since then the opening is what takes time.
* **Silence.** When nothing comes for a while the broker is asked where the log begins and ends:
  that tells a deleted topic, lost records and brokers that are gone from a broker that is slow. A
  fetch that brings nothing although the records are there is begun again, and given up after
  `Patience.stalled_s`.
* **Handles** are kept per process, engine and settings, so a task begins with open connections.
  They are made where they are used (never before a fork), belong to one reading at a time, and are
  closed when the process ends. A handle that had an error is not used again.
"""

from __future__ import annotations

import atexit
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from consumer.spark.decode.arrays import Chunk, RecordBatches
from consumer.spark.decode.engine_base import Channel, Handle
from consumer.spark.decode.engines import choose, make_handle
from consumer.spark.decode.errors import (
    DataLossError,
    NoBrokerError,
    OutOfRangeError,
    PositionGoneError,
    ReadError,
    StalledError,
    TopicUnknownError,
)
from consumer.spark.plan import TINY_ROWS, PlannedRange
from consumer.spark.schema import checked
from zkcoord.core.value_type import value

log = logging.getLogger(__name__)

TAKE_S = 0.1
IDLE_HANDLES_MAX = 2
AGAIN = frozenset(2**n for n in range(1, 16))
"""After how many unanswered looks a fetch is begun again: seldomer each time, since a fetch over a
slow line needs its time.
"""


@value
class Patience:
    """How long a range may be silent."""

    # How long nothing may come before the broker is asked.
    probe_s: float = 2.0
    # How long the broker may take to answer.
    answer_s: float = 3.0
    # How long no broker may answer.
    unreachable_s: float = 10.0
    # How long a topic may be unknown: metadata travels.
    unknown_s: float = 2.0
    # How long records may be there and not come.
    stalled_s: float = 60.0


Key = tuple[int, str, tuple[tuple[str, str], ...]]
_idle: dict[Key, list[Handle]] = {}
_told: set[tuple[int, str]] = set()


class Reader:
    """See `consumer.spark.decode.open_reader`. Holds no connection and can be pickled; threads may
    share it.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        engine: str,
        fail_on_data_loss: bool,
        patience: Patience,
        null_timestamps: bool = False,
    ) -> None:
        self._settings = {str(name): str(value) for name, value in settings.items()}
        self._engine = engine
        self._fail_on_data_loss = fail_on_data_loss
        self._patience = patience
        self._null_timestamps = null_timestamps

    def read(
        self, ranges: Iterable[PlannedRange], columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """The records of these ranges, in their order, as batches with these columns, in their
        order. No two ranges overlap. Raises `ReadError`, `EngineUnavailableError`,
        `ConsumerOptionError`.
        """
        names = checked(columns)
        wanted = [r for r in ranges if r.rows > 0]
        if not wanted:
            return
        key = self._key()
        handle = _taken(key, self._settings)
        reading = _Reading(
            handle, wanted, names, self._fail_on_data_loss, self._patience, self._null_timestamps
        )
        try:
            yield from reading.batches()
        except GeneratorExit:  # who asked wants no more
            reading.close()
            _given_back(key, handle)
            raise
        except BaseException:
            reading.close()
            handle.close()
            raise
        _given_back(key, handle)

    def _key(self) -> Key:
        engine, why = choose(self._engine)
        if (os.getpid(), engine) not in _told:
            _told.add((os.getpid(), engine))
            log.info("Kafka's records are read by the engine %s (%s)", engine, why)
        return os.getpid(), engine, tuple(sorted(self._settings.items()))


def _taken(key: Key, settings: Mapping[str, str]) -> Handle:
    found = _idle.get(key)
    try:
        handle = found.pop() if found else None
    except IndexError:  # another thread was faster
        handle = None
    if handle is not None:
        handle.trouble()  # what happened while nobody read is over
        return handle
    if not any(pid == os.getpid() for pid, _, _ in _idle):
        atexit.register(close_idle)
    _idle.setdefault(key, [])
    return make_handle(key[1], settings)


def _given_back(key: Key, handle: Handle) -> None:
    if len(_idle[key]) < IDLE_HANDLES_MAX:
        _idle[key].append(handle)
    else:
        handle.close()


def close_idle() -> None:
    """Close the handles of this process that nobody uses."""
    for (pid, _, _), handles in _idle.items():
        while pid == os.getpid() and handles:
            handles.pop().close()


class _Open:
    """A range and its channel."""

    def __init__(self, wanted: PlannedRange, channel: Channel) -> None:
        self.wanted = wanted
        self.channel = channel


class _Reading:
    def __init__(
        self,
        handle: Handle,
        wanted: Sequence[PlannedRange],
        columns: Sequence[str],
        fail_on_data_loss: bool,
        patience: Patience,
        null_timestamps: bool,
    ) -> None:
        self._handle = handle
        self._null_timestamps = null_timestamps
        # Ranges that are not open yet, in order.
        self._wanted = list(wanted)
        self._columns = columns
        self._fail_on_data_loss = fail_on_data_loss
        self._patience = patience
        # Ranges that are fetched; the first is decoded.
        self._open: list[_Open] = []
        # How many ranges may be open.
        self._together = (
            len(wanted) if sum(r.rows for r in wanted) < TINY_ROWS else 1 + handle.ahead
        )

    def close(self) -> None:
        """Stop fetching."""
        while self._open:
            self._open.pop().channel.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All of them."""
        while self._wanted or self._open:
            self._open_more()
            at = self._open[0]
            batches = RecordBatches(
                at.wanted.topic, at.wanted.partition, self._columns, self._null_timestamps
            )
            for chunk in _Watched(
                self._handle, at, self._columns, self._fail_on_data_loss, self._patience
            ).chunks():
                if chunk.rows:
                    yield batches.batch(chunk)
            self._open.pop(0).channel.close()

    def _open_more(self) -> None:
        while self._wanted and len(self._open) < self._together:
            wanted = self._wanted[0]
            # another piece of the same partition: after that one
            if any(at.wanted.tp == wanted.tp for at in self._open):
                return
            self._open.append(_Open(wanted, self._handle.open(wanted, wanted.start, self._columns)))
            self._wanted.pop(0)


class _Watched:
    """One range, with an eye on whether it gets on."""

    def __init__(
        self,
        handle: Handle,
        at: _Open,
        columns: Sequence[str],
        fail_on_data_loss: bool,
        patience: Patience,
    ) -> None:
        self._handle = handle
        self._at = at
        self._columns = columns
        self._fail_on_data_loss = fail_on_data_loss
        self._patience = patience
        self._where = f"{at.wanted.topic}-{at.wanted.partition}"
        now = time.monotonic()
        # When records came last, the broker was asked, it answered, and the topic was known
        # (`time.monotonic`, s).
        self._came = self._probed = self._answered = self._known = now
        # How often the broker was asked since records came.
        self._probes = 0
        # Whether all of the range was read.
        self._ended = False

    def chunks(self) -> Iterator[Chunk]:
        """Until the end of the range."""
        while not self._ended:
            try:
                chunk = self._at.channel.take(TAKE_S)
            # the bounds of the log tell what it is
            except (PositionGoneError, TopicUnknownError, NoBrokerError) as error:
                chunk = None
                self._silent(error)
            if chunk is not None:
                self._ended = chunk.ended
                self._came = self._probed = self._answered = self._known = time.monotonic()
                self._probes = 0
                yield chunk
            else:
                self._silent(None)

    def _silent(self, error: ReadError | None) -> None:
        """Nothing came, or an error that may pass."""
        trouble = self._handle.trouble()
        if trouble is not None:
            raise trouble
        now = time.monotonic()
        if now - self._came > self._patience.stalled_s:
            raise StalledError(
                f"{self._where}: nothing came for {self._patience.stalled_s:g} s although the log"
                f" goes from before {self._at.channel.position} to {self._at.wanted.end}: look at"
                " the broker"
            )
        if error is None and now - self._probed < self._patience.probe_s:
            return
        self._probed = now
        self._probes += 1
        bounds = self._bounds(error)
        if bounds is None:
            return
        low, high = bounds
        if not self._at.channel.position >= low or high < self._at.wanted.end:
            self._lost(low, high)
        elif error is not None or self._probes in AGAIN:
            log.warning(
                "%s: nothing comes from %d on although the log has it: fetching it anew%s",
                self._where,
                self._at.channel.position,
                f" ({error})" if error is not None else "",
            )
            self._again(self._at.channel.position)

    def _bounds(self, error: ReadError | None) -> tuple[int, int] | None:
        """None where they are not known, which may pass."""
        try:
            found = self._handle.bounds(
                self._at.wanted.topic, self._at.wanted.partition, self._patience.answer_s
            )
        except NoBrokerError:
            if time.monotonic() - self._answered > self._patience.unreachable_s:
                raise
            return None
        except TopicUnknownError as unknown:
            self._answered = time.monotonic()
            if self._answered - self._known <= self._patience.unknown_s:
                return None
            if self._fail_on_data_loss:
                raise
            log.warning("%s; the rest of the range is left out", unknown)
            self._ended = True
            return None
        self._answered = self._known = time.monotonic()
        return found

    def _lost(self, low: int, high: int) -> None:
        """Records of the range are gone. Raises, or goes on with what is there."""
        position, end = self._at.channel.position, self._at.wanted.end
        if position < low:
            error: ReadError = DataLossError(
                f"{self._where}: the records from {position} to {min(low, end)} are gone before"
                f" they were read, the log begins at {low}: its retention is too short for this lag"
            )
        elif position > high:
            error = OutOfRangeError(
                f"{self._where}: the range begins at {position}, and the log ends at {high}: the"
                " topic was made again, or its log was cut"
            )
        else:
            error = DataLossError(
                f"{self._where}: the records from {high} to {end} are gone before they were read,"
                f" the log ends at {high}: the topic was made again, or its log was cut"
            )
        if self._fail_on_data_loss:
            raise error
        log.warning("%s; what is there is read", error)
        self._at.wanted = replace(self._at.wanted, end=min(end, high))
        begin = max(position, low)
        if begin >= self._at.wanted.end:
            self._ended = True
        else:
            self._again(begin)

    def _again(self, position: int) -> None:
        self._at.channel.close()
        self._at.channel = self._handle.open(self._at.wanted, position, self._columns)
