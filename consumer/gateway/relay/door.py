"""Where clients come in by TLS: the handshake, and the broker whose name it carries.

asyncio's own servers tell nobody of a handshake that fails, count no client before its handshake,
and know no names. So a client arrives in plain text here, is counted, and is turned to TLS then.
What comes together with the end of the handshake comes before `start_tls` returns: the door keeps
it for the connection.

OpenSSL asks for the broker of a name in the middle of the handshake, without saying whose it is:
the context variable says so, since asyncio reads a connection in the context that began reading.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from consumer.gateway.operation.seldom import Seldom
from consumer.gateway.relay.connection import ClientConnection
from consumer.gateway.relay.tls import TlsFiles
from zkcoord.znodes.names import shown

log = logging.getLogger(__name__)

HANDSHAKE_S = 10.0
SAID_AGAIN_S = 60.0
ADDRESSES_MAX = 1_000
NO_TLS = frozenset({"HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "WRONG_VERSION_NUMBER"})
BrokerOf = Callable[[str], int | None]
"""A host name -> the broker that has it (`BEGIN` of the options: where clients begin), or None."""

_at_door: ContextVar[Door] = ContextVar("at_door")


class TurnedAway:
    """One line of the log per address within `SAID_AGAIN_S`, of `ADDRESSES_MAX` addresses at most:
    beyond, nothing is said of others.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.seldom = Seldom(SAID_AGAIN_S, ADDRESSES_MAX, clock)

    def say(self, address: str, why: str) -> None:
        """Log it, or not."""
        if self.seldom.is_due(address):
            log.warning("a client of %s is turned away: %s", address, why)


class ClientTls:
    """What all doors of a gateway share. With `broker_of` the host name of the handshake chooses
    the broker, and only those are let in who name one.
    """

    def __init__(self, files: TlsFiles, broker_of: BrokerOf | None = None) -> None:
        self.files = files
        self.broker_of = broker_of
        self.turned_away = TurnedAway()

    def context(self) -> ssl.SSLContext:
        """For the next client."""
        context = self.files.context
        if self.broker_of is not None:
            context.sni_callback = self._named
        return context

    def _named(self, _object: Any, name: str | None, _context: ssl.SSLContext) -> int | None:
        """OpenSSL's question. A number is the alert that ends the handshake."""
        assert self.broker_of is not None
        door = _at_door.get()
        door.broker_id = self.broker_of(name) if name else None
        if door.broker_id is not None:
            return None
        door.why = f"it asks for the host {shown(name)}" if name else "it names no host"
        return int(ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME)


class Door(asyncio.Protocol):
    """One client until its handshake is done; then `connection` has it."""

    def __init__(self, connection: ClientConnection, tls: ClientTls) -> None:
        self.connection = connection
        self.broker_id: int | None = None
        self.why = ""
        self._tls = tls
        self._early: list[bytes] = []
        self._inside = False
        self._ended = False
        self._handshake: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is here, in plain text."""
        assert isinstance(transport, asyncio.Transport)
        peer = transport.get_extra_info("peername")
        self.connection.peer = str(peer[0]) if peer else ""
        if self.connection.host.admits(self.connection):
            # the task begins before anything is read, so TLS gets the first byte
            self._handshake = asyncio.get_running_loop().create_task(self._enter(transport))
        else:
            self.connection.figures.accepted += 1
            self.connection.figures.turned_away += 1
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """What comes with the end of the handshake."""
        self._early.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone."""
        if self._inside:
            self.connection.connection_lost(error)
        else:
            self._end()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self.connection.host.closed(self.connection)

    async def _enter(self, transport: asyncio.Transport) -> None:
        _at_door.set(self)
        try:
            found = await asyncio.get_running_loop().start_tls(
                transport,
                self,
                self._tls.context(),
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_S,
            )
        except OSError as error:
            self._turn_away(error)
            return self._end()
        if found is None or self._ended:
            return self._end()
        self._inside = True
        if self.broker_id is not None:
            self.connection.host.turn_to(self.broker_id)
        found.set_protocol(self.connection)
        self.connection.connection_made(found)
        for data in self._early:
            self.connection.data_received(data)
        self._early.clear()
        return None

    def _turn_away(self, error: OSError) -> None:
        if isinstance(error, ConnectionResetError):  # so do load balancers that look for a port
            log.debug("a client of %s is gone before its handshake", self.connection.peer)
        else:
            self.connection.figures.tls_failures += 1
            self._tls.turned_away.say(self.connection.peer, self.why or _reason(error))


def _reason(error: OSError) -> str:
    """Why a handshake failed, in words."""
    if isinstance(error, ConnectionAbortedError):
        return f"no TLS handshake within {HANDSHAKE_S:.0f} s"
    reason = getattr(error, "reason", None)
    if reason in NO_TLS:
        return "it does not speak TLS"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not believed ({error.verify_message})"
    return f"its TLS handshake failed ({reason or error})"


def report_names(found: Any) -> None:
    """For `sys.unraisablehook`: a host name in a handshake that is no text is a stranger's, and
    worth a line. Python would print a traceback of it, whoever sends one and how often.
    """
    if isinstance(found.exc_value, UnicodeDecodeError) and isinstance(found.object, bytes):
        log.warning("a client asks for a host whose name is no text")
    else:
        sys.__unraisablehook__(found)
