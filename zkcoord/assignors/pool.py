"""The pool of child processes that run assignors of others, and who is served when.

A call waits until a process is free; it then has `deadline_ms`. A process is kept for the next call
after a good answer, and killed after anything else. The rules that keep one group's endless loop
from delaying the others:

* A group whose last call failed, or took longer than `slice_ms`, is *slow*. Slow groups are served
  after all others, and never on all processes at once: one is always left for the others.
* A call of a group that is not slow is interrupted when it takes longer than `slice_ms` while
  others wait for a process. Nothing is reported then: the call is repeated as one of a slow group.

So a group that is not slow waits, beside those before it that are not slow either, for `slice_ms`
of each group that has just begun to loop, spread over the processes, and for no other group.

One call per group is under way at a time. A call that still waits is replaced by a newer one of its
group, and never answered. Threads: `submit` and `close` may be called from any, `done` is called
where `post` calls it. What was given to `submit` must not change afterwards: a thread of the pool
reads it.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

from zkcoord.assignors.frames import decode_answer, encode_request
from zkcoord.assignors.process import AssignorFailed, AssignorProcess, start
from zkcoord.assignors.wide import AnswerTaker, WideAssignor
from zkcoord.core.assignment import ASSIGNORS, Assignment, AssignmentInput
from zkcoord.core.value_type import value

log = logging.getLogger(__name__)

PROCESSES_MIN = 2
START_WITHIN_MS = 30_000
CALLS_PER_CHILD_MAX = 1_000
SLOW_GROUPS_MAX = 10_000
CLOSE_WITHIN_MS = 2_000


@value
class AssignorOptions:
    """`processes_max` (2 or more): how many calls at once; `deadline_ms`: how long one may take;
    `memory_mb`: a process's address space; `slice_ms`: see the module.
    """

    processes_max: int = 4
    deadline_ms: int = 5_000
    memory_mb: int = 1_024
    slice_ms: int = 500


@value
class _Call:
    group: str
    assignor: str
    given: AssignmentInput
    done: AnswerTaker


class AssignorPool:
    """See the module. Nothing is started before the first call."""

    def __init__(
        self, options: AssignorOptions, post: Callable[[Callable[[], None]], None]
    ) -> None:
        assert options.processes_max >= PROCESSES_MIN
        self.options = options
        self._post = post
        self._lock = threading.Lock()
        self._closed = False
        # those that wait, in the order of their groups' first asking; a group is in one of the two
        # at most
        self._quick_calls: dict[str, _Call] = {}
        self._slow_calls: dict[str, _Call] = {}
        self._running: dict[str, _Call] = {}
        self._slow: dict[str, None] = {}
        self._slots: list[_Slot] = []
        self._idle: list[_Slot] = []
        self._wide = WideAssignor(post)

    def submit(self, group: str, assignor: str, given: AssignmentInput, done: AnswerTaker) -> None:
        """Have an assignor compute; `done(assignment, "")` or `done(None, why)`, words in which
        "it" is the assignor, follows once. Returns at once. Ours compute beside the pool (`wide`).
        """
        if assignor in ASSIGNORS:
            self._wide.submit(group, assignor, given, done)
            return
        with self._lock:
            if not self._closed:
                # a newer call takes the place of its group in the queue
                self._line(group)[group] = _Call(group, assignor, given, done)
                self._dispatch()

    def close(self) -> None:
        """Kill what runs; nothing is answered any more."""
        with self._lock:
            self._closed = True
            self._quick_calls.clear()
            self._slow_calls.clear()
        self._wide.close()
        for slot in self._slots:
            slot.close()
        until = time.monotonic() + CLOSE_WITHIN_MS / 1000
        for slot in self._slots:
            slot.thread.join(max(0.0, until - time.monotonic()))

    def processes(self) -> tuple[int, ...]:
        """The ids of the processes that there are now."""
        return tuple(child.pid for slot in self._slots if (child := slot.child) is not None)

    # with the lock held

    def _dispatch(self) -> None:
        while (
            not self._closed
            and len(self._running) < self.options.processes_max
            and (call := self._next()) is not None
        ):
            if not self._idle:
                self._slots.append(_Slot(self, len(self._slots)))
                self._idle.append(self._slots[-1])
            del self._line(call.group)[call.group]
            self._running[call.group] = call
            self._idle.pop().calls.put(call)

    def _next(self) -> _Call | None:
        """Who is served next, if a process is free for it."""
        quick = self._first(self._quick_calls)
        slow_running = sum(group in self._slow for group in self._running)
        return quick or (
            self._first(self._slow_calls) if slow_running < self.options.processes_max - 1 else None
        )

    def _first(self, line: dict[str, _Call]) -> _Call | None:
        """At most as many are passed over as run now."""
        return next((call for group, call in line.items() if group not in self._running), None)

    def _line(self, group: str) -> dict[str, _Call]:
        """Where a group's call waits."""
        return self._slow_calls if group in self._slow else self._quick_calls

    def _remember(self, group: str, slow: bool) -> None:
        """Whether a group is slow, from now on; a call of it that waits changes lines."""
        waiting = self._line(group).pop(group, None)
        self._slow.pop(group, None)
        if slow:
            self._slow[group] = None
        if waiting is not None:
            self._line(group)[group] = waiting
        if len(self._slow) > SLOW_GROUPS_MAX:
            oldest = next(
                (
                    name
                    for name in self._slow
                    if name not in self._slow_calls and name not in self._running
                ),
                None,
            )
            if oldest is not None:
                del self._slow[oldest]

    # from the slots' threads

    def others_wait(self) -> bool:
        """Whether a group that is not slow waits for a process."""
        with self._lock:
            return self._first(self._quick_calls) is not None

    def is_slow(self, group: str) -> bool:
        """See the module."""
        with self._lock:
            return group in self._slow

    def finished(
        self, slot: _Slot, call: _Call, answer: Assignment | AssignorFailed, took_ms: float
    ) -> None:
        """A slot is free again; tell, or repeat."""
        slow = isinstance(answer, AssignorFailed) or took_ms > self.options.slice_ms
        again = isinstance(answer, AssignorFailed) and answer.gave_way
        with self._lock:
            if self._closed:
                return
            del self._running[call.group]
            self._idle.append(slot)
            self._remember(call.group, slow)
            if again:
                self._line(call.group).setdefault(call.group, call)  # unless a newer one waits
            self._dispatch()
        if again:
            log.debug(
                "an assignor is interrupted since others wait",
                extra={"fields": {"group": call.group, "assignor": call.assignor}},
            )
        elif isinstance(answer, AssignorFailed):
            reason = answer.reason
            log.warning(
                "an assignor failed",
                extra={
                    "fields": {"group": call.group, "assignor": call.assignor, "reason": reason}
                },
            )
            self._post(lambda: call.done(None, reason))
        else:
            self._post(lambda: call.done(answer, ""))


class _Slot:
    """A thread with, most of the time, a child process."""

    def __init__(self, pool: AssignorPool, number: int) -> None:
        self.pool = pool
        self.calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self.child: AssignorProcess | None = None
        self._answers = 0
        self._closed = False
        self._lock = threading.Lock()
        self.thread = threading.Thread(
            target=self._run, name=f"zkcoord-assignors-{number}", daemon=True
        )
        self.thread.start()

    def close(self) -> None:
        """End the thread and the child."""
        with self._lock:
            self._closed = True
            if self.child is not None:
                self.child.kill()
        self.calls.put(None)

    def _run(self) -> None:
        while (call := self.calls.get()) is not None:
            try:
                answer, took_ms = self._serve(call)
            # A defect of ours: the group must hear something, and the next call is served.
            except Exception:  # thread main
                log.critical(
                    "the call of an assignor ended in an error that should not happen",
                    exc_info=True,
                )
                answer, took_ms = (
                    AssignorFailed(
                        "it could not be asked because of a defect in the coordinator: its log has"
                        " the details"
                    ),
                    0.0,
                )
            if isinstance(answer, AssignorFailed) or self._answers >= CALLS_PER_CHILD_MAX:
                self._drop()
            self.pool.finished(self, call, answer, took_ms)
        self._drop()

    def _serve(self, call: _Call) -> tuple[Assignment | AssignorFailed, float]:
        """The answer and how long it took, without the start of a process."""
        request = encode_request(call.assignor, call.given)
        child = self._ready()
        if isinstance(child, AssignorFailed):
            return child, 0.0
        began = time.monotonic()
        answer = self._ask(child, call, request)
        self._tell_printed(child, call)
        return answer, (time.monotonic() - began) * 1000

    def _ready(self) -> AssignorProcess | AssignorFailed:
        """A child that waits for a request."""
        if self.child is not None and self.child.usable():
            return self.child
        self._drop()
        child = start(self.pool.options.memory_mb)
        if isinstance(child, AssignorFailed):
            return child
        with self._lock:
            self.child = child
            if self._closed:
                child.kill()
        hello = child.exchange(None, START_WITHIN_MS)
        return (
            AssignorFailed(f"it has no process to run in: {hello.reason}")
            if isinstance(hello, AssignorFailed)
            else child
        )

    def _ask(
        self, child: AssignorProcess, call: _Call, request: bytes
    ) -> Assignment | AssignorFailed:
        options = self.pool.options
        slice_ends = time.monotonic() + options.slice_ms / 1000

        slow = self.pool.is_slow(call.group)

        def give_way() -> bool:
            return not slow and time.monotonic() > slice_ends and self.pool.others_wait()

        body = child.exchange(request, options.deadline_ms, give_way)
        if isinstance(body, AssignorFailed):
            return body
        self._answers += 1
        answer = decode_answer(body)
        return answer if isinstance(answer, Assignment) else AssignorFailed(answer)

    def _tell_printed(self, child: AssignorProcess, call: _Call) -> None:
        text = child.printed()
        if text:
            log.info(
                "an assignor printed",
                extra={"fields": {"assignor": call.assignor, "group": call.group, "text": text}},
            )

    def _drop(self) -> None:
        """Be without a child."""
        with self._lock:
            child, self.child = self.child, None
        self._answers = 0
        if child is not None:
            child.end()
