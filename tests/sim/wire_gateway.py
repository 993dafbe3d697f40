"""A simulated gateway: the production `WireGroups`, `ClientMemory` and `OwnSession` on one host,
with agents that are production member drivers, and the connections of its clients.

Relaying, permissions and frames are left out: a request arrives as a value and is answered by one.
What the relay promises is kept: requests of a connection are taken in order and answered in order,
and what is parked stands in the way of what follows. A connection has latency in both directions.
It breaks when either end dies, when a client closes it, or when a fault cuts it (`cut`: both ends
hear of it) or swallows what it carries (`mute`: nobody hears of it). A paused gateway accepts
connections, as its machine does, and answers nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from consumer.core import messages as msg
from consumer.core.options import MemberOptions
from consumer.gateway.members.agents import IDLE_LOOK_MS
from consumer.gateway.members.groups import WireGroups
from consumer.gateway.members.memory import ClientMemory
from consumer.gateway.members.wire_group import AgentWishes
from consumer.gateway.own_session import OwnSession
from consumer.gateway.wire.actions import GroupLimits, WireTimes
from consumer.gateway.wire.requests import Answer, Caller, Request
from consumer.member.driver import MemberDriver
from tests.sim.kernel import Host, Kernel
from tests.sim.processes import Process
from tests.sim.zookeeper import HostEnsemble, SimEnsemble
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition
from zkcoord.zk.port import (
    OPEN_ACL,
    GetData,
    Missing,
    Node,
    Op,
    Port,
    PortEvent,
    Read,
    ReadDone,
    ReadResult,
    WatchMode,
)
from zkcoord.znodes.names import consumer_id
from zkcoord.znodes.paths import Layout

LATENCY_MS = (0, 3)
BEGIN_MS = (2, 40)
CLOSE_MS = 8_000
LOOK_EVERY_MS = 20
NOT_YET_CHANCE = 0.1
ADDRESSES = GroupLimits(min_session_timeout_ms=1_000)


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Who is the coordinator of a group? Whoever answers."""

    group: str


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    """OffsetFetch."""

    group: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Offsets:
    """Answer to `FetchOffsets`: next offsets, -1 where nothing is stored."""

    code: WireCode
    offsets: dict[TopicPartition, int]


AnyRequest = Request | FindCoordinator | FetchOffsets
AnyAnswer = Answer | Offsets | WireCode


@dataclass(slots=True, eq=False)
class Expected:
    """A request that a gateway has taken: whom its answer is for, and the answer."""

    connection: WireConnection
    took: Callable[[AnyAnswer], None]
    since_ms: int
    what: str
    answer: AnyAnswer | None = None


class WireConnection:
    """One connection of a client to a gateway. `lost` is called once, at the client, when it hears
    that the connection is gone, unless it closed it itself.
    """

    def __init__(
        self,
        kernel: Kernel,
        client: Host,
        gateway: GatewayProcess,
        number: int,
        lost: Callable[[WireConnection], None],
    ) -> None:
        self.kernel = kernel
        self.client = client
        self.gateway = gateway
        self.number = number
        self.asks_again = False  # see `Caller`
        self.mute_ms: int | None = None  # since when nothing passes, and nobody knows
        self.broken_ms: int | None = None
        self.known_gone = False  # at the gateway
        self.expected: deque[Expected] = deque()
        self._lost = lost
        self._up_next_ms = 0
        self._down_next_ms = 0
        client.on_state.append(self._either_dies)
        gateway.host.on_state.append(self._either_dies)

    @property
    def dead_since_ms(self) -> int | None:
        """Since when nothing passes; None: all does."""
        times = [ms for ms in (self.mute_ms, self.broken_ms) if ms is not None]
        return min(times) if times else None

    def _latency(self) -> int:
        return self.kernel.between(*LATENCY_MS)

    def _either_dies(self) -> None:
        if not (self.client.alive and self.gateway.host.alive):
            self.cut()

    def ask(self, request: AnyRequest, took: Callable[[AnyAnswer], None]) -> None:
        """Send a request; `took` gets its answer, at the client, if it comes."""
        self._up_next_ms = max(self._up_next_ms, self.kernel.now + self._latency())
        self.kernel.at(self._up_next_ms, lambda: self._arrives(request, took))

    def _arrives(self, request: AnyRequest, took: Callable[[AnyAnswer], None]) -> None:
        if self.dead_since_ms is None:
            self.gateway.host.do(lambda: self.gateway.receive(self, request, took))

    def flush(self) -> None:
        """Send the answers whose turn it is."""
        while self.expected and self.expected[0].answer is not None:
            self._down(self.expected.popleft())

    def _down(self, one: Expected) -> None:
        self._down_next_ms = max(self._down_next_ms, self.kernel.now + self._latency())
        answer = one.answer
        assert answer is not None

        def arrives() -> None:
            if self.dead_since_ms is None:
                self.client.do(lambda: one.took(answer))

        self.kernel.at(self._down_next_ms, arrives)

    def close(self) -> None:
        """The client closes it: what it has sent before is still read."""
        if self.dead_since_ms is not None:
            return
        arrives = max(self._up_next_ms, self.kernel.now + self._latency())
        self.kernel.at(arrives, lambda: self._break(at_client=False))

    def cut(self) -> None:
        """It breaks now: what is under way is lost, both ends hear of it."""
        self._break(at_client=True)

    def _break(self, at_client: bool) -> None:
        if self.broken_ms is not None:
            return
        self.broken_ms = self.kernel.now
        hosts = (self.client, self.gateway.host)
        for host in hosts:
            if self._either_dies in host.on_state:
                host.on_state.remove(self._either_dies)
        if self.mute_ms is not None:
            return
        self.kernel.after(
            self._latency(), lambda: self.gateway.host.do(lambda: self.gateway.gone(self))
        )
        if at_client:
            self.kernel.after(self._latency(), lambda: self.client.do(lambda: self._lost(self)))


class AgentPort:
    """A port whose every event is followed by `after`, as the gateway's loop does it."""

    def __init__(self, after: Callable[[], None]) -> None:
        self.port: Port
        self._after = after

    def then(self, done: Callable[..., None]) -> Callable[..., None]:
        """Call `done`, then `after`."""

        def both(what: object) -> None:
            done(what)
            self._after()

        return both

    def multi(self, ops: Sequence[Op], done: Callable[..., None]) -> None:
        """See `Port`."""
        self.port.multi(ops, self.then(done))

    def read(self, reads: Sequence[Read], done: Callable[..., None]) -> None:
        """See `Port`."""
        self.port.read(reads, self.then(done))

    def acls(self, paths: Sequence[str], done: Callable[..., None]) -> None:
        """See `Port`."""
        self.port.acls(paths, self.then(done))

    def sync(self, done: Callable[..., None]) -> None:
        """See `Port`."""
        self.port.sync(self.then(done))

    def watch(self, path: str, mode: WatchMode, done: Callable[..., None]) -> None:
        """See `Port`."""
        self.port.watch(path, mode, self.then(done))

    def unwatch(self, path: str, done: Callable[..., None]) -> None:
        """See `Port`."""
        self.port.unwatch(path, self.then(done))

    def ignore(self, paths: Sequence[str]) -> None:
        """See `Port`."""
        self.port.ignore(paths)

    def close(self) -> None:
        """See `Port`."""
        self.port.close()


class AgentEnsemble:
    """`zkcoord.zk.port.Ensemble` for one agent."""

    def __init__(self, ensemble: HostEnsemble, after: Callable[[], None]) -> None:
        self._ensemble = ensemble
        self._after = after

    def open(self, on_event: Callable[[PortEvent], None]) -> AgentPort:
        """Start a new session."""
        port = AgentPort(self._after)
        port.port = self._ensemble.open(port.then(on_event))
        return port


class GatewayProcess(Process):
    """One gateway. `violate` is told when a request is answered twice. `is_at`: where clients find
    it, as its members' registrations say it.
    """

    is_at = ""

    def __init__(
        self,
        kernel: Kernel,
        ensemble: SimEnsemble,
        name: str,
        timeout_ms: int,
        layout: Layout,
        times: WireTimes,
        violate: Callable[[str, str], None],
    ) -> None:
        super().__init__(kernel, ensemble, name, timeout_ms)
        self.layout = layout
        self.violate = violate
        self.closing = False
        self.disturbed_ms = kernel.now  # when something was wrong with it last, but for its link
        self.host.on_state.append(self._disturbed)
        self.session = OwnSession(self.zk, self.clock)
        self.groups = WireGroups(
            self.clock,
            self._post,
            self._make_agent,
            self._answered,
            self._begin,
            lambda: f"{kernel.rng.getrandbits(48):012x}",
            ADDRESSES,
            times,
            ClientMemory(self.session, layout, OPEN_ACL, name),
        )
        self.connections: dict[int, WireConnection] = {}
        self.open: dict[int, Expected] = {}
        self.driver = self  # type: ignore[assignment]  # it drives itself
        self._numbers = 0
        self._tickets = 0
        self.prepare()
        self.launch()

    # the process

    def prepare(self) -> None:
        """What one of a kind of its own has besides."""

    def _disturbed(self) -> None:
        self.disturbed_ms = self.kernel.now

    def start(self) -> None:
        """Open the first session."""
        self.session.start()

    @property
    def finished(self) -> bool:
        """Whether it has ended cleanly."""
        return self.closing and self.groups.finished and self.session.finished

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""
        times = [self.groups.next_wake_ms(), self.session.next_wake_ms()]
        return min((ms for ms in times if ms is not None), default=None)

    def tick(self) -> None:
        """Do what is due."""
        self.groups.tick()
        self.session.tick()

    def _post(self, thunk: Callable[[], None]) -> None:
        self.host.after(0, thunk)

    def close(self) -> None:
        """SIGTERM: members first, then its own session, then connections; all within a while."""
        self.closing = True
        self.host.after(0, self.groups.close)
        self.host.after(LOOK_EVERY_MS, self._close_further)
        self.host.after(CLOSE_MS, self.host.kill)

    def _close_further(self) -> None:
        if self.groups.finished:
            self.session.close()
        else:
            self.host.after(LOOK_EVERY_MS, self._close_further)

    # agents

    def _make_agent(
        self,
        wishes: AgentWishes,
        told: Callable[[msg.ToFetcher], None],
        after: Callable[[], None],
    ) -> MemberDriver:
        options = MemberOptions(
            group=wishes.group,
            host=wishes.host,
            client=wishes.client_id,
            gateway=self.is_at,
            process=f"{self.kernel.rng.getrandbits(64):016x}",
            instance=wishes.instance,
            instance_is_new=wishes.alone,
            grace_ms=wishes.grace_ms,
            assignors=wishes.assignors,
            auto_commit=False,
            tells_starts=True,
            max_poll_interval_ms=0,
            rebalance_timeout_ms=wishes.rebalance_timeout_ms,
            idle_look_ms=IDLE_LOOK_MS,
        )

        def new_id() -> str:
            drawn = f"{self.kernel.rng.getrandbits(32):08x}"
            return consumer_id(wishes.group, wishes.host, self.wall_clock(), drawn)

        def say(message: msg.ToFetcher) -> None:
            if self.kernel.tracing and not isinstance(message, msg.Notice):
                self.kernel.trace(self.host.name, f"agent of {wishes.host} says {message}")
            told(message)

        return MemberDriver(
            AgentEnsemble(self.zk, after),
            self.layout,
            options,
            self.clock,
            self.wall_clock,
            new_id,
            say,
            self.record,
        )

    def _begin(self, group: str, ask: msg.Resolve, answer: Callable[[msg.Resolved], None]) -> None:
        """Nothing was ever committed in Kafka."""

        def found() -> None:
            earliest = dict.fromkeys(ask.earliest, 0)
            unset = tuple(
                tp
                for tp in ask.partitions
                if tp not in earliest and not self.kernel.chance(NOT_YET_CHANCE)
            )
            answer(msg.Resolved(ask.token, earliest, unset))

        self.host.after(self.kernel.between(*BEGIN_MS), found)

    # connections

    @property
    def listens(self) -> bool:
        """Whether clients can connect."""
        return self.host.alive and not self.closing

    def accept(self, client: Host, lost: Callable[[WireConnection], None]) -> WireConnection:
        """A client connects."""
        self._numbers += 1
        made = WireConnection(self.kernel, client, self, self._numbers, lost)
        self.connections[self._numbers] = made
        return made

    def gone(self, connection: WireConnection) -> None:
        """A connection is gone."""
        if self.connections.pop(connection.number, None) is not None:
            connection.known_gone = True
            self.disconnected(connection.number)

    def disconnected(self, connection: int) -> None:
        """Say it to whom it concerns."""
        self.groups.disconnected(connection)

    def another_request(self, connection: int) -> None:
        """A request has come that is no member's."""
        self.groups.another_request(connection)

    def request(self, ticket: int, caller: Caller, request: Request) -> None:
        """A member's request has come."""
        self.groups.request(ticket, caller, request)

    def receive(
        self,
        connection: WireConnection,
        request: AnyRequest,
        took: Callable[[AnyAnswer], None],
    ) -> None:
        """A request is read from a connection."""
        if connection.number not in self.connections:
            return
        if self.kernel.tracing:
            self.kernel.trace(self.host.name, f"{connection.client.name} asks {request}")
        expected = Expected(connection, took, self.kernel.now, type(request).__name__)
        connection.expected.append(expected)
        match request:
            case FindCoordinator():
                self.another_request(connection.number)
                self._give(expected, WireCode.NONE)
            case FetchOffsets():
                self.another_request(connection.number)
                self._fetch(expected, request)
            case _:
                self._tickets += 1
                self.open[self._tickets] = expected
                name, again = connection.client.name, connection.asks_again
                caller = Caller(connection.number, name, name, asks_again=again)
                self.request(self._tickets, caller, request)

    def _answered(self, ticket: int, answer: Answer) -> None:
        expected = self.open.pop(ticket, None)
        if expected is None:
            self.violate("W5", f"{self.host.name} answers request {ticket} twice: {answer}")
        else:
            self._give(expected, answer)

    def _give(self, expected: Expected, answer: AnyAnswer) -> None:
        if self.kernel.tracing:
            client = expected.connection.client.name
            self.kernel.trace(self.host.name, f"{client} is answered {answer}")
        expected.answer = answer
        expected.connection.flush()

    def _fetch(self, expected: Expected, ask: FetchOffsets) -> None:
        """By what is stored."""
        known: dict[TopicPartition, int] = {}
        port = self.session.port

        def read(result: ReadResult) -> None:
            if not isinstance(result, ReadDone):
                return self._give(expected, Offsets(WireCode.COORDINATOR_NOT_AVAILABLE, {}))
            for tp, node in zip(ask.partitions, result.answers):
                assert isinstance(node, (Node, Missing))
                known[tp] = int(node.data) if isinstance(node, Node) else -1
            return self._give(expected, Offsets(WireCode.NONE, known))

        if not ask.partitions:
            self._give(expected, Offsets(WireCode.NONE, known))
        elif port is None:
            self._give(expected, Offsets(WireCode.COORDINATOR_NOT_AVAILABLE, {}))
        else:
            reads = [GetData(self.layout.offset(ask.group, tp)) for tp in ask.partitions]
            port.sync(
                lambda result: (
                    port.read(reads, read) if isinstance(result, ReadDone) else read(result)
                )
            )
