"""Members of before there were groups that clients lead: they register in one without looking.

L6: nobody is assigned anything beside clients that lead, nor do clients lead beside somebody who
    was. (What an expired client may still believe to have, the coordinator does not know.)
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.sim.kernel import Host
from tests.sim.tree import Tree, Txn
from zkcoord.core.classic.state import ClassicPhase
from zkcoord.core.model import Subscription
from zkcoord.zk.port import Create, MultiResult, Op
from zkcoord.znodes import codec
from zkcoord.znodes.paths import parents
from zkcoord.znodes.places import CommandAt, RegistrationAt

if TYPE_CHECKING:
    from tests.sim.led.world import LedWorld

TOPIC = "t"
SESSION_MS = 6_000
LATE_MS, STAYS_MS = (1, 400), (500, 12_000)


def _nothing(result: MultiResult) -> None:
    """Nobody looks."""


class Beside:
    """See the module. Sees each transaction."""

    def __init__(self, world: LedWorld) -> None:
        self.world = world
        self.registered: set[tuple[str, str]] = set()
        self.commanded: set[tuple[str, str]] = set()
        self._is_topic_made = False
        self._come = 0
        world.zk.observers.append(self._saw)

    def comes(self, group: str) -> None:
        """One registers, and leaves after a while."""
        kernel, layout = self.world.kernel, self.world.layout
        self._come += 1
        name = f"old{self._come}"
        self._make_topic()
        nodes = [*layout.above_parts(group), layout.ids(group), layout.owners(group)]
        for path in (*nodes, layout.channels(group), layout.offsets(group)):
            self._make(path)
        self._make(layout.channel(group, name))
        port = self.world.zk.open_for(Host(kernel, name), SESSION_MS).open(lambda event: None)
        document = codec.encode_registration(
            Subscription({TOPIC: 1}), timestamp_ms=kernel.now, assignors=("sticky",), process="p"
        )
        registers: list[Op] = [Create(layout.registration(group, name), document, ephemeral=True)]
        kernel.after(kernel.between(*LATE_MS), lambda: port.multi(registers, _nothing))
        kernel.after(kernel.between(*STAYS_MS), port.close)

    def _make_topic(self) -> None:
        if not self._is_topic_made:
            self._is_topic_made = True
            path = self.world.layout.topic(TOPIC)
            self._make(path, json.dumps({"version": 2, "partitions": {"0": [1]}}).encode())

    def _make(self, path: str, data: bytes = b"") -> None:
        for above in parents(path):
            self.world.operator.multi([Create(above, b"")], _nothing)
        self.world.operator.multi([Create(path, data)], _nothing)

    def _saw(self, txn: Txn, tree: Tree) -> None:
        kernel, layout = self.world.kernel, self.world.layout
        for path, before, after in txn.changes:
            where = layout.locate(path)
            if isinstance(where, RegistrationAt):
                member = where.group, where.member
                if after is None:
                    self.registered.discard(member)
                    self.commanded.discard(member)
                elif before is None:
                    self.registered.add(member)
                    leads = "clients that lead" if self._leads(where.group) else "nobody"
                    kernel.happened[f"registered beside {leads}"] += 1
            elif isinstance(where, CommandAt) and before is None and after is not None:
                member = where.group, where.member
                if member in self.registered:
                    kernel.happened["commanded, without having looked"] += 1
                    self.commanded.add(member)
        for group in self.world.groups:
            beside = sorted(name for of, name in self.commanded if of == group)
            if beside and self._leads(group):
                self.commanded -= {(group, name) for name in beside}
                clients = len(self.world.witness.states[group].members)
                what = f"{group}: {beside} are assigned beside {clients} clients"
                self.world.witness.violated("L6", what)

    def _leads(self, group: str) -> bool:
        """Whether a client does, which has heard of it."""
        state = self.world.witness.states.get(group)
        return state is not None and state.phase is ClassicPhase.STABLE and bool(state.members)
