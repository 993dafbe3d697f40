"""Joins beside hostile strangers, for real: a small round of every shape, in the nightly tests.
Each join must come to an end, the leader keep its term, and /live be answered; how long a join
takes is the benchmark's business, on a machine that is quiet.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.hostile import JOIN_S_MAX, SHAPES, Plan, run

JOINS, GROUPS = 5, 200


@pytest.mark.nightly
@pytest.mark.parametrize("shape", SHAPES)
def test_joins_go_on_and_the_leader_keeps_its_term(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "report.json"
    run(Plan((shape,), JOINS, GROUPS, "quick"), tmp_path / "run", path)
    (section,) = json.loads(path.read_text())["sections"]
    assert (section["name"], section["failure"]) == (shape, "")
    rows = {row["what"]: row for row in section["rows"]}
    beside = rows["a join beside it"]
    assert beside["n"] == JOINS and beside["max"] < JOIN_S_MAX * 1000
    assert rows["terms begun"]["values"] == [1.0]
    if shape == "slow":
        assert rows["/live answered"]["values"] == [100.0]
