"""What the journals say, kept in memory for the pages: the newest records of each group, within a
budget of bytes, and how often each was rebalanced lately. A thread of its own follows the files.

Journals are files of this machine. Where coordinators run on others, theirs have to be brought
here, or the console runs beside each of them.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson

from zkcoord.coordinator.journal import Reading, Record, journal_files
from zkcoord.zk.clock import wall_ms

log = logging.getLogger(__name__)

POLL_S = 0.25
KEPT_BYTES_MAX = 64 * 1024 * 1024
RECORD_OVERHEAD_BYTES = 200
HOUR_MS = 3_600_000
BUCKETS = 12
BUCKET_MS = HOUR_MS // BUCKETS
CLOSE_WAIT_S = 0.5
TIMES_MAX = 10_000
ANSWER_BYTES_MAX = 4 * 1024 * 1024
"""Of one group's records for one page, the newest: what a page costs has a limit."""

GROUP_OVERHEAD_BYTES = 1_500
CLOCKS_DIFFER_MS = HOUR_MS
REBALANCES = ("rebalance", "client-led rebalance")
OF_NO_GROUP = ""


class Happenings:
    """See the module. `told` is called on the thread, with the groups of which something came ("":
    what is of no group).
    """

    def __init__(
        self,
        folders: Sequence[Path],
        told: Callable[[frozenset[str]], None],
        kept_bytes_max: int = KEPT_BYTES_MAX,
    ) -> None:
        self.folders = tuple(folders)
        self._told = told
        self._budget = kept_bytes_max
        self._readings = [(folder, Reading()) for folder in folders]
        self._lock = threading.Lock()
        self._of_group: dict[str, deque[bytes]] = {}
        self._order: deque[tuple[str, int]] = deque()
        self._bytes = 0
        self._rebalanced: dict[str, deque[int]] = {}
        self._durations: deque[tuple[int, int]] = deque(maxlen=TIMES_MAX)
        self.unreadable = 0
        self._over = threading.Event()
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="zkcoord-journals", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def close(self) -> None:
        """Follow no more."""
        self._over.set()
        self._thread.join(CLOSE_WAIT_S)

    @property
    def exist(self) -> bool:
        """Whether there is a journal at all that may be read."""
        try:
            return any(journal_files(folder) for folder in self.folders)
        except OSError:
            return False

    def of(self, group: str) -> list[Record]:
        """Its newest records, the oldest first; of no group: elections, brokers, topics."""
        with self._lock:
            kept = list(self._of_group.get(group, ()))
        size, found = 0, list[bytes]()
        for line in reversed(kept):
            size += len(line)
            if size > ANSWER_BYTES_MAX and found:
                break
            found.append(line)
        records: list[Any] = [orjson.loads(line) for line in reversed(found)]
        return sorted(records, key=lambda record: record["t"])

    def rates(self, group: str, now_ms: int | None = None) -> list[int]:
        """How often it was rebalanced in each five minutes of the last hour, the oldest first."""
        now = wall_ms() if now_ms is None else now_ms
        buckets = [0] * BUCKETS
        with self._lock:
            times = list(self._rebalanced.get(group, ()))
        for at in times:
            bucket = BUCKETS - 1 - (now - at) // BUCKET_MS
            if 0 <= bucket < BUCKETS:
                buckets[bucket] += 1
        return buckets

    def per_hour(self, group: str, now_ms: int | None = None) -> int:
        """How often it was rebalanced in the last hour."""
        return sum(self.rates(group, now_ms))

    def durations(self, now_ms: int | None = None) -> list[int]:
        """How long the rebalances of all groups in the last hour took, ms, as far as they are
        kept.
        """
        since = (wall_ms() if now_ms is None else now_ms) - HOUR_MS
        with self._lock:
            found = list(self._durations)
        return [duration for at, duration in found if at >= since]

    def look(self) -> None:
        """Take what came since the last time."""
        for folder, reading in self._readings:
            self.take(reading.records(folder))

    def take(self, records: Iterable[Record]) -> None:
        """Keep these."""
        of = set()
        for record in records:
            group = record.get("group")
            name = group if isinstance(group, str) else OF_NO_GROUP
            with self._lock:
                self._keep(name, record)
            of.add(name)
        if of:
            self._told(frozenset(of))

    def _keep(self, group: str, record: Record) -> None:
        try:
            line = orjson.dumps(record, default=str)
        except TypeError:  # a number of more than 64 bits, half of a surrogate pair: not ours
            self.unreadable += 1
            return
        weight = len(line) + RECORD_OVERHEAD_BYTES
        weight += GROUP_OVERHEAD_BYTES if group not in self._of_group else 0
        self._of_group.setdefault(group, deque()).append(line)
        self._order.append((group, weight))
        self._bytes += weight
        while self._bytes > self._budget and len(self._order) > 1:
            oldest, freed = self._order.popleft()
            self._of_group[oldest].popleft()
            if not self._of_group[oldest]:
                del self._of_group[oldest]
                self._rebalanced.pop(oldest, None)
            self._bytes -= freed
        now = wall_ms()
        if record["kind"] in REBALANCES and record["t"] < now + CLOCKS_DIFFER_MS:
            times = self._rebalanced.setdefault(group, deque(maxlen=TIMES_MAX))
            times.append(record["t"])
            if type(record.get("duration_ms")) is int:
                self._durations.append((record["t"], max(0, record["duration_ms"])))
            while times and times[0] < min(now, record["t"]) - HOUR_MS:
                times.popleft()

    def _say(self, trouble: str) -> None:
        """Once, until it is another one."""
        if trouble != self._trouble:
            self._trouble = trouble
            log.warning("a journal cannot be read: %s", trouble)

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                try:
                    self.look()
                    self._trouble = ""
                except OSError as error:
                    self._say(str(error))
                self._over.wait(POLL_S)
        except Exception:  # the thread's main: log and stop
            log.exception(
                "journals are not followed any more after an error that should not happen"
            )
