"""The connection to a broker behind one client's."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

from consumer.gateway.address import Address
from consumer.gateway.operation.figures import RelayFigures
from zkcoord.core.value_type import value

log = logging.getLogger(__name__)

HIGH_WATER = 1024 * 1024
CONNECT_S = 10.0
CLOSE_S = 5.0
TRY_S = 2.0
"""How long one broker is waited for where another one would do."""
TRIED_MAX = 5
AWAY_S = 10.0
"""How long a broker that could not be reached is tried after all others."""


class BrokerAwayError(Exception):
    """A broker that cannot be reached, or is not believed; the text says which and why."""


class BehindClient(Protocol):
    """Who hears of a broker's connection. `left`: the broker ended it, not the client or the
    gateway.
    """

    left: bool

    def from_broker(self, data: bytes) -> None:
        """Answers."""

    def broker_lost(self, why: str) -> None:
        """It is gone; `why` is empty where that is nobody's mistake."""

    def broker_pauses(self) -> None:
        """It does not read."""

    def broker_resumes(self) -> None:
        """It reads again."""


class BrokerConnection(asyncio.Protocol):
    """The connection to the broker of one client."""

    def __init__(self, client: BehindClient) -> None:
        self._client = client
        self._transport: asyncio.Transport | None = None
        self._answered = False
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone."""
        self._transport = None
        self._client.left = not self._ended
        # a broker says only after the handshake of TLS 1.3 that it does not know our certificate
        if isinstance(error, ssl.SSLError):
            self._client.broker_lost(f"its broker ended TLS ({error})")
        else:
            self._client.broker_lost("" if self._answered else "its broker ended it unanswered")

    def data_received(self, data: bytes) -> None:
        """Answers."""
        self._answered = True
        self._client.from_broker(data)

    def pause_writing(self) -> None:
        """The broker does not read."""
        self._client.broker_pauses()

    def resume_writing(self) -> None:
        """It reads again."""
        self._client.broker_resumes()

    def write(self, data: bytes) -> None:
        """Send to the broker."""
        if (transport := self._open()) is not None:
            transport.write(data)

    def pause(self) -> None:
        """Read no more for now."""
        if (transport := self._open()) is not None:
            transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if (transport := self._open()) is not None:
            transport.resume_reading()

    def close(self) -> None:
        """End it, when it has read what was sent, within `CLOSE_S`."""
        self._ended = True
        if (transport := self._open()) is not None:
            close_soon(transport)

    def _open(self) -> asyncio.Transport | None:
        transport = self._transport
        return None if transport is None or transport.is_closing() else transport


def close_soon(transport: asyncio.Transport) -> None:
    """Close it once the other side has what was sent, and in any case after `CLOSE_S`: TLS waits
    for the other side's farewell. Once per connection.
    """
    transport.close()
    asyncio.get_running_loop().call_later(CLOSE_S, abort, transport)


def close_now(transport: asyncio.Transport) -> None:
    """End it, but not within a call of TLS, which goes on with what it has read."""
    asyncio.get_running_loop().call_soon(abort, transport)


def abort(transport: asyncio.Transport) -> None:
    """End it at once. One of TLS that is closed by now has no protocol any more, by which it would
    be ended, and raises that (asyncio, seen in Python 3.11.2).
    """
    with suppress(AttributeError):
        transport.abort()


@value
class Way:
    """The brokers behind a port, one or more, in the order in which they are tried. `choice` hears
    how that went.
    """

    addresses: tuple[Address, ...]
    choice: BrokerChoice | None = None


class BrokerChoice:
    """Which broker clients are led to who mean none: the first one, but after all others where it
    could not be reached just now.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._away_until_s: dict[Address, float] = {}

    def among(self, brokers: Mapping[int, Address]) -> Way | None:
        """Which to try, of all that are known by id; None: none is."""
        known = [brokers[broker_id] for broker_id in sorted(brokers)]
        for address in self._away_until_s.keys() - set(known):
            del self._away_until_s[address]
        now_s = self._clock()
        known.sort(key=lambda address: self._away_until_s.get(address, 0.0) > now_s)
        return Way(tuple(known[:TRIED_MAX]), self if len(known) > 1 else None) if known else None

    def failed(self, address: Address, why: str) -> None:
        """It could not be reached."""
        if address not in self._away_until_s:
            log.warning("%s: clients that begin are led to another one", why)
        self._away_until_s[address] = self._clock() + AWAY_S

    def reached(self, address: Address) -> None:
        """It could."""
        self._away_until_s.pop(address, None)


async def reach(
    client: BehindClient, way: Way | None, tls: ssl.SSLContext | None, figures: RelayFigures
) -> BrokerConnection:
    """Connect to the first broker of a way that can be reached, by TLS where there is a context:
    its certificate must be of its `Address.host`. Raises `BrokerAwayError` after `CONNECT_S`.
    """
    try:
        if way is None:
            raise BrokerAwayError("no broker is known behind this port")
        broker = await _first(client, way, tls)
    except BrokerAwayError:
        figures.broker_failures += 1
        raise
    figures.broker_connections += 1
    return broker


async def _first(client: BehindClient, way: Way, tls: ssl.SSLContext | None) -> BrokerConnection:
    *others, last = way.addresses
    failure = BrokerAwayError("no broker is known")
    for address in way.addresses:
        within_s = CONNECT_S - TRY_S * len(others) if address is last else TRY_S
        try:
            broker = await _reach(client, address, tls, within_s)
        except BrokerAwayError as error:
            failure = error
            if way.choice is not None:
                way.choice.failed(address, str(error))
        else:
            if way.choice is not None:
                way.choice.reached(address)
            return broker
    raise failure


async def _reach(
    client: BehindClient, address: Address, tls: ssl.SSLContext | None, within_s: float
) -> BrokerConnection:
    loop = asyncio.get_running_loop()
    try:
        _, broker = await asyncio.wait_for(
            loop.create_connection(
                lambda: BrokerConnection(client),
                address.host,
                address.port,
                ssl=tls,
                server_hostname=address.host if tls is not None else None,
            ),
            within_s,
        )
    except ssl.SSLCertVerificationError as error:
        raise BrokerAwayError(
            f"the broker at {address} has a certificate that is not believed"
            f" ({error.verify_message}): see ssl_cafile in the file of --kafka-config, and the"
            " certificate's alternative names"
        ) from error
    except ssl.SSLError as error:
        raise BrokerAwayError(f"no TLS with the broker at {address} ({error})") from error
    except asyncio.TimeoutError as error:
        raise BrokerAwayError(
            f"the broker at {address} does not answer within {within_s:.0f} s"
        ) from error
    except OSError as error:
        why = str(error) or type(error).__name__
        raise BrokerAwayError(f"the broker at {address} does not answer ({why})") from error
    return broker
