"""When this session was last proved alive, by the process's own clock.

A session's loss is learnt from the server only, and a client that is cut off learns nothing; so
whoever holds rights counts for itself. The proof's time is when the request was SENT: the server's
clock for the session cannot have started later than that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .port import AclsResult, MultiResult, Op, Port, Read, ReadResult, Unanswered, WatchMode


class ContactClockPort:
    """A `Port` that remembers the sending time of the latest answered request (`contact_ms`)."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.contact_ms = clock()
        self.sent_ms = self.contact_ms
        self.port: Port | None = None

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        """See `Port`."""
        assert self.port is not None
        self.port.multi(ops, self._timed(done))

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        assert self.port is not None
        self.port.read(reads, self._timed(done))

    def acls(self, paths: Sequence[str], done: Callable[[AclsResult], None]) -> None:
        """See `Port`."""
        assert self.port is not None
        self.port.acls(paths, self._timed(done))

    def sync(self, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        assert self.port is not None
        self.port.sync(self._timed(done))

    def watch(self, path: str, mode: WatchMode, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        assert self.port is not None
        self.port.watch(path, mode, self._timed(done))

    def unwatch(self, path: str, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        assert self.port is not None
        self.port.unwatch(path, self._timed(done))

    def ignore(self, paths: Sequence[str]) -> None:
        """See `Port`."""
        assert self.port is not None
        self.port.ignore(paths)

    def close(self) -> None:
        """See `Port`."""
        assert self.port is not None
        self.port.close()

    def _timed(
        self,
        done: Callable[[MultiResult], None]
        | Callable[[ReadResult], None]
        | Callable[[AclsResult], None],
    ) -> Callable[[MultiResult | ReadResult | AclsResult], None]:
        sent = self.sent_ms = self.clock()

        def answered(result: MultiResult | ReadResult | AclsResult) -> None:
            if not isinstance(result, Unanswered):
                self.contact_ms = max(self.contact_ms, sent)
            done(result)  # type: ignore[arg-type]  # a result goes to who asked for its kind

        return answered
