"""What a client's connection needs of its gateway."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Protocol, TypeVar

from consumer.gateway.address import Address
from consumer.gateway.frames import Head
from consumer.gateway.relay.broker import Way
from consumer.gateway.relay.rewriting import Place

C_contra = TypeVar("C_contra", contravariant=True)


class Host(Protocol[C_contra]):
    """Called on the event loop's thread. `C_contra`: the connection; `relays_groups`: see
    `Surroundings`.
    """

    frame_bytes_max: int
    demands_login: bool
    relays_groups: bool

    def admits(self, connection: C_contra) -> bool:
        """Whether there is room for it."""

    def turn_to(self, broker_id: int) -> None:
        """The client has named its broker in its TLS handshake."""

    def upstream(self) -> Way | None:
        """The way to a broker behind this listener; None: none is known."""

    def means_no_broker(self) -> bool:
        """Whether any broker will do, also for what comes later: the client has come where clients
        begin, and no broker asks who it is.
        """

    def others(self) -> Sequence[tuple[int, Address]]:
        """Brokers to be named beside the real ones: gateways."""

    def broker_tls(self) -> ssl.SSLContext | None:
        """How to speak to it; None: in plain text."""

    def place(self) -> Place:
        """Where clients find brokers."""

    def serve(self, connection: C_contra, head: Head, frame: bytes) -> bytes | bool | None:
        """Answer a request here: the answer, None for later (`answer_later`), or False for the
        broker's.
        """

    def passes(self, connection: C_contra, head: Head) -> None:
        """A request goes to the broker."""

    def closed(self, connection: C_contra) -> None:
        """It is gone."""
