"""TLS contexts that live as long as a gateway: made of files, and made again when these change."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from zkcoord.errors import ConfigurationError

log = logging.getLogger(__name__)

Stamp = tuple[int, int, int, int]


class TlsFiles:
    """A context made by `make` of `files`. Connections that are there keep the one that they began
    with; whoever comes gets `context`. Raises what `make` raises (`ConfigurationError`).
    """

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Iterable[object]) -> None:
        self._make = make
        self._files = tuple(str(path) for path in files if path)
        # looked at before they are read: what changes meanwhile is seen at the next look
        self._stamps = self._stamped()
        self.context = make()

    def look(self, anyway: bool = False) -> None:
        """Read the files again where one has changed, or `anyway`. If they cannot be used, the
        context stays, one line of the log says why, and they are tried again after their next
        change. Blocks for as long as files do.
        """
        stamps = self._stamped()
        if stamps == self._stamps and not anyway:
            return
        self._stamps = stamps
        try:
            self.context = self._make()
        except ConfigurationError as error:
            log.warning("the TLS files that were read before stay in use: %s", error)
        else:
            log.info("TLS files are read again: %s", ", ".join(self._files) or "the system's")

    def _stamped(self) -> tuple[Stamp | None, ...]:
        return tuple(map(_stamp, self._files))


def _stamp(path: str) -> Stamp | None:
    """What changes when a file is written, replaced, or a link to it turned; None: it is hidden."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev


@dataclass(frozen=True)
class GatewayTls:
    """Both sides of a gateway; None: plain text."""

    clients: TlsFiles | None = None
    brokers: TlsFiles | None = None

    def look(self, anyway: bool = False) -> None:
        """See `TlsFiles.look`."""
        for side in (self.clients, self.brokers):
            if side is not None:
                side.look(anyway)

    def to_brokers(self) -> ssl.SSLContext | None:
        """For the next connection to a broker."""
        return None if self.brokers is None else self.brokers.context


PLAIN_TLS = GatewayTls()
"""None of it."""
