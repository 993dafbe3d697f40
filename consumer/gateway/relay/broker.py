"""The connection to a broker behind one client's."""

from __future__ import annotations

import asyncio
from typing import Protocol

HIGH_WATER = 1024 * 1024


class BehindClient(Protocol):
    """Who hears of a broker's connection."""

    def from_broker(self, data: bytes) -> None:
        """Answers."""

    def broker_lost(self) -> None:
        """It is gone."""

    def broker_pauses(self) -> None:
        """It does not read."""

    def broker_resumes(self) -> None:
        """It reads again."""


class BrokerConnection(asyncio.Protocol):
    """The connection to the broker of one client."""

    def __init__(self, client: BehindClient) -> None:
        self._client = client
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone."""
        self._transport = None
        self._client.broker_lost()

    def data_received(self, data: bytes) -> None:
        """Answers."""
        self._client.from_broker(data)

    def pause_writing(self) -> None:
        """The broker does not read."""
        self._client.broker_pauses()

    def resume_writing(self) -> None:
        """It reads again."""
        self._client.broker_resumes()

    def write(self, data: bytes) -> None:
        """Send to the broker."""
        if self._transport is not None:
            self._transport.write(data)

    def pause(self) -> None:
        """Read no more for now."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        """End it."""
        if self._transport is not None:
            self._transport.close()
