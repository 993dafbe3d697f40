"""One call under way on a ZooKeeper connection."""

from __future__ import annotations

import time
from collections.abc import Callable

from zkcoord.zk.kazoo_port.wire_requests import Result, WireRequest


class Call:
    """One call under way. kazoo hands it around as its "async result"; it is told exactly once,
    `None` for lost.
    """

    __slots__ = ("_tell", "queued_s", "request")

    def __init__(self, request: WireRequest, tell: Callable[[Result | None], None]) -> None:
        self.request = request
        self.queued_s = time.monotonic()
        self._tell = tell

    def answer(self, err: int, body: bytes, offset: int) -> None:
        """Decode and tell. Raises one of `zkcoord.zk.kazoo_port.connection.GARBAGE`, with nothing
        told.
        """
        self._tell(self.request.decode(err, body, offset))

    def set_exception(self, error: BaseException) -> None:
        """kazoo's way to say that the connection is gone."""
        self._tell(None)
