"""The scheduler under the simulation: integer time, one heap, one random generator, and hosts that
can be paused, resumed and killed.

Everything that happens is a thunk in one heap ordered by (millisecond, order of scheduling);
nothing reads a real clock and all chance comes from one seeded generator, so a seed is a run. A
`Host` is one operating-system process of the model: thunks given to `Host.at` are what the process
itself does, so they wait while it is paused (SIGSTOP) and run, late, when it continues; a killed
host runs nothing more. The network and the servers are not paused with it: they use the kernel
directly. Contract: thunks of one host that became due while it was paused run in the order in which
they became due, except that its timers (`timer=True`) are shuffled among them, because a continued
process may look at its clock before or after it empties its sockets.
"""

from __future__ import annotations

import heapq
import random
import traceback
from collections import Counter
from collections.abc import Callable

Thunk = Callable[[], None]

TRACE_LINES_MAX = 200_000
EVENTS_PER_RUN_MAX = 3_000_000


class RunawaySimulation(AssertionError):
    """A run does not end: something re-schedules itself without time passing."""


class Kernel:
    """Time, chance and the heap of what will happen."""

    def __init__(self, seed: int, tracing: bool = False) -> None:
        self.now = 0
        self.rng = random.Random(seed)
        self.steps = 0
        self.faults: Counter[str] = Counter()
        self.happened: Counter[str] = Counter()
        self.lines: list[str] = []
        self.tracing = tracing
        self._heap: list[tuple[int, int, Thunk]] = []
        self._order = 0

    def at(self, time_ms: int, thunk: Thunk) -> None:
        """Run `thunk` at `time_ms` (not before now)."""
        self._order += 1
        heapq.heappush(self._heap, (max(time_ms, self.now), self._order, thunk))

    def after(self, delay_ms: int, thunk: Thunk) -> None:
        """Run `thunk` in `delay_ms`."""
        self.at(self.now + delay_ms, thunk)

    def run_until(self, time_ms: int, stop: Callable[[], bool] | None = None) -> None:
        """Let everything happen that is due until `time_ms`, or until `stop` says so."""
        heap = self._heap
        while heap and heap[0][0] <= time_ms:
            self.now, _, thunk = heapq.heappop(heap)
            self.steps += 1
            if self.steps > EVENTS_PER_RUN_MAX:
                raise RunawaySimulation(f"more than {EVENTS_PER_RUN_MAX} steps")
            thunk()
            if stop is not None and stop():
                return
        self.now = max(self.now, time_ms)

    def trace(self, who: str, what: str) -> None:
        """Write one line of the readable trace (only when tracing)."""
        if self.tracing and len(self.lines) < TRACE_LINES_MAX:
            self.lines.append(f"{self.now:>7} {who:<12} {what}")

    def fault(self, kind: str, who: str, detail: str = "") -> None:
        """Count a fault that fired, and trace it."""
        self.faults[kind] += 1
        self.trace(who, f"*** {kind} {detail}")

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return probability > 0 and self.rng.random() < probability

    def between(self, low: int, high: int) -> int:
        """An integer of [low, high]."""
        return low if high <= low else low + int(self.rng.random() * (high - low + 1))


def _nothing() -> None:
    """What a host does after each thunk unless it has a driver to look after."""


class Host:
    """One process: what it does waits while it is paused and ends when it is killed."""

    def __init__(self, kernel: Kernel, name: str) -> None:
        self.kernel = kernel
        self.name = name
        self.alive = True
        self.paused = False
        self.crash: BaseException | None = None
        self.on_state: list[Thunk] = []
        self.after_each: Thunk = _nothing
        self.link_stalled_until = 0
        self.link_cut_until = 0
        self.link_mute_until = 0
        self.link_deaf_until = 0
        self._late: list[tuple[bool, Thunk]] = []

    def at(self, time_ms: int, thunk: Thunk, timer: bool = False) -> None:
        """Let the process do `thunk` at `time_ms`, or as soon as it runs again."""
        self.kernel.at(time_ms, lambda: self.do(thunk, timer))

    def after(self, delay_ms: int, thunk: Thunk, timer: bool = False) -> None:
        """As `at`, in `delay_ms`."""
        self.at(self.kernel.now + delay_ms, thunk, timer)

    def do(self, thunk: Thunk, timer: bool = False) -> None:
        """Let the process do `thunk` now, or as soon as it runs again."""
        if not self.alive:
            return
        if self.paused:
            self._late.append((timer, thunk))
            return
        try:
            thunk()
            self.after_each()
        # the main of a process: it dies of what it does not catch, and the world reports it
        except Exception as error:
            self.crash = error
            self.kernel.trace(
                self.name, "*** crashed: " + "".join(traceback.format_exception(error))
            )
            self.kill()

    def pause(self) -> None:
        """SIGSTOP."""
        if self.alive and not self.paused:
            self.paused = True
            self._changed()

    def resume(self) -> None:
        """SIGCONT: what became due meanwhile happens now, sockets in order, timers anywhere among
        them.
        """
        if not self.alive or not self.paused:
            return
        self.paused = False
        late, self._late = self._late, []
        sockets = [thunk for timer, thunk in late if not timer]
        for thunk in (thunk for timer, thunk in late if timer):
            sockets.insert(self.kernel.between(0, len(sockets)), thunk)
        self._changed()
        for thunk in sockets:
            self.do(thunk)

    def kill(self) -> None:
        """SIGKILL."""
        if self.alive:
            self.alive = False
            self.paused = False
            self._late.clear()
            self._changed()

    def link_bad_until(self) -> int:
        """When its link is whole again."""
        return max(
            self.link_stalled_until, self.link_cut_until, self.link_mute_until, self.link_deaf_until
        )

    def _changed(self) -> None:
        for thunk in list(self.on_state):
            thunk()
