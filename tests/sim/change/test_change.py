"""The world of a group that changes from one kind to the other: its checkers see hand-made
violations, its clients assign as they should, and without faults it goes to and fro.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from consumer.gateway.wire.subscription import ClientSubscription, encode_assignment
from tests.sim.change.client import assigned
from tests.sim.change.leading import COOPERATIVE, assign
from tests.sim.change.wires import ChangeWires
from tests.sim.plan import Plan, WirePlan
from tests.sim.tree import Rec, Txn
from tests.sim.wire_client import WireClient
from tests.sim.wire_witness import At
from tests.sim.world import World
from zkcoord.core.classic.requests import BlobRef
from zkcoord.core.classic.state import ClassicMember, ClassicPhase, ClassicState
from zkcoord.core.model import TopicPartition
from zkcoord.zk.port import Check
from zkcoord.znodes.classic.documents import blob_digest, encode_state
from zkcoord.znodes.classic.pin import Machine

ROOT = Path(__file__).parents[3]
TP, OTHER = TopicPartition("t0", 0), TopicPartition("t0", 1)
KEY = ("g0", TP)


class Scene:
    """A world in which nothing happens by itself, with two clients."""

    def __init__(self) -> None:
        plan = WirePlan(static_chance=0.0, change="eager")
        self.world = World(1, plan=Plan(topics=1, wire=plan))
        assert isinstance(self.world.wires, ChangeWires)
        self.wires = self.world.wires
        self.checker = self.wires.checker
        self.one, self.two = self.client("a"), self.client("b")

    def client(self, member_id: str) -> WireClient:
        """A client with this member id, without a connection."""
        made = self.wires.add_client("g0")
        made.member_id = member_id
        made.link.answered_ms = self.world.kernel.now
        return made

    def decides(self, generation: int, **given: tuple[TopicPartition, ...]) -> None:
        """A coordinator writes what these members have."""
        members = tuple(
            ClassicMember(name, None, "c", "h", 6_000, 6_000, (("range", b""),), self._blob(tps))
            for name, tps in given.items()
        )
        phase = ClassicPhase.STABLE if members else ClassicPhase.EMPTY
        state = ClassicState(phase, generation, "consumer", "range", next(iter(given)), members)
        self.does(7, "k1", self.checker.paths.state("g0"), encode_state(state))

    def _blob(self, partitions: tuple[TopicPartition, ...]) -> BlobRef | bytes:
        if not partitions:
            return b""
        data = encode_assignment(partitions)
        ref = BlobRef(blob_digest(data), len(data))
        path = self.checker.paths.blob("g0", ref.digest)
        self.world.zk.tree.nodes[path] = Rec(data, 1, 1, 0, 0, 0)
        return ref

    def owns(self, session: int) -> None:
        """A member of the other kind owns the partition."""
        self.does(session, "w1", self.world.places.owner(KEY), b"x", session)

    def stores(self, offset: int) -> None:
        """A gateway stores an offset of a member whom a leader assigns."""
        fence = Check(self.checker.paths.state("g0"), 1)
        self.does(9, "w1", self.world.places.offset(KEY), b"%d" % offset, 0, (fence,))

    def does(
        self,
        session: int,
        host: str,
        path: str,
        data: bytes,
        owner: int = 0,
        ops: tuple[Check, ...] = (),
    ) -> None:
        """One transaction."""
        made = Rec(data, 1, 1, 0, 0, owner)
        self.world.zk.tree.nodes[path] = made
        self.world.zk.tree.children.setdefault(path, {})
        self.checker.committed(Txn(1, 0, session, host, "multi", ops, [(path, None, made)]))

    def is_given(self, client: WireClient, generation: int, *partitions: TopicPartition) -> None:
        """A client's SyncGroup is answered."""
        client.generation = generation
        client.positions.update((tp, At()) for tp in partitions)
        self.checker.synced(client, generation, bool(partitions))
        self.checker.given(client, partitions)

    @property
    def broken(self) -> list[str]:
        """The invariants that were."""
        return [violation.invariant for violation in self.world.checker.violations]


def test_c1_owners_and_what_a_leader_has_given() -> None:
    scene = Scene()
    scene.decides(1, a=())
    scene.owns(8)
    assert scene.broken == [], "it has nothing yet"
    scene.decides(1, a=(OTHER,))
    assert scene.broken == ["G1"]


def test_c1_clients_of_both_kinds() -> None:
    scene = Scene()
    scene.decides(1, a=(TP,))
    scene.is_given(scene.one, 1, TP)
    assert scene.broken == []
    scene.two.positions[OTHER] = At()
    scene.checker.given(scene.two, [])
    scene.checker.handed_out(scene.one, TP, 0, 1)
    assert scene.broken == ["G1"]


def test_w2_two_of_one_leader() -> None:
    scene = Scene()
    scene.decides(1, a=(TP,), b=(TP,))
    scene.is_given(scene.one, 1, TP)
    scene.is_given(scene.two, 1, TP)
    assert scene.broken == ["W2"]


def test_who_is_out_for_a_reason_may_believe_otherwise() -> None:
    scene = Scene()
    for client in (scene.one, scene.two):
        client.troubled_ms = -10_000
    scene.decides(1, a=(TP,), b=())
    scene.is_given(scene.one, 1, TP)
    scene.one.host.pause()
    scene.decides(2, b=(TP,))
    scene.one.host.resume()
    scene.is_given(scene.two, 2, TP)
    assert scene.broken == []


@pytest.mark.parametrize(("generation", "broken"), [(1, []), (2, ["G2"])])
def test_c2_who_commits_is_of_the_generation_that_is_decided(
    generation: int, broken: list[str]
) -> None:
    scene = Scene()
    scene.one.asked_as.add((TP, 5, "a", 1))
    scene.decides(generation, a=(TP,))
    scene.stores(5)
    assert scene.broken == broken


def test_c3_generations_do_not_go_back() -> None:
    scene = Scene()
    scene.decides(2, a=(TP,))
    scene.decides(1, a=(TP,))
    assert scene.broken == ["G3"]


def test_c3_what_is_given_was_decided() -> None:
    scene = Scene()
    scene.decides(1, a=(TP,))
    scene.is_given(scene.one, 1, OTHER)
    assert scene.broken == ["G3"]


def test_in_the_end_the_pin_says_who_runs_it() -> None:
    scene = Scene()
    assert scene.wires.pinned("g0") is None
    scene.wires.pin("g0", Machine.CLIENT_LED)
    assert "is led by no client" in scene.wires.unsettled("g0")
    scene.wires.pin("g0", Machine.COORDINATED)
    scene.decides(1, a=(TP,))
    assert "are members that a client leads" in scene.wires.unsettled("g0")
    scene.wires.pin("g0", None)
    assert "has not joined" in scene.wires.unsettled("g0")


# who leads


def subscribes(*owned: TopicPartition) -> ClientSubscription:
    """To the topic, and has these."""
    return ClientSubscription(("t0",), frozenset(owned))


def four(_: str) -> int:
    """How many partitions a topic has."""
    return 4


def parts(*numbers: int) -> set[TopicPartition]:
    """Some of them."""
    return {TopicPartition("t0", number) for number in numbers}


@pytest.mark.parametrize("protocol", ["range", "sticky"])
def test_everything_is_somebodys(protocol: str) -> None:
    given = assign(protocol, {name: subscribes() for name in "abc"}, four)
    assert sorted(map(len, given.values())) == [1, 1, 2]
    assert set.union(*given.values()) == parts(0, 1, 2, 3)


def test_what_somebody_has_is_given_to_nobody_else_before_he_gave_it_up() -> None:
    members = {"a": subscribes(*parts(0, 1, 2, 3)), "b": subscribes()}
    given = assign(COOPERATIVE, members, four)
    assert len(given["a"]) == 2 and given["b"] == set()
    after = {"a": subscribes(*given["a"]), "b": subscribes()}
    assert assign(COOPERATIVE, after, four) == {
        "a": given["a"],
        "b": parts(0, 1, 2, 3) - given["a"],
    }


def test_what_two_say_to_have_is_nobodys() -> None:
    members = {"a": subscribes(*parts(0, 1)), "b": subscribes(*parts(1, 2))}
    given = assign(COOPERATIVE, members, four)
    assert not any(TopicPartition("t0", 1) in has for has in given.values())


def test_an_assignment_is_read_as_it_is_written() -> None:
    assert assigned(encode_assignment(parts(0, 3))) == parts(0, 3)
    assert assigned(b"") == set()


# worlds


def test_without_faults_a_group_goes_to_and_fro() -> None:
    wire = WirePlan(
        gateways=2, clients=3, static_chance=0.3, session_ms=(6_000,), change="cooperative"
    )
    wire.cooperative_chance = 1.0
    plan = Plan(coordinators=2, consumers=0, topics=2, safety_ms=60_000, wire=wire)
    world = World(3, plan=plan)
    assert isinstance(world.wires, ChangeWires)
    wires = world.wires
    for number, word in enumerate((Machine.CLIENT_LED, Machine.COORDINATED) * 2, 1):
        world.kernel.at(number * 12_000, lambda word=word: wires.pin("g0", word))  # type: ignore[misc]
    result = world.run()
    assert not result.violations
    assert result.happened["clients lead"] >= 2 and result.happened["clients lead no more"] >= 2
    assert not result.happened["wire client lost all: ILLEGAL_GENERATION"]
    assert result.happened["commit by a led member"] > 20


def test_a_seed_is_the_same_run_whatever_the_hash_seed() -> None:
    digests = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        asked = ["-m", "tests.sim", "--mix", "change", "--digest", "--seeds", "3", "--start", "7"]
        run = subprocess.run(
            [sys.executable, *asked],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        digests.append(run.stdout)
    assert digests[0] == digests[1] and len(digests[0].splitlines()) == 3
