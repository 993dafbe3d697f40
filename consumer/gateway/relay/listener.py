"""What one connection sees of its gateway, behind the port or the name that it came by."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Protocol

from consumer.gateway.address import Address
from consumer.gateway.frames import Head
from consumer.gateway.options import GatewayOptions
from consumer.gateway.relay.connection import ClientConnection
from consumer.gateway.relay.rewriting import Place
from consumer.gateway.relay.tls import GatewayTls


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

    def upstream(self, broker_id: int) -> Address | None:
        """The broker behind a port."""

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

    def admits(self, connection: ClientConnection) -> bool:
        """See `Host`."""
        return self.gateway.admits(connection)

    def turn_to(self, broker_id: int) -> None:
        """See `Host`."""
        self.broker_id = broker_id

    def upstream(self) -> Address | None:
        """The broker behind this port."""
        return self.gateway.upstream(self.broker_id)

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
