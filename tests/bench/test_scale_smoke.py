"""A small round of the scale benchmark for real: the report has the figures that it should have,
and what must be nothing is nothing. How large the others are is nobody's business here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.bench.scale import Plan, run
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
    assert (
        takeover["session established to ready"]["median"] > 0
        and takeover["read from the server"]["median"] > 0
    )
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
    assert page("scale", [report]).count("| session established to ready |") == 1
