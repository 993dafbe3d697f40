"""The ports that a gateway listens at, and what one connection sees of its gateway, behind the port
or the name that it came by.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from consumer.gateway.address import Address
from consumer.gateway.frames import Head
from consumer.gateway.options import BEGIN, GatewayOptions
from consumer.gateway.relay.broker import Way
from consumer.gateway.relay.connection import ClientConnection
from consumer.gateway.relay.rewriting import Place
from consumer.gateway.relay.tls import GatewayTls
from zkcoord.errors import ConfigurationError, UnavailableError

log = logging.getLogger(__name__)


class GatewayOfMany(Protocol):
    """What all connections share (`consumer.gateway.service.Gateway`)."""

    options: GatewayOptions
    tls: GatewayTls

    gateways: Sequence[tuple[int, Address]]

    @property
    def place(self) -> Place:
        """Where clients find brokers."""

    def admits(self, connection: ClientConnection) -> bool:
        """Whether there is room for it."""

    def upstream(self, broker_id: int) -> Way | None:
        """The way to a broker behind a port."""

    def serve(
        self, listener: Listener, connection: ClientConnection, head: Head, frame: bytes
    ) -> bytes | bool | None:
        """Answer a request."""

    def passes(self, connection: ClientConnection) -> None:
        """A request goes to a broker."""

    def closed(self, connection: ClientConnection) -> None:
        """A connection is gone."""


class Listener:
    """The `Host` of one connection."""

    def __init__(self, gateway: GatewayOfMany, broker_id: int) -> None:
        self.gateway = gateway
        self.broker_id = broker_id
        self.frame_bytes_max = gateway.options.frame_bytes_max
        self.demands_login = gateway.options.demands_login
        self.relays_groups = bool(gateway.options.groups)

    def admits(self, connection: ClientConnection) -> bool:
        """See `Host`."""
        return self.gateway.admits(connection)

    def turn_to(self, broker_id: int) -> None:
        """See `Host`."""
        self.broker_id = broker_id

    def upstream(self) -> Way | None:
        """See `Host`."""
        return self.gateway.upstream(self.broker_id)

    def means_no_broker(self) -> bool:
        """See `Host`."""
        return self.broker_id == BEGIN and not self.demands_login

    def broker_tls(self) -> ssl.SSLContext | None:
        """See `Host`."""
        return self.gateway.tls.to_brokers()

    def place(self) -> Place:
        """Where clients find brokers."""
        return self.gateway.place

    def others(self) -> Sequence[tuple[int, Address]]:
        """What clients find gateways as."""
        return self.gateway.gateways

    def serve(self, connection: ClientConnection, head: Head, frame: bytes) -> bytes | bool | None:
        """See `Host`."""
        return self.gateway.serve(self, connection, head, frame)

    def passes(self, connection: ClientConnection, head: Head) -> None:
        """See `Host`."""
        self.gateway.passes(connection)

    def closed(self, connection: ClientConnection) -> None:
        """See `Host`."""
        self.gateway.closed(connection)


class Ports:
    """Where clients begin (`BEGIN`), and a port for each broker, but where names say which is
    meant. One that is gone keeps its port, for when it comes back. One call at a time.
    """

    def __init__(
        self, options: GatewayOptions, accept: Callable[[int], asyncio.BaseProtocol]
    ) -> None:
        self.servers: dict[int, asyncio.Server] = {}
        self._options = options
        self._accept = accept
        self._said: set[str] = set()

    async def begin(self, brokers: Iterable[int]) -> None:
        """Listen for these. Raises `ConfigurationError`, `UnavailableError`."""
        for broker_id in self._missing(brokers):
            await self.listen(broker_id, self._options.broker_port(broker_id))

    async def follow(self, brokers: Iterable[int]) -> None:
        """The same while clients are served: what is wrong with one port is only said, once."""
        for broker_id in self._missing(brokers):
            try:
                await self.listen(broker_id, self._options.broker_port(broker_id))
            except (ConfigurationError, UnavailableError) as error:
                if str(error) not in self._said:
                    self._said.add(str(error))
                    log.error("%s", error)

    async def listen(self, broker_id: int, port: int) -> None:
        """Listen at one port. Raises `ConfigurationError`; `UnavailableError` where another process
        has it, which may be about to end.
        """
        host = self._options.listen.host
        try:
            server = await asyncio.get_running_loop().create_server(
                lambda: self._accept(broker_id), host or None, port, reuse_address=True
            )
        except (OSError, OverflowError) as error:
            what = "--listen" if broker_id < 0 else f"the port of broker {broker_id}"
            in_use = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            raise (UnavailableError if in_use else ConfigurationError)(
                f"{what}: {Address(host, port)} cannot be listened at ({error}): choose another"
                " port with --listen, or for one broker with --broker-ports"
            ) from error
        self.servers[broker_id] = server
        log.info(
            "%s at %s",
            "clients begin" if broker_id < 0 else f"broker {broker_id} is reached",
            Address(host, port),
        )

    def close(self) -> None:
        """Listen no longer."""
        for server in self.servers.values():
            server.close()

    def _missing(self, brokers: Iterable[int]) -> list[int]:
        known = () if self._options.broker_hosts else brokers
        return [broker_id for broker_id in known if broker_id not in self.servers]
