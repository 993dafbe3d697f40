"""From when until when a consumer may be used: in the process that made it, until it is closed, and
closed at the interpreter's exit at the latest.
"""

from __future__ import annotations

import atexit
import logging
import weakref
from typing import Protocol

from kafka.errors import IllegalStateError

from consumer.errors import ForkedConsumerError, MembershipError
from zkcoord.zk.fork_guard import CurrentProcess

log = logging.getLogger(__name__)

EXIT_TIMEOUT_MS = 2_000


class Lifetime:
    """Of one consumer."""

    def __init__(self) -> None:
        # The process that made the consumer.
        self.pid = CurrentProcess.pid
        # Set when the consumer has left its group; the thread that closes it.
        self.closed = False

    @property
    def over(self) -> bool:
        """Whether there is nothing (more) to close: it is closed, or this is a forked child."""
        return self.closed or self.pid != CurrentProcess.pid

    def check(self) -> None:
        """Raises `ForkedConsumerError` in a forked child, `IllegalStateError` once closed."""
        if self.pid != CurrentProcess.pid:
            raise ForkedConsumerError(
                "this consumer was made before a fork: make a new one in the child process"
            )
        if self.closed:
            raise IllegalStateError("KafkaConsumer is closed")


class Closeable(Protocol):
    """What is closed at the interpreter's exit."""

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Leave the group within `timeout_ms`."""
        ...


# What is closed at the interpreter's exit. A member's thread keeps its session alive, and so in
# here, also where the application has dropped its consumer without closing it.
open_consumers: weakref.WeakSet[Closeable] = weakref.WeakSet()


def _close_all() -> None:
    """At the interpreter's exit: leave cleanly, so that nobody waits for a session timeout."""
    for consumer in list(open_consumers):
        try:
            consumer.close(timeout_ms=EXIT_TIMEOUT_MS)
        except (MembershipError, OSError, RuntimeError) as e:
            log.debug("closing at exit: %s", e)


atexit.register(_close_all)
