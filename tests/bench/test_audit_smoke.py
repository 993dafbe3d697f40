"""A small round of the audit's benchmark for real: everything that was planted is found, and
nothing else. How fast the others are is nobody's business here.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.audit import Plan, run


@pytest.mark.nightly
def test_a_small_round_finds_everything(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    status = run(Plan(("skewed",), 160, 2_000, 25, 50), tmp_path, path)
    report = json.loads(path.read_text())
    assert status == (1 if report["missed"] else 0), "a missed bar is the exit status"
    (section,) = report["sections"]
    assert section["failure"] == "" and len(section["rows"]) == 16
    assert [
        row
        for row in section["rows"]
        if row["unit"] == "places" and not all(bar["reached"] for bar in row["bars"])
    ] == []
    assert {row["median"] for row in section["rows"] if ": found of 50" in row["clock"]} == {50}
