"""Unit costs are found again from figures that were made of them, and none is below nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.scale_model import Costs, Size, fitted, off_percent, read

SIZES = (Size(100, 3, 10), Size(400, 3, 10), Size(100, 9, 10), Size(100, 3, 40), Size(200, 5, 7))


@pytest.mark.parametrize(
    "costs", [Costs(7, 5, 3, 2), Costs(0, 50, 0, 1), Costs(1_000_000, 0.5, 0, 0), Costs(0, 0, 1, 0)]
)
def test_unit_costs_are_found_again(costs: Costs) -> None:
    found = fitted({size: costs.at(size) for size in SIZES})
    assert found == pytest.approx(costs, rel=1e-6, abs=1e-6)
    assert found.at(Size(100_000, 10, 30)) == pytest.approx(costs.at(Size(100_000, 10, 30)))


def test_no_unit_cost_is_below_nothing() -> None:
    falls = {size: Costs(1_000, 1, -2, 3).at(size) for size in SIZES}
    assert min(fitted(falls)) >= 0


def test_sizes_that_are_alike_tell_one_share() -> None:
    found = fitted({SIZES[0]: 600.0})
    assert found.at(SIZES[0]) == pytest.approx(600) and sum(map(bool, found)) == 1


def test_how_far_off() -> None:
    assert off_percent(80, 100) == off_percent(120, 100) == 20


def test_a_report_gives_them_back(tmp_path: Path) -> None:
    rows = [
        {"what": "nodes", "clock": f"per {share}", "values": [value]}
        for share, value in (("base", 9), ("group", 5.0), ("member", 2), ("partition", 1))
    ]
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"sections": [{"name": "units", "rows": rows}]}))
    assert read(path) == {"nodes": Costs(9, 5, 2, 1)}
    path.write_text(json.dumps({"sections": []}))
    with pytest.raises(ValueError, match="no unit costs"):
        read(path)
