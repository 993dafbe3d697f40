"""Calls on a server of 3.6 or newer, which knows all that the port needs: each is one request, and
an event is told as it comes. `zkcoord.zk.kazoo_port.legacy_server` does the same on older ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from zkcoord.zk.kazoo_port import wire_requests
from zkcoord.zk.port import Fired, MultiResult, Op, Read, ReadResult, WatchMode


class ServerDialect(Protocol):
    """How the calls of a `KazooPort` reach the server that it is connected to. All of it runs on
    the owner's thread; the calls are those of `zkcoord.zk.port.Port`.
    """

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        """See `Port`."""

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""

    def sync(self, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""

    def watch(self, path: str, mode: WatchMode, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""

    def unwatch(self, path: str, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""

    def fired(self, event: Fired) -> None:
        """A watch of the server fired."""

    def closing(self) -> None:
        """The session is about to be closed."""

    def lost(self) -> None:
        """The connection is gone."""


class ModernServer:
    """See the module. `submit` sends a request and hands on what it is answered; `tell` is the
    owner's.
    """

    def __init__(
        self,
        chroot: str,
        submit: Callable[[wire_requests.WireRequest, Callable[[Any], None]], None],
        tell: Callable[[Fired], None],
    ) -> None:
        self._chroot = chroot
        self._submit = submit
        self._tell = tell

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        """See `Port`."""
        self._submit(wire_requests.multi_request(self._chroot, ops), done)

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self._submit(wire_requests.read_request(self._chroot, reads), done)

    def sync(self, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self._submit(wire_requests.sync_request(self._chroot), done)

    def watch(self, path: str, mode: WatchMode, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self._submit(wire_requests.watch_request(self._chroot, path, mode), done)

    def unwatch(self, path: str, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self._submit(wire_requests.unwatch_request(self._chroot, path), done)

    def fired(self, event: Fired) -> None:
        """Told at once."""
        self._tell(event)

    def closing(self) -> None:
        """Nothing waits here."""

    def lost(self) -> None:
        """Nothing waits here: the connection tells its calls."""
