"""A small round of the scale benchmark for real: the report has the figures that it should have,
and what must be nothing is nothing. How large the others are is nobody's business here.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.bench import scale_names
from tests.bench.scale import Plan, run
from tests.bench.scale_model import Size, read
from tests.bench.scale_targets import needed
from tests.bench.scale_unit_changes import ChangesPlan
from tests.bench.scale_units import UnitsPlan
from tests.bench.tables import page


def test_takeover_ack_and_many_groups(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    status = run(
        Plan(
            only=("takeover", "ack", "groups"),
            groups=30,
            rounds=1,
            acks=2,
            sizes=(6, 12),
            together=10,
        ),
        tmp_path / "run",
        path,
    )
    report = json.loads(path.read_text())
    assert status == (1 if report["missed"] else 0), "a missed bar is the exit status"
    assert report["what"] == "bench-scale" and [
        section["name"] for section in report["sections"]
    ] == ["takeover", "ack", "groups"]
    assert [section["failure"] for section in report["sections"]] == [""] * 3
    takeover, ack, groups = (
        {row["what"]: row for row in section["rows"]} for section in report["sections"]
    )
    assert takeover["takeover"]["median"] > 0 and takeover["read from the server"]["median"] > 0
    assert [
        takeover[what]["values"]
        for what in ("commands found afterwards", "transactions but the election's")
    ] == [[0.0], [0.0]]
    rows: list[dict[str, Any]] = report["sections"][1]["rows"]
    assert [row["n"] for row in rows] == [2, 2, 2, 2, 1, 1] and all(
        row["median"] > 0 for row in rows
    )
    assert ack["12 members by 6"]["unit"] == "x"
    assert groups["a group's rebalance"]["n"] == 10
    assert page("scale", [report]).count("| takeover |") == 2


def test_restarts_and_changes(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    status = run(
        Plan(
            only=("restart", "changes"),
            restarted=6,
            restart_s=1.0,
            changing=5,
            changes=10.0,
            changes_s=1.5,
        ),
        tmp_path / "run",
        path,
    )
    report = json.loads(path.read_text())
    assert status == (1 if report["missed"] else 0), "a missed bar is the exit status"
    assert [section["name"] for section in report["sections"]] == [
        "restart",
        "restart-slow",
        "restart-static",
        "changes",
    ]
    assert [section["failure"] for section in report["sections"]] == [""] * 4
    *restarts, changes = (
        {row["what"]: row for row in section["rows"]} for section in report["sections"]
    )
    for rows in restarts:
        assert rows["moves of a partition"]["n"] == 12
        assert rows["moves that need not have been"]["values"] == [0.0]
        assert rows["registration to first assignment"]["n"] == 6
        assert rows["silence of a partition whose owner left"]["n"] >= 12
        assert rows["coordinator: transactions"]["median"] > 0
    assert restarts[0]["moves of a partition"]["min"] >= 1
    assert restarts[0]["generations"]["min"] >= 1
    static = restarts[2]
    assert static["moves of a partition"]["max"] == static["generations"]["max"] == 0
    assert static["silence of a partition that need not move"]["values"] == [0.0]
    assert changes["registration to first assignment"]["n"] > 0
    assert changes["changes made and done"]["median"] > 0
    for rows in (*restarts, changes):
        assert rows["terms of the leader"]["values"] == [1.0]


def test_how_many_moves_a_balance_needs() -> None:
    for held, members, partitions, least in (
        ({"a": 2, "b": 2}, 2, 4, 0),
        ({"a": 2, "b": 2}, 3, 4, 1),  # one of them keeps the one that is left over
        ({"a": 3, "b": 3, "c": 2}, 3, 8, 0),
        ({"a": 3, "b": 3}, 3, 8, 0),  # the free ones are enough
        ({"a": 4, "b": 2, "c": 2}, 3, 8, 1),
        ({"a": 6}, 3, 6, 4),
        ({}, 2, 3, 0),
    ):
        assert needed(Counter(held), members, partitions) == least, held


def test_unit_costs(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    sizes = Size(10, 2, 4), Size(30, 2, 4), Size(10, 6, 4), Size(10, 2, 16)
    status = run(
        Plan(
            only=("units",),
            units=UnitsPlan(sizes, (Size(40, 3, 8), Size(20, 4, 12)), 1),
            unit_changes=ChangesPlan(1, 3, 1.0, 0.2),
        ),
        tmp_path / "run",
        path,
    )
    report = json.loads(path.read_text())
    assert status == (1 if report["missed"] else 0), "a missed bar is the exit status"
    assert [section["failure"] for section in report["sections"]] == [""] * 7
    costs = read(path)
    assert costs["server: nodes"].group == pytest.approx(5, abs=0.1)
    assert costs["server: nodes"].member == pytest.approx(2, abs=0.1)
    assert costs["server: nodes"].partition == pytest.approx(1, abs=0.1)
    sections = {section["name"]: section["rows"] for section in report["sections"]}
    checks = sections["units-model"]
    assert len(checks) == 2 * len(costs) and all(row["bars"] for row in checks)
    changes = {(row["what"], row["clock"]): row for row in sections["units-changes"]}
    for change in ("a join to 3 members, 10 partitions", "a leave, to 3 members, 10 partitions"):
        assert changes["coordinator: transactions", change]["median"] >= 1
        assert changes["coordinator: operations in them", change]["median"] >= 2
    commit = changes["members: operations in them", "a commit of 10 partitions"]
    assert commit["values"] == [11.0], "the check, and each offset"
    assert changes["coordinator: watch events", "a commit of 10 partitions"]["values"] == [0.0]
    idle = {row["what"]: row for row in sections["units-idle"]}
    assert idle["transactions of the coordinator"]["values"] == [0.0]
    assert idle["transactions of a member, a second"]["median"] > 0
    assert all(row["median"] > 0 for row in sections["units-flood"])


def test_names_of_few_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert scale_names.main(["--groups", "50"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("50 names are 1,700 bytes of one answer")
    assert "50 groups in" in said[1] and "0 groups in" in said[2], "two roots, each led"
    assert len(said) == 5, "and a Java client, where one can be compiled"
