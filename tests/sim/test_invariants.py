"""Each checker sees a hand-made violation of its invariant, and stays silent where the rule is
kept.
"""

from __future__ import annotations

import json

import pytest

from consumer.core.messages import Notice, NoticeKind, Seek
from tests.sim.application import Application, Habits, Log, Position
from tests.sim.client import SimPort
from tests.sim.invariants import Checker
from tests.sim.kernel import Host, Kernel
from tests.sim.places import Place, Places
from tests.sim.zookeeper import SimEnsemble
from zkcoord.core.model import TopicPartition
from zkcoord.zk.port import Check, Committed, Create, Delete, Op, SetData

TP = TopicPartition("t", 0)
GROUP = "/consumers/groups/g"
OWNER = f"{GROUP}/owners/t/0"
OFFSET = "/consumers/g/offsets/t/0"


class Bench:
    """A model ensemble with two coordinators and two consumers that do what the test says."""

    def __init__(self) -> None:
        self.kernel = Kernel(1)
        self.zk = SimEnsemble(self.kernel, 1)
        self.apps: list[Application] = []
        self.checker = Checker(
            self.kernel,
            self.zk.tree,
            lambda host: {"k": "coordinator", "c": "consumer", "l": "legacy"}.get(
                host[0], "operator"
            ),
            lambda: self.apps,
        )
        self.checker.role_session = lambda session: self.zk.sessions[session].host.name
        self.zk.observers.append(self.checker.committed)
        self.ports: dict[str, SimPort] = {}
        self.lease: dict[str, int] = {}
        for path in (
            "/consumers",
            "/consumers/g",
            "/consumers/g/offsets",
            "/consumers/g/offsets/t",
        ):
            self.zk.commit([Create(path, b"")], 0, "operator")

    def process(self, name: str) -> SimPort:
        host = Host(self.kernel, name)
        port = self.zk.open_for(host, 4_000).open(lambda event: None)
        self.ports[name] = port
        if name[0] == "c":
            self.lease[name] = 10**9
            log = Log(self.kernel, 10)
            self.apps.append(
                Application(
                    self.kernel,
                    host,
                    log,
                    Habits(),
                    self.checker,
                    lambda message: None,
                    lambda assignment_epoch: self.lease[name] - self.kernel.now,
                    "g",
                )
            )
        self.kernel.run_until(self.kernel.now + 100)
        return port

    def app(self, name: str) -> Application:
        return next(a for a in self.apps if a.host.name == name)

    def do(self, name: str, *ops: Op) -> None:
        session = 0 if name == "operator" else self.ports[name].session_id
        assert isinstance(self.zk.commit(ops, session, name), Committed)

    def elect(self, name: str, epoch: int, first: bool = False) -> None:
        data = json.dumps({"version": 1, "epoch": epoch}).encode()
        if first:
            self.do(name, Create("/consumers/groups", b""))
        self.do(
            name,
            Create("/consumers/coordinator", b"", ephemeral=True),
            SetData("/consumers/groups", data, -1),
        )
        if first:
            for path in (
                GROUP,
                f"{GROUP}/ids",
                f"{GROUP}/owners",
                f"{GROUP}/owners/t",
                f"{GROUP}/channel",
            ):
                self.do("operator", Create(path, b""))

    def join(self, name: str) -> None:
        self.process(name)
        self.do("operator", Create(f"{GROUP}/channel/{name}", b""))
        self.do(name, Create(f"{GROUP}/ids/{name}", b"", ephemeral=True))

    def command(self, coordinator: str, member: str, option: str, epoch: int, seq: int) -> str:
        what = (
            {"ownershipMap": {"t-0": "x"}} if option == "start-fetcher" else {"partitions": ["t-0"]}
        )
        data = json.dumps({"option": option, "epoch": epoch, "seq": seq, **what}).encode()
        path = f"{GROUP}/channel/{member}/{epoch}-{seq}-0"
        self.do(coordinator, Create(path, data))
        return path

    def seen(self) -> list[str]:
        return [v.invariant for v in self.checker.violations]


def _bench() -> Bench:
    """One elected coordinator, two members."""
    bench = Bench()
    bench.process("k1")
    bench.elect("k1", 7, first=True)
    bench.join("c1")
    bench.join("c2")
    assert bench.seen() == []
    return bench


def _own(bench: Bench, member: str, seq: int = 1, offset: bytes = b"0") -> None:
    path = bench.command("k1", member, "start-fetcher", 7, seq)
    ops: list[Op] = [Delete(path), Create(OWNER, member.encode(), ephemeral=True)]
    ops.append(
        SetData(OFFSET, bench.zk.tree.nodes[OFFSET].data, -1)
        if OFFSET in bench.zk.tree.nodes
        else Create(OFFSET, offset)
    )
    bench.do(member, *ops)


def test_paths() -> None:
    for at in (Places.DRAFT, Places.ISOLATED):
        for path, place in (
            (at.leader, Place("leader")),
            (at.root, Place("root")),
            (at.group("g"), Place("group", "g")),
            (f"{at.ids('g')}/c", Place("ids", "g", "c")),
            (f"{at.channels('g')}/c", Place("channel", "g", "c")),
            (f"{at.channels('g')}/c/7-1-0", Place("command", "g", "c", "7-1-0")),
            ("/brokers", Place("other")),
            (at.owner(("g", TP)), Place("owner", "g", partition=TP)),
            (at.offset(("g", TP)), Place("offset", "g", partition=TP)),
            ("/consumers/g/offsets/t", Place("offsets", "g", partition=TopicPartition("t", -1))),
            (at.other_leader, Place("other")),
        ):
            assert at.place_of(path) == place, path
    assert Places.DRAFT.owner(("g", TP)) == OWNER and Places.DRAFT.offset(("g", TP)) == OFFSET


def test_a_whole_story_without_violations() -> None:
    bench = _bench()
    _own(bench, "c1")
    app = bench.app("c1")
    bench.checker.assigned(app, TP, 0)
    bench.checker.handed_out(app, TP, 0, 5)
    bench.checker.processed(app, TP, 5)
    bench.do("c1", Check(f"{GROUP}/ids/c1", 0), SetData(OFFSET, b"5", -1))
    stop = bench.command("k1", "c1", "stop-fetcher", 7, 2)
    bench.do("c1", Delete(stop), Delete(OWNER), SetData(OFFSET, b"5", -1))
    _own(bench, "c2", 3)
    assert bench.seen() == []


def test_i1_an_epoch_that_does_not_rise() -> None:
    bench = _bench()
    bench.process("k2")
    bench.do("operator", Delete("/consumers/coordinator"))
    bench.elect("k2", 7)
    assert bench.seen() == ["I1"]


def test_i1_a_leader_without_an_epoch() -> None:
    bench = _bench()
    bench.process("k2")
    bench.do("operator", Delete("/consumers/coordinator"))
    bench.do("k2", Create("/consumers/coordinator", b"", ephemeral=True))
    assert "I1" in bench.seen()


def test_i2_a_zombie_writes() -> None:
    bench = _bench()
    bench.process("k2")
    bench.do("operator", Delete("/consumers/coordinator"))
    bench.elect("k2", 8)
    assert bench.seen() == []
    bench.command("k1", "c1", "stop-fetcher", 7, 9)
    assert bench.seen() == ["I2"]


def test_i2_a_write_without_a_term() -> None:
    bench = _bench()
    bench.process("k2")
    bench.do("k2", Create(f"{GROUP}/x", b"data"))
    assert bench.seen() == ["I2"]


def test_i3_two_members_fetch() -> None:
    bench = _bench()
    for name in ("c1", "c2"):
        bench.app(name).positions[TP] = Position(0, 0, 0)
    bench.lease["c2"] = bench.kernel.now
    bench.checker.handed_out(bench.app("c1"), TP, 0, 0)
    assert bench.seen() == [], "a lapsed lease fetches nothing"
    bench.lease["c2"] = bench.kernel.now + 1
    bench.checker.handed_out(bench.app("c1"), TP, 0, 0)
    assert bench.seen() == ["I3"]


def test_i3_an_owner_node_is_removed_under_a_live_lease() -> None:
    bench = _bench()
    _own(bench, "c1")
    bench.app("c1").positions[TP] = Position(0, 0, 0)
    bench.do("k1", Delete(OWNER))
    assert "I3" in bench.seen()


def test_i4_an_offset_goes_back_but_an_operator_may() -> None:
    for operator in (False, True):
        bench = _bench()
        _own(bench, "c1", offset=b"0")
        app = bench.app("c1")
        bench.checker.handed_out(app, TP, 0, 9)
        bench.checker.processed(app, TP, 9)
        bench.do("c1", SetData(OFFSET, b"9", -1))
        bench.do("operator" if operator else "c1", SetData(OFFSET, b"4", -1))
        assert bench.seen() == ([] if operator else ["I4"])


def test_i4_an_operator_s_reset_is_overwritten_unless_the_application_heard_of_it() -> None:
    for heard in (False, True):
        bench = _bench()
        _own(bench, "c1", offset=b"0")
        app = bench.app("c1")
        bench.checker.handed_out(app, TP, 0, 9)
        bench.checker.processed(app, TP, 9)
        bench.do("operator", SetData(OFFSET, b"4", -1))
        if heard:
            bench.checker.told(app, Seek(TP, 4, 1))
            bench.checker.processed(app, TP, 6)
        bench.do("c1", SetData(OFFSET, b"6", -1))
        assert bench.seen() == ([] if heard else ["I4"])
    bench = _bench()
    _own(bench, "c1")
    bench.checker.processed(bench.app("c1"), TP, 9)
    bench.do("operator", SetData(OFFSET, b"0", -1))
    bench.do("c1", SetData(OFFSET, b"6", -1))
    assert bench.seen() == ["I4"]  # also to the value that was stored already


def test_i5_a_commit_of_what_is_not_owned_or_not_processed() -> None:
    bench = _bench()
    _own(bench, "c1")
    bench.do("c2", SetData(OFFSET, b"0", -1))
    assert bench.seen() == ["I5"]
    bench = _bench()
    _own(bench, "c1")
    bench.do("c1", SetData(OFFSET, b"3", -1))
    assert bench.seen() == ["I5"]


def test_i18_what_the_application_did_not_commit() -> None:
    for automatic, asked, seen in ((False, False, ["I18"]), (False, True, []), (True, False, [])):
        bench = _bench()
        _own(bench, "c1")
        app = bench.app("c1")
        app.habits.automatic = automatic
        bench.checker.processed(app, TP, 3)
        app.asked = {(TP, 3)} if asked else {(TP, 2)}
        bench.do("c1", SetData(OFFSET, b"3", -1))
        assert bench.seen() == seen


def test_i5_an_owner_node_of_another_session_is_deleted() -> None:
    bench = _bench()
    _own(bench, "c1")
    bench.do("c2", Delete(OWNER))
    assert bench.seen() == ["I5"]


def test_i6_commands_out_of_order() -> None:
    bench = _bench()
    later, earlier = (
        bench.command("k1", "c1", "start-fetcher", 7, 5),
        bench.command("k1", "c1", "stop-fetcher", 7, 4),
    )
    bench.do("c1", Delete(later), Create(OWNER, b"c1", ephemeral=True))
    bench.do("c1", Delete(earlier), Delete(OWNER))
    assert bench.seen() == ["I6"]


def test_i6_an_ack_that_takes_more_than_its_command_says() -> None:
    bench = _bench()
    path = bench.command("k1", "c1", "start-fetcher", 7, 5)
    bench.do("c1", Delete(path), Create(f"{GROUP}/owners/t/1", b"c1", ephemeral=True))
    assert bench.seen() == ["I6"]


def test_i7_a_start_of_what_is_owned_or_started_elsewhere() -> None:
    bench = _bench()
    _own(bench, "c1")
    bench.command("k1", "c2", "start-fetcher", 7, 2)
    assert bench.seen() == ["I7"]
    bench = _bench()
    bench.command("k1", "c1", "start-fetcher", 7, 1)
    bench.command("k1", "c2", "start-fetcher", 7, 2)
    assert bench.seen() == ["I7"]


def test_i11_a_session_with_too_many_owner_paths() -> None:
    bench = _bench()
    topic = "t" * 200
    bench.do("operator", Create(f"{GROUP}/owners/{topic}", b""))
    for first in range(0, 2_400, 400):
        bench.do(
            "c1",
            *[
                Create(f"{GROUP}/owners/{topic}/{p}", b"", ephemeral=True)
                for p in range(first, first + 400)
            ],
        )
    assert "I11" in bench.seen()


def test_i13_a_gap_and_a_start_past_what_was_processed() -> None:
    bench = _bench()
    app = bench.app("c1")
    bench.checker.handed_out(app, TP, 0, 5)
    bench.checker.handed_out(app, TP, 7, 9)
    assert bench.seen() == ["I13"]
    bench = _bench()
    bench.checker.handed_out(bench.app("c1"), TP, 0, 5)
    bench.checker.assigned(bench.app("c2"), TP, 5)
    assert bench.seen() == ["I13"], "handed out, but never processed"


def test_i13_a_stop_that_throws_processed_records_away() -> None:
    bench = _bench()
    _own(bench, "c1")
    app = bench.app("c1")
    bench.checker.assigned(app, TP, 0)
    bench.checker.handed_out(app, TP, 0, 5)
    bench.checker.processed(app, TP, 5)
    stop = bench.command("k1", "c1", "stop-fetcher", 7, 2)
    bench.do("c1", Delete(stop), Delete(OWNER), SetData(OFFSET, b"3", -1))
    assert bench.seen() == ["I13"]


def test_i13_a_reset_that_nobody_made() -> None:
    bench = _bench()
    _own(bench, "c1", offset=b"0")
    bench.do("operator", SetData(OFFSET, b"4", -1))
    bench.checker.told(bench.app("c1"), Seek(TP, 4, 1))
    bench.checker.told(bench.app("c2"), Seek(TP, 4, 1))
    assert bench.seen() == []
    bench.checker.told(bench.app("c1"), Seek(TP, 4, 2))
    assert bench.seen() == ["I13"]


@pytest.mark.parametrize("knows", [True, False])
def test_i13_what_an_old_consumer_wrote_is_a_reset_once_and_only_to_who_does_not_know_it(
    knows: bool,
) -> None:
    bench = _bench()
    bench.process("l1")
    bench.checker.knows_shared = lambda _group, _host: knows
    _own(bench, "c1", offset=b"0")
    bench.do("l1", SetData(OFFSET, b"4", -1))
    bench.checker.told(bench.app("c1"), Seek(TP, 4, 1))
    assert bench.seen() == (["I13"] if knows else [])
    bench.checker.told(bench.app("c1"), Seek(TP, 4, 2))
    assert "I13" in bench.seen()


def test_a_reset_of_an_earlier_topics_offset_may_be_respected_and_then_overwritten() -> None:
    for overwritten in (False, True):
        bench = _bench()
        _own(bench, "c1", offset=b"0")
        for path in ("/brokers", "/brokers/topics", "/brokers/topics/t"):
            bench.do("operator", Create(path, b'{"topic_id":"new"}' if path.endswith("t") else b""))
        bench.do("operator", SetData("/consumers/g/offsets/t", b"1.old", -1))
        bench.do("operator", SetData(OFFSET, b"4", -1))
        if overwritten:
            bench.do("c1", SetData(OFFSET, b"0", -1))
            assert bench.seen() == ["I4"], "it goes back, but overwrites no reset"
        else:
            stop = bench.command("k1", "c1", "stop-fetcher", 7, 2)
            bench.do("c1", Delete(stop), Delete(OWNER), SetData(OFFSET, b"4", -1))
            assert bench.seen() == []


def test_i17_one_quarantine_is_one_warning() -> None:
    bench = _bench()
    failed, over = (
        Notice(kind, {}) for kind in (NoticeKind.REBALANCE_FAILED, NoticeKind.REBALANCE_OVER)
    )
    for message in (failed, over, failed):
        bench.checker.told(bench.app("c1"), message)
    assert bench.seen() == []
    bench.checker.told(bench.app("c1"), failed)
    assert bench.seen() == ["I17"]
