"""Requests of gateways, in the order in which they were made, whoever made them: those that were
there before this coordinator by the transactions that made their nodes, later ones as they are
seen. So of two clients of two gateways that have waited for another coordinator the first is taken
up first.

Bounded: so many requests are read at a time and wait. What does not fit is looked for again once
there is room. One that is in parts is read part by part, which may be megabytes, and those that
were made after it wait for that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from zkcoord.core.model import Malformed
from zkcoord.zk.port import Children, GetChildren, GetData, Node, Read, ReadAnswer
from zkcoord.znodes.classic.documents import ClassicAsk, InParts, decode_ask
from zkcoord.znodes.classic.paths import ClassicPaths, is_request

READS_AT_ONCE_MAX = 64
REQUESTS_WAITING_MAX = 20_000

Reading = Callable[[Sequence[Read], Callable[[tuple[ReadAnswer, ...]], None]], None]
Heard = ClassicAsk | Malformed


@dataclass(slots=True, eq=False)
class InTurn:
    """A request that is being read. `heard`: what it says (None: it is gone, or was answered);
    `parts`: how many it has, which are read when its turn comes (`begun`).
    """

    name: str
    is_read: bool = False
    heard: Heard | None = None
    parts: int = 0
    begun: bool = False


class IncomingRequests:
    """See the module. `read` asks ZooKeeper, and is answered in the order of what is asked, or
    never; `asked(name, what it says)` takes them.
    """

    def __init__(
        self, paths: ClassicPaths, read: Reading, asked: Callable[[str, Heard], None]
    ) -> None:
        self._paths = paths
        self._read = read
        self._asked = asked
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
            if not isinstance(node, Node) or node.stat.version:
                return self._has(turn, None)  # its gateway is gone, or it was answered
            ask = decode_ask(turn.name, node.data)
            if isinstance(ask, InParts):
                turn.parts = ask.parts
                return self._in_turn()
            return self._has(turn, ask)

        self._read([GetData(self._paths.request(turn.name))], read)

    def _look_at_parts(self, turn: InTurn, found: bytes = b"", at: int = 1) -> None:
        def read(answers: tuple[ReadAnswer, ...]) -> None:
            (node,) = answers
            if not isinstance(node, Node):
                return self._has(turn, None)
            if at < turn.parts:
                return self._look_at_parts(turn, found + node.data, at + 1)
            ask = decode_ask(turn.name, found + node.data)
            if isinstance(ask, InParts):
                ask = Malformed("request of a gateway", turn.name, "its parts are in parts")
            return self._has(turn, ask)

        self._read([GetData(self._paths.part(turn.name, at))], read)

    def _has(self, turn: InTurn, heard: Heard | None) -> None:
        turn.is_read, turn.heard = True, heard
        self._in_turn()

    def _in_turn(self) -> None:
        """Those of which all that were made before are read."""
        while self._turns and self._turns[0].is_read:
            turn = self._turns.popleft()
            if turn.heard is not None:
                self._asked(turn.name, turn.heard)
        if self._turns and self._turns[0].parts and not self._turns[0].begun:
            self._turns[0].begun = True
            self._look_at_parts(self._turns[0])
        self._go_on()
