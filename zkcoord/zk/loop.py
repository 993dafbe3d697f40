"""One thread that decides.

Everything that a process knows about its group or its term is touched by this thread only. Other
threads (a connection, an HTTP request, the application, a signal handler) post thunks; the loop
runs them in the order of their posting and then lets its drivers do what time brought. Between two
events it sleeps, exactly until the next one is due.

Ordering contracts:

* thunks run one at a time, first in first out; what one thread posts runs in the order in which it
  posted;
* `post` never blocks and never raises, and may be called from a signal handler or a finalizer;
* after at most `THUNKS_PER_TURN_MAX` thunks the drivers are asked for the time, so that a flood of
  events cannot keep a lease or a deadline from being looked at;
* a driver is ticked when its `next_wake_ms()` is not in the future; it is asked again after every
  turn;
* the first exception that leaves a thunk or a tick ends the loop: it is logged, kept in `failure`,
  and nothing more runs. State that a bug has touched is not worked with any further;
* thunks posted before `stop` run, those posted after it may never run. A future of `submit` that
  will not run is cancelled.

Times are those of `zkcoord.zk.clock.boot_ms`. The sleep itself is counted by a clock that stands
still while the machine is suspended, so no sleep is longer than `SLEEP_MAX_MS`: after a suspension
the drivers see the new time within that.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from zkcoord.zk.bell import Bell
from zkcoord.zk.clock import NS_PER_MS, boot_ms, boot_ns

log = logging.getLogger(__name__)

THUNKS_PER_TURN_MAX = 256
SLEEP_MAX_MS = 1_000
TICKS_WITHOUT_REST_MAX = 1_000
REST_MS = 1
SWITCH_INTERVAL_S = 0.001

T = TypeVar("T")


class Driver(Protocol):
    """What a loop drives. Both methods are called on the loop's thread only."""

    def tick(self) -> None:
        """Do what is due."""

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do (`boot_ms`); None: only after an event."""


class Loop:
    """See the module. `failure` is the exception that ended it, None while there is none; `stopped`
    is set when nothing runs any more.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.failure: Exception | None = None
        self.stopped = Bell()
        self._queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._drivers: list[Driver] = []
        self._stopping = False
        self._on_end: Callable[[], None] | None = None
        self._futures: set[Future[Any]] = set()
        self._futures_lock = threading.Lock()

    # from any thread

    def post(self, thunk: Callable[[], None]) -> None:
        """Have `thunk` run on the loop's thread."""
        self._queue.put(thunk)

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Have `work` run on the loop's thread; its result goes into the future. An exception of
        `work` is one of the loop's own and ends it; the future is cancelled when the loop ends
        first.
        """
        future: Future[T] = Future()

        def run() -> None:
            if not future.cancelled():
                future.set_result(work())

        with self._futures_lock:
            if self.stopped.is_set():
                future.cancel()
                return future
            self._futures.add(future)
        future.add_done_callback(self._forget)
        self.post(run)
        return future

    def attach(self, driver: Driver) -> None:
        """Drive `driver` from now on."""
        self.post(lambda: self._drivers.append(driver))

    def detach(self, driver: Driver) -> None:
        """Drive it no longer."""
        self.post(lambda: self._drivers.remove(driver) if driver in self._drivers else None)

    def start(self, on_end: Callable[[], None] | None = None) -> None:
        """Run in a daemon thread of its own; `on_end` is called on it when the loop has ended,
        whatever the reason.
        """
        self._on_end = on_end
        threading.Thread(target=self.run, name=f"zkcoord-{self.name}", daemon=True).start()

    def stop(self) -> None:
        """End after the thunks posted so far. Returns at once; `join` waits."""
        self.post(self._stop)

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; False when it did not come in time."""
        return self.stopped.wait(timeout_s)

    @property
    def queued(self) -> int:
        """Thunks that wait to be run."""
        return self._queue.qsize()

    # on the loop's thread

    def run(self) -> None:
        """Run in the calling thread until `stop` or a failure."""
        try:
            self._turn_until_stopped()
        except Exception as error:  # the thread's main: log and stop
            self.failure = error
            log.critical(
                "the loop %s ends after an error that should not happen", self.name, exc_info=True
            )
        finally:
            self._end()

    def _turn_until_stopped(self) -> None:
        restless = 0
        while not self._stopping:
            if self._thunks():
                restless = 0
            if self._stopping:
                return
            restless = self._ticks(restless)

    def _thunks(self) -> bool:
        """Sleep until something was posted or a driver is due, then run what was posted; whether
        there was anything.
        """
        try:
            self._queue.get(timeout=self._sleep_s())()
        except queue.Empty:
            return False
        for _ in range(THUNKS_PER_TURN_MAX - 1):
            if self._stopping or self._queue.empty():
                return True
            self._queue.get_nowait()()
        return True

    def _ticks(self, restless: int) -> int:
        """Tick the drivers that are due. Returns how many turns in a row did so without anything
        posted: a driver that is always due must not take a whole processor.
        """
        ticked = False
        for driver in tuple(self._drivers):
            wake_ms = driver.next_wake_ms()
            if wake_ms is not None and wake_ms <= boot_ms():
                driver.tick()
                ticked = True
        if not ticked:
            return 0
        if restless == TICKS_WITHOUT_REST_MAX:
            log.error(
                "a driver of the loop %s is always due: it is ticked every %d ms from now on",
                self.name,
                REST_MS,
            )
        if restless >= TICKS_WITHOUT_REST_MAX:
            time.sleep(REST_MS / 1000)
        return restless + 1

    def _sleep_s(self) -> float:
        wakes = [
            wake for wake in (driver.next_wake_ms() for driver in self._drivers) if wake is not None
        ]
        if not wakes:
            return SLEEP_MAX_MS / 1000
        return min(max(min(wakes) * NS_PER_MS - boot_ns(), 0) / 1e9, SLEEP_MAX_MS / 1000)

    def _stop(self) -> None:
        self._stopping = True

    def _forget(self, future: Future[Any]) -> None:
        with self._futures_lock:
            self._futures.discard(future)

    def _end(self) -> None:
        self._stopping = True
        with self._futures_lock:
            self.stopped.set()
            left = tuple(self._futures)
        for future in left:
            future.cancel()
        if self._on_end is not None:
            self._on_end()


def take_short_turns() -> None:
    """A thread of this process that computes lets the one that decides go on after a millisecond,
    not after five, as Python has it. Call once, when the process begins.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
