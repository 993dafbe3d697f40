"""What must hold of clients of a group that goes from one kind to the other and back, beside what
holds of clients of gateways (`tests.sim.wire_invariants`): W1, W2, W4 and W7 hold whichever kind
it is of.

G1 at no time do members of both kinds hold partitions of one group: in ZooKeeper, owner nodes and
what a leader has assigned; among clients, such as may hold something; G2 what is stored for a
client whom no coordinator assigns is what it asked for, as a member of the generation that is
decided; G3 generations that are decided do not go back, and what a client is given was decided for
it; G4 no cooperative client that owns something is told, as it joins, that it is nobody. That the
group is of the right kind in the end is judged there (`tests.sim.change.wires`).

A client that a leader has given something loses it where it is no member any more; it may believe
otherwise for a while only for a reason: it was away, its gateway was, it joined too late, or
another client has its instance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from tests.sim.places import Key
from tests.sim.tree import Txn
from tests.sim.wire_client import WireClient
from tests.sim.wire_invariants import GATEWAY, WireChecker
from zkcoord.core.classic.requests import BlobRef
from zkcoord.core.classic.state import ClassicMember, ClassicPhase, ClassicState
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Malformed, TopicPartition
from zkcoord.zk.port import Check
from zkcoord.znodes.classic.assigned import partitions_of
from zkcoord.znodes.classic.documents import ClassicRound, decode_round, decode_state
from zkcoord.znodes.classic.paths import ClassicPaths, ClassicRoundAt, ClassicStateAt
from zkcoord.znodes.paths import Layout

JUST_NOW_MS = 3_000
SLACK_MS = 100
MOMENT_MS = 200
NOBODY = ClassicState(ClassicPhase.EMPTY, 0)


class ChangeChecker(WireChecker):
    """See the module."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        isolated = self.checker.places.home == "/consumers"
        self.paths = ClassicPaths(Layout.ISOLATED if isolated else Layout.DRAFT)
        self.states: dict[str, ClassicState] = {}
        self.begun_ms: dict[str, tuple[int, int]] = {}  # generation that is over, and since when
        self.changed_ms: dict[str, int] = {}  # when an operator said something last
        self.led_ids: dict[str, set[str]] = defaultdict(set)  # all that ever were
        self.is_led: dict[str, bool] = {}  # by client: who has given it what it has
        self.decided: dict[tuple[str, int, str], set[TopicPartition]] = {}
        self._owners: dict[str, set[str]] = defaultdict(set)
        # When a client was given out for nobody, and when its member gave a partition up, last.
        self._out_ms: dict[str, int] = {}
        self._given_up_ms: dict[tuple[str, TopicPartition], int] = {}

    def state(self, group: str) -> ClassicState:
        """What was decided last of a group that clients lead, or have led."""
        return self.states.get(group, NOBODY)

    def member(self, client: WireClient) -> ClassicMember | None:
        """A client, as a member of its group that one of them leads."""
        members = self.state(client.habits.group).members
        return next((one for one in members if one.member_id == client.member_id), None)

    def owns(self, client: WireClient, partition: TopicPartition) -> bool:
        """See `WireChecker`."""
        if not self.is_led.get(client.host.name):
            return super().owns(client, partition)
        return self.is_current(client)

    def is_current(self, client: WireClient) -> bool:
        """Whether it is a member of the generation in which it believes to be."""
        same = self.state(client.habits.group).generation == client.generation
        return same and self.member(client) is not None

    # transactions

    def committed(self, txn: Txn) -> None:
        """See `WireChecker`."""
        super().committed(txn)
        touched = set()
        for path, _, after in txn.changes:
            place, where = self.checker.places.place_of(path), self.paths.locate(path)
            if place.kind == "owner":
                owners = self._owners[place.group]
                (owners.discard if after is None else owners.add)(path)
                touched.add(place.group)
            elif isinstance(where, ClassicStateAt):
                self._decided(where.group, after.data if after is not None else None)
                touched.add(where.group)
            elif isinstance(where, ClassicRoundAt) and after is not None:
                self._round(where.group, after.data)
        for group in sorted(touched):
            self._one_kind(group)

    def _round(self, group: str, data: bytes) -> None:
        found = decode_round(group, data)
        if not isinstance(found, ClassicRound) or found.rebalances is None:
            return
        generation, _ = self.begun_ms.get(group, (-1, 0))
        if found.rebalances > generation:
            self.begun_ms[group] = found.rebalances, self.kernel.now

    def _decided(self, group: str, data: bytes | None) -> None:
        before = self.state(group)
        after = NOBODY if data is None else decode_state(group, data)
        if isinstance(after, Malformed):
            self.checker.violate("G3", f"{group}: {after.reason}")
            return
        self.states[group] = after
        self.led_ids[group].update(one.member_id for one in after.members)
        if after.generation < before.generation and data is not None:
            self.checker.violate("G3", f"{group}: {after.generation} after {before.generation}")
        if after.members and not before.members:
            self.kernel.happened["clients lead"] += 1
        elif before.members and not after.members:
            self.kernel.happened["clients lead no more"] += 1
        for one in after.members if after.phase is ClassicPhase.STABLE else ():
            self.decided[group, after.generation, one.instance or one.member_id] = self.given_to(
                group, one
            )
        stay = {one.member_id for one in after.members}
        for one in before.members:
            if one.member_id not in stay:
                self._is_out(group, one, before, after)
        if after.phase is ClassicPhase.STABLE:
            self._misses(group, after)

    def _misses(self, group: str, state: ClassicState) -> None:
        """Who has an instance stays a member without joining, and may not hear that what it has is
        given to others; so it is with Kafka's own coordinator (KIP-345).
        """
        instances = {one.member_id: one.instance for one in state.members if one.instance}
        for client in self.clients():
            behind = client.habits.group == group and client.generation < state.generation
            why = self.away(client) if behind and client.member_id in instances else ""
            if why:
                now = self.decided[group, state.generation, instances[client.member_id]]
                for tp in client.positions.keys() - now:
                    self.of(client).excused.setdefault(tp, why)

    def given_to(self, group: str, member: ClassicMember) -> set[TopicPartition]:
        """What its leader has given a member."""
        blob = member.assignment
        if isinstance(blob, BlobRef):
            node = self.checker.tree.nodes.get(self.paths.blob(group, blob.digest))
            blob = node.data if node is not None else b""
        return set(partitions_of(blob) or ())

    def _is_out(
        self, group: str, one: ClassicMember, before: ClassicState, after: ClassicState
    ) -> None:
        """Who is no member any more believes for a while that it is."""
        for client in self.clients():
            if client.member_id != one.member_id or client.habits.group != group:
                continue
            if not client.host.alive or not client.positions:
                continue
            self._out_ms[client.host.name] = self.kernel.now
            why = self._why_out(client, one, before, after)
            self.kernel.happened[f"out of a led group: {why or 'no reason'}"] += 1
            self.kernel.trace(client.host.name, f"is out of {group}: {why or 'no reason'}")
            if why:
                for tp in client.positions:
                    self.of(client).excused.setdefault(tp, why)

    def _why_out(
        self, client: WireClient, one: ClassicMember, before: ClassicState, after: ClassicState
    ) -> str:
        if self.kernel.now - client.troubled_ms < JUST_NOW_MS:
            return "paused"
        why = self.away(client)
        if why:
            return why
        others = {other.instance for other in after.members if other.instance is not None}
        if one.instance in others:
            return "another client has its instance"
        connected_ms = getattr(client, "connected_ms", -1)
        if client.connection is None or self.kernel.now - connected_ms < JUST_NOW_MS:
            return "it has just come to a gateway"
        if not self.is_well(client.connection.gateway):
            return "its gateway is not well"
        generation, begun_ms = self.begun_ms.get(client.habits.group, (-1, 0))
        longest = max(other.rebalance_timeout_ms for other in before.members)
        if generation == before.generation and self.kernel.now >= begun_ms + longest - SLACK_MS:
            return "it joined too late"
        return ""

    def _disowned(self, txn: Txn, key: Key, session: int) -> None:
        super()._disowned(txn, key, session)
        for client in self._having(*key):
            if self.instance_of(session) == self.instance(client):
                self._given_up_ms[client.host.name, key[1]] = self.kernel.now

    def _one_kind(self, group: str) -> None:
        """G1, in ZooKeeper."""
        if not self._owners[group]:
            return
        for one in self.state(group).members:
            given = self.given_to(group, one)
            if given:
                self.checker.violate(
                    "G1",
                    f"{group}: {one.member_id} has {sorted(given)} of its leader, and there is"
                    f" {min(self._owners[group])}",
                )

    # offsets

    def commits_by_state(self, txn: Txn, group: str) -> bool:
        """Whether a gateway stores offsets of a member whom a leader assigns."""
        first = txn.ops[0] if txn.ops else None
        led = isinstance(first, Check) and first.path == self.paths.state(group)
        return led and txn.host[:1] == GATEWAY

    def _stored(self, txn: Txn, key: Key, data: bytes) -> None:
        if not self.commits_by_state(txn, key[0]):
            return super()._stored(txn, key, data)
        if not self._askers(key, data):
            self.checker.violate(
                "G2",
                f"{txn.host} stored {key[1]}={data!r}, which no member of generation"
                f" {self.state(key[0]).generation} has committed",
            )
        self.kernel.happened["commit by a led member"] += 1
        return None

    def _askers(self, key: Key, data: bytes) -> list[WireClient]:
        """The clients that have asked for that, as members of the generation that there is."""
        group, tp = key
        state = self.state(group)
        offset = int(data) if data.isdigit() else -1
        as_members = [(tp, offset, one.member_id, state.generation) for one in state.members]
        return [
            client
            for client in self.clients()
            if client.habits.group == group and not client.asked_as.isdisjoint(as_members)
        ]

    def position(self, txn: Txn, key: Key) -> int | None:
        """See `WireChecker`."""
        if not self.commits_by_state(txn, key[0]):
            return super().position(txn, key)
        path = self.checker.places.offset(key)
        data = next(a.data for p, _, a in txn.changes if p == path and a is not None)
        known = [self.of(client) for client in self._askers(key, data)]
        return max((one.position.get(key[1], 0) for one in known), default=0)

    # clients

    def synced(self, client: WireClient, generation: int, given: bool) -> None:
        """See `WireWitness`. The empty assignment of a gateway, in a generation that goes on, is
        none that was decided.
        """
        group, name, known = client.habits.group, client.host.name, self.of(client)
        led = client.member_id in self.led_ids[group]
        self.is_led[name] = led
        if not led:
            return super().synced(client, generation, given)
        known.names.add(self.instance(client))
        decided = self.decided.get((group, generation, client.habits.instance or client.member_id))
        if given and decided is None:
            self.checker.violate("G3", f"{name} is given what nobody has decided")
        if known.member_id == client.member_id and generation < known.generation:
            self.checker.violate("G3", f"{name} is in {generation} after {known.generation}")
        known.member_id, known.generation = client.member_id, generation
        if self.is_current(client):
            known.excused.clear()
        return None

    def given(self, client: WireClient, added: Collection[TopicPartition]) -> None:
        """See `WireWitness`."""
        if self.is_led.get(client.host.name):
            who = client.habits.instance or client.member_id
            decided = self.decided.get((client.habits.group, client.generation, who), set())
            if not set(added) <= decided:
                self.checker.violate(
                    "G3", f"{client.host.name} is given {sorted(added)}, not {sorted(decided)}"
                )
        super().given(client, added)

    def _alone(self, client: WireClient, tp: TopicPartition) -> None:
        super()._alone(client, tp)
        mine = self.is_led.get(client.host.name, False)
        if self.of(client).excused.get(tp):
            return
        for other in self.clients():
            if (
                other is client
                or not other.host.alive
                or not other.positions
                or other.habits.group != client.habits.group
                or self.is_led.get(other.host.name, False) == mine
                or self.away(other)
            ):
                continue
            held = sorted(other.positions.keys() - self.of(other).excused.keys())
            if held:
                self.checker.violate(
                    "G1",
                    f"{client.host.name} has {tp} of {_giver(mine)}, {other.host.name} has"
                    f" {held[0]} of {_giver(not mine)}",
                )

    def loses(self, client: WireClient, code: WireCode) -> None:
        """G4: a client that joins is told this, and loses all that it has."""
        if code is not WireCode.UNKNOWN_MEMBER_ID or not client.habits.cooperative:
            return
        since_ms = max(client.troubled_ms, getattr(client, "connected_ms", 0))
        if self.away(client) or self.kernel.now - since_ms < JUST_NOW_MS:
            return
        if client.connection is None or not self.is_well(client.connection.gateway):
            return
        for tp in sorted(client.positions.keys() - self.of(client).excused.keys()):
            if self._has_or_had(client, tp):
                self.checker.violate("G4", f"{client.host.name} owns {tp}, and is nobody: {code}")
                return

    def _has_or_had(self, client: WireClient, tp: TopicPartition) -> bool:
        name = client.host.name
        if self.is_led.get(name):
            out_ms, is_in = self._out_ms.get(name, -MOMENT_MS), self.member(client) is not None
        else:
            out_ms, is_in = self._given_up_ms.get((name, tp), -MOMENT_MS), self.owns(client, tp)
        return is_in or self.kernel.now - out_ms < MOMENT_MS

    def leaves(self, client: WireClient, had: Collection[TopicPartition]) -> None:
        """See `WireWitness`. W6 is judged where nothing changes: who takes over what is left may
        else have to join at another place first.
        """
        group = client.habits.group
        since_ms = self.kernel.now - self.changed_ms.get(group, -JUST_NOW_MS * 100)
        if not self.state(group).members and since_ms > 10 * JUST_NOW_MS:
            super().leaves(client, had)


def _giver(led: bool) -> str:
    return "its leader" if led else "the coordinator"
