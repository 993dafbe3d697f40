"""Requests of gateways are taken up in their order, and no turn of the loop is spent on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from zkcoord.core.classic.requests import ClassicLeave, ClassicSync, Leaver
from zkcoord.core.filing.fair_queue import REST_MS_MAX, REST_PER_WORK
from zkcoord.zk.classic.incoming import ASKS_TURN_MS, NS_PER_MS, IncomingRequests
from zkcoord.zk.port import Children, GetChildren, Missing, Node, Read, ReadAnswer, Stat
from zkcoord.znodes.classic.documents import ClassicAsk, encode_ask
from zkcoord.znodes.classic.paths import ClassicPaths, request_name
from zkcoord.znodes.paths import Layout

PATHS = ClassicPaths(Layout.DRAFT)
STAT = Stat(1, 1, 0, 0, 1, 0)
SMALL = ClassicAsk("g", ClassicLeave((Leaver("m", None, ""),)))
IN_PARTS = ClassicAsk("g", ClassicSync("m", 1, None, None, None, (("m", b"x" * 900_000),)))


@dataclass
class World:
    """What is there, and what each request takes of the thread."""

    takes_ms: float = 0
    now_ms: int = 0
    spent_ns: int = 0
    nodes: dict[str, bytes] = field(default_factory=dict)
    strange: list[object] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    waiting: list[tuple[Read, Callable[[tuple[ReadAnswer, ...]], None]]] = field(
        default_factory=list
    )

    def __post_init__(self) -> None:
        self.requests = IncomingRequests(
            PATHS,
            self._read,
            self._asked,
            self.strange.append,
            lambda: self.now_ms,
            lambda: self.spent_ns,
        )

    def _read(self, reads: Sequence[Read], then: Callable[[tuple[ReadAnswer, ...]], None]) -> None:
        (read,) = reads
        self.waiting.append((read, then))

    def _asked(self, name: str, ask: object) -> None:
        self.taken.append(name)
        self.spent_ns += int(self.takes_ms * NS_PER_MS)

    def ask(self, ask: ClassicAsk) -> str:
        """Somebody asks."""
        name = request_name()
        first, *parts = encode_ask(ask)
        self.nodes[PATHS.request(name)] = first
        for number, part in enumerate(parts, 1):
            self.nodes[PATHS.part(name, number)] = part
        self.requests.made(name)
        return name

    def answer(self) -> None:
        """ZooKeeper answers all that is asked, until nothing is."""
        while self.waiting:
            read, then = self.waiting.pop(0)
            if isinstance(read, GetChildren):
                names = tuple(path.rsplit("/", 1)[1] for path in self.nodes)
                then((Children(names),))
            elif read.path in self.nodes:
                then((Node(self.nodes[read.path], STAT),))
            else:
                then((Missing(),))


def test_what_takes_little_is_taken_up_as_it_is_read() -> None:
    world = World(takes_ms=0.01)
    names = [world.ask(SMALL) for _ in range(100)]
    world.answer()
    assert world.taken == names and world.requests.next_wake_ms() is None


def test_no_turn_of_the_loop_is_spent_on_them() -> None:
    world = World(takes_ms=1)
    names = [world.ask(SMALL) for _ in range(3 * ASKS_TURN_MS)]
    world.answer()
    assert world.taken == names[:ASKS_TURN_MS]
    assert world.requests.next_wake_ms() == world.now_ms  # the loop goes on after its other work
    world.requests.turn()
    world.answer()
    assert world.taken == names[: 2 * ASKS_TURN_MS]


@pytest.mark.parametrize("takes_ms", [ASKS_TURN_MS, 40, 10_000])
def test_after_one_that_took_long_others_have_the_thread(takes_ms: int) -> None:
    world = World(takes_ms=takes_ms)
    names = [world.ask(SMALL) for _ in range(3)]
    world.answer()
    rests_ms = min(REST_PER_WORK * takes_ms, REST_MS_MAX)
    assert world.taken == names[:1] and world.requests.next_wake_ms() == rests_ms
    world.now_ms = rests_ms - 1
    world.requests.turn()
    assert world.taken == names[:1]
    world.now_ms = rests_ms
    world.requests.turn()
    assert world.taken == names[:2]


def test_one_in_parts_is_taken_up_in_its_turn() -> None:
    world = World()
    names = [world.ask(one) for one in (SMALL, IN_PARTS, SMALL)]
    world.answer()
    assert world.taken == names
