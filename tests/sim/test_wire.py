"""What is judged of gateways' clients, shown by what breaks it; weakened gateways show the rest."""

from __future__ import annotations

import pytest

from consumer.gateway.wire.requests import BeatAnswer
from tests.sim.plan import Plan, WirePlan
from tests.sim.tree import Rec, Txn
from tests.sim.wire_client import WireClient
from tests.sim.wire_witness import At
from tests.sim.world import World
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Departed, GroupMetadata, TopicPartition
from zkcoord.zk.port import Create, SetData
from zkcoord.znodes.metadata import encode_metadata

TP = TopicPartition("t0", 0)
KEY = ("g0", TP)


class Scene:
    """A world in which nothing happens by itself."""

    def __init__(self) -> None:
        self.world = World(1, plan=Plan(topics=1, wire=WirePlan(static_chance=0.0)))
        assert self.world.wires is not None
        self.wires = self.world.wires
        self.checker = self.wires.checker
        self.one, self.two = self.client("a"), self.client("b")

    def client(self, member_id: str) -> WireClient:
        """A client with this member id, without a connection."""
        made = self.wires.add_client("g0")
        made.member_id = member_id
        made.link.answered_ms = self.world.kernel.now
        self.checker.of(made).names.add(self.checker.instance(made))
        return made

    def owns(self, client: WireClient, session: int) -> None:
        """The client's member is registered and owns the partition."""
        instance = self.checker.instance(client)
        data = b'{"instance":"%s"}' % instance.encode()
        self._does(session, f"/consumers/groups/g0/ids/{session}", data)
        self._does(session, self.world.places.owner(KEY), b"x")

    def stores(self, session: int, offset: int) -> None:
        """A gateway stores an offset under a session."""
        self._does(session, self.world.places.offset(KEY), b"%d" % offset, 0)

    def _does(self, session: int, path: str, data: bytes, owner: int | None = None) -> None:
        made = Rec(data, 1, 1, 0, 0, session if owner is None else owner)
        self.world.zk.tree.nodes[path] = made
        above, _, name = path.rpartition("/")
        self.world.zk.tree.children.setdefault(above, {})[name] = None
        self.checker.committed(Txn(1, 0, session, "w1", "multi", (), [(path, None, made)]))

    @property
    def broken(self) -> list[str]:
        """The invariants that were."""
        return [violation.invariant for violation in self.world.checker.violations]


def test_w1_what_is_stored_was_asked_for() -> None:
    scene = Scene()
    scene.owns(scene.one, 7)
    scene.one.asked.add((TP, 5))
    scene.stores(7, 5)
    assert scene.broken == []
    scene.stores(7, 6)
    assert scene.broken == ["W1"]


def test_w2_a_partition_is_in_two_hands() -> None:
    scene = Scene()
    for client in (scene.one, scene.two):
        client.link.gone_ms = None
        client.positions[TP] = At()
    scene.owns(scene.two, 8)
    scene.checker.given(scene.two, [TP])
    assert scene.broken == ["W2"]


def test_w2_who_is_paused_has_nothing() -> None:
    scene = Scene()
    for client in (scene.one, scene.two):
        client.positions[TP] = At()
    scene.owns(scene.two, 8)
    scene.one.host.pause()
    scene.checker.given(scene.two, [TP])
    assert scene.broken == []


def test_w4_a_generation_that_was_remembered_does_not_fall() -> None:
    scene = Scene()
    path = f"/consumers/groups/g0/clients/{scene.checker.instance(scene.one)}"
    above = [path.rsplit("/", n)[0] for n in (3, 2, 1)]
    scene.world.operator(*(Create(p, b"") for p in above), Create(path, b'{"generation":5}'))
    scene.checker.synced(scene.one, 5, True)
    scene.world.operator(SetData(path, b'{"generation":4}', -1))
    scene.checker.synced(scene.one, 4, True)
    assert scene.broken == ["W4"]


def test_w5_a_request_is_answered_twice() -> None:
    scene = Scene()
    gateway = scene.wires.add_gateway()
    gateway._answered(1, BeatAnswer(WireCode.NONE))
    assert scene.broken == ["W5"]


@pytest.mark.parametrize(("processed", "acked", "begins"), [(3, 0, 4), (9, 8, 7)])
def test_w7_a_client_begins_where_it_must_not(processed: int, acked: int, begins: int) -> None:
    scene = Scene()
    scene.world.checker.part(KEY).processed = processed
    scene.checker.acked(scene.one, TP, acked, 0)
    scene.checker.begins(scene.one, TP, begins, 0)
    assert scene.broken == ["W7"]


@pytest.mark.parametrize(
    ("goodbye", "fine", "own", "kept"),
    [
        (False, True, False, True),
        (True, True, False, False),
        (True, False, False, True),
        (False, True, True, False),
    ],
)
def test_w6_what_waits_for_one_that_is_away(
    goodbye: bool, fine: bool, own: bool, kept: bool
) -> None:
    scene = Scene()
    path, group = "/consumers/groups/g0/ids/7", scene.world.places.group("g0")
    scene.checker.is_fine = lambda: fine
    for grace_ms in ("9", "0") if goodbye else ("9",):
        scene._does(7, path, b'{"instance":"i","grace_ms":"%s"}' % grace_ms.encode())
    before = scene.world.zk.tree.nodes[path]
    scene.checker.committed(Txn(2, 0, 7, "w1", "close", (), [(path, before, None)]))
    report = GroupMetadata(1, departed=(Departed("i", (TP,), 5, 9),))
    scene._does(0, group, encode_metadata(report))
    assert scene.checker._is_kept("g0", TP, "i" if own else "leaver") is kept
    assert not scene.checker._is_kept("g0", TopicPartition("t0", 1), "leaver")


def test_w5_who_is_fenced_has_a_successor() -> None:
    scene = Scene()
    for client in (scene.one, scene.two):
        client.habits.instance = "i"
    scene.checker.fenced(scene.one)
    assert scene.broken == []
    scene.checker.fenced(scene.two)
    assert scene.broken == ["W5"]


def test_w7_records_are_skipped() -> None:
    scene = Scene()
    scene.checker.handed_out(scene.one, TP, 3, 5)
    assert scene.broken == ["W7"]
