"""Requests of gateways are taken up in their order, and no turn of the loop is spent on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from zkcoord.core.classic.requests import ClassicLeave, ClassicSync, Leaver
from zkcoord.core.filing.fair_queue import REST_MS_MAX, REST_PER_WORK
from zkcoord.zk.classic import lanes
from zkcoord.zk.classic.incoming import (
    ASKS_TURN_MS,
    NS_PER_MS,
    READS_AT_ONCE_MAX,
    IncomingRequests,
)
from zkcoord.zk.port import Children, GetChildren, Missing, Node, Read, ReadAnswer, Stat
from zkcoord.znodes.classic.documents import ClassicAsk, encode_ask
from zkcoord.znodes.classic.paths import ClassicPaths, request_name
from zkcoord.znodes.paths import Layout

PATHS = ClassicPaths(Layout.DRAFT)
STAT = Stat(1, 1, 0, 0, 1, 0)
SMALL = ClassicAsk("g", ClassicLeave((Leaver("m", None, ""),)))
LARGE = ClassicAsk("g", ClassicSync("m", 1, None, None, None, (("m", b"x" * 99_000),)))
IN_PARTS = ClassicAsk("g", ClassicSync("m", 1, None, None, None, (("m", b"x" * 900_000),)))


@dataclass
class World:
    """What is there, and what each request takes of the thread."""

    takes_ms: float = 0
    takes_of: dict[str, float] = field(default_factory=dict)  # by group
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
        group = ask.group if isinstance(ask, ClassicAsk) else ""
        self.spent_ns += int(self.takes_of.get(group, self.takes_ms) * NS_PER_MS)

    def ask(self, ask: ClassicAsk) -> str:
        """Somebody asks."""
        name = request_name(ask.group)
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
    names = [world.ask(LARGE) for _ in range(3)]
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


# groups beside each other


def a_group(name: str) -> ClassicAsk:
    """What one asks."""
    return ClassicAsk(name, ClassicLeave((Leaver("m", None, ""),)))


def turns_until(world: World, name: str, most: int) -> int:
    """How many turns of the loop pass until this one is taken up."""
    for turns in range(most):
        world.answer()
        if name in world.taken:
            return turns
        world.now_ms = max(world.now_ms, world.requests.next_wake_ms() or 0)
        world.requests.turn()
    raise AssertionError(f"{len(world.taken)} others were taken up before it")


@pytest.mark.parametrize("takes_ms", [0.1, 1, 40])
def test_who_asks_much_does_not_keep_others_waiting(takes_ms: float) -> None:
    world = World(takes_of={"g": takes_ms, "other": 0.1})
    much = [world.ask(SMALL) for _ in range(5_000)]
    world.answer()
    began_ms = world.now_ms
    name = world.ask(a_group("other"))
    turns = turns_until(world, name, 1_000)
    waited = world.taken.index(name)
    assert waited < 200 and turns < 20 and world.now_ms - began_ms <= REST_MS_MAX
    before = [one for one in world.taken if one != name]
    assert before == much[: len(before)]  # in their order


def test_others_are_served_while_one_that_took_long_rests() -> None:
    world = World(takes_of={"g": 200, "other": 0.1})
    for _ in range(3):
        world.ask(SMALL)
    world.answer()
    assert len(world.taken) == 1
    name = world.ask(a_group("other"))
    world.requests.turn()
    world.answer()
    assert name in world.taken and len(world.taken) == 2


def test_a_large_one_waits_until_others_have_had_the_thread() -> None:
    world = World(takes_of={"g": 200, "other": 0.1})
    world.ask(SMALL)
    world.answer()
    name = world.ask(replace(LARGE, group="other"))
    world.requests.turn()
    world.answer()
    assert name not in world.taken
    world.now_ms = world.requests.next_wake_ms() or 0
    assert world.now_ms > 0
    world.requests.turn()
    assert name in world.taken


def test_those_of_one_that_is_in_parts_wait_for_it_and_others_do_not() -> None:
    world = World()
    large = world.ask(IN_PARTS)
    behind, other = world.ask(SMALL), world.ask(a_group("other"))
    world.answer()
    assert world.taken == [other, large, behind]


def test_who_fills_all_places_gives_half_of_them_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lanes, "REQUESTS_WAITING_MAX", 100)
    world = World(takes_of={"g": 1})
    much = [world.ask(SMALL) for _ in range(200)]
    others = [world.ask(a_group(f"other {number}")) for number in range(30)]
    assert world.requests.unread <= 100 + READS_AT_ONCE_MAX
    for other in others:
        turns_until(world, other, 1_000)
    for one in much:  # what was left out is looked for again
        turns_until(world, one, 10_000)
    assert len(world.taken) == 230 and world.requests.next_wake_ms() is None


def test_many_groups_that_ask_much_leave_room_for_one_more() -> None:
    world = World(takes_ms=30, takes_of={"other": 0.1})
    for number in range(100):
        for _ in range(20):
            world.ask(a_group(f"hostile {number}"))
    for _ in range(150):  # all of them owe by now
        world.answer()
        world.now_ms = max(world.now_ms, world.requests.next_wake_ms() or 0)
        world.requests.turn()
    began = len(world.taken)
    turns_until(world, world.ask(a_group("other")), 20)
    assert len(world.taken) - began < 20
