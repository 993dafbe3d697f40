"""One run: coordinators and gateways as processes, clients, faults drawn from the seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

from consumer.gateway.client_led.commits import Codes, MembersCommit, Storing
from consumer.gateway.client_led.groups import LedGroups
from consumer.gateway.own_session import OwnSession
from consumer.gateway.wire.actions import GroupLimits, WireTimes
from consumer.gateway.wire.requests import Answer, Caller, JoinAnswer, Request
from tests.sim.invariants import Violation
from tests.sim.kernel import Host, Kernel
from tests.sim.led.beside import Beside
from tests.sim.led.client import LedClient
from tests.sim.led.witness import LedWitness
from tests.sim.mixes import LED_FAULTS
from tests.sim.processes import CoordinatorProcess
from tests.sim.world import Result
from tests.sim.zookeeper import SimEnsemble, Weather
from zkcoord.core.error_codes import WireCode
from zkcoord.core.options import CoordinatorOptions
from zkcoord.zk.port import OPEN_ACL, Delete
from zkcoord.znodes.classic.paths import request_name
from zkcoord.znodes.paths import Layout

MIX = "led"
CHAOS_MS = (15_000, 45_000)
FAULT_EVERY_MS = (200, 3_000)
CALM_MS = 120_000
COORDINATOR_SESSION_MS, GATEWAY_SESSION_MS = 6_000, 6_000
WIRE_MS = (0, 3)
LIMITS = GroupLimits()
TIMES = WireTimes()


def _nothing(_: object) -> None:
    """An operator does not look."""


class NoCommits:
    """Offsets are not this world's."""

    def commit_of_member(self, commit: MembersCommit, codes: Codes) -> Iterator[bool]:
        """See `CommitsOfMembers`."""
        yield False


class GatewayProcess:
    """What a gateway does for client-led groups, in a process."""

    def __init__(self, world: LedWorld, name: str) -> None:
        self.world = world
        self.kernel = world.kernel
        self.name = name
        self.host = Host(self.kernel, name)
        self._answers: dict[int, tuple[str, Callable[[Answer], None]]] = {}
        self._tickets = 0
        self._ids = 0
        self._timer_ms: int | None = None
        self._timer = 0
        self._wire_ms: dict[int, int] = {}
        self.session = OwnSession(
            world.zk.open_for(self.host, GATEWAY_SESSION_MS), lambda: self.kernel.now
        )
        self.led = LedGroups(
            self.session,
            world.layout,
            OPEN_ACL,
            Storing(NoCommits(), self._on_pool, self._post),
            lambda: self.kernel.now,
            self._answered,
            self._new_id,
            LIMITS,
            TIMES,
        )
        self.led.asking.new_name = self._new_request_name
        self.host.after_each = self._look_at_timer
        self.host.on_state.append(self._state)
        self.host.after(0, self.session.start)

    @property
    def running(self) -> bool:
        """Whether the process exists (perhaps paused)."""
        return self.host.alive

    def _state(self) -> None:
        if not self.host.alive:
            for client in list(self.world.clients):
                self.kernel.after(self.kernel.between(0, 20), lambda c=client: c.lost(self))

    def _post(self, work: Callable[[], None]) -> None:
        self.host.after(0, work)

    def _on_pool(self, work: Callable[[], Any]) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work())
        return done

    def _new_request_name(self, group: str) -> str:
        return request_name(group, f"{self.kernel.rng.getrandbits(128):032x}")

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self.name}-{self._ids}"

    def _answered(self, ticket: int, answer: Answer) -> None:
        group, then = self._answers.pop(ticket)
        if isinstance(answer, JoinAnswer) and answer.code is WireCode.MEMBER_ID_REQUIRED:
            self.world.witness.told(group, answer.member_id)
        self.kernel.after(self.kernel.between(*WIRE_MS), lambda: then(answer))

    def _arrives(self, connection: int, work: Callable[[], None]) -> None:
        """In the order of its connection."""
        at_ms = self.kernel.now + self.kernel.between(*WIRE_MS)
        at_ms = max(at_ms, self._wire_ms.get(connection, 0))
        self._wire_ms[connection] = at_ms
        self.host.at(at_ms, work)

    def ask(self, caller: Caller, request: Request, then: Callable[[Answer], None]) -> None:
        """A client's request arrives."""

        def arrived() -> None:
            self._tickets += 1
            self._answers[self._tickets] = request.group, then
            self.led.another_request(caller.connection)
            group = self.led.open(request.group)
            self.led.when_seen(group, self._tickets, caller, request)

        self._arrives(caller.connection, arrived)

    def hang_up(self, connection: int) -> None:
        """A client closes its connection."""
        self._arrives(connection, lambda: self.led.disconnected(connection))

    def _look_at_timer(self) -> None:
        wakes = (self.session.next_wake_ms(), self.led.next_wake_ms())
        wake = min((at for at in wakes if at is not None), default=None)
        if wake is None:
            self._timer_ms = None
            self._timer += 1
        elif max(wake, self.kernel.now) != self._timer_ms:
            self._timer_ms = max(wake, self.kernel.now)
            self._timer += 1
            token = self._timer
            self.host.at(self._timer_ms, lambda: self._tick(token), timer=True)

    def _tick(self, token: int) -> None:
        if token == self._timer:
            self._timer_ms = None
            for driver in (self.session, self.led):
                at_ms = driver.next_wake_ms()
                if at_ms is not None and at_ms <= self.kernel.now:
                    driver.tick()


class LedWorld:
    """See the module."""

    def __init__(self, seed: int, tracing: bool = False) -> None:
        self.kernel = kernel = Kernel(seed, tracing)
        self.seed = seed
        self.layout = Layout.ISOLATED if kernel.chance(0.2) else Layout.DRAFT
        self.zk = SimEnsemble(kernel, kernel.rng.choice((1, 3)), Weather())
        self.groups = [f"g{n}" for n in range(kernel.between(1, 2))]
        self.clients: list[LedClient] = []
        self.gateways: list[GatewayProcess] = []
        self.coordinators: list[CoordinatorProcess] = []
        self.witness = LedWitness(self, self.layout)
        self.operator = self.zk.open_for(Host(kernel, "operator"), 10**7).open(_nothing)
        self._made = 0
        self._connections = 0
        self.beside = Beside(self)
        self.faults = [one for one in LED_FAULTS.split() if kernel.chance(0.7)] or ["join"]
        for _ in range(2):
            self._coordinator()
            self._gateway()
        for group in self.groups:
            for _ in range(kernel.between(1, 4)):
                self._client(group)

    def new_connection(self) -> int:
        """A number that no connection had."""
        self._connections += 1
        return self._connections

    def _name(self, kind: str) -> str:
        self._made += 1
        return f"{kind}{self._made}"

    def _coordinator(self) -> None:
        made = CoordinatorProcess(
            self.kernel,
            self.zk,
            self._name("c"),
            COORDINATOR_SESSION_MS,
            CoordinatorOptions(),
            self.layout,
            lambda: 0.0,
            lambda: 0,
        )
        self.coordinators.append(made)

    def _gateway(self) -> None:
        self.gateways.append(GatewayProcess(self, self._name("w")))

    def _client(self, group: str) -> None:
        name = self._name("k")
        instance = f"i{self.kernel.between(0, 3)}" if self.kernel.chance(0.3) else None
        taken = {one.instance for one in self.clients if one.alive and one.group == group}
        if instance in taken and self.kernel.chance(0.8):
            instance = None
        self.clients.append(LedClient(self, name, group, instance))

    # faults

    def _fault(self) -> None:
        kind = self.kernel.rng.choice(self.faults)
        self.kernel.fault(kind, "")
        getattr(self, f"_{kind}")()

    def _some(self, of: list[Any]) -> Any:
        living = [one for one in of if getattr(one, "running", getattr(one, "alive", True))]
        return self.kernel.rng.choice(living) if living else None

    def _join(self) -> None:
        if sum(one.alive for one in self.clients) < 8:
            self._client(self.kernel.rng.choice(self.groups))

    def _register_beside(self) -> None:
        self.beside.comes(self.kernel.rng.choice(self.groups))

    def _of_client(self, act: Callable[[LedClient], None]) -> None:
        client = self._some(self.clients)
        if client is not None:
            act(client)

    def _leave(self) -> None:
        self._of_client(LedClient.leave)

    def _kill_client(self) -> None:
        self._of_client(LedClient.die)

    def _hang_client(self) -> None:
        self._of_client(lambda client: client.hang(self.kernel.between(500, 15_000)))

    def _reconnect(self) -> None:
        self._of_client(LedClient.disconnect)

    def _replaced(self, process: Any, again: Callable[[], None]) -> None:
        if process is not None:
            process.host.kill()
            self.kernel.after(self.kernel.between(0, 3_000), again)

    def _kill_coordinator(self) -> None:
        self._replaced(self._some(self.coordinators), self._coordinator)

    def _kill_gateway(self) -> None:
        self._replaced(self._some(self.gateways), self._gateway)

    def _stop_coordinator(self) -> None:
        process = self._some(self.coordinators)
        if process is not None and not process.host.paused:
            process.host.do(process.driver.stop)
            self.kernel.after(self.kernel.between(0, 3_000), self._coordinator)

    def _pause(self, process: Any) -> None:
        if process is not None:
            process.host.pause()
            ms = self.kernel.between(50, 2 * COORDINATOR_SESSION_MS)
            self.kernel.after(ms, process.host.resume)

    def _pause_coordinator(self) -> None:
        self._pause(self._some(self.coordinators))

    def _pause_gateway(self) -> None:
        self._pause(self._some(self.gateways))

    def _cut(self, process: Any) -> None:
        if process is not None:
            ms = self.kernel.between(50, 2 * COORDINATOR_SESSION_MS)
            self.zk.cut_link(process.host, ms)

    def _cut_coordinator(self) -> None:
        self._cut(self._some(self.coordinators))

    def _zombie_coordinator(self) -> None:
        """An operator has the leader step down, which hears of it late, and whose last requests
        arrive late.
        """
        node = self.zk.tree.nodes.get(self.layout.leader)
        leader = next((one for one in self.coordinators if one.driver.core.leading), None)
        if node is None or leader is None:
            return
        self.zk.stall_link(leader.host, self.kernel.between(50, 2_000))
        ms = self.kernel.between(0, 1_000)
        self.kernel.after(ms, lambda: self.operator.multi([Delete(self.layout.leader)], _nothing))

    def _cut_gateway(self) -> None:
        self._cut(self._some(self.gateways))

    def _weather(self) -> None:
        weather = self.zk.weather
        weather.clear()
        if self.kernel.chance(0.6):
            weather.latency_max_ms = self.kernel.between(1, 40)
            weather.tail_chance = 0.05
            weather.lag_max_ms = self.kernel.between(1, 60)
            weather.lose_request_chance = self.kernel.rng.choice((0.0, 0.01))
            weather.lose_reply_chance = self.kernel.rng.choice((0.0, 0.01))

    # the run

    def run(self) -> Result:
        """All of it."""
        kernel = self.kernel
        kernel.run_until(kernel.between(500, 8_000))
        until = kernel.now + kernel.between(*CHAOS_MS)
        while kernel.now < until:
            self._fault()
            kernel.run_until(kernel.now + kernel.between(*FAULT_EVERY_MS))
        self.zk.weather.clear()
        kernel.run_until(kernel.now + 3 * COORDINATOR_SESSION_MS)
        for of, again in ((self.coordinators, self._coordinator), (self.gateways, self._gateway)):
            if not any(one.running for one in of):
                again()
        settled = kernel.now + CALM_MS
        while self.witness.settled() and kernel.now < settled:
            kernel.run_until(kernel.now + 500)
        if wrong := self.witness.settled():
            self.witness.violated("L5", wrong)
        for process in (*self.coordinators, *self.gateways):
            if process.host.crash is not None:
                self.witness.violated("I10", f"{process.host.name} crashed: {process.host.crash!r}")
        return Result(
            MIX,
            self.seed,
            kernel.steps,
            kernel.now,
            self.zk.zxid,
            faults=kernel.faults,
            happened=kernel.happened,
            violations=self._violations(),
            lines=kernel.lines,
        )

    def _violations(self) -> list[Violation]:
        return self.witness.violations
