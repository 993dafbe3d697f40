"""Where the logs of the partitions that a query reads begin and end, kept fresh by a thread, so
that Spark's question for the latest offset costs no request.

Ends are asked for often while records come (`BUSY_S`), seldomer when nothing has come for a while
(`IDLE_S`): one request for each broker and time. Beginnings, which only tell data loss, are asked
for once for each partition and then every `BEGINNINGS_S`. What is newly wanted is asked for at
once.

Where a question for several partitions is not answered (the broker that leads one of them is away,
and takes the answers of the others with it), each is asked for by itself, until all have answered
again: what one does not say holds up nothing of the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from consumer.fetch.client import FetchClient
from zkcoord.core.model import TopicPartition

BUSY_S = 0.025
IDLE_S = 0.2
BUSY_FOR_S = 2.0
BEGINNINGS_S = 10.0
ANSWER_S = 10.0
APART_S = 1.0
EARLIEST, LATEST = -2, -1


class EndOffsets:
    """The ends of some partitions' logs; any thread. Asks the brokers on the thread "log-ends"."""

    def __init__(self, data: FetchClient, changed: Callable[[], None]) -> None:
        self._data = data
        # Called, on log-ends, when an end has moved or a partition became known.
        self._changed = changed
        # Guards `_wanted`, `_began`, `_ends` and `_counter`.
        self._lock = threading.Lock()
        # Ends the pause of log-ends.
        self._wake = threading.Event()
        # Set once.
        self._stopped = False
        # What is kept fresh, and the value of `_counter` when it came.
        self._wanted: dict[TopicPartition, int] = {}
        # First offsets, and next offsets to be written, as asked last.
        self._began: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        # Counts the calls of `want`: an answer for what went and came again in the meantime is left
        # out.
        self._counter = 0
        # When an end moved last, and when all beginnings were asked for last (`time.monotonic`, s).
        # Touched by log-ends only.
        self._moved_at = self._began_at = time.monotonic()
        # Whether each partition is asked for by itself; any thread, and a guess at worst.
        self._apart = False
        self._thread = threading.Thread(target=self._run, name="log-ends", daemon=True)
        self._thread.start()

    def want(self, partitions: Collection[TopicPartition]) -> None:
        """Keep these fresh, and no others. What was not wanted before is unknown until it was asked
        for.
        """
        with self._lock:
            self._counter += 1
            self._wanted = {tp: self._wanted.get(tp, self._counter) for tp in partitions}
            for known in (self._ends, self._began):
                for tp in [tp for tp in known if tp not in self._wanted]:
                    del known[tp]
        self._wake.set()

    def known(self) -> dict[TopicPartition, tuple[int, int]]:
        """{partition: (first offset, next offset to be written)} as asked last."""
        with self._lock:
            return {
                tp: (self._began[tp], end) for tp, end in self._ends.items() if tp in self._began
            }

    def ask(self, specs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Ask now, and wait for the answer (10 s at most, and one more for partitions by
        themselves): beginnings (-2) and ends (-1) of those partitions that exist.
        """
        found = {} if self._apart else self._asked([specs], ANSWER_S)
        if not found and len(specs) > 1:
            found = self._asked([{tp: spec} for tp, spec in specs.items()], APART_S)
            self._apart = 0 < len(found) < len(specs)
        return found

    def _asked(
        self, questions: Sequence[Mapping[TopicPartition, int]], wait_s: float
    ) -> dict[TopicPartition, int]:
        """Ask all of these at once: what was answered in time."""
        found: dict[TopicPartition, int] = {}
        answers = threading.Semaphore(0)

        def take(answer: Mapping[tuple[str, int], int]) -> None:
            found.update({TopicPartition(*tp): offset for tp, offset in answer.items()})
            answers.release()

        until = time.monotonic() + wait_s
        for question in questions:
            self._data.look_up(question, take)
        for _ in questions:
            if not answers.acquire(timeout=max(0.0, until - time.monotonic())):
                break
        return dict(found)

    def stop(self) -> None:
        """End the thread; its last question may still be out."""
        self._stopped = True
        self._wake.set()

    def _run(self) -> None:
        while not self._stopped:
            self._wake.clear()
            self._refresh()
            idle = time.monotonic() - self._moved_at > BUSY_FOR_S
            self._wake.wait(IDLE_S if idle else BUSY_S)

    def _refresh(self) -> None:
        with self._lock:
            wanted = dict(self._wanted)
            unknown = [tp for tp in wanted if tp not in self._began]
        if not wanted:
            return
        now = time.monotonic()
        everything = now - self._began_at >= BEGINNINGS_S
        began = (
            self.ask(dict.fromkeys(wanted if everything else unknown, EARLIEST))
            if everything or unknown
            else {}
        )
        ends = self.ask(dict.fromkeys(wanted, LATEST))
        if everything:
            self._began_at = now
        with self._lock:
            current = {tp for tp, since in wanted.items() if self._wanted.get(tp) == since}
            moved = any(self._ends.get(tp) != end for tp, end in ends.items() if tp in current)
            self._began.update({tp: offset for tp, offset in began.items() if tp in current})
            self._ends.update({tp: offset for tp, offset in ends.items() if tp in current})
        if moved:
            self._moved_at = time.monotonic()
            self._changed()
