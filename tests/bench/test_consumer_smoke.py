"""A small round of the consumer's benchmark for real: the report has the figures that it should
have. How large they are is nobody's business here.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.bench.consumer import ROUNDS, Plan, run
from tests.bench.figures import Bar
from tests.bench.tables import page


def test_throughput_and_start(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    status = run(
        Plan(("throughput", "start"), dict.fromkeys(ROUNDS, 1), sizes={100: 3_000}),
        tmp_path / "run",
        path,
    )
    report = json.loads(path.read_text())
    assert status == (1 if report["missed"] else 0), "a missed bar is the exit status"
    throughput, start = report["sections"]
    assert [section["failure"] for section in report["sections"]] == ["", ""]
    rows = {row["what"]: row for row in throughput["rows"]}
    for way in ("poll", "iterate"):
        rate = rows[f"throughput, 100 bytes, {way}"]
        quotient = rows[f"throughput by kafka-python's, 100 bytes, {way}"]
        assert (
            rate["n"] == quotient["n"] == rate["kafka_python"]["n"] == 1
            and rate["median"] > 0 < rows[f"processor time per record, 100 bytes, {way}"]["median"]
        )
        assert quotient["bars"][0]["at_least"] and quotient["median"] > 0
    (first,) = start["rows"]
    assert first["n"] == 1 and first["median"] > 0 < first["kafka_python"]["median"]
    steps = start["steps"]["first record, zkcoord"]
    assert [name for name in steps] == [
        "interpreter",
        "imports",
        "constructor and subscribe",
        "session and registration",
        "command",
        "start ack",
        "first fetch",
        "hand-out",
    ]
    assert abs(sum(values["median"] for values in steps.values()) - first["median"]) < 1, (
        "the steps are the whole way"
    )
    assert page("consumer", [report]).count("| first record |") == 1


def test_a_bar_from_below() -> None:
    bar = Bar("median", 0.97, at_least=True)
    assert (
        bar.text == "median >= 0.97"
        and bar.reached({"median": 0.97})
        and not bar.reached({"median": 0.96})
    )
    assert Bar("max", 1.0).reached({"max": 1.0}) and not Bar("max", 1.0).reached({"max": 1.1})
