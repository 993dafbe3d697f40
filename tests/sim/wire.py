"""The part of a world that has gateways: their processes, their clients, and what must hold of them
in the end.

W3 after the liveness phase a gateway of the balanced world ends, killed or cleanly: its clients
come to another one, and nobody in the group hears of it; W6 once the faults are over each
subscribed partition is in the hands of one client or member, and is consumed, and nobody is told to
join again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from consumer.gateway.wire.actions import WireTimes
from tests.sim.wire_client import WireClient
from tests.sim.wire_gateway import GatewayProcess
from tests.sim.wire_invariants import GATEWAY, WireChecker
from tests.sim.wire_witness import WireHabits
from zkcoord.core.model import TopicPartition

if TYPE_CHECKING:
    from tests.sim.world import World

CLIENT = "j"
EAGER = (("sticky",), ("range", "sticky"))
COOPERATIVE = (("cooperative-sticky",),)
ANSWER_MS = 12_000  # no request waits longer at a gateway that runs
WELL_AFTER_MS = 2_000
AFTER_END_MS = 3_000
SESSION_LATE_MS = 2_500  # how much later than its timeout a session may end


class Wires:
    """See the module."""

    makes_checker: type[WireChecker] = WireChecker

    def __init__(self, world: World) -> None:
        assert world.plan.wire is not None
        self.world = world
        self.kernel = world.kernel
        self.plan = world.plan.wire
        self.gateways: list[GatewayProcess] = []
        self.clients: list[WireClient] = []
        self.times = replace(
            WireTimes(),
            member_grace_ms=self.plan.member_grace_ms,
            disconnect_grace_ms=self.plan.disconnect_grace_ms,
            restore_ms=world.plan.session_ms + SESSION_LATE_MS,
        )
        self.checker = self.makes_checker(
            world.checker,
            lambda: self.clients,
            lambda: world.apps,
            self.plan.disconnect_grace_ms,
            self._is_well,
            self._leading,
            # in parts: each takes a heartbeat of its own
            lambda since: (
                not world.in_parts
                and all(
                    max(g.disturbed_ms, g.host.link_bad_until()) < since and not g.host.paused
                    for g in self.gateways
                )
            ),
            lambda: self.world.zk.weather_is_fine and bool(self._leading()),
            self._is_dead,
        )

    def _is_well(self, gateway: GatewayProcess) -> bool:
        """One that has been paused for long is not, though nothing has happened to it lately; nor
        one that has just lost a connection, though the weather that did it is over.
        """
        zk, host = self.world.zk, gateway.host
        lost_ms = zk.broke_ms.get(host.name, 0)
        bad = max(gateway.disturbed_ms, host.link_bad_until(), zk.frozen_until_ms, lost_ms)
        runs = host.alive and not host.paused
        return runs and zk.weather_is_fine and self.kernel.now - bad > WELL_AFTER_MS

    def _is_dead(self, session: int) -> bool:
        name = self.world.host_of_session(session)
        return not any(g.host.alive for g in self.gateways if g.host.name == name)

    def _leading(self) -> str:
        leader = self.world.leader()
        if leader is None or not leader.running or leader.host.paused:
            return ""
        if leader.driver.writer is None:
            return ""  # it has resigned, and its node stands until its session is over (wire 793)
        return f"{leader.host.name} {leader.troubles}"

    # making them

    def populate(self) -> None:
        """Gateways and clients start."""
        world, kernel = self.world, self.kernel
        for _ in range(self.plan.gateways):
            kernel.after(kernel.between(0, 300), self.add_gateway)
        for group in world.groups:
            for _ in range(self.plan.clients):
                kernel.after(
                    kernel.between(0, world.plan.join_within_ms),
                    lambda group=group: self.add_client(group),
                )  # type: ignore[misc]

    def add_gateway(self) -> GatewayProcess:
        """Start a gateway."""
        world = self.world
        name = world.new_name(GATEWAY)
        self.kernel.trace(name, "started")
        made = self.make_gateway(name)
        self.gateways.append(made)
        world.drift(made)
        return made

    def make_gateway(self, name: str) -> GatewayProcess:
        """One of this name."""
        plan, zk = self.world.plan, self.world.zk
        sizes = plan.session_ms, plan.layout, self.times
        return GatewayProcess(self.kernel, zk, name, *sizes, self.world.checker.violate)

    def add_client(self, group: str, again: WireClient | None = None) -> WireClient:
        """Start a client, or one that was started before."""
        name = self.world.new_name(CLIENT)
        habits = self.draw_habits(group, name)
        if again is not None:
            habits = replace(again.habits)
        self.kernel.trace(name, f"started: {habits}")
        made = self.make_client(name, habits)
        self.clients.append(made)
        return made

    def make_client(self, name: str, habits: WireHabits) -> WireClient:
        """One of this name."""
        return WireClient(self.kernel, name, habits, self.world.log, self.checker, self.find)

    def assignors(self, cooperative: bool) -> tuple[str, ...]:
        """Those that a client lists."""
        return self.kernel.rng.choice(COOPERATIVE if cooperative else EAGER)

    def draw_habits(self, group: str, name: str) -> WireHabits:
        """What a client of this name is."""
        kernel, plan = self.kernel, self.plan
        session = kernel.rng.choice(plan.session_ms)
        cooperative = kernel.chance(plan.cooperative_chance)
        topics = sorted(self.world.topics)
        some = topics if kernel.chance(0.7) else [t for t in topics if kernel.chance(0.6)]
        return WireHabits(
            group,
            tuple(some or topics[:1]),
            cooperative,
            f"i{name}" if kernel.chance(plan.static_chance) else None,
            self.assignors(cooperative),
            session,
            session // kernel.rng.choice((3, 6)),
            self.world.plan.deadline_ms,
            kernel.rng.choice((300, 1_000)),
            0.0 if self.world.calm else plan.slow_chance,
            len(self.clients) % 2 == 0,
        )

    def find(self) -> GatewayProcess | None:
        """A gateway that a client tries; some of those that it knows are gone."""
        alive = [g for g in self.gateways if g.listens]
        if not alive or self.kernel.chance(0.1):
            return self.kernel.rng.choice(self.gateways[-3:]) if self.gateways else None
        return self.kernel.rng.choice(alive)

    def named(self, name: str) -> GatewayProcess:
        """The gateway of this name."""
        return next(g for g in self.gateways if g.host.name == name)

    def of_group(self, group: str) -> list[WireClient]:
        """The clients of a group that run and want to be members."""
        return [c for c in self.clients if c.running and c.habits.group == group]

    @property
    def hosts(self) -> list[GatewayProcess | WireClient]:
        """All that has a host."""
        return [*self.gateways, *self.clients]

    # the end of the faults

    def calm_down(self) -> None:
        """What is paused goes on; there is a gateway."""
        for one in self.hosts:
            one.host.resume()
        for client in self.clients:
            client.habits.slow_chance = 0.0
            if client.connection is not None and client.connection.mute_ms is not None:
                client.link.disconnect()
        self.ensure()

    def ensure(self) -> None:
        """There is a gateway to come to."""
        if not any(g.listens for g in self.gateways):
            self.add_gateway()

    def healed_at_ms(self) -> int:
        """When the last of them is well again."""
        links = [g.host.link_bad_until() for g in self.gateways if g.running]
        return max([0, *links, *(c.busy_until_ms for c in self.clients if c.running)])

    @property
    def liveness_ms(self) -> int:
        """How much longer than others a group with such clients may take: a client's session
        timeout, its place's grace, the way out of a member, a request that waits.
        """
        return (
            2 * max(self.plan.session_ms)
            + self.times.member_grace_ms
            + self.times.restore_ms
            + self.times.drain_ms
            + self.times.sync_park_ms
        )

    def wanted(self, group: str) -> set[str]:
        """Topics that clients of a group subscribe to."""
        return {t for c in self.of_group(group) for t in c.habits.topics}

    def consumed(self, group: str) -> Counter[TopicPartition]:
        """By how many clients each partition is consumed."""
        return Counter(tp for c in self.of_group(group) for tp in c.consuming)

    def unsettled(self, group: str) -> str:
        """Why the clients of a group are not settled; "" when they are."""
        world = self.world
        for client in self.of_group(group):
            if not client.stable or client.wants_to_join or client.connection is None:
                return f"{group}: {client.host.name} has not joined"
            without = sorted(tp for tp, at in client.positions.items() if at.processed is None)
            if without:
                return f"{group}: {client.host.name} does not know where {without[0]} begins"
            if self.checker.remembered(client) < client.generation:
                # it could not be, its member is gone, and it is still to hear that it must join
                return f"{group}: {client.host.name} was told what is not written down"
            lent = sorted(tp for tp in client.positions if not self.checker.owns(client, tp))
            if lent:
                return f"{group}: {client.host.name} has {lent[0]}, but its member has not"
        ids = world.places.ids(group)
        nodes = [world.zk.tree.nodes[f"{ids}/{n}"] for n in world.zk.tree.children.get(ids, ())]
        for node in nodes:
            host = world.host_of_session(node.owner)
            if host[:1] == GATEWAY and not self.named(host).running:
                return f"{group}: a member of {host}, which is gone, is registered"
        here = sorted(
            self.checker.instance_of(node.owner)
            for node in nodes
            if world.host_of_session(node.owner)[:1] == GATEWAY
        )
        expected = sorted(self.checker.instance(c) for c in self.of_group(group))
        if here != expected:
            return f"{group}: clients' members are {here}, expected {expected}"
        return ""

    def heard(self) -> dict[str, tuple[int, int, int]]:
        """How often each client was told to join, lost all, and was given an assignment."""
        return {
            c.host.name: (c.told_to_rejoin, c.lost_all, c.assignments)
            for c in self.clients
            if c.running
        }

    # a gateway ends in a balanced world

    def handover(self) -> bool:
        """W3. False: it makes no sense to go on."""
        world, kernel = self.world, self.kernel
        serving = [g for g in self.gateways if g.listens and g.connections]
        if not serving:
            return True
        old = kernel.rng.choice(serving)
        self.ensure_other(old)
        kernel.run_until(kernel.now + 500)
        before = self.heard()
        had = {c.host.name: sorted(c.positions) for c in self.clients if c.running}
        commands = world.checker.commands_sent
        clean = kernel.chance(0.5)
        way = "ends" if clean else "dies"
        kernel.trace("WORLD", f"=== {old.host.name} {way} in a balanced world")
        kernel.happened[f"a gateway {way} in a balanced world"] += 1
        if clean:
            old.close()
        else:
            world.kill(old)
        kernel.run_until(kernel.now + 2 * world.plan.session_ms + AFTER_END_MS)
        after, has = (
            self.heard(),
            {c.host.name: sorted(c.positions) for c in self.clients if c.running},
        )
        for name, what in before.items():
            if after.get(name) != what or has.get(name) != had[name]:
                world.checker.violate(
                    "W3",
                    f"{name} had {had[name]} before {old.host.name} {way}, has {has.get(name)}"
                    f" (told to join, lost all, assignments: {what}, {after.get(name)})",
                )
        if old.running and clean:
            world.checker.violate("W3", f"{old.host.name} does not end")
        others = world.checker.commands_sent - commands
        kernel.trace("WORLD", f"=== it cost {others} commands")
        why = world.unsettled()
        if why:
            world.checker.violate("W6", f"after {old.host.name} {way}: {why}")
        return not why

    def ensure_other(self, old: GatewayProcess) -> None:
        """There is a gateway beside this one."""
        if not any(g.listens for g in self.gateways if g is not old):
            self.add_gateway()

    def post_mortem(self) -> None:
        """W5: what was not answered."""
        for gateway in self.gateways:
            if not gateway.running:
                continue
            for ticket, one in gateway.open.items():
                waits = self.kernel.now - one.since_ms
                if waits > ANSWER_MS:
                    gone = "" if one.connection.number in gateway.connections else ", which is gone"
                    self.world.checker.violate(
                        "W5",
                        f"{gateway.host.name} has not answered {one.what} ({ticket}) of"
                        f" {one.connection.client.name}{gone} for {waits} ms",
                    )
