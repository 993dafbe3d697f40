"""Our own assignors for wide groups: one thread beside the one that decides.

They are as fast as they are, so a thread is enough: to send 70,000 partitions to another process
and back takes as long as to assign them. One call at a time, groups in the order of their asking;
a call that still waits is replaced by a newer one of its group, and never answered. `submit` and
`close` may be called from any thread, `done` is called where `post` calls it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from zkcoord.core.assignment import ASSIGNORS, Assignment, AssignmentInput
from zkcoord.core.value_type import value

log = logging.getLogger(__name__)

DEFECT = "it ended in a defect of the coordinator, whose log has the details"
CLOSE_WITHIN_S = 2.0


class AnswerTaker(Protocol):
    """Takes an answer, or why there is none, and what it took of the thread that computed."""

    def __call__(self, answer: Assignment | None, failure: str, spent_ns: int = 0) -> None: ...


@value
class _WideCall:
    group: str
    assignor: str
    given: AssignmentInput
    done: AnswerTaker


class WideAssignor:
    """See the module. The thread is started by the first call."""

    def __init__(self, post: Callable[[Callable[[], None]], None]) -> None:
        self._post = post
        self._changed = threading.Condition()
        self._calls: dict[str, _WideCall] = {}
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, group: str, assignor: str, given: AssignmentInput, done: AnswerTaker) -> None:
        """Have an assignor of ours compute. Returns at once; `given` must not change."""
        with self._changed:
            if self._closed:
                return
            self._calls[group] = _WideCall(group, assignor, given, done)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="zkcoord-wide-assignor", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Nothing is answered any more; what is being computed is not waited for."""
        with self._changed:
            self._closed = True
            self._calls.clear()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_WITHIN_S)

    def _run(self) -> None:
        while (call := self._next()) is not None:
            began = time.thread_time_ns()
            answer: Assignment | None = None
            failure = ""
            try:
                answer = ASSIGNORS[call.assignor](call.given)
            except Exception:  # thread main: the group must hear something
                log.critical("an assignor of ours ended in an error", exc_info=True)
                failure = DEFECT
            spent_ns = time.thread_time_ns() - began
            self._answer(call, answer, failure, spent_ns)

    def _answer(
        self, call: _WideCall, answer: Assignment | None, failure: str, spent_ns: int
    ) -> None:
        self._post(lambda: call.done(answer, failure, spent_ns))

    def _next(self) -> _WideCall | None:
        with self._changed:
            while not self._calls and not self._closed:
                self._changed.wait()
            return None if self._closed else self._calls.pop(next(iter(self._calls)))
