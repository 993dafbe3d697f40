"""A ZooKeeper session that is ready before a client needs it: to make one takes two round trips and
a write of the ensemble, which a join would wait for. There is one spare session, made anew
`AFTER_S` after it was taken: several clients that come at once wait as they did.

A session that was taken hears what follows as if it had made it. One that is not connected just now
is not given out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from zkcoord.zk.kazoo_port.session import KazooEnsemble
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import Closed, Connected, Ensemble, Expired, Port, PortEvent, Refused

AFTER_S = 1.0

Post = Callable[[Callable[[], None]], None]


class SpareSession:
    """One of them. `post` is the queue of the thread that everything here runs on."""

    def __init__(self, zk: ZkOptions, post: Post) -> None:
        self._post = post
        self._heard: Callable[[PortEvent], None] | None = None
        self._connected: Connected | None = None
        self.is_over = False
        self.port = KazooEnsemble(zk, self._queue).open(self._event)

    @property
    def is_ready(self) -> bool:
        """Whether it can be given out."""
        return self._connected is not None and not self.is_over

    def _queue(self, thunk: Callable[[], None]) -> None:
        """That of whoever has it when something comes."""
        self._post(thunk)

    def _event(self, event: PortEvent) -> None:
        if self._heard is not None:
            return self._heard(event)
        self._connected = event if isinstance(event, Connected) else None
        self.is_over = isinstance(event, Expired | Closed | Refused)
        return None

    def take(self, post: Post, heard: Callable[[PortEvent], None]) -> Port:
        """It is this one's from now on."""
        connected = self._connected
        assert connected is not None
        self._post, self._heard = post, heard
        post(lambda: heard(connected))
        return self.port


class SpareSessions:
    """See the module. `post` is the queue of the thread on which all is called."""

    def __init__(self, zk: ZkOptions, post: Post) -> None:
        self._zk = zk
        self._post = post
        self._spare: SpareSession | None = None
        self._timer: threading.Timer | None = None
        self._is_over = False

    def of_member(self, post: Post) -> Ensemble:
        """Sessions of a member that has a queue of its own."""
        return MemberSessions(self, KazooEnsemble(self._zk, post), post)

    def open(
        self, ensemble: KazooEnsemble, post: Post, on_event: Callable[[PortEvent], None]
    ) -> Port:
        """The spare one, or a new one."""
        spare = self._spare
        if self._timer is None and not self._is_over:
            self._timer = threading.Timer(AFTER_S, lambda: self._post(self._refill))
            self._timer.daemon = True
            self._timer.start()
        if spare is None or not spare.is_ready:
            return ensemble.open(on_event)
        self._spare = None
        ensemble.was_reached = True  # as if it had made it
        return spare.take(post, on_event)

    def _refill(self) -> None:
        self._timer = None
        if self._is_over:
            return
        if self._spare is None or self._spare.is_over:
            self._spare = SpareSession(self._zk, self._post)

    def close(self) -> None:
        """None is made any more, and the spare one is closed."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._spare is not None:
            self._spare.port.close()


class MemberSessions:
    """An `Ensemble` of one member's."""

    def __init__(self, spares: SpareSessions, ensemble: KazooEnsemble, post: Post) -> None:
        self._spares = spares
        self._ensemble = ensemble
        self._post = post

    def open(self, on_event: Callable[[PortEvent], None]) -> Port:
        """Start a session, or go on with the spare one."""
        return self._spares.open(self._ensemble, self._post, on_event)
