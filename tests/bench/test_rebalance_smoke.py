"""One round of the benchmark's first part for real: the report has the figures that it should have.
How large they are is nobody's business here.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench import rig
from tests.bench.rebalance import Plan, run

JOIN = [
    "join, 24 partitions, loaded",
    "join, 24 partitions, loaded",
    "join, 24 partitions, loaded, kafka-python",
]
LEAVE = [what.replace("join", "leave") for what in JOIN]


# kafka-python's group takes minutes where a member of it misses a rebalance: in the night
@pytest.mark.parametrize("theirs", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_one_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: bool) -> None:
    monkeypatch.setattr(rig, "SPACING_MIN_S", 0.5)  # the quiet window before an event is as long
    monkeypatch.setattr(rig, "SPACING_MAX_S", 1.0)
    monkeypatch.setattr(rig, "WARM_S", 1.0)
    report = tmp_path / "report.json"
    plan = Plan(only=("join",), rounds_of_joins=1, partitions=(24,), loads=(400,), theirs=theirs)
    ended = run(plan, tmp_path / "run", report)
    found = json.loads(report.read_text())
    assert found["what"] == "bench-rebalance" and found["machine"]["cpus"] > 0
    assert set(found["versions"]) == {
        "zkcoord",
        "python",
        "java",
        "kafka",
        "kazoo",
        "kafka-python",
        "pyspark",
    }
    joins, kept = found["sections"]
    assert (joins["name"], kept["name"], kept["failure"]) == ("join", "kept", "")
    # its members miss a rebalance now and then, until five minutes later
    peer_stuck = joins["failure"].startswith("24 partitions, loaded, kafka-python: waited")
    assert joins["failure"] == "" or peer_stuck, joins["failure"]
    assert ended == (1 if found["missed"] or peer_stuck else 0), "a missed bar is the exit status"
    assert [row["what"] for row in joins["rows"]] == [
        what for what in JOIN + LEAVE if (theirs and not peer_stuck) or "kafka-python" not in what
    ]
    assert all(
        row["n"] == 1 and 0 < row["min"] == row["median"] == row["p95"] == row["max"]
        for row in joins["rows"]
    )
    registered, constructed = joins["rows"][:2]
    assert registered["median"] < constructed["median"], (
        "the registration comes after the constructor"
    )
    assert registered["bars"] and (
        peer_stuck or not theirs or constructed["kafka_python_ratio"] > 0
    )
    assert set(joins["steps"]["join, 24 partitions, loaded"]) == {
        "call to registration",
        "first command heard",
        "last stop answered",
        "last start heard",
        "last assigned",
        "last first fetch",
    }
    *windows, touches = kept["rows"]
    assert [row["n"] for row in windows] == [2, 2, 2, 2] and all(
        row["median"] > 0 for row in windows
    )
    assert touches["values"] == [0.0], "partitions that stay were commanded or called back"
    assert 0 < joins["busy_percent"] <= 100
