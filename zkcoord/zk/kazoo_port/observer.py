"""What the connection's thread tells of a session, and how a session ends."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Protocol

from zkcoord.zk.port import Change


class SessionEnd(enum.Enum):
    """How a session ended."""

    EXPIRED = "expired"
    CLOSED = "closed"
    REFUSED = "refused"


class SessionObserver(Protocol):
    """Who is told about a session: on the connection's thread, in the order of the wire. Must not
    block and must not raise.
    """

    def connected(
        self,
        generation: int,
        session_id: int,
        password: bytes,
        timeout_ms: int,
        server: tuple[str, int],
    ) -> None:
        """The session is usable; `generation` counts its connections from 1."""

    def suspended(self, reason: str, answer_too_large: bool) -> None:
        """The connection is lost, `answer_too_large`: because of the size of an answer. Told before
        the calls under way are told.
        """

    def fired(self, events: Sequence[tuple[Change, str]]) -> None:
        """Watch events that arrived together, in their order; paths include the chroot."""

    def ended(self, end: SessionEnd, reason: str) -> None:
        """The session is over; nothing follows. `reason` is a sentence for `SessionEnd.REFUSED`."""
