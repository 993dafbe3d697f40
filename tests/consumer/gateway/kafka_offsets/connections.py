"""A client's connection before a broker that says yes, and what it was asked."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

from consumer.gateway import frames
from consumer.gateway.frames import Head
from consumer.gateway.turns import Turns
from tests.consumer.gateway.rights.broker import GuardedConnection

Answering = Callable[[Head, Any], dict[str, Any]]


class KeptConnection(GuardedConnection):
    """Answers what is `asked` about the request that is held up with the fields that `answering`
    gives; None: it is gone before. What its client is answered is `answer`.
    """

    def __init__(self, *denied: str, answering: Answering | None = None) -> None:
        super().__init__(*denied)
        self.turns = Turns()
        self.passed_on: list[Any] = []
        self.answer: bytes | None = None
        self.closed = False
        self.holding: Head | None = None
        self._answering = answering

    def ask(self, head: Head, frame: bytes, before: Head | None = None) -> asyncio.Future[bytes]:
        """See `ClientConnection`."""
        if before is None:
            return super().ask(head, frame)
        assert before is self.holding
        body = frames.decode(head, frame[4:])
        self.passed_on.append(body)
        found: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if self._answering is None:
            found.cancel()
        else:
            found.set_result(frames.encode(head, **self._answering(head, body))[4:])
        return found

    def hold_up(self, head: Head) -> None:
        """Noted."""
        self.holding = head

    def go_on(self, head: Head) -> None:
        """Noted."""
        assert self.holding is head
        self.holding = None

    def answer_later(self, head: Head, frame: bytes, codes: Any) -> None:
        """Noted."""
        assert struct.unpack_from(">ii", frame) == (len(frame) - 4, head.correlation_id)
        self.answer = frame

    def close(self) -> None:
        """Noted."""
        self.closed = True


async def run_here(work: Callable[[], Any]) -> Any:
    """What may take long takes no time here."""
    return work()
