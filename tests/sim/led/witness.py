"""What must hold of client-led groups, whatever happens.

L1: generations of a group never go back, and one is decided once: whoever is in it later is in it
    from the beginning, or has taken an instance's place.
L2: who is told that it has joined is in a generation that was decided before it was told.
L3: who is told what it has is told what was decided for it in that generation, and that is decided
    once: all of a generation live by one assignment.
L4: nobody is in a generation whose client was not told its id, but static members.
L5: without faults every group is stable, with those that are left and nobody else, each of which
    lives by that generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from consumer.gateway.wire.requests import JoinAnswer
from tests.sim.invariants import Violation
from tests.sim.tree import Rec, Tree, Txn
from zkcoord.core.classic.requests import BlobRef
from zkcoord.core.classic.state import ClassicPhase, ClassicState
from zkcoord.core.model import Malformed
from zkcoord.znodes.classic.documents import blob_digest, decode_state
from zkcoord.znodes.classic.paths import ClassicPaths, ClassicStateAt
from zkcoord.znodes.paths import Layout

if TYPE_CHECKING:
    from tests.sim.led.client import LedClient
    from tests.sim.led.world import LedWorld


class LedWitness:
    """Sees each transaction and each answer."""

    def __init__(self, world: LedWorld, layout: Layout) -> None:
        self.world = world
        self.paths = ClassicPaths(layout)
        self.violations: list[Violation] = []
        self.states: dict[str, ClassicState] = {}
        self.members: dict[tuple[str, int], set[str]] = {}
        self.instances: dict[tuple[str, int], set[str]] = {}
        self.assigned: dict[tuple[str, int], dict[str, str]] = {}
        self.lived_by: dict[tuple[str, int], set[str]] = {}
        self.given: dict[str, set[str]] = {}
        world.zk.observers.append(self._saw)

    def violated(self, which: str, what: str) -> None:
        """Note it."""
        self.violations.append(Violation(self.world.kernel.now, which, what))
        self.world.kernel.trace("witness", f"VIOLATED {which}: {what}")

    def _saw(self, txn: Txn, tree: Tree) -> None:
        for path, _, after in txn.changes:
            where = self.paths.locate(path)
            if isinstance(where, ClassicStateAt) and after is not None:
                self._decided(where.group, after)

    def _decided(self, group: str, after: Rec) -> None:
        state = decode_state(group, after.data)
        if isinstance(state, Malformed):
            return self.violated("L1", f"{group}: {state.reason}")
        before = self.states.get(group)
        self.states[group] = state
        key = group, state.generation
        ids = {one.member_id for one in state.members}
        instances = {one.instance for one in state.members if one.instance is not None}
        if before is not None and state.generation < before.generation:
            self.violated("L1", f"{group}: generation {before.generation}, then {state.generation}")
        if key in self.members:
            dynamic = {one.member_id for one in state.members if one.instance is None}
            same = not ids or instances == self.instances[key]  # or it was taken back, untold
            if not dynamic <= self.members[key] or not same:
                self.violated("L1", f"{group}: generation {state.generation} is decided twice")
        self.members.setdefault(key, set()).update(ids)
        self.instances.setdefault(key, instances)
        for one in state.members:
            if one.instance is None and one.member_id not in self.given.get(group, set()):
                self.violated("L4", f"{group}: nobody was told to be {one.member_id}")
            if isinstance(one.assignment, BlobRef):
                known = self.assigned.setdefault(key, {})
                digest = known.setdefault(one.instance or one.member_id, one.assignment.digest)
                if digest != one.assignment.digest:
                    self.violated("L3", f"{group}: {state.generation} is assigned twice")
        return None

    def told(self, group: str, member_id: str) -> None:
        """A gateway has told a client its id."""
        self.given.setdefault(group, set()).add(member_id)

    def joined(self, client: LedClient, answer: JoinAnswer) -> None:
        """A client has joined, as it was told."""
        if answer.member_id not in self.members.get((client.group, answer.generation), set()):
            self.violated("L2", f"{client.name} has joined {answer.generation}, and has not")

    def synced(self, client: LedClient) -> None:
        """A client was told what it has."""
        assert client.holds is not None
        generation, text = client.holds
        key = client.group, generation
        if not text:
            return
        digest = self.assigned.get(key, {}).get(client.instance or client.member_id)
        if digest != blob_digest(text.encode()):
            self.violated("L3", f"{client.name} has what was not decided in {generation}: {text}")
        by = self.lived_by.setdefault(key, set())
        by.add(text.split("|")[0])
        if len(by) > 1:
            self.violated("L3", f"{client.group}: {generation} is lived by {sorted(by)}")

    def settled(self) -> str:
        """What is not as it must be without faults; "": all is."""
        for group in self.world.groups:
            living = {c.name: c for c in self.world.clients if c.alive and c.group == group}
            state = self.states.get(group)
            if not living:
                if state is not None and state.members:
                    return f"{group} has members, and no client"
                continue
            if state is None or state.phase is not ClassicPhase.STABLE:
                return f"{group} is not stable"
            ids = {one.member_id for one in state.members}
            if ids != {one.member_id for one in living.values()}:
                return f"{group}: {sorted(ids)} are members, {sorted(living)} live"
            for one in living.values():
                if one.holds is None or one.holds[0] != state.generation:
                    return f"{one.name} does not live by generation {state.generation}"
        return ""
