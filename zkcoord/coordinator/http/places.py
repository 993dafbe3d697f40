"""Who may be connected to the HTTP server, and who is being answered: limits that leave room for
everybody else.

A connection first *waits* until its request's head is complete, which takes those who mean it a
millisecond. At most `WAITING_MAX` wait; for one more the one that has waited longest is dropped, of
the address that has most of them. Then it takes a *place* while it is answered: `PLACES` of its
path, of which one address gets `PER_ADDRESS` at most. /live and /ready have places of their own, so
that slow clients of the others never make a healthy process look dead.

Before all that whoever asks waits for a turn (`pace`), and so does who is refused, whatever for:
dozens of clients that ask again at once take no more than a part of the interpreter from the thread
that decides. A turn takes no place, so who comes between them is only later. Where too many wait
for a turn, one more is refused; where too many wait to hear that, it hears nothing and is `parked`.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from zkcoord.coordinator.http.pace import AnswerPace

WAITING_MAX = 128
PLACES = {"/live": 8, "/ready": 8}
PLACES_MAX = 32
PER_ADDRESS_MAX = 16
PROBED_EVERY_MS, PROBED_TURNS_MAX = 2, 256
OTHERS_EVERY_MS, OTHERS_TURNS_MAX = 20, 64
REFUSED_EVERY_MS, REFUSED_TURNS_MAX = 20, 64
"""The time between two answers, and how many wait for their turn: of /live and /ready together, of
all other paths, of those who are refused.
"""


class Places:
    """See the module. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[socket.socket, str] = {}
        self._taken: Counter[str] = Counter()
        self._by_address: Counter[tuple[str, str]] = Counter()
        probed = AnswerPace(PROBED_EVERY_MS, PROBED_TURNS_MAX)
        others = AnswerPace(OTHERS_EVERY_MS, OTHERS_TURNS_MAX)
        self._paces = {**dict.fromkeys(PLACES, probed), "": others}
        self._refused = AnswerPace(REFUSED_EVERY_MS, REFUSED_TURNS_MAX)

    def waits(self, connection: socket.socket, address: str) -> None:
        """A connection was accepted."""
        with self._lock:
            if len(self._waiting) >= WAITING_MAX:
                (most, _), *_ = Counter(self._waiting.values()).most_common(1)
                oldest = next(c for c, of in self._waiting.items() if of == most)
                del self._waiting[oldest]
                # its thread sees the end of the request; the descriptor stays its own
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._waiting[connection] = address

    def heard(self, connection: socket.socket) -> bool:
        """Its head is complete, or it is over; False: it was dropped."""
        with self._lock:
            return self._waiting.pop(connection, None) is not None

    @contextmanager
    def place(self, path: str, address: str) -> Iterator[bool]:
        """While it is answered, once it is its turn; False: there is no place."""
        kind = path if path in PLACES else ""
        passes = self._paces[kind].turn()
        with self._lock:
            free = (
                passes
                and self._taken[kind] < PLACES.get(kind, PLACES_MAX)
                and (kind != "" or self._by_address[kind, address] < PER_ADDRESS_MAX)
            )
            if free:
                self._taken[kind] += 1
                self._by_address[kind, address] += 1
        try:
            yield free
        finally:
            if free:
                with self._lock:
                    self._taken[kind] -= 1
                    self._by_address[kind, address] -= 1
                    self._by_address += Counter()  # without the zeros

    def refuses(self) -> bool:
        """Returns when it is the turn of one who is to hear that it is refused; False: too many are
        before it.
        """
        return self._refused.turn()
