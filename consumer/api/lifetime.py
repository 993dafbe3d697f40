"""From when until when a consumer may be used: in the process that made it, until it is closed, and
closed at the interpreter's exit, or when nobody has it any more, at the latest.

`close` may be called anywhere: by a signal handler at any instruction, by any thread, by a
callback. A signal handler runs within whatever its thread is doing, and that may hold locks or be
half done. So:

* Where the thread that closes is inside a call of the same consumer (a handler interrupted it, or a
  callback, a deserialiser or an observer of the application runs in it), the close is noted, what
  waits is woken, and `close` returns. The call ends at its next safe point, `poll` with nothing and
  iteration with its end, and it closes as it ends, also where an exception ends it
  (`sys.exit` in the handler). Calls within it, of a callback that is still running, go on as usual.
* Where another thread is inside a call, that call is woken and waited for, within the timeout.
* Where nobody is, it is closed at once.

Whether a thread is inside a call is read from its stack: a count would stay wrong for ever where a
handler raises between a call and its counting. The frames that count are those of `entry` and of
the methods marked by `enters`; each has the consumer's lifetime in a variable `lifetime`.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import functools
import logging
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple, Protocol, TypeVar

from kafka.errors import IllegalStateError

from consumer.errors import ForkedConsumerError, MembershipError, as_kafkas
from consumer.interruptions import say_interruption
from zkcoord.errors import ConfigurationError
from zkcoord.zk.bell import Bell
from zkcoord.zk.fork_guard import CurrentProcess

log = logging.getLogger(__name__)

EXIT_TIMEOUT_MS = 2_000
LOOK_S = 0.01

Method = TypeVar("Method", bound=Callable[..., Any])
_ENTRIES: set[CodeType] = set()


class CloseArguments(NamedTuple):
    """What `close` was called with."""

    autocommit: bool
    # None: the consumer's own limit.
    timeout_ms: float | None


class Lifetime:
    """Of one consumer. `end` closes it, on the thread that gets to it. `wake` is called by whoever
    wants it closed, at once and at any instruction: what waits is to go on and find `ending` set.
    With `shared`, calls of several threads at a time are usual, and not waited for.
    """

    def __init__(
        self,
        end: Callable[[CloseArguments], None],
        wake: Callable[[], None],
        limit_ms: float,
        shared: bool = False,
    ) -> None:
        # The process that made the consumer.
        self.pid = CurrentProcess.pid
        # Set when somebody wants it closed: nothing is handed out any more, no call begins.
        self.ending = False
        # Set when the consumer has left its group; the thread that closes it.
        self.closed = False
        # Set by `wakeup`, until a poll or an iteration has ended for it.
        self.woken = False
        # A close that waits for the end of the call that it was called in.
        self.wanted: CloseArguments | None = None
        self._wanted_by = 0
        self._end = end
        self._wake = wake
        self._limit_ms = limit_ms
        self._shared = shared
        # The thread that closes, under 0: the first that puts itself there, in one step that no
        # handler comes between. The others wait for `_over`.
        self._closer: dict[int, int] = {}
        self._begun = False
        self._over = Bell()
        # Notices that nobody has the consumer any more; dropped with the end, so that nothing runs
        # when a closed one is collected (what a signal handler raised there would be lost).
        self._watching: weakref.ref[OpenConsumer] | None = None

    def watch(self, handle: OpenConsumer, consumer: Closeable, name: str) -> None:
        """Close the consumer when `handle` is collected before."""
        self._watching = weakref.ref(handle, lambda _: _forgotten(consumer, name))

    @property
    def over(self) -> bool:
        """Whether there is nothing (more) to close: it is closed, or this is a forked child."""
        return self.closed or self.pid != CurrentProcess.pid

    def check(self) -> None:
        """Raises `ForkedConsumerError` in a forked child, `IllegalStateError` once closed. To be
        called in an entry.
        """
        if self.pid != CurrentProcess.pid:
            raise ForkedConsumerError(
                "this consumer was made before a fork: make a new one in the child process"
            )
        if self.has_ended():
            raise IllegalStateError("KafkaConsumer is closed")

    def has_ended(self) -> bool:
        """Whether no call may begin any more, but within one that was there before: in a callback,
        say. To be called in an entry.
        """
        if not self.ending or self.closed:
            return self.closed
        if self._closer.get(0) == threading.get_ident() or self._calls(sys._getframe()) > 1:
            return False
        self.settle()
        return True

    def wakeup(self) -> None:
        """End the poll or the iteration that waits, or else the next one that would."""
        self.woken = True
        self._wake()

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """See the module. Once; in a forked child nothing happens."""
        me = threading.get_ident()
        if self.over or self._closer.get(0) == me:
            return
        arguments = CloseArguments(autocommit, timeout_ms)
        self.ending = True
        self._wake()
        if self._calls(sys._getframe()):
            if self.wanted is None:
                self._wanted_by = me
                self.wanted = arguments
            return
        limit_ms = self._limit_ms if timeout_ms is None else timeout_ms
        until = time.monotonic() + limit_ms / 1000
        if not self._shared and self._others_call():
            half = until - limit_ms / 2000  # the other half is for the end
            while self._others_call() and time.monotonic() < half:
                self._over.wait(LOOK_S)
            arguments = CloseArguments(autocommit, max(0.0, until - time.monotonic()) * 1000)
        if not self._close(arguments):
            self._over.wait(max(0.0, until - time.monotonic()))

    def waits(self) -> bool:
        """Whether a close waits for a call of this thread to end."""
        return self.wanted is not None and self._wanted_by == threading.get_ident()

    def settle(self) -> None:
        """Close, where that was waiting for the call that ends now. To be called in an entry."""
        wanted = self.wanted
        if (
            wanted is not None
            and self.waits()
            and not self.over
            and self._calls(sys._getframe()) == 1
        ):
            self._close(wanted)

    def _close(self, arguments: CloseArguments) -> bool:
        """False: another thread does so, or has; or this one is at it."""
        me = threading.get_ident()
        if self._closer.setdefault(0, me) != me or self._begun:
            return False
        self._begun = True
        try:
            self._end(arguments)
        finally:
            self.closed = True
            self._watching = None
            self._over.set()
        return True

    def _calls(self, top: FrameType | None) -> int:
        """How many calls of this consumer are on this stack."""
        count, frame = 0, top
        while frame is not None:
            if frame.f_code in _ENTRIES and frame.f_locals.get("lifetime") is self:
                count += 1
            frame = frame.f_back
        return count

    def _others_call(self) -> bool:
        me = threading.get_ident()
        return any(
            self._calls(top) for thread, top in sys._current_frames().items() if thread != me
        )


def enters(method: Method) -> Method:
    """Marks a method as an entry: it has the lifetime in a variable `lifetime`, calls `check`, and
    `settle` as it ends.
    """
    _ENTRIES.add(method.__code__)
    return method


def entry(method: Method) -> Method:
    """A method of a class with a `_lifetime`, as an entry."""

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        lifetime: Lifetime = self._lifetime
        try:
            lifetime.check()
            return method(self, *arguments, **named)
        except ConfigurationError as e:
            raise as_kafkas(e) from e.__cause__
        except RuntimeError as e:
            say_interruption(e)
            raise
        finally:
            if lifetime.wanted is not None:
                lifetime.settle()

    return enters(call)  # type: ignore[return-value]  # as `method`


class Closeable(Protocol):
    """What is closed at the interpreter's exit, and when nobody has it any more."""

    @property
    def over(self) -> bool:
        """Whether there is nothing (more) to close."""
        ...

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Leave the group within `timeout_ms`."""
        ...


class OpenConsumer:
    """Held by everything through which an application uses a consumer, and by nothing else: when
    it is collected, the consumer is forgotten (`Lifetime.watch`).
    """


def _forgotten(consumer: Closeable, name: str) -> None:
    """It is closed on a thread of its own, because a collector runs anywhere. What it has processed
    is not known: nothing is committed.
    """
    if consumer.over:
        return
    warnings.warn(
        f"unclosed {name}: it leaves its group now; call close(), or use it in a with block",
        ResourceWarning,
        stacklevel=2,
    )
    # not by way of `threading`, whose locks whoever is interrupted here may hold
    with contextlib.suppress(RuntimeError):  # at the interpreter's exit, where all are closed
        _thread.start_new_thread(_close_forgotten, (consumer, name))


def _close_forgotten(consumer: Closeable, name: str) -> None:
    log.warning("%s was not closed, and nobody has it any more: it leaves its group", name)
    _close_quietly(consumer, False)


# What is closed at the interpreter's exit. A member's thread keeps its session alive, and so in
# here, also where the application has dropped its consumer without closing it.
open_consumers: weakref.WeakSet[Closeable] = weakref.WeakSet()


def _close_quietly(consumer: Closeable, autocommit: bool) -> None:
    try:
        consumer.close(autocommit, EXIT_TIMEOUT_MS)
    except (MembershipError, OSError, RuntimeError) as e:
        log.debug("closing failed: %s", e)


def _close_all() -> None:
    """At the interpreter's exit: leave cleanly, so that nobody waits for a session timeout. Where
    an error that nobody caught is the reason, nothing is committed, as where one leaves a `with`
    block.
    """
    # last_exc is new in Python 3.12
    failed = any(getattr(sys, name, None) is not None for name in ("last_exc", "last_value"))
    for consumer in list(open_consumers):
        _close_quietly(consumer, not failed)


atexit.register(_close_all)
