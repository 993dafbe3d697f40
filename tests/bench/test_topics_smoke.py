"""A small round of the benchmark of topics for real: the report has the figures that it should
have. How large they are is nobody's business here.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.topics import Plan, run
from tests.bench.topics_many import ManyPlan


@pytest.mark.nightly
@pytest.mark.kafka
def test_topics_are_created_and_assigned_and_many_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    many = ManyPlan(topics=100, blocks=1, joins=2, window_s=4.0)
    status = run(Plan(created=1, many=many), tmp_path / "run", path)
    report = json.loads(path.read_text())
    assert status == (1 if report["missed"] else 0), "a missed bar is the exit status"
    assert report["what"] == "bench-topics"
    assert [section["failure"] for section in report["sections"]] == ["", ""]
    created, many_rows = (section["rows"] for section in report["sections"])
    assert [row["n"] for row in created] == [1, 1, 1]
    assert all(row["n"] and row["median"] > 0 for row in many_rows)
