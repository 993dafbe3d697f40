"""`python -m tests.compat`: the whole comparison; prints one line per test body and writes
build/reports/compat.json. Ends with 1 if anything failed.

What a line says: how each side fared, and by which names of the table in docs/consumer.md they
differ there. The last lines count by side: test bodies passed, failed, and differences that are
documented.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.compat.both import DIFFERED, KAFKA_PYTHON, SIDES, ZKCOORD

REPORT = Path("build/reports/compat.json")


class Collector:
    """pytest's outcomes by test body and side ("" where a test has no side)."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of one test."""
        if report.when != "call" and not report.failed:
            return
        file, _, name = report.nodeid.rpartition("::")
        body, _, case = name.partition("[")
        side = next((side for side in SIDES if side in case), "")
        row = self.rows.setdefault(
            f"{Path(file).stem.removeprefix('test_')}:"
            f" {body.removeprefix('test_').replace('_', ' ')}",
            {"outcomes": {}, "seconds": 0.0, "differences": set()},
        )
        row["outcomes"].setdefault(side, []).append(report.outcome)
        row["seconds"] += report.duration
        row["differences"] |= DIFFERED.get(report.nodeid.split("::")[-1], set())


def shown(row: dict[str, Any], side: str) -> str:
    """How a side fared: "ok", "3 of 4", "-" where the test is not of this side."""
    outcomes = row["outcomes"].get(side, row["outcomes"].get("", []) if side == ZKCOORD else [])
    good = outcomes.count("passed")
    return "-" if not outcomes else "ok" if good == len(outcomes) else f"{good} of {len(outcomes)}"


def counted(found: list[dict[str, Any]], side: str) -> dict[str, int]:
    """Test bodies of a side: passed, failed; and by how many documented differences it is told from
    kafka-python's.
    """
    mine = [row for row in found if row[side] != "-"]
    good = [row for row in mine if row[side] == "ok"]
    differences = (
        {name for row in mine for name in row["differences"]} if side != KAFKA_PYTHON else set()
    )
    return {"passed": len(good), "failed": len(mine) - len(good), "differences": len(differences)}


def main(arguments: list[str]) -> int:
    """Run, print, write."""
    collector = Collector()
    status = pytest.main(
        ["-q", "--no-header", "-p", "no:cacheprovider", str(Path(__file__).parent), *arguments],
        plugins=[collector],
    )
    width = max((len(name) for name in collector.rows), default=0)
    print(f"\n{'':{width}}  {'  '.join(f'{side:>12}' for side in SIDES)}  differs by")
    for name, row in collector.rows.items():
        print(
            f"{name:{width}}  {'  '.join(f'{shown(row, side):>12}' for side in SIDES)} "
            f" {', '.join(sorted(row['differences']))}"
        )
    found = [
        {
            "test": name,
            **{side: shown(row, side) for side in SIDES},
            "seconds": round(row["seconds"], 2),
            "differences": sorted(row["differences"]),
        }
        for name, row in collector.rows.items()
    ]
    failed = [row["test"] for row in found if not {row[side] for side in SIDES} <= {"ok", "-"}]
    sides = {side: counted(found, side) for side in SIDES}
    differences = {
        name: [row["test"] for row in found if name in row["differences"]]
        for name in sorted({name for row in found for name in row["differences"]})
    }
    print(f"\n{'':12}  {'passed':>6}  {'failed':>6}  documented differences from kafka-python")
    for side, counts in sides.items():
        print(f"{side:12}  {counts['passed']:>6}  {counts['failed']:>6}  {counts['differences']}")
    print(
        f"\n{len(found)} test bodies, {len(failed)} failed, {len(differences)} documented"
        f" differences, {0 if status == 0 else len(failed)} unexplained."
    )
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(
        json.dumps(
            {"sides": sides, "rows": found, "failed": failed, "differences": differences}, indent=1
        )
        + "\n",
        encoding="utf-8",
    )
    return 0 if status == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
