"""Whose turn it is to be answered on a client's connection, and what is kept for it meanwhile."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from consumer.gateway.frames import Head
from consumer.gateway.operation.figures import RelayFigures
from consumer.gateway.relay.rewriting import BadAnswerError

ANSWER_BYTES_MAX = 64 * 1024 * 1024
HELD_BYTES_MAX = 4 * 1024 * 1024
HELD_BY_ALL_BYTES_MAX = 512 * 1024 * 1024
FAIR_BYTES = 64 * 1024
ASKED_S = 60.0
"""Clients have given up by then; of one that is held up it is not seen that it is gone."""
LIVELY_S, IDLE_S = 30.0, 600.0
"""Whose broker goes stays where it has asked something since; without one it is closed when it has
asked nothing for so long, as by a broker.
"""


@dataclass(slots=True)
class Expected:
    """An answer that is due: ours once `ready` is set, or a broker's (`ours` is False), which is
    rewritten if `head` is there, or given to `after`. What we have `asked` ourselves is not the
    client's to see. `since_s`: when a request that is answered here came, or we have asked.
    `held_bytes`: of the request, or of its answer, while they are kept.
    """

    ours: bool
    head: Head | None = None
    ready: bytes | None = None
    after: Callable[[bytes], None] | None = None
    asked: asyncio.Future[bytes] | None = None
    since_s: float = 0.0
    held_bytes: int = 0


def waiting_at(queue: Iterable[Expected], head: Head) -> int | None:
    """Where in a queue a request of ours is that has no answer yet; None: nowhere."""
    for at, expected in enumerate(queue):
        if expected.head is head and expected.ours and expected.ready is None:
            return at
    return None


def never_answered(queue: Sequence[Expected]) -> str:
    """In words, where all others wait for the answer to a question of ours, and have for long."""
    if not queue or queue[0].asked is None or time.monotonic() < queue[0].since_s + ASKED_S:
        return ""
    return f"its broker has not answered a question about it within {ASKED_S:.0f} s"


def waits_for_none(queue: Sequence[Expected], heard_s: float) -> bool:
    """Whether a client that was heard of then is still there, and waits for no broker's answer."""
    is_here = bool(queue) or time.monotonic() < heard_s + LIVELY_S
    return is_here and all(expected.ours for expected in queue)


def taken(answers: bytearray, length: int, head: Head) -> bytes | None:
    """The first of a broker's answers (without its length, which is this), taken away once it is
    whole; None: it is not yet. Raises `BadAnswerError` for what is no answer to this request.
    """
    if length > ANSWER_BYTES_MAX:
        raise BadAnswerError(f"the broker answers with {length} bytes")
    if len(answers) < 4 + length:
        return None
    frame = bytes(memoryview(answers)[4 : 4 + length])
    del answers[: 4 + length]
    (correlation_id,) = struct.unpack_from(">i", frame)
    if correlation_id != head.correlation_id:
        raise BadAnswerError(f"the broker does not answer what was asked by API {head.key}")
    return frame


class Brake:
    """For which reasons one side is not read: `stop` is called for the first one, `go_on` when
    there is none any more.
    """

    def __init__(self, stop: Callable[[], None], go_on: Callable[[], None]) -> None:
        self._stop, self._go_on = stop, go_on
        self._reasons: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._reasons)

    def __contains__(self, why: str) -> bool:
        return why in self._reasons

    def by(self, why: str) -> None:
        """One more."""
        if not self._reasons:
            self._stop()
        self._reasons.add(why)

    def no_more_by(self, why: str) -> None:
        """Not for this one any more."""
        if why in self._reasons:
            self._reasons.discard(why)
            if not self._reasons:
                self._go_on()


class Held:
    """Bytes that are kept for one connection: of requests that are answered here, with what they
    take decoded (20 times as much, where their parts are small), and of answers that wait for their
    turn, at most `HELD_BYTES_MAX`, and of a request that is half there. While
    more than `HELD_BY_ALL_BYTES_MAX` are kept for all, who has more than `FAIR_BYTES` has too much.
    """

    def __init__(self, figures: RelayFigures) -> None:
        self._figures = figures
        self.bytes = 0
        self._half = 0
        self._decoded = 0
        self._ended = False

    def weigh(self, size: int) -> None:
        """What the request that is served just now takes decoded, beside its own bytes."""
        self._decoded = size

    @property
    def is_much(self) -> bool:
        """Whether no more should be kept."""
        return self.bytes > (FAIR_BYTES if self._is_crowded else HELD_BYTES_MAX)

    @property
    def _is_crowded(self) -> bool:
        return self._figures.held_bytes > HELD_BY_ALL_BYTES_MAX

    def keep(self, expected: Expected, size: int) -> None:
        """So many bytes are kept for an answer that is due."""
        if self._ended:
            return
        if size and expected.ready is None:
            size += self._decoded
        self._figures.held_bytes += size - expected.held_bytes
        self.bytes += size - expected.held_bytes
        expected.held_bytes = size

    def half_there(self, size: int) -> bool:
        """So many bytes of a request have come; whether that is too much."""
        self._figures.held_bytes += size - self._half
        self._half = size
        return size > FAIR_BYTES and self._is_crowded

    def end(self) -> None:
        """The connection is gone: nothing is kept any more."""
        self._ended = True
        self._figures.held_bytes -= self.bytes + self._half
        self.bytes = self._half = 0
