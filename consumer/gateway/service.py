"""One gateway process: listeners, connections, wire members.

Threads: the event loop, on the main thread, relays; `zkcoord.zk.loop.Loop` decides for all wire
members (each agent's ZooKeeper session has a thread that only reads its socket); a small pool does
what blocks: tools' requests, questions to brokers. The first two speak through their queues; no
lock is held by either while it waits.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from consumer.core import messages as msg
from consumer.gateway import frames, member_frames
from consumer.gateway.address import Address
from consumer.gateway.client_led.commits import Storing
from consumer.gateway.client_led.entrance import MembersEntrance
from consumer.gateway.client_led.making import led_groups
from consumer.gateway.cluster import Cluster, ClusterSeen
from consumer.gateway.frames import BadFrameError, Head
from consumer.gateway.kafka_offsets.transactions import Transactions
from consumer.gateway.members.agents import Agents, find_begin
from consumer.gateway.members.front import MembersFront
from consumer.gateway.members.groups import WireGroups
from consumer.gateway.members.making import wire_groups
from consumer.gateway.neighbours import Neighbours
from consumer.gateway.operation import direct_members, leader_watch
from consumer.gateway.operation.chores import Chores
from consumer.gateway.operation.direct_members import DirectMembers
from consumer.gateway.operation.ending import GatewayEnd, hand_over
from consumer.gateway.operation.figures import RelayFigures
from consumer.gateway.operation.leader_watch import LeaderWatch
from consumer.gateway.operation.members_seen import members_count
from consumer.gateway.operation.reports import Reports
from consumer.gateway.options import BEGIN, GATEWAY_IDS, GatewayOptions
from consumer.gateway.own_session import OwnSession
from consumer.gateway.relay.broker import BrokerChoice, Way
from consumer.gateway.relay.connection import ClientConnection
from consumer.gateway.relay.door import ClientTls, Door
from consumer.gateway.relay.listener import Listener, Ports
from consumer.gateway.relay.tls import PLAIN_TLS, GatewayTls
from consumer.gateway.tooling.leftovers import Leftovers
from consumer.gateway.tooling.store import GroupStore
from consumer.gateway.tooling.tool_requests import ToolRequests
from consumer.gateway.wire.requests import CommitRequest
from zkcoord.errors import UnavailableError
from zkcoord.event_loops import run_there
from zkcoord.guarded import guard, guardian_tls
from zkcoord.guardian.client import Guardian
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.kazoo_port.session import KazooEnsemble
from zkcoord.zk.loop import Loop
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.overlay import OverlaidEnsemble
from zkcoord.znodes.gateway_nodes import AnnouncedGateway

log = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0
LEFTOVERS_EVERY_S = 60.0
POOL_THREADS = 8
GROUPS_DELETED_MAX = 1_000
"""By one request: brokers can be asked of one group at a time whether it may be deleted."""
BROKER_GONE_S = 6.0


class Gateway:
    """See the module. `run` serves until SIGTERM or SIGINT."""

    def __init__(
        self,
        options: GatewayOptions,
        zk: ZkOptions,
        security: Mapping[str, Any],
        tls: GatewayTls = PLAIN_TLS,
    ) -> None:
        self.options = options
        self.own = Address(options.host, options.listen.port)
        self.figures = RelayFigures()
        self.reports = Reports(options.http, self)
        self.zk = zk
        self.tls = tls
        self._client_tls = (
            ClientTls(tls.clients, self._broker_named if options.broker_hosts else None)
            if tls.clients is not None
            else None
        )
        self.cluster = Cluster(options.brokers, security)
        self.store = GroupStore(zk, options.layout)
        self.members = Loop("gateway-members")
        self.guardian = self._new_guardian()
        self.session = OwnSession(
            OverlaidEnsemble(KazooEnsemble(zk, self.members.post)),
            boot_ms,
            lambda port, session_id: guard(self.guardian, port, session_id),
        )
        where, said = (options.layout, zk.acl, zk.roles), (options.shared, options.in_kafka_text)
        self.neighbours = Neighbours(*where, self.own, self._gateways_changed, *said)
        self.session.use(self.neighbours)
        self.gateways: Sequence[tuple[int, Address]] = ()
        self.pool = ThreadPoolExecutor(POOL_THREADS, "gateway")
        self.seen = ClusterSeen({})
        self.silent_since_s: float | None = None
        self._choice = BrokerChoice()
        self.front = MembersFront(self.members, self._spawn)
        self.groups = self._wire_groups()
        storing = Storing(self.store, self.pool.submit, self.members.post)
        self.led = led_groups(self.session, options, zk, storing, self.front.answered)
        self.entrance = MembersEntrance(self.groups, self.led, options.keeps_in_kafka)
        self.front.entrance = self.entrance
        work = self._run, self._ask_members, self.led.delete
        kinds = options.is_coordinated, options.keeps_in_kafka
        self.tools = ToolRequests(self.store, self.groups, *work, *kinds)
        self.transactions = Transactions(self.front, self._run, kinds[1], self.figures)
        self.leftovers = Leftovers(self.store, options.layout, boot_ms)
        self.direct = DirectMembers(self.cluster.live_members_of, self.reports.groups_here)
        self.leader = LeaderWatch(
            options.layout.leader,
            lambda: self.session.port,
            boot_ms,
            lambda: members_count(self.groups) + self.led.members,
        )
        self.chores = Chores(
            (leader_watch.LOOK_EVERY_S, lambda: self.members.post(self.leader.look)),
            (LEFTOVERS_EVERY_S, self.leftovers.look),
            (direct_members.LOOK_EVERY_S, self.direct.look),
        )
        self._connections: dict[int, ClientConnection] = {}
        self._numbers = 0
        self._ports = Ports(options, self._accept)
        self._looking = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._events: asyncio.AbstractEventLoop
        self.ending = GatewayEnd()

    def _wire_groups(self) -> WireGroups:
        zk, layout, post = self.zk, self.options.layout, self.members.post
        self._agents = Agents(zk, layout, post, self._new_guardian, str(self.own))
        heard = self.front.answered, self._begin
        return wire_groups(self._agents, self.options, self.session, zk.acl, *heard)

    def run(self, ready: Callable[[], None] = lambda: None) -> int:
        """Serve; `ready` is called once clients can come. 0 after a signal. Raises
        `ConfigurationError` for ports that cannot be had, `UnavailableError` without a broker.
        """
        return asyncio.run(self._main(ready))

    async def _main(self, ready: Callable[[], None]) -> int:
        self._events = self.front.events = asyncio.get_running_loop()
        self.ending.listen(self._events)
        self._events.add_signal_handler(signal.SIGHUP, self.tls.look, True)
        self.members.attach(self.groups)
        self.members.attach(self.led)
        self.members.attach(self.session)
        self.members.post(self.session.start)
        self.members.start(self._members_end)
        self.reports.start(self._events)
        try:
            await self.ending.meanwhile(self._serve(ready))
        finally:
            await self.ending.finish(self._close())
            self.pool.shutdown(wait=False, cancel_futures=True)
        return 1 if self.members.failure is not None else 0

    def _new_guardian(self) -> Guardian:
        return Guardian.start(
            guardian_tls(self.zk),
            log.info,
            enabled=self.options.guardian,
            sasl_demanded=self.zk.sasl is not None,
        )

    def _gateways_changed(self, known: tuple[AnnouncedGateway, ...]) -> None:
        """On the members' thread."""
        named = known if self.options.names_gateways else ()
        self.gateways = tuple(
            (GATEWAY_IDS + one.number % GATEWAY_IDS, Address(one.host, one.port)) for one in named
        )

    def _members_end(self) -> None:
        run_there(self._events, self.ending.stopping.set)

    async def _serve(self, ready: Callable[[], None]) -> None:
        """Until it is cancelled."""
        async with self._looking:
            self.seen = await self._run(self.cluster.look)
            await self._ports.listen(BEGIN, self.options.listen.port)
            await self._ports.begin(self.seen.brokers)
        ready()
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            for connection in list(self._connections.values()):
                connection.drop_if_slow()
            await self._run(self.tls.look)
            await self._look()
            await self.chores.do(self._run, self._events.time())

    async def _look(self) -> None:
        """One at a time: two would both listen for a broker that is new."""
        async with self._looking:
            try:
                self.seen = await self._run(self.cluster.look)
            except UnavailableError as error:
                if self.silent_since_s is None:
                    self.silent_since_s = time.monotonic()
                log.warning("%s", error)
                return
            self.silent_since_s = None
            await self._ports.follow(self.seen.brokers)

    async def _run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await self._events.run_in_executor(self.pool, partial(work, *arguments))

    # listeners

    def _accept(self, broker_id: int) -> asyncio.Protocol:
        self._numbers += 1
        connection = ClientConnection(Listener(self, broker_id), self._numbers, self.figures)
        if self._client_tls is None:
            return connection
        return Door(connection, self._client_tls)

    def _broker_named(self, name: str) -> int | None:
        broker_id = self.options.broker_named(name)
        return broker_id if broker_id == BEGIN or broker_id in self.seen.brokers else None

    # addresses

    def admits(self, connection: ClientConnection) -> bool:
        """Whether there is room for one more client, and for one more of its address; then it is
        one of ours. Those who are still to be turned away take nobody's place.
        """
        options, here = self.options, self._connections
        if connection.number in here:
            return True  # since its handshake began
        if len(here) >= options.connections_max:
            log.warning("a client of %s is turned away: too many connections", connection.peer)
            return False
        of_address = sum(1 for one in here.values() if one.peer == connection.peer)
        if of_address >= options.connections_per_address_max:
            log.warning("a client of %s is turned away: it has too many", connection.peer)
            return False
        here[connection.number] = connection
        return True

    def upstream(self, broker_id: int) -> Way | None:
        """The broker behind a port; behind the first one any."""
        brokers = self.seen.brokers
        if broker_id < 0:
            return self._choice.among(brokers)
        return Way((brokers[broker_id],)) if broker_id in brokers else None

    def place(self, broker_id: int, own: Address) -> Address:
        """Where clients find a broker."""
        if broker_id not in self.seen.brokers and not self._looking.locked():
            self._spawn(self._look())
        return self.options.broker_address(broker_id)

    def coordinator(self, broker_id: int) -> tuple[int, Address]:
        """Whom FindCoordinator names on a port: this gateway, as it is in Metadata. librdkafka goes
        by the id alone: a broker's, which each gateway has at an address of its own, would send it
        back to the one that it has lost. Where gateways are not named, a broker, at this gateway's
        address of it.
        """
        for known, address in self.gateways:
            if address == self.own:
                return known, self.own
        known = broker_id if broker_id in self.seen.brokers else min(self.seen.brokers, default=0)
        return known, self.options.broker_address(known)

    # requests

    def serve(
        self, listener: Listener, connection: ClientConnection, head: Head, frame: bytes
    ) -> bytes | bool | None:
        """See `Host.serve`."""
        if head.key not in frames.MAX_VERSIONS:
            return False
        body = frames.decode(head, frame, connection.held.weigh)
        if head.key in frames.MEMBERS_APIS:
            return self._of_member(connection, head, body)
        self.front.another(connection)
        match head.key:
            case frames.FIND_COORDINATOR:
                return self._find_coordinator(listener, connection, head, body, frame)
            case frames.LIST_GROUPS:
                connection.hold_up(head)
                names = self._lists_ours(listener.broker_id), self._lists_alone(listener.broker_id)
                listed = partial(self.tools.listed, connection, head, body, *names)
                connection.pass_on(head, frame, lambda answer: self._spawn(listed(answer)))
                return True
            case _:
                pass
        groups = frames.group_of(head, body)
        if head.key == frames.DELETE_GROUPS and len(groups) > GROUPS_DELETED_MAX:
            raise BadFrameError(f"a request to delete {len(groups)} groups")
        if groups and not self.tools.concerns(head, body, groups):
            return False
        if head.key in frames.TRANSACTIONS:
            served: Any = self.transactions.serve(connection, head, body)
            if not isinstance(served, Coroutine):
                return bytes(served) if served else False
        else:
            served = self.tools.answer(connection, head, body)
        self._spawn(served)
        return None

    def _of_member(
        self, connection: ClientConnection, head: Head, body: Any
    ) -> bytes | bool | None:
        request = member_frames.member_request(head, body)
        if not self.options.is_coordinated(request.group):
            return False
        if not isinstance(request, CommitRequest):
            self.front.serve(connection, head, body, request)
        elif self.options.keeps_in_kafka(request.group):
            self.front.another(connection)
            self._spawn(self.transactions.commits.serve(connection, head, body))
        elif request.generation < 0 and not request.member_id:
            self.front.another(connection)
            self._spawn(self.tools.commit(connection, head, body, request))
        else:
            self.front.serve(connection, head, body, request)
        return None

    def passes(self, connection: ClientConnection) -> None:
        """A request goes to a broker."""
        self.front.another(connection)

    def closed(self, connection: ClientConnection) -> None:
        """A connection is gone. Whom its broker left did not go: it has more time to come back."""
        number = connection.number
        self._connections.pop(number, None)
        connection.turns.close()
        work = partial(self.entrance.disconnected, number)
        if connection.left:
            self.members.post(lambda: self.entrance.another_request(number))
            self._events.call_later(BROKER_GONE_S, self.members.post, work)
        else:
            self.members.post(work)

    def _find_coordinator(
        self,
        listener: Listener,
        connection: ClientConnection,
        head: Head,
        body: Any,
        frame: bytes,
    ) -> bool | None:
        keys = frames.coordinator_keys(head, body)
        # Kafka's own coordinator of a group whose offsets it keeps is asked for its clients
        kept = self.options.keeps_in_kafka
        ours = tuple(key for key in keys if self.options.is_coordinated(key) and not kept(key))
        if not ours:
            return False
        at = partial(self.coordinator, listener.broker_id)
        if len(ours) == len(keys):
            self._spawn(self.tools.name_coordinator(connection, head, keys, at))
            return None
        named = partial(self.tools.name_some, connection, head, ours, at, listener)
        connection.pass_on(head, frame, lambda answer: self._spawn(named(answer)))
        return True

    # answers

    def _spawn(self, work: Any) -> None:
        task = self._events.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a defect, please report it", exc_info=error)

    def _lists_ours(self, broker_id: int) -> bool:
        """Whether ListGroups names our groups on a port: clients ask every broker and put the
        answers together, so only one may. The first port is a broker to clients of others.
        """
        first = broker_id < 0 and not self.gateways
        return first or broker_id == min(self.seen.brokers, default=-1)

    def _lists_alone(self, broker_id: int) -> bool:
        """Whether it names there what only the broker has of ours: not also where clients begin,
        which is one broker more to them.
        """
        return broker_id >= 0 or not self.gateways

    async def _ask_members(self, work: Callable[[], Any]) -> Any:
        return await asyncio.wrap_future(self.members.submit(work))

    def _begin(self, group: str, ask: msg.Resolve, answer: Callable[[msg.Resolved], None]) -> None:
        """On the members' thread."""
        self.pool.submit(find_begin, self.cluster, group, ask, answer)

    # what is said of it

    @property
    def listening(self) -> bool:
        """Whether clients can begin."""
        return BEGIN in self._ports.servers

    @property
    def connections(self) -> int:
        """How many there are of clients."""
        return len(self._connections)

    # the end

    async def _close(self) -> None:
        self._ports.close()
        self.members.post(self.entrance.close)
        self.members.post(self._agents.close)
        await hand_over(self.members, self.groups, self.session)
        for connection in list(self._connections.values()):
            connection.close()
        self.members.stop()
        for work in (self.members.join, self.store.close, self.cluster.close, self.guardian.stop):
            await self._run(work)
        await self._run(self.reports.stop)
