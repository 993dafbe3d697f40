"""A whole coordinator and a whole member on a ZooKeeper that answers with junk: what ships, from
the driver down to the codec, on a `Port` whose every answer is drawn from a random source.

Half of what is read is a valid document of the kind that belongs there, so that the junk meets a
group with members, commands and owners; names, stats, refusals, lost answers and events are drawn
too. Only what keeps the coordinator in its seat (the leader node is its own, the epoch is one) is
answered as it should be, most of the time. Memory is bounded because the names are: few groups, few
members.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence

from consumer.core import messages as msg
from consumer.core.options import MemberOptions
from consumer.core.phases import Phase
from consumer.member.driver import MemberDriver
from tests.znodes.mutants import mutant, name
from tests.znodes.seeds import DECODERS
from zkcoord.coordinator.driver import CoordinatorDriver
from zkcoord.core.model import Subscription
from zkcoord.core.options import CoordinatorOptions
from zkcoord.zk.port import (
    Change,
    Children,
    Closed,
    Committed,
    Connected,
    Create,
    Created,
    Denied,
    Done,
    Expired,
    Fired,
    GetChildren,
    Missing,
    MultiResult,
    Node,
    Op,
    PortEvent,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Rejected,
    SetData,
    Suspended,
    Unanswered,
    WatchMode,
    ZkError,
)
from zkcoord.znodes import codec, places
from zkcoord.znodes.codec import EpochData
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.stat import Stat

SESSION_MS = 6_000
INCARNATION = 5  # what the commands of the seeds name
TURNS_MAX = 20_000
GROUPS = ("g", "h", "bad group", "ids")
MEMBERS = ("m", "g_h-1700000000000-00c0ffee", "g_h-1700000000001-00c0ffef", "x" * 100, "é")
TOPICS = ("t", "orders", "a-b", "..", "é")
NODES = ("7-1-0000000000", "7-2-0000000001", "junk")
KINDS = {
    places.RegistrationAt: "registration",
    places.CommandAt: "command",
    places.OwnerAt: "owner",
    places.GroupAt: "metadata",
    places.TopicAt: "topic",
    places.BrokerAt: "broker",
    places.RequestAt: "request",
    places.LeaderAt: "leader",
    places.EpochAt: "epoch",
}


class HostilePort:
    """One session with that ZooKeeper."""

    def __init__(
        self, world: HostileWorld, session: int, on_event: Callable[[PortEvent], None]
    ) -> None:
        self.world = world
        self.session = session
        self.on_event = on_event
        self.over = False

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        """Committed mostly; else refused at any operation for any reason, or lost with the
        connection.
        """
        drawn = self.world.rng.random()
        if drawn < 0.8 or self.world.gentle:
            self.world.took(ops)
            result: MultiResult = Committed(tuple(self._result(op) for op in ops))
        elif drawn < 0.95:
            result = Rejected(
                self.world.rng.randrange(len(ops)), self.world.rng.choice(list(ZkError))
            )
        else:
            return self._lose(lambda: done(Unanswered()))
        self.world.post(lambda: done(result))

    def _result(self, op: Op) -> Created | Stat | Done:
        if isinstance(op, Create):
            return Created(op.path + ("0000000000" if op.sequential else ""))
        return self.world.stat(self.session) if isinstance(op, SetData) else Done()

    def _lose(self, told: Callable[[], None]) -> None:
        """The connection goes and comes; now and then the session has not survived it."""
        self.world.post(lambda: self.on_event(Suspended()))
        self.world.post(told)
        if self.world.rng.random() < 0.3:
            self.over, self.world.leader = True, None
            self.world.post(lambda: self.on_event(Expired()))
        else:
            self.world.post(lambda: self.on_event(Connected(self.session, SESSION_MS)))

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        """Anything."""
        if self.world.rng.random() < 0.01:
            return self._lose(lambda: done(Unanswered()))
        answers = tuple(self.world.answer(read, self.session) for read in reads)
        self.world.post(lambda: done(ReadDone(answers)))

    def sync(self, done: Callable[[ReadResult], None]) -> None:
        """Done."""
        self.world.post(lambda: done(ReadDone(())))

    def watch(self, path: str, mode: WatchMode, done: Callable[[ReadResult], None]) -> None:
        """Done."""
        self.world.post(lambda: done(ReadDone(())))

    def unwatch(self, path: str, done: Callable[[ReadResult], None]) -> None:
        """Done."""
        self.world.post(lambda: done(ReadDone(())))

    def ignore(self, paths: Sequence[str]) -> None:
        """Told nevertheless: it is a hint."""

    def close(self) -> None:
        """Closed, once."""
        if not self.over:
            self.over, self.world.leader = True, None
            self.world.post(lambda: self.on_event(Closed()))


class HostileWorld:
    """The junk, a clock and a queue. `inputs` counts the nodes and names that were answered."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.rng = random.Random(0)
        self.now_ms = 1_000_000
        self.queue: deque[Callable[[], None]] = deque()
        self.ports: list[HostilePort] = []
        self.inputs = 0
        self.last = ""
        self.own = ""  # a member's name: its registration is its own, and commands are for it
        self.seq = 0
        self.gentle = False  # answer as ZooKeeper would, so that a member gets into its group
        self.leader: tuple[bytes, int] | None = None
        self.epoch = codec.encode_epoch(EpochData(7, 1, 12_000))

    def open(self, on_event: Callable[[PortEvent], None]) -> HostilePort:
        """See `Ensemble`."""
        port = HostilePort(self, 100 + self.rng.randrange(3), on_event)
        self.ports[:] = [port]
        self.post(lambda: on_event(Connected(port.session, SESSION_MS)))
        return port

    def post(self, thunk: Callable[[], None]) -> None:
        """Have it run in its turn."""
        self.queue.append(thunk)

    def clock(self) -> int:
        """Milliseconds."""
        return self.now_ms

    def took(self, ops: Sequence[Op]) -> None:
        """What an election writes is kept, so that there is a term."""
        for op in ops:
            if isinstance(op, Create) and op.path == self.layout.leader:
                self.leader = (op.data, self.ports[0].session)
            elif isinstance(op, (Create, SetData)) and op.path == self.layout.epoch:
                self.epoch = op.data

    def stat(self, session: int) -> Stat:
        """Any stat."""
        rng = self.rng
        return Stat(
            rng.randrange(1, 9),
            rng.randrange(1, 9),
            rng.choice((0, 1, 1, 2, 2**31 - 1)),
            0,
            rng.choice((0, session, 100, 101, 102, 7, -5)),
            rng.choice((25_000, 2**31 - 1)) if rng.random() < 0.003 else rng.randrange(4),
        )

    def answer(self, read: Read, session: int) -> ReadAnswer:
        """Any answer to a read."""
        rng = self.rng
        self.inputs += 1
        drawn = 1.0 if self.gentle else rng.random()
        other = self.layout.other_profile()
        if read.path in (other.leader, other.ids(GROUPS[0])) or (
            drawn < 0.1 and read.path != self.layout.leader
        ):
            return Missing()
        if drawn < 0.102:
            return Denied(rng.choice(list(ZkError)))
        if isinstance(read, GetChildren):
            return Children(()) if self.gentle else self._names(read.path)
        if read.path == self.layout.leader and drawn < 0.97:
            return (
                Missing()
                if self.leader is None
                else Node(self.leader[0], Stat(1, 1, 0, 0, self.leader[1], 0))
            )
        if read.path == self.layout.epoch and drawn < 0.97:
            return Node(self.epoch, Stat(1, 1, 1, 0, 0, 3))
        if self.own and read.path.endswith(self.own) and (drawn < 0.97 or self.gentle):
            return Node(b"", Stat(INCARNATION, 1, 0, 0, session, 0))
        return Node(self._data(read.path), self.stat(session))

    def _names(self, path: str) -> Children:
        pool: Sequence[str] = (
            TOPICS
            if path == self.layout.topics_root or path.endswith("/owners")
            else GROUPS
            if path == self.layout.groups_root
            else MEMBERS
        )
        if path.count("/channel/"):
            pool = NODES
        elif "/owners/" in path:
            pool = ("0", "1", "2", "00", "999999999", "x")
        found = {self.rng.choice(pool) for _ in range(self.rng.randrange(5))}
        if self.rng.random() < 0.05:
            found.add(name(self.rng))
        return Children(tuple(sorted(found)))

    def _data(self, path: str) -> bytes:
        kind = KINDS.get(
            type(self.layout.locate(path)), "offset" if "/offsets/" in path else "registration"
        )
        seeds = DECODERS[kind][1]
        if kind == "command" and self.own:
            self.seq += 1
            seeds = [
                seed.replace(b'"m-0"', f'"{self.own}-0"'.encode()).replace(
                    b'"seq":11', b'"seq":%d' % self.seq
                )
                for seed in seeds
            ]
        data = (
            self.rng.choice(seeds)
            if self.gentle or self.rng.random() < 0.5
            else mutant(self.rng, seeds)
        )
        self.last = f"{path}: {data[:200]!r}"
        return data

    def event(self) -> Fired:
        """Something changed somewhere."""
        rng, lay = self.rng, self.layout
        group, member, topic = rng.choice(GROUPS[:2]), rng.choice(MEMBERS), rng.choice(TOPICS)
        path = rng.choice(
            (
                lay.registration(group, member),
                lay.registration(group, member),
                lay.channel(group, member),
                lay.command(group, member, rng.choice(NODES)),
                f"{lay.owner_topic(group, topic)}/{rng.randrange(3)}",
                lay.group(group),
                lay.topic(topic),
                lay.topics_root,
                lay.leader,
                lay.epoch,
                lay.request(group, "request-1"),
                f"{lay.ids(group)}/{name(rng)}",
                f"{lay.groups_root}/{name(rng)}/{name(rng)}",
            )
        )
        return Fired(rng.choice(list(Change)), path)

    def run(self, tick: Callable[[], None], wake: Callable[[], int | None]) -> None:
        """Until nothing is left to do at this time; AssertionError when that has no end."""
        for _ in range(TURNS_MAX):
            while self.queue:
                self.queue.popleft()()
            at_ms = wake()
            if at_ms is None or at_ms > self.now_ms:
                return
            tick()
        raise AssertionError(f"still busy after {TURNS_MAX} turns")


class HostileCoordinator:
    """A coordinator in that world. `feed` is one step: an event or two, some time."""

    def __init__(self, layout: Layout) -> None:
        self.world = HostileWorld(layout)
        self.driver = self._new()

    def _new(self) -> CoordinatorDriver:
        options = CoordinatorOptions(registrations_per_group_max=100, nodes_per_group_max=20_000)
        self.world.leader = None
        driver = CoordinatorDriver(
            self.world,
            self.world.layout,
            options,
            self.world.clock,
            self.world.clock,
            lambda record: None,
        )
        driver.start()
        return driver

    def feed(self, rng: random.Random) -> tuple[int, str]:
        """See `tests.znodes.hostile.Feed`."""
        world = self.world
        world.rng, before = rng, world.inputs
        if self.driver.finished or self.driver.failure is not None:
            world.queue.clear()
            self.driver = self._new()
        for _ in range(rng.randrange(1, 3)):
            if world.ports and not world.ports[0].over:
                event, port = world.event(), world.ports[0]
                world.post(lambda event=event, port=port: port.on_event(event))  # type: ignore[misc]
        world.now_ms += rng.choice((0, 1, 1, 20, 20, 400, 3_000))
        if world.rng.random() < 0.01:
            world.leader = None
        world.run(self.driver.tick, self.driver.next_wake_ms)
        return max(1, world.inputs - before), world.last


class HostileMember:
    """A member in that world."""

    def __init__(self, layout: Layout) -> None:
        self.world = HostileWorld(layout)
        self.count = 0
        self.driver = self._new()

    def _new(self) -> MemberDriver:
        self.assignment_epoch = 0
        driver = MemberDriver(
            self.world,
            self.world.layout,
            MemberOptions(group="g", host="h"),
            self.world.clock,
            self.world.clock,
            self._new_id,
            self._hear,
            lambda record: None,
        )
        driver.receive(msg.Subscribe(Subscription({"t": 1, "orders": 2})))
        return driver

    def _new_id(self) -> str:
        self.count += 1
        self.world.own = f"g_h-1700000000000-{self.count:08x}"
        return self.world.own

    def _hear(self, message: msg.ToFetcher) -> None:
        if isinstance(message, (msg.Assigned, msg.Lost, msg.Seek)):
            self.assignment_epoch = message.assignment_epoch
        if isinstance(message, msg.Revoke):
            positions = dict.fromkeys(message.partitions, 3)
            self.world.post(lambda: self.driver.receive(msg.Revoked(message.token, positions)))
        elif isinstance(message, msg.Resolve):
            offsets = dict.fromkeys(message.partitions, 0)
            self.world.post(lambda: self.driver.receive(msg.Resolved(message.token, offsets)))

    def feed(self, rng: random.Random) -> tuple[int, str]:
        """See `tests.znodes.hostile.Feed`."""
        world = self.world
        world.rng, before = rng, world.inputs
        if self.driver.finished:
            world.queue.clear()
            self.driver = self._new()
        lay, member = world.layout, self.driver.name
        if world.ports and not world.ports[0].over and member:
            path = rng.choice(
                (
                    lay.command("g", member, rng.choice(NODES)),
                    lay.command("g", member, rng.choice(NODES)),
                    lay.channel("g", member),
                    lay.registration("g", member),
                    lay.leader,
                )
            )
            port, change = world.ports[0], rng.choice(list(Change))
            world.post(lambda: port.on_event(Fired(change, path)))
        if rng.random() < 0.2 and self.driver.core.session.held:
            offsets = {rng.choice(sorted(self.driver.core.session.held)): rng.randrange(10)}
            self.driver.receive(msg.Commit(world.now_ms, offsets, self.assignment_epoch))
        world.gentle = self.driver.core.state.phase is not Phase.MEMBER and rng.random() < 0.9
        if rng.random() < 0.02:
            self.driver.receive(
                msg.Subscribe(Subscription({rng.choice(("t", "orders", "a-b")): 1}))
            )
        world.now_ms += rng.choice((0, 1, 1, 20, 20, 400, 3_000))
        world.run(self.driver.tick, self.driver.next_wake_ms)
        return max(1, world.inputs - before), world.last
