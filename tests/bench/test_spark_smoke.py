"""A small round of the Spark benchmark for real: the report has the figures that it should have.
How large they are is nobody's business here.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.spark import ROUNDS, Plan, run
from tests.bench.spark_rig import CONFLUENT, JVM, C, medians
from tests.bench.spark_throughput import CHECKS, Setting
from tests.bench.tables import page


@pytest.mark.nightly
def test_throughput_and_latency(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    plan = Plan(
        ("throughput", "latency"),
        dict.fromkeys(ROUNDS, 1),
        settings=(Setting("100 B", 40_000, 100, "lz4", {C: 1.25, CONFLUENT: 0.5}),),
        seconds=5.0,
    )
    status = run(plan, tmp_path / "run", path)
    report = json.loads(path.read_text())
    assert status == (1 if report["missed"] else 0), "a missed bar is the exit status"
    throughput, latency = report["sections"]
    assert [section["failure"] for section in report["sections"]] == ["", ""]
    rows = {(row["what"], row["clock"]): row for row in throughput["rows"]}
    for checks in CHECKS:
        for side in (JVM, C, CONFLUENT):
            assert rows[f"{side}, 100 B", checks]["median"] > 0
        assert len(rows[f"{C} by {JVM}, 100 B", checks]["bars"]) == (
            1 if checks == "checksums verified" else 0
        )
    assert {row["what"] for row in latency["rows"]} == {
        f"{what}, {share}" for what in (f"{C} by {JVM}", C, JVM) for share in ("p50", "p99")
    }
    assert page("spark", [report]).count(f"| {C} by {JVM}, 100 B |") == 2


def test_what_counts_of_a_query() -> None:
    assert medians([(100, 1_000, 0), (100, 50, 0), (95, 100, 0), (40, 10, 0), (100, 0, 0)]) == [
        2_000.0,
        950.0,
    ]
