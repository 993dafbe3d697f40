"""Open pages of the console beside joins, and what a browser shows of them, for real: a small round
in the nightly tests. How long anything takes is the benchmark's business, on a machine that is
quiet.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.console import JOINS, PARTS, Plan, run
from tests.console.browser import MISSING


@pytest.mark.nightly
@pytest.mark.parametrize("part", PARTS)
def test_joins_go_on_and_pages_say_it(tmp_path: Path, part: str) -> None:
    if part == "browser" and MISSING:
        pytest.skip(f"no browser to drive: {', '.join(MISSING)} missing")
    path = tmp_path / "report.json"
    run(Plan((part,), groups=50, blocks=1, looks=1), tmp_path / "run", path)
    (section,) = json.loads(path.read_text())["sections"]
    assert (section["name"], section["failure"]) == (part, "")
    rows = {row["what"]: row for row in section["rows"]}
    if part == "joins":
        assert rows["beside"]["n"] == JOINS and rows["terms begun"]["values"] == [1.0]
    else:
        assert rows["rebalance's end to its mark"]["n"] == 1
