"""The gateway's own session with ZooKeeper, beside those of its members: opened anew whenever it is
over. Everything here runs on the members' loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from zkcoord.zk.backoff import Backoff
from zkcoord.zk.port import (
    Closed,
    Connected,
    Ensemble,
    Expired,
    Fired,
    Port,
    PortEvent,
    Refused,
    Suspended,
)

log = logging.getLogger(__name__)

REOPEN = Backoff(first_ms=100, max_ms=5_000, at_once=True)


class UsesSession(Protocol):
    """Who hears of the session."""

    def connected(self, port: Port, new: bool) -> None:
        """It can be used; all watches are gone. `new`: nothing that was made with an earlier one is
        there any more.
        """

    def fired(self, event: Fired) -> None:
        """A watch saw a change."""


class OwnSession:
    """See the module. `on_open(port)` is called for each session as soon as it is known."""

    def __init__(
        self,
        ensemble: Ensemble,
        clock: Callable[[], int],
        on_open: Callable[[Port, int], None] = lambda port, session_id: None,
    ) -> None:
        self._ensemble = ensemble
        self._clock = clock
        self._on_open = on_open
        self._users: list[UsesSession] = []
        self._open: Port | None = None
        self._connected = False
        self._session_id = 0
        self._reopen_at_ms: int | None = None
        self._failures = 0
        self._closing = False

    def use(self, user: UsesSession) -> None:
        """`user` hears of the session from now on."""
        self._users.append(user)

    @property
    def port(self) -> Port | None:
        """What to ask through; None while there is no connection."""
        return self._open if self._connected else None

    @property
    def session_id(self) -> int:
        """Of the session that was connected last."""
        return self._session_id

    @property
    def finished(self) -> bool:
        """Closed for good."""
        return self._closing and self._open is None

    def start(self) -> None:
        """Open the first session."""
        holder: list[Port] = []
        self._reopen_at_ms, self._session_id = None, 0
        port = self._ensemble.open(lambda event: self._event(holder, event))
        holder.append(port)
        self._open = port

    def close(self) -> None:
        """End the session, and open no other one."""
        self._closing, self._connected, self._reopen_at_ms = True, False, None
        if self._open is not None:
            self._open.close()

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""
        return self._reopen_at_ms

    def tick(self) -> None:
        """Do what is due."""
        if self._reopen_at_ms is not None and self._clock() >= self._reopen_at_ms:
            self.start()

    def _event(self, holder: list[Port], event: PortEvent) -> None:
        if not holder or holder[0] is not self._open:
            return
        port = holder[0]
        match event:
            case Connected():
                new = event.session_id != self._session_id
                self._session_id, self._connected, self._failures = event.session_id, True, 0
                if new:
                    self._on_open(port, event.session_id)
                for user in self._users:
                    user.connected(port, new)
            case Suspended():
                self._connected = False
            case Fired():
                for user in self._users:
                    user.fired(event)
            case Expired() | Closed():
                self._over()
            case Refused():
                log.warning("ZooKeeper refuses the gateway: %s", event.reason)
                self._over()

    def _over(self) -> None:
        self._open, self._connected = None, False
        if not self._closing:
            self._reopen_at_ms = self._clock() + REOPEN.delay_ms(self._failures)
            self._failures += 1
