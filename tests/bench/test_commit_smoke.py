"""A small round of the commit benchmark for real: the report has the figures that it should have.
How large they are is nobody's business here.
"""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.bench import commit_rates, rig
from tests.bench.commit import Plan, run
from tests.bench.commit_joins import Step, climb
from tests.bench.figures import Section
from tests.bench.tables import page
from zkcoord.errors import ConditionTimeoutError

MEMBERS, EACH = 2, 5
LOAD = (20, 10)


@pytest.mark.nightly
def test_commits_and_joins_beside_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig, "SPACING_MIN_S", 0.1)
    monkeypatch.setattr(rig, "SPACING_MAX_S", 0.3)
    monkeypatch.setattr(commit_rates, "WARM_S", 0.2)
    path = tmp_path / "report.json"
    status = run(
        Plan(
            samples=1,
            seconds=0.5,
            settings=((MEMBERS, EACH),),
            drivers=(LOAD,),
            joins=1,
            steps={LOAD[1]: (LOAD[0],)},
            old=(),
        ),
        tmp_path / "run",
        path,
    )
    report = json.loads(path.read_text())
    assert (
        [section["failure"] for section in report["sections"]] == ["", ""]
        and status == 0
        and not report["missed"]
    )
    commit, join = ({row["what"]: row for row in section["rows"]} for section in report["sections"])
    for label in (
        f"{MEMBERS} x {EACH}",
        f"{MEMBERS} x {EACH}, offsets in Kafka",
        "20 x 10, drivers in one thread",
    ):
        assert (
            commit[label]["unit"] == "commits/s"
            and commit[label]["n"] == 1
            and commit[label]["median"] > 0
        )
        assert 0 < commit[f"{label}, median"]["median"] <= commit[f"{label}, p99"]["median"]
    assert (
        commit[f"{MEMBERS} x {EACH}"]["kafka_python"]["median"]
        > 0
        < commit[f"{MEMBERS} x {EACH}, p99"]["kafka_python"]["median"]
    )
    assert (
        join["join, beside nothing"]["median"] > 0
        and join["join, beside 20 members x 10"]["n"] == 1
    )
    assert join["commit, 20 members x 10, p99"]["median"] > 0
    assert join["members that each commit 10 partitions"]["values"][0] in (0, 20)
    assert page("commit", [report]).count("| join, beside 20 members x 10 |") == 1


def test_groups_of_the_other_that_get_stuck_do_not_take_our_figures_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sample(
        _rig: object,
        side: str,
        _topic: str,
        _members: int,
        _each: int,
        _seconds: float,
        into: commit_rates.Samples,
    ) -> None:
        if side == commit_rates.THEIRS:
            raise ConditionTimeoutError("waited in vain")
        into.add(10.0, [100])

    monkeypatch.setattr(commit_rates, "sample", sample)
    section = Section("commit", "")
    commit_rates.setting(Mock(), section, 4, 10, 2, 5.0, commit_rates.SIDES)
    assert [len(row.values) for row in section.rows] == 6 * [2]
    assert ["sample is missing" in note for note in section.notes] == 2 * [False, False, True]


def test_the_largest_count_is_the_last_before_joins_take_longer_or_commits_fall_behind() -> None:
    def to(steps: dict[int, Step]) -> tuple[int, str]:
        return climb(tuple(steps), 10.0, steps.__getitem__)

    assert to({100: Step(100, [15.0]), 200: Step(200, [14.0, 15.1, 16.0])})[0] == 100
    assert to(
        {100: Step(100, [12.0]), 200: Step(200, [12.0], kept_up=False), 400: Step(400, [12.0])}
    ) == (100, "at 200 the commits fall behind")
    assert to(
        {100: Step(100, [12.0]), 200: Step(200, [], grown=False), 400: Step(400, [12.0])}
    ) == (100, "200 did not come to own their share within 600 s")
    assert to({100: Step(100, [12.0])}) == (100, "no more were tried")
    assert to({100: Step(100, [16.0])})[0] == 0
