"""Requests of gateways. Those of one group are taken up in the order in which they were made,
whoever made them: those that were there before this coordinator by the transactions that made their
nodes, later ones as they are seen. So of two clients of two gateways that have waited for another
coordinator the first is taken up first. Between groups each pays for its time (`lanes.py`).

Bounded: so many requests are read at a time and wait. What does not fit is looked for again once
there is room. One that is in parts is read part by part, which may be megabytes, and those of its
group that were made after it wait for that.

A request may name thousands of members, and all groups wait while it is taken up: so requests are
taken up for `ASKS_TURN_MS` of a turn of the loop. One that takes longer ends the turn, and until
others have had the thread for `REST_PER_WORK` times as long (`REST_MS_MAX` at most) only requests
of `SMALL_BYTES` are taken up, of groups that owe little.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from zkcoord.core.filing.fair_queue import REST_MS_MAX, REST_PER_WORK
from zkcoord.core.model import Malformed
from zkcoord.zk.classic.lanes import Lanes
from zkcoord.zk.port import Children, Denied, GetChildren, GetData, Node, Read, ReadAnswer
from zkcoord.znodes.classic.documents import ClassicAsk, InParts, decode_ask
from zkcoord.znodes.classic.paths import ClassicPaths, is_request, lane_of

ASKS_TURN_MS = 5
READS_AT_ONCE_MAX = 64
SMALL_BYTES = 32 * 1024
NS_PER_MS = 1_000_000
NS_PER_US = 1_000

Reading = Callable[[Sequence[Read], Callable[[tuple[ReadAnswer, ...]], None]], None]
Heard = ClassicAsk | Malformed


@dataclass(slots=True, eq=False)
class InTurn:
    """A request that is being read. `data`: what it says (None: it is gone, or was answered), as
    far as it `is_read`; `parts`: how many it has beside its node, once that is known; `spent_us`:
    what that took of the thread.
    """

    name: str
    is_read: bool = False
    data: bytes | None = None
    parts: int = 0
    spent_us: int = 0

    @property
    def is_small(self) -> bool:
        """Whether it can hardly take long."""
        return self.data is None or len(self.data) <= SMALL_BYTES


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
        self._lanes = Lanes()
        self._turns: list[InTurn] = []
        self._seen: set[str] = set()
        self._lists = False
        self._made_meanwhile: list[str] = []
        self._left_out = False

    @property
    def unread(self) -> int:
        """How many have still to be read."""
        return len(self._lanes) + len(self._turns)

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
        if name not in self._seen:
            self._seen.add(name)
            left_out = self._lanes.add(name, self._clock())
            self._seen.difference_update(left_out)
            self._left_out = self._left_out or bool(left_out)

    def _go_on(self) -> None:
        """Read what is next, as far as there is room."""
        while len(self._turns) < READS_AT_ONCE_MAX:
            name = self._lanes.take(self._clock())
            if name is None:
                break
            turn = InTurn(name)
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

    def _next(self) -> InTurn | None:
        """The first that is read, of all that are the first of their groups. While large ones are
        to rest: of those that are small, and of groups that owe little.
        """
        now_ms = self._clock()
        may_be_large = now_ms >= self._rested_at_ms
        behind: set[str] = set()
        for turn in self._turns:
            lane = lane_of(turn.name)
            light = may_be_large or (turn.is_small and not self._lanes.is_heavy(turn.name, now_ms))
            if turn.is_read and light and lane not in behind:
                return turn
            behind.add(lane)
        return None

    def next_wake_ms(self) -> int | None:
        """When `turn` has something to do: some are read, or could be."""
        now_ms = self._clock()
        times = [now_ms] if self._next() is not None else []
        if any(turn.is_read for turn in self._turns):
            times.append(max(now_ms, self._rested_at_ms))
        at_ms = self._lanes.ready_at_ms(now_ms) if len(self._turns) < READS_AT_ONCE_MAX else None
        if at_ms is not None:
            times.append(at_ms)
        return min(times, default=None)

    def turn(self) -> None:
        """A turn of the loop begins: go on."""
        self._left_ns = ASKS_TURN_MS * NS_PER_MS
        self._in_turn()

    def _in_turn(self) -> None:
        """Those that are read, while the turn has time for them."""
        while self._left_ns > 0 and (turn := self._next()) is not None:
            began_ns = self._cpu_ns()
            self._hear(turn)
            self._spent(turn, self._cpu_ns() - began_ns)
        self._go_on()

    def _spent(self, turn: InTurn, took_ns: int) -> None:
        self._left_ns -= took_ns
        turn.spent_us += took_ns // NS_PER_US
        took_ms, now_ms = took_ns // NS_PER_MS, self._clock()
        if took_ms >= ASKS_TURN_MS:
            self._rested_at_ms = now_ms + min(took_ms * REST_PER_WORK, REST_MS_MAX)
        if turn not in self._turns:
            self._lanes.done(turn.name, turn.spent_us, now_ms)

    def _hear(self, turn: InTurn) -> None:
        """One of them. Of one that is in parts these are read now."""
        heard = None if turn.data is None else decode_ask(turn.name, turn.data)
        if isinstance(heard, InParts) and not turn.parts:
            turn.parts, turn.is_read = heard.parts, False
            return self._look_at_parts(turn)
        if isinstance(heard, InParts):
            heard = Malformed("request of a gateway", turn.name, "its parts are in parts")
        self._turns.remove(turn)
        if heard is not None:
            self._asked(turn.name, heard)
        return None
