"""One join and one leave of two systems for real: the report has the figures that it should have.
How large they are is nobody's business here.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.side.__main__ import Plan, run
from tests.bench.side.events import Rounds
from tests.bench.side.plot import cells, draw
from tests.bench.side.systems import named
from tests.bench.tables import rendered

# three servers and ten processes: too much beside everything else
pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.nightly]
SYSTEMS = named(("zkcoord", "librdkafka-range"))


def test_two_systems(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    status = run(
        Plan((3,), SYSTEMS, ("join", "leave"), Rounds(joins=1, warm=0, idle_s=1.0)),
        tmp_path / "run",
        path,
    )
    report = json.loads(path.read_text())
    assert [section["failure"] for section in report["sections"]] == [""] * 5
    assert status == (1 if report["missed"] else 0), "not to be first is the exit status"
    join, leave, kept, moved, requests = report["sections"]
    assert all(section["title"].endswith(", 3 members") for section in report["sections"])
    for section in (join, leave):
        ours, theirs, first = section["rows"]
        assert [row["what"] for row in (ours, theirs, first)] == [
            "3 members: zkcoord",
            "3 members: librdkafka, range",
            "3 members: zkcoord by the best of the others",
        ]
        assert ours["n"] == theirs["n"] == 1 and ours["median"] > 0 < theirs["median"]
        assert (
            abs(first["values"][0] - ours["median"] / theirs["median"]) < 0.1
            and first["bars"]
            and "librdkafka, range" in first["note"]
        )
        assert 0 < section["busy_percent"] <= 100
    assert {row["what"].partition(": ")[2] for row in kept["rows"]} >= {
        "join, zkcoord",
        "join, librdkafka, range",
        "join, zkcoord less the best of the others",
        "join, zkcoord just before, without an event",
    }
    assert len(moved["rows"]) == 4
    assert [row["what"] for row in requests["rows"]] == [
        "3 members: join, zkcoord",
        "3 members: leave, zkcoord",
    ] and requests["rows"][0]["median"] > 1
    assert cells(report)["join"][3]["zkcoord"]["median"] == join["rows"][0]["median"]
    assert "| 3 members: zkcoord |" in rendered([report])
    draw(report, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5_000
