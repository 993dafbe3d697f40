"""Reads and watches of servers before 3.6, against a model of such a server: whatever is written
and whenever answers arrive, an owner that reads only where an event sends it ends with what is
there.

The model keeps what the real one keeps (tests/zk/kazoo_port/test_old_servers.py): answers and
events of a connection stand in one order, a watch fires once, a stat with a watch on a missing node
watches for its creation.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
from kazoo.protocol import serialization as wire

from zkcoord.zk.kazoo_port import legacy_server, wire_requests
from zkcoord.zk.kazoo_port.legacy_server import Answered, LegacyServer
from zkcoord.zk.kazoo_port.wire_requests import WireRequest
from zkcoord.zk.port import (
    Change,
    Children,
    Fired,
    GetChildren,
    GetData,
    Missing,
    Node,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Unanswered,
    WatchMode,
)
from zkcoord.znodes.stat import Stat

SEEDS = 400
STEPS = 250
ROOT, SINGLE = "/r", "/p"
NAMES = ("a", "b", "c")


@dataclass
class Held:
    """A node of the model."""

    czxid: int
    mzxid: int
    data: bytes
    ephemeral: bool


class OldServer:
    """One server with one connection. What is asked waits in `asked` until it is served, what is
    said in `wire` until it arrives.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Held] = {}
        self.zxid = 10
        self.stat_watches: set[str] = set()
        self.child_watches: set[str] = set()
        self.asked: deque[tuple[WireRequest, Answered]] = deque()
        self.wire: deque[Callable[[], None]] = deque()
        self.plain = LegacyServer("", self.submit, lambda event: self.told(event))
        self.told: Callable[[Fired], None] = lambda event: None

    # the connection

    def submit(self, request: WireRequest, done: Answered) -> None:
        self.asked.append((request, done))

    def serve(self) -> None:
        """Answer the oldest question."""
        if self.asked:
            request, done = self.asked.popleft()
            self.wire.append(partial(done, self._answer(request), self.zxid))

    def arrive(self) -> None:
        """The oldest that was said."""
        if self.wire:
            self.wire.popleft()()

    def rest(self) -> None:
        """Until nothing is under way."""
        while self.asked or self.wire:
            self.serve()
            self.arrive()

    def _answer(self, request: WireRequest) -> ReadResult:
        if request.type == wire_requests.SYNC:
            return ReadDone(())
        path, offset = wire.read_string(request.payload, 0)
        watched, held = bool(request.payload[offset]), self.nodes.get(path)
        if request.type == wire_requests.EXISTS:
            self.stat_watches.add(path)
        elif watched and held is not None:
            self.child_watches.add(path)
        if held is None:
            return ReadDone((Missing(),))
        if request.type == wire_requests.GET_CHILDREN:
            return ReadDone((Children(self.names(path)),))
        return ReadDone(
            (
                Node(
                    b"" if request.type == wire_requests.EXISTS else held.data,
                    Stat(held.czxid, held.mzxid, 0, 0, int(held.ephemeral), len(self.names(path))),
                ),
            )
        )

    def _fire(self, change: Change, path: str) -> None:
        self.wire.append(partial(self.plain.fired, Fired(change, path)))

    # what others write

    def names(self, path: str) -> tuple[str, ...]:
        return tuple(
            sorted(
                found.rpartition("/")[2] for found in self.nodes if found.rpartition("/")[0] == path
            )
        )

    def create(self, path: str, ephemeral: bool) -> None:
        self.nodes[path] = Held(self.zxid, self.zxid, b"", ephemeral)
        self._fire_stat(Change.CREATED, path)
        self._fire_children(path.rpartition("/")[0])

    def set(self, path: str) -> None:
        self.nodes[path].mzxid, self.nodes[path].data = self.zxid, b"%d" % self.zxid
        self._fire_stat(Change.DATA, path)

    def delete(self, path: str) -> None:
        for child in self.names(path):
            self.delete(f"{path}/{child}")
        del self.nodes[path]
        if path in self.stat_watches or path in self.child_watches:
            self.stat_watches.discard(path)
            self.child_watches.discard(path)
            self._fire(Change.DELETED, path)
        self._fire_children(path.rpartition("/")[0])

    def _fire_stat(self, change: Change, path: str) -> None:
        if path in self.stat_watches:
            self.stat_watches.discard(path)
            self._fire(change, path)

    def _fire_children(self, path: str) -> None:
        if path in self.child_watches:
            self.child_watches.discard(path)
            self._fire(Change.CHILDREN, path)

    def write(self, draw: random.Random) -> None:
        """One transaction of one to three changes."""
        self.zxid += 1
        for _ in range(draw.randint(1, 3)):
            parent = draw.choice(
                [
                    "",
                    *(
                        path
                        for path, held in self.nodes.items()
                        if not held.ephemeral
                        and path.count("/") < 4
                        and not path.startswith(f"{SINGLE}/")
                    ),
                ]
            )
            path = draw.choice((ROOT, SINGLE)) if not parent else f"{parent}/{draw.choice(NAMES)}"
            if path not in self.nodes:
                self.create(path, ephemeral=path.count("/") > 2 and draw.random() < 0.4)
            elif draw.random() < (0.3 if path.count("/") > 1 else 0.05):
                self.delete(path)
                if draw.random() < 0.6:
                    self.create(path, ephemeral=False)
            else:
                self.set(path)


class Owner:
    """Watches, reads everything, and from then on only what an event names; an event of what is
    being read names nothing, as in `zkcoord.zk.mirror.mirror`.
    """

    def __init__(self, server: OldServer) -> None:
        self.plain = server.plain
        self.found: dict[Read, ReadAnswer] = {}
        self.marked: set[Read] = set()
        self.inflight: set[Read] = set()
        self.swept = False
        server.told = self.fired
        self.plain.watch(ROOT, WatchMode.RECURSIVE, lambda _: None)
        self.plain.watch(SINGLE, WatchMode.PERSISTENT, lambda _: None)
        self.plain.sync(lambda _: self.sweep([ROOT]))

    def fired(self, event: Fired) -> None:
        assert event.path == SINGLE or event.path == ROOT or event.path.startswith(f"{ROOT}/"), (
            event
        )
        for read in {
            GetData(event.path),
            GetChildren(SINGLE) if event.path == SINGLE else GetData(event.path),
        }:
            if read not in self.inflight:
                self.marked.add(read)

    def sweep(self, level: list[str]) -> None:
        """Level by level, a request for each."""
        reads: list[Read] = [
            read for path in level for read in (GetChildren(path), GetData(path))
        ] or [GetData(SINGLE), GetChildren(SINGLE)]
        self.plain.read(reads, partial(self.swept_level, reads, bool(level)))

    def swept_level(self, reads: list[Read], more: bool, result: ReadResult) -> None:
        assert isinstance(result, ReadDone)
        self.found.update(zip(reads, result.answers))
        below = [
            f"{read.path}/{name}"
            for read, answer in zip(reads, result.answers)
            if isinstance(answer, Children)
            for name in answer.names
        ]
        if more:
            self.sweep(below)
        else:
            self.swept = True

    def flush(self) -> None:
        """Ask for all that is marked at once, as a loop does when it has nothing else to do."""
        if self.swept and self.marked and not self.inflight:
            self.inflight, self.marked = self.marked, set()
            asked = sorted(self.inflight, key=repr)
            self.plain.read(asked, partial(self.answered, asked))

    def answered(self, asked: list[Read], result: ReadResult) -> None:
        assert isinstance(result, ReadDone)
        self.inflight = set()
        self.found.update(zip(asked, result.answers))

    @property
    def knows(self) -> dict[str, tuple[int, bytes]]:
        return {
            read.path: (answer.stat.czxid, answer.data)
            for read, answer in self.found.items()
            if isinstance(answer, Node)
        }


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(n * SEEDS, marks=pytest.mark.nightly) for n in range(1, 20))]
)
def test_nothing_is_missed(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each seed: writes between any two steps of the connection and of the owner, then rest."""
    for seed in range(first, first + SEEDS):
        draw = random.Random(seed)
        monkeypatch.setattr(legacy_server, "REQUESTS_UNDER_WAY_MAX", draw.choice((1, 2, 7, 200)))
        monkeypatch.setattr(legacy_server, "PASSES_MAX", draw.choice((1, 2, 5)))
        server = OldServer()
        for _ in range(draw.randint(0, 8)):
            server.write(draw)
        owner = Owner(server)
        pace = draw.choice((0.02, 0.1, 0.3))
        for _ in range(STEPS):
            act = draw.random()
            if act < pace:
                server.write(draw)
            elif act < pace + (1 - pace) / 2:
                server.serve()
            else:
                server.arrive()
                if draw.random() < 0.5:
                    owner.flush()
        synced: list[ReadResult] = []
        server.plain.sync(synced.append)
        server.rest()
        while owner.marked or owner.inflight:
            owner.flush()
            server.rest()
        assert synced == [ReadDone(())] and owner.swept, seed
        there = {
            path: (held.czxid, held.data)
            for path, held in server.nodes.items()
            if path.startswith(ROOT) or path == SINGLE
        }
        assert owner.knows == there, f"seed {seed}"
        names = owner.found[GetChildren(SINGLE)]
        assert (names.names if isinstance(names, Children) else ()) == server.names(SINGLE), (
            f"seed {seed}"
        )


def test_a_sync_comes_after_the_events_of_what_was_before_it_and_waits_for_no_more() -> None:
    """A change before it, whose watch is being set again while the sync is answered; and changes
    after it, as many as there may be.
    """
    server = OldServer()
    server.create(ROOT, ephemeral=False)
    order: list[object] = []
    server.told = order.append
    server.plain.watch(ROOT, WatchMode.RECURSIVE, order.append)
    server.rest()
    server.zxid += 1
    server.set(ROOT)
    server.plain.sync(lambda _: order.append("synced"))
    server.serve()
    server.arrive()
    server.arrive()
    assert order == [ReadDone(())], (
        "the event waits for its watch, and the answer of the sync is there already"
    )
    for _ in range(3):
        server.serve()
        server.zxid += 1
        server.set(ROOT)
        server.arrive()
    assert order[1:3] == [Fired(Change.DATA, ROOT), "synced"] and set(order[3:]) <= {
        Fired(Change.DATA, ROOT)
    }


def test_what_is_not_sent_yet_is_unanswered_after_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything goes out when the connection is lost (where it is answered at once), nothing stays
    behind, and no event is told any more.
    """
    monkeypatch.setattr(legacy_server, "REQUESTS_UNDER_WAY_MAX", 1)
    server = OldServer()
    server.create(ROOT, ephemeral=False)
    server.told = lambda event: pytest.fail("told after the loss")
    ends: list[object] = []
    server.plain.watch(ROOT, WatchMode.RECURSIVE, ends.append)
    server.plain.read([GetData(ROOT), GetData(SINGLE)], ends.append)
    server.plain.sync(ends.append)
    server.set(ROOT)
    server.plain.lost()
    lost = list(server.asked)
    server.asked.clear()
    for _, done in lost:
        done(Unanswered(), 0)
    server.rest()
    assert ends == [Unanswered()] * 3
