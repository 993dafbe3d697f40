"""What people are told of groups whose leader is a client: the group's own node, the journal."""

from __future__ import annotations

from typing import Any

from tests.core.classic.scenario import OPTIONS, Play, Scenario
from tests.zk.classic.served_side import GROUP, PATHS, WALL_MS, ServedSide
from zkcoord.core.classic.state import ClassicPhase
from zkcoord.core.model import Registrants
from zkcoord.zk.classic.reporting import AGAIN_MS, SOON_MS
from zkcoord.zk.port import SetData
from zkcoord.znodes.classic.report import ClassicReport, decode_report


class Scene:
    """Clients by their letters, before one coordinator after another."""

    def __init__(self) -> None:
        self.side = ServedSide(OPTIONS)
        self.player = Play(self.side)
        self.writes = 0
        self.side.zk.observers.append(self._saw)

    def _saw(self, txn: Any, tree: Any) -> None:
        for path, before, after in txn.changes:
            if path == PATHS.group(GROUP) and before is not None and after is not None:
                self.writes += before.data != after.data

    def runs(self, *texts: str) -> None:
        self.player.run(Scenario("lines", tuple(enumerate(texts, 1))))

    def wait(self, ms: int) -> None:
        self.side.wait(ms)

    @property
    def report(self) -> ClassicReport:
        data = self.side.data(PATHS.group(GROUP))
        assert data is not None
        found = decode_report(GROUP, data)
        assert isinstance(found, ClassicReport), found
        return found

    @property
    def now(self) -> int:
        return WALL_MS + self.side.kernel.now

    def journal(self, kind: str = "client-led rebalance") -> list[dict[str, Any]]:
        return [dict(one.detail) for one in self.side.records if one.kind == kind]


def test_a_rebalance_that_is_soon_over_is_told_once() -> None:
    scene = Scene()
    scene.runs("group a")
    scene.wait(SOON_MS)
    report = scene.report
    assert (report.phase, report.generation) == (ClassicPhase.STABLE, 1)
    assert report.waits is None and report.ended is not None
    assert (report.ended.why.kind, report.ended.members) == ("member joined", 1)
    assert abs(report.ended.at_ms - scene.now) < OPTIONS.initial_delay_ms
    assert scene.writes == 1
    before = scene.writes
    scene.wait(20_000)
    assert scene.writes == before, "nothing happens, nothing is written"


def test_whom_it_waits_for_is_told_while_it_waits() -> None:
    scene = Scene()
    scene.runs("group a b")
    scene.wait(AGAIN_MS)
    began = scene.now
    scene.runs("c enter -> waits")
    scene.wait(SOON_MS + AGAIN_MS)
    report = scene.report
    assert report.phase is ClassicPhase.PREPARING and report.waits is not None
    assert report.waits.unjoined.count == 2 and len(report.waits.unjoined.names) == 2
    assert began <= report.waits.since_ms <= scene.now < report.waits.until_ms
    assert began <= report.since_ms <= scene.now
    assert report.waits.why.trigger != "" and report.waits.why.kind == "member joined"
    (seen,) = [scene.side.groups.summary(GROUP)] if scene.side.groups is not None else []
    assert seen["waits_for"] == list(report.waits.unjoined.names)
    assert (seen["state"], seen["members"], seen["pending"]) == ("PreparingRebalance", 3, 0)
    assert (seen["cause"], seen["trigger"]) == (report.waits.why.kind, report.waits.why.trigger)


def test_each_rebalance_is_in_the_journal() -> None:
    scene = Scene()
    scene.runs("group a b", "a leave -> 0 0")
    first, *_ = scene.journal()
    assert first["cause"] == "member joined" and first["members"] == 2
    assert first["generation"] == 1 and first["again"] == 0 and first["out"] == []
    assert {one["member"] for one in first["waited_for"]} and first["duration_ms"] > 0
    assert sum(one["ms"] for one in first["waited_for"]) == first["duration_ms"]
    assert [one["ms"] for one in first["waited_for"]] == sorted(
        (one["ms"] for one in first["waited_for"]), reverse=True
    )
    assert scene.journal("client-led group")[0]["after"] == "PreparingRebalance"


def test_another_coordinator_takes_back_what_is_over() -> None:
    scene = Scene()
    scene.runs("group a b")
    scene.wait(AGAIN_MS)
    scene.runs("c enter -> waits")
    scene.wait(SOON_MS + AGAIN_MS)
    assert scene.report.waits is not None
    scene.side.restart()
    scene.wait(SOON_MS + AGAIN_MS)
    report = scene.report
    assert report.waits is None or report.waits.since_ms >= report.since_ms
    seen = scene.side.groups
    assert seen is not None and report.phase is seen.group(GROUP).phase  # type: ignore[union-attr]


def test_what_somebody_else_writes_there_harms_nobody() -> None:
    scene = Scene()
    scene.runs("group a")
    scene.side.write([SetData(PATHS.group(GROUP), b"\xff{", -1)])
    scene.side.restart()
    scene.runs("a beat -> 0", "b enter -> waits")
    scene.wait(SOON_MS + AGAIN_MS)
    assert scene.report.phase is ClassicPhase.PREPARING


def test_a_group_that_is_deleted_is_told_of_no_more() -> None:
    scene = Scene()
    scene.runs("group a", "a leave -> 0 0", "delete -> 0")
    scene.wait(10 * AGAIN_MS)
    assert scene.side.data(PATHS.group(GROUP)) is None
    assert not scene.side.failures


def test_figures_of_groups_and_requests() -> None:
    scene = Scene()
    scene.runs("group a b", "c enter -> waits")
    assert scene.side.groups is not None
    seen = scene.side.groups.seen()
    assert seen.states["PreparingRebalance"] == 1 and sum(seen.states.values()) == 1
    assert (seen.members, seen.waiting, seen.unread) == (3, 1, 0)
    assert seen.refused == {} and seen.answered > 0
    scene.side.registered["other"] = Registrants.MEMBERS
    scene.runs("c leave -> 0 0")
    assert scene.side.groups.seen().answered > seen.answered
    assert scene.side.groups.names == [GROUP]
