"""Requests of gateways, in the order in which they were made, whoever made them: those that were
there before this coordinator by the transactions that made their nodes, later ones as they are
seen. So of two clients of two gateways that have waited for another coordinator the first is taken
up first.

Bounded: so many requests are read at a time and wait. What does not fit is looked for again once
there is room. One that is in parts is read part by part, which may be megabytes, and those that
were made after it wait for that.

A request may name thousands of members, and all groups wait while it is taken up: so requests are
taken up for `ASKS_TURN_MS` of a turn of the loop. One that takes longer ends the turn, and the next
one waits until others have had the thread for `REST_PER_WORK` times as long (`REST_MS_MAX` at
most), as it is among groups (`core/filing/fair_queue.py`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from zkcoord.core.filing.fair_queue import REST_MS_MAX, REST_PER_WORK
from zkcoord.core.model import Malformed
from zkcoord.zk.port import Children, Denied, GetChildren, GetData, Node, Read, ReadAnswer
from zkcoord.znodes.classic.documents import ClassicAsk, InParts, decode_ask
from zkcoord.znodes.classic.paths import ClassicPaths, is_request

ASKS_TURN_MS = 5
READS_AT_ONCE_MAX = 64
REQUESTS_WAITING_MAX = 20_000
NS_PER_MS = 1_000_000

Reading = Callable[[Sequence[Read], Callable[[tuple[ReadAnswer, ...]], None]], None]
Heard = ClassicAsk | Malformed


@dataclass(slots=True, eq=False)
class InTurn:
    """A request that is being read. `data`: what it says (None: it is gone, or was answered), as
    far as it `is_read`; `parts`: how many it has beside its node, once that is known.
    """

    name: str
    is_read: bool = False
    data: bytes | None = None
    parts: int = 0


class IncomingRequests:
    """See the module. `read` asks ZooKeeper, and is answered in the order of what is asked, or
    never; `asked(name, what it says)` takes them, `strange` what is none. `clock` is the port's,
    `cpu_ns` that of the time that they take.
    """

    def __init__(
        self,
        paths: ClassicPaths,
        read: Reading,
        asked: Callable[[str, Heard], None],
        strange: Callable[[Malformed], None],
        clock: Callable[[], int],
        cpu_ns: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        self._paths = paths
        self._read = read
        self._asked = asked
        self._strange = strange
        self._clock = clock
        self._cpu_ns = cpu_ns
        self._rested_at_ms = 0
        self._left_ns = ASKS_TURN_MS * NS_PER_MS
        self._waiting: deque[str] = deque()
        self._turns: deque[InTurn] = deque()
        self._seen: set[str] = set()
        self._lists = False
        self._made_meanwhile: list[str] = []
        self._left_out = False

    @property
    def unread(self) -> int:
        """How many have still to be read."""
        return len(self._waiting) + len(self._turns)

    def begin(self) -> None:
        """Look what there is."""
        self._lists, self._left_out = True, False

        def listed(answers: tuple[ReadAnswer, ...]) -> None:
            (answer,) = answers
            if isinstance(answer, Denied):
                why = f"they cannot be listed ({answer.error.value}): delete what is no request"
                self._strange(Malformed("requests of gateways", self._paths.requests, why))
            names = answer.names if isinstance(answer, Children) else ()
            fresh = [name for name in names if is_request(name) and name not in self._seen]
            self._look_when(deque(fresh), [])

        self._read([GetChildren(self._paths.requests)], listed)

    def _look_when(self, names: deque[str], made: list[tuple[int, str]]) -> None:
        """When each of them was made. What they say may be long, and is not kept."""
        part = [names.popleft() for _ in range(min(READS_AT_ONCE_MAX, len(names)))]
        if not part:
            return self._listed([name for _, name in sorted(made)])
        left = len(part)

        def found(name: str, answers: tuple[ReadAnswer, ...]) -> None:
            nonlocal left
            left -= 1
            (answer,) = answers
            if isinstance(answer, Node):
                made.append((answer.stat.czxid, name))
            if not left:
                self._look_when(names, made)

        for name in part:
            self._read([GetData(self._paths.request(name))], partial(found, name))
        return None

    def _listed(self, names: list[str]) -> None:
        """In order; what was made meanwhile is later than all of them."""
        meanwhile, self._made_meanwhile = self._made_meanwhile, []
        self._lists = False
        for name in (*names, *meanwhile):
            self._take(name)
        self._go_on()

    def made(self, name: str) -> None:
        """One more."""
        if self._lists:
            self._made_meanwhile.append(name)
        else:
            self._take(name)
            self._go_on()

    def forget(self, name: str) -> None:
        """It is gone, or answered."""
        self._seen.discard(name)

    def _take(self, name: str) -> None:
        if name in self._seen:
            return
        if len(self._waiting) >= REQUESTS_WAITING_MAX:
            self._left_out = True
            return
        self._seen.add(name)
        self._waiting.append(name)

    def _go_on(self) -> None:
        while self._waiting and len(self._turns) < READS_AT_ONCE_MAX:
            turn = InTurn(self._waiting.popleft())
            self._turns.append(turn)
            self._look(turn)
        if self._left_out and not self.unread and not self._lists:
            self.begin()

    def _look(self, turn: InTurn) -> None:
        def read(answers: tuple[ReadAnswer, ...]) -> None:
            (node,) = answers
            # None: its gateway is gone, or it was answered
            fresh = isinstance(node, Node) and not node.stat.version
            self._has(turn, node.data if isinstance(node, Node) and fresh else None)

        self._read([GetData(self._paths.request(turn.name))], read)

    def _look_at_parts(self, turn: InTurn, found: bytes = b"", at: int = 1) -> None:
        def read(answers: tuple[ReadAnswer, ...]) -> None:
            (node,) = answers
            if not isinstance(node, Node):
                return self._has(turn, None)
            if at < turn.parts:
                return self._look_at_parts(turn, found + node.data, at + 1)
            return self._has(turn, found + node.data)

        self._read([GetData(self._paths.part(turn.name, at))], read)

    def _has(self, turn: InTurn, data: bytes | None) -> None:
        turn.is_read, turn.data = True, data
        self._in_turn()

    @property
    def _next_is_read(self) -> bool:
        return bool(self._turns) and self._turns[0].is_read

    def next_wake_ms(self) -> int | None:
        """When `turn` has something to do: some are read, and were left for a later turn."""
        return max(self._rested_at_ms, self._clock()) if self._next_is_read else None

    def turn(self) -> None:
        """A turn of the loop begins: go on."""
        self._left_ns = ASKS_TURN_MS * NS_PER_MS
        if self._next_is_read:
            self._in_turn()

    def _in_turn(self) -> None:
        """Those of which all that were made before are read."""
        while self._next_is_read and self._left_ns > 0 and self._clock() >= self._rested_at_ms:
            began_ns = self._cpu_ns()
            self._hear(self._turns[0])
            self._spent(self._cpu_ns() - began_ns)
        self._go_on()

    def _spent(self, took_ns: int) -> None:
        self._left_ns -= took_ns
        took_ms = took_ns // NS_PER_MS
        if took_ms >= ASKS_TURN_MS:
            self._rested_at_ms = self._clock() + min(took_ms * REST_PER_WORK, REST_MS_MAX)

    def _hear(self, turn: InTurn) -> None:
        """The first of them. Of one that is in parts these are read now."""
        heard = None if turn.data is None else decode_ask(turn.name, turn.data)
        if isinstance(heard, InParts) and not turn.parts:
            turn.parts, turn.is_read = heard.parts, False
            return self._look_at_parts(turn)
        if isinstance(heard, InParts):
            heard = Malformed("request of a gateway", turn.name, "its parts are in parts")
        self._turns.popleft()
        if heard is not None:
            self._asked(turn.name, heard)
        return None
