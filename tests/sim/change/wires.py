"""The part of a world in which a group goes from the coordinator to a leader among its clients and
back, as an operator says (pins).

In the end, some time after the last word and with the faults over, all clients are members of the
kind that the pin says, and nobody is registered as the other kind. Without a pin the group is one
or the other.
"""

from __future__ import annotations

from dataclasses import replace

from tests.sim.change.checker import ChangeChecker
from tests.sim.change.client import ChangeClient
from tests.sim.change.gateway import ChangeGateway
from tests.sim.wire import Wires
from tests.sim.wire_client import SLOW_MS, WireClient
from tests.sim.wire_gateway import GatewayProcess
from tests.sim.wire_invariants import GATEWAY
from tests.sim.wire_witness import WireHabits
from zkcoord.core.classic.state import ClassicPhase
from zkcoord.zk.port import Create, Delete, SetData
from zkcoord.znodes.classic.pin import Machine, Pin, encode_pin

EAGER, COOPERATIVE, MIXED = "eager", "cooperative", "mixed"
FLAVOURS = (EAGER, COOPERATIVE, MIXED)
CHANGE_MS = 40_000
WORDS = (None, *Machine)


class ChangeWires(Wires):
    """See the module."""

    makes_checker = ChangeChecker
    checker: ChangeChecker

    def populate(self) -> None:
        """See `Wires`. In some worlds somebody has spoken before, or the folders are there."""
        for group in self.world.groups:
            if self.kernel.chance(0.5):
                self.pin(group, self.kernel.rng.choice(WORDS))
        super().populate()

    def make_gateway(self, name: str) -> GatewayProcess:
        """See `Wires`."""
        plan, zk = self.world.plan, self.world.zk
        sizes = plan.session_ms, plan.layout, self.times
        return ChangeGateway(self.kernel, zk, name, *sizes, self.world.checker.violate)

    def make_client(self, name: str, habits: WireHabits) -> WireClient:
        """See `Wires`."""
        world = self.world
        own = self.kernel, name, habits, world.log, self.checker, self.find
        return ChangeClient(self.checker, lambda topic: world.topics.get(topic, 0), *own)

    def draw_habits(self, group: str, name: str) -> WireHabits:
        """See `Wires`. Who hears of a rebalance with its next heartbeat must not be out by then."""
        habits = super().draw_habits(group, name)
        long_ms = 2 * habits.interval_ms + SLOW_MS
        return replace(habits, rebalance_ms=max(habits.rebalance_ms, long_ms))

    def assignors(self, cooperative: bool) -> tuple[str, ...]:
        """See `Wires`. All of a group share one, as a leader needs it."""
        if self.plan.change == EAGER:
            return self.kernel.rng.choice((("sticky",), ("range", "sticky")))
        return ("cooperative-sticky",) if cooperative else ("cooperative-sticky", "range")

    # what an operator says

    def pin(self, group: str, word: Machine | None) -> None:
        """Who is to run a group from now on."""
        paths, nodes = self.checker.paths, self.world.zk.tree.nodes
        path = paths.pin(group)
        above = path.split("/")
        for n in range(2, len(above)):
            folder = "/".join(above[:n])
            if folder not in nodes:
                self.world.operator(Create(folder, b""))
        self.checker.changed_ms[group] = self.kernel.now
        self.kernel.trace("WORLD", f"pins {group}: {word.value if word is not None else 'auto'}")
        if word is None:
            if path in nodes:
                self.world.zk.commit([Delete(path)], 0, "operator")
            return
        data = encode_pin(Pin(word, "operator"))
        self.world.operator(SetData(path, data, -1) if path in nodes else Create(path, data))

    def pinned(self, group: str) -> Machine | None:
        """What was said last."""
        node = self.world.zk.tree.nodes.get(self.checker.paths.pin(group))
        if node is None:
            return None
        return next(one for one in Machine if one.value.encode() in node.data)

    # the end of the faults

    def calm_down(self) -> None:
        """See `Wires`. The operator speaks a last time, now or a little later."""
        super().calm_down()
        for group in self.world.groups:
            word = self.kernel.rng.choice(WORDS)
            if self.kernel.chance(0.7):
                self.world.later(
                    self.kernel.between(0, 3_000), lambda group=group: self.pin(group, word)
                )  # type: ignore[misc]

    @property
    def liveness_ms(self) -> int:
        """See `Wires`. Everybody has to come, to give up, and to come again."""
        return super().liveness_ms + CHANGE_MS

    def unsettled(self, group: str) -> str:
        """See `Wires`."""
        state, word = self.checker.state(group), self.pinned(group)
        if word is Machine.CLIENT_LED or (word is None and state.members):
            return self._not_led(group)
        if state.members:
            led = [one.member_id for one in state.members]
            return f"{group} is pinned {word}, and {led} are members that a client leads"
        return super().unsettled(group)

    def _not_led(self, group: str) -> str:
        state, world = self.checker.state(group), self.world
        if state.phase is not ClassicPhase.STABLE:
            return f"{group} is led by no client: {state.phase.value}"
        for client in self.of_group(group):
            name = client.host.name
            if not client.stable or client.wants_to_join or client.connection is None:
                return f"{group}: {name} has not joined"
            without = sorted(tp for tp, at in client.positions.items() if at.processed is None)
            if without:
                return f"{group}: {name} does not know where {without[0]} begins"
            if not self.checker.is_current(client):
                return f"{group}: {name} is not in generation {state.generation}"
        ids = sorted(one.member_id for one in state.members)
        expected = sorted(client.member_id for client in self.of_group(group))
        if ids != expected:
            return f"{group}: {ids} are members that a client leads, expected {expected}"
        above = world.places.ids(group)
        nodes = [world.zk.tree.nodes[f"{above}/{n}"] for n in world.zk.tree.children.get(above, ())]
        here = [node for node in nodes if world.host_of_session(node.owner)[:1] == GATEWAY]
        return f"{group}: {here[0].data!r} is still registered" if here else ""
