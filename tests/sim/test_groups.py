"""Each check of `groups.py` sees a hand-made violation of its rule, and stays silent where the rule
is kept.
"""

from __future__ import annotations

import json

from tests.sim.groups import REST_MS, TERM_MS, WINDOW_MS
from tests.sim.test_invariants import GROUP, Bench
from zkcoord.zk.port import Create, Delete, SetData

GRACE_MS = 5_000


class GroupBench(Bench):
    """One elected coordinator, and members that say what they are."""

    def __init__(self) -> None:
        super().__init__()
        self.process("k1")
        self.elect("k1", 7, first=True)
        self.pass_ms(TERM_MS)

    def pass_ms(self, duration_ms: int) -> None:
        self.kernel.run_until(self.kernel.now + duration_ms)

    def register(self, name: str, instance: str = "", replaces: str = "", **extras: str) -> None:
        data = json.dumps(
            {
                "version": 1,
                "subscription": {"t": 1},
                "grace_ms": str(GRACE_MS if instance else 0),
                "instance": instance,
                **extras,
            }
        ).encode()
        if name not in self.ports:
            self.process(name)
        self.do(name, Create(f"{GROUP}/channel/{name}", b""))
        self.do(
            name,
            *([Delete(f"{GROUP}/ids/{replaces}")] if replaces else []),
            Create(f"{GROUP}/ids/{name}", data, ephemeral=True),
        )

    def report(self, state: str, members: int, generation: int = 1, ownership: str = "") -> None:
        self.pass_ms(1)
        self.do(
            "k1",
            SetData(
                GROUP,
                json.dumps(
                    {
                        "generation": generation,
                        "state": state,
                        "members": members,
                        "ownership": ownership,
                    }
                ).encode(),
                -1,
            ),
        )

    def incarnation(self, member: str) -> str:
        return str(self.zk.tree.nodes[f"{GROUP}/ids/{member}"].czxid)

    def notify(self, by: str, member: str, seq: int, epoch: int = 7) -> str:
        path = f"{GROUP}/channel/{member}/{epoch}-{seq}-0"
        self.do(
            by,
            Create(
                path,
                json.dumps(
                    {
                        "option": "notify",
                        "epoch": epoch,
                        "seq": seq,
                        "generation": 1,
                        "code": "REBALANCE_FAILED",
                    }
                ).encode(),
            ),
        )
        return path

    def send(
        self,
        member: str,
        option: str,
        seq: int,
        generation: int = 1,
        partition: str = "t-0",
        thread: str = "x",
        state: str = "",
        by: str = "k1",
        epoch: int = 7,
        incarnation: str = "",
    ) -> str:
        what = (
            {"ownershipMap": {partition: thread}}
            if option == "start-fetcher"
            else {"partitions": [partition]}
        )
        path = f"{GROUP}/channel/{member}/{epoch}-{seq}-0"
        data = json.dumps(
            {
                "option": option,
                "epoch": epoch,
                "seq": seq,
                "generation": generation,
                "incarnation": incarnation,
                **what,
            }
        ).encode()
        report = (
            [SetData(GROUP, json.dumps({"generation": generation, "state": state}).encode(), -1)]
            if state
            else []
        )
        self.do(by, Create(path, data), *report)
        return path

    def leave(self, name: str) -> None:
        self.zk.end_session(self.ports[name].session_id)


def _rested() -> GroupBench:
    """Two static members and a third, at rest."""
    bench = GroupBench()
    for number in (1, 2, 3):
        bench.register(f"c{number}", f"i{number}")
    bench.report("Stable", 3)
    bench.pass_ms(REST_MS)
    assert bench.seen() == []
    return bench


def test_i16_a_member_that_stayed_is_commanded() -> None:
    bench = _rested()
    bench.leave("c1")
    bench.send("c2", "stop-fetcher", 1)
    assert bench.seen() == ["I16"]


def test_i16_is_not_judged_of_a_group_that_was_reported_as_it_was_before() -> None:
    """A paused coordinator wakes and reports what it knew: as many members as there are, but one of
    them was replaced meanwhile, and its successor has yet to be started.
    """
    for owner, rules in (("c1", []), ("c4", ["I16"])):
        bench = GroupBench()
        for number in (1, 2, 3):
            bench.register(f"c{number}", f"i{number}")
        bench.register("c4", "i1", replaces="c1")
        bench.report("Stable", 3, ownership=f"{owner}=t[0] c2=t[1-2]")
        bench.pass_ms(REST_MS)
        bench.leave("c2")
        bench.send("c4", "start-fetcher", 1)
        assert bench.seen() == rules, owner


def test_i16_the_one_that_comes_back_is_commanded() -> None:
    bench = _rested()
    bench.leave("c1")
    bench.register("c4", "i1")
    bench.send("c4", "start-fetcher", 1)
    bench.register("c5", "i2", replaces="c2")
    bench.send("c5", "start-fetcher", 2, partition="t-1")
    assert bench.seen() == []
    bench.send("c3", "start-fetcher", 3, partition="t-2")
    assert bench.seen() == ["I16"], "the promise lasts also when they are back"


def test_i16_is_not_judged_once_a_grace_is_over_or_anything_else_happened() -> None:
    for what in ("grace", "stranger", "topic", "operator", "evicted", "other wishes"):
        bench = _rested()
        bench.leave("c1")
        if what == "grace":
            bench.pass_ms(GRACE_MS)
        elif what == "stranger":
            bench.register("c9")
        elif what == "topic":
            bench.do(
                "operator",
                Create("/brokers", b""),
                Create("/brokers/topics", b""),
                Create("/brokers/topics/t", b""),
            )
        elif what == "operator":
            bench.do("operator", Create(f"{GROUP}/owners/t/7", b""))
        elif what == "evicted":
            bench.do("k1", Delete(f"{GROUP}/ids/c3"))
        else:
            bench.register("c4", "i1", user_data="other")
        bench.send("c2", "stop-fetcher", 1)
        assert bench.seen() == [], what


def test_i16_is_not_judged_of_a_group_that_was_not_at_rest() -> None:
    bench = GroupBench()
    for number in (1, 2):
        bench.register(f"c{number}", f"i{number}")
    bench.report("Stable", 1)
    bench.pass_ms(REST_MS)
    bench.leave("c1")
    bench.send("c2", "start-fetcher", 1)
    assert bench.seen() == []


def test_i15_a_start_while_a_stop_is_outstanding() -> None:
    for eager in (True, False):
        bench = GroupBench()
        bench.checker.groups.eager = eager
        bench.register("c1")
        bench.register("c2")
        stop = bench.send("c1", "stop-fetcher", 1)
        bench.send("c2", "start-fetcher", 2, partition="t-1")
        assert bench.seen() == (["I15"] if eager else [])
        bench.do("c1", Delete(stop))
        bench.send("c1", "start-fetcher", 3, partition="t-2")
        assert len(bench.seen()) == eager


def test_i15_a_stop_of_a_member_that_is_gone_holds_nobody_up() -> None:
    bench = GroupBench()
    bench.checker.groups.eager = True
    bench.register("c1")
    bench.register("c2")
    bench.send("c1", "stop-fetcher", 1)
    bench.leave("c1")
    bench.send("c2", "start-fetcher", 2)
    assert bench.seen() == []


def test_i17_commands_in_a_quarantined_group_and_before_its_backoff_is_over() -> None:
    for after_ms, state, seen in (
        (0, "", ["I17"]),
        (500, "PreparingRebalance", ["I17"]),
        (1_100, "PreparingRebalance", []),
    ):
        bench = GroupBench()
        bench.checker.groups.backoff_ms = 1_000
        bench.register("c1")
        bench.register("c2")
        bench.do("k1", Delete(f"{GROUP}/ids/c2"))
        bench.report("Quarantined", 1)
        bench.pass_ms(after_ms)
        bench.send("c1", "start-fetcher", 1, state=state)
        assert bench.seen() == seen, (after_ms, state)


def test_i14_a_generation_names_one_target() -> None:
    bench = GroupBench()
    bench.register("c1")
    bench.register("c2")
    bench.do("c1", Delete(bench.send("c1", "start-fetcher", 1, generation=3, thread="c1-0")))
    bench.do("c2", Delete(bench.send("c2", "start-fetcher", 2, generation=4, thread="c2-0")))
    assert bench.seen() == []
    bench.do("c1", Delete(bench.send("c1", "start-fetcher", 3, generation=4, thread="c1-0")))
    assert bench.seen() == ["I14"], "another thread in the same generation"
    bench.send("c1", "stop-fetcher", 4, generation=3)
    assert bench.seen() == ["I14", "I14"], "a generation that went back"


def test_i14_is_not_judged_while_somebodys_bytes_are_where_the_generation_was() -> None:
    """The coordinator that remembers goes on without writing its report; the next one reads none.
    Once one is written, a step back counts again.
    """
    bench = GroupBench()
    bench.register("c1")
    bench.do("c1", Delete(bench.send("c1", "start-fetcher", 1, generation=3, thread="c1-0")))
    bench.do("operator", SetData(GROUP, b"9999", -1))
    bench.do("c1", Delete(bench.send("c1", "start-fetcher", 2, generation=4, thread="c1-0")))
    bench.do(
        "c1",
        Delete(bench.send("c1", "start-fetcher", 3, generation=1, thread="c1-0", state="Stable")),
    )
    assert bench.seen() == []
    bench.do("c1", Delete(bench.send("c1", "start-fetcher", 4, generation=2, thread="c1-0")))
    bench.send("c1", "stop-fetcher", 5, generation=1)
    assert bench.seen() == ["I14"]


def test_i9_a_group_at_rest_waits_for_its_turn_only() -> None:
    for answered in (True, False):
        bench = GroupBench()
        bench.checker.groups.isolated = lambda: True
        bench.register("c1")
        bench.report("Stable", 1)
        bench.pass_ms(REST_MS)
        bench.register("c2")
        if answered:
            bench.send("c2", "start-fetcher", 1)
        bench.pass_ms(WINDOW_MS + 100)
        assert bench.seen() == ([] if answered else ["I9"])
        assert bench.kernel.happened["isolation judged"] == 1


def test_i9_is_not_judged_while_a_coordinator_begins() -> None:
    bench = GroupBench()
    bench.checker.groups.isolated = lambda: True
    bench.register("c1")
    bench.report("Stable", 1)
    bench.pass_ms(REST_MS)
    bench.do("operator", Delete("/consumers/coordinator"))
    bench.register("c2")
    bench.pass_ms(WINDOW_MS + 100)
    assert bench.seen() == []


def test_i17_a_backoff_counts_from_the_eviction_also_of_a_member_that_was_gone() -> None:
    """The report may come much later: its coordinator was cut off in between."""
    for after_ms, seen in ((200, ["I17"]), (400, [])):
        bench = GroupBench()
        bench.checker.groups.backoff_ms = 1_000
        bench.register("c1")
        bench.register("c2")
        unanswered = bench.send("c2", "stop-fetcher", 1)
        bench.leave("c2")
        bench.do("k1", Delete(unanswered))
        bench.pass_ms(700)
        bench.report("Quarantined", 1)
        bench.pass_ms(after_ms)
        bench.send("c1", "start-fetcher", 2, state="PreparingRebalance")
        assert bench.seen() == seen, after_ms


def test_i6_one_command_of_a_member_at_a_time() -> None:
    bench = GroupBench()
    bench.register("c1")
    bench.register("c2")
    first = bench.send("c1", "stop-fetcher", 1)
    bench.send("c2", "stop-fetcher", 2)
    assert bench.seen() == []
    bench.send("c1", "stop-fetcher", 3)
    assert bench.seen() == ["I6"]
    bench.do("c1", Delete(first))


def test_i17_a_new_coordinator_goes_on_with_a_quarantine_and_tells_nobody_again() -> None:
    for sooner in (True, False):
        bench = GroupBench()
        bench.checker.groups.backoff_ms = 1_000
        bench.register("c1")
        bench.do("k1", Delete(bench.notify("k1", "c1", 1)))
        bench.report("Quarantined", 1)
        bench.pass_ms(2_000)
        bench.do("operator", Delete("/consumers/coordinator"))
        bench.process("k2")
        bench.elect("k2", 8)
        bench.pass_ms(500 if sooner else 1_100)
        bench.send("c1", "start-fetcher", 2, by="k2", epoch=8, state="CompletingRebalance")
        assert bench.seen() == (["I17"] if sooner else [])
    bench = GroupBench()
    bench.register("c1")
    for member, epoch, seen in (("c1", 7, []), ("c1", 7, []), ("c1", 8, ["I17"])):
        if epoch == 8:
            bench.do("operator", Delete("/consumers/coordinator"))
            bench.process("k2")
            bench.elect("k2", 8)
        bench.do(
            member,
            Delete(bench.notify("k1" if epoch == 7 else "k2", member, bench.kernel.now, epoch)),
        )
        assert bench.seen() == seen


def test_i17_the_next_quarantine_is_told_again() -> None:
    for ended in (True, False):
        bench = GroupBench()
        for member in ("c1", "c2"):
            bench.register(member)
        bench.do("c1", Delete(bench.notify("k1", "c1", 1)))
        bench.report("Quarantined", 2)
        if ended:
            bench.send("c2", "start-fetcher", 2, state="CompletingRebalance")
        bench.do("operator", Delete("/consumers/coordinator"))
        bench.process("k2")
        bench.elect("k2", 8)
        bench.notify("k2", "c1", 3, epoch=8)
        assert bench.seen() == ([] if ended else ["I17"])


def test_i19_a_member_beyond_the_places_of_a_group_is_started() -> None:
    for places in (2, 1):
        bench = GroupBench()
        bench.checker.groups.members_max = places
        bench.register("c1")
        bench.register("c2")
        bench.do(
            "c1", Delete(bench.send("c1", "start-fetcher", 1, incarnation=bench.incarnation("c1")))
        )
        bench.send("c2", "start-fetcher", 2, partition="t-1", incarnation="another")
        assert bench.seen() == []
        bench.do("c2", Delete(f"{GROUP}/channel/c2/7-2-0"))
        bench.send("c2", "start-fetcher", 3, partition="t-2", incarnation=bench.incarnation("c2"))
        assert bench.seen() == ([] if places == 2 else ["I19"])
