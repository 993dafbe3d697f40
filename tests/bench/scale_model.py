"""What something costs, by what there is of it: so much in any case, for each group, each member
and each owned partition. Unit costs are fitted to what was measured at a few sizes, and say what
another size costs.

Least squares of the errors' shares (a tenth too much counts the same at every size), no unit cost
below nothing.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.bench.figures import REPORT

SHARES = ("base", "group", "member", "partition")
UNITS_REPORT = REPORT.with_name("bench-scale-units.json")
SECTION = "units"
NOTHING = 1e-12


class Size(NamedTuple):
    """Groups, members of each, partitions that the members of each own."""

    groups: int
    members: int
    partitions: int

    def __str__(self) -> str:
        return f"{self.groups:,} x {self.members} x {self.partitions}"

    @property
    def amounts(self) -> tuple[float, float, float, float]:
        """How much there is of what `SHARES` names."""
        return 1.0, self.groups, self.groups * self.members, self.groups * self.partitions


class Costs(NamedTuple):
    """Unit costs of one quantity, in its unit."""

    base: float
    group: float
    member: float
    partition: float

    def at(self, size: Size) -> float:
        """What the model says."""
        return sum(cost * amount for cost, amount in zip(self, size.amounts))


def fitted(measured: Mapping[Size, float]) -> Costs:
    """The unit costs that are nearest to these figures, which are above 0. Raises `ValueError`
    where the sizes do not tell any shares apart.
    """
    rows = [[amount / value for amount in size.amounts] for size, value in measured.items()]
    best: tuple[float, list[float]] | None = None
    columns = range(len(SHARES))
    for chosen in itertools.chain.from_iterable(
        itertools.combinations(columns, count) for count in range(1, len(SHARES) + 1)
    ):
        found = solved([[row[at] for at in chosen] for row in rows])
        if found is None or min(found) < 0:
            continue
        costs = [0.0] * len(SHARES)
        for at, cost in zip(chosen, found):
            costs[at] = cost
        error = sum((sum(c * x for c, x in zip(costs, row)) - 1) ** 2 for row in rows)
        if best is None or error < best[0] - NOTHING:
            best = error, costs
    if best is None:
        raise ValueError("no unit costs fit: give sizes that differ in groups, members, partitions")
    return Costs(*best[1])


def solved(rows: Sequence[Sequence[float]]) -> list[float] | None:
    """What makes each row nearest to 1: the normal equations, by elimination. None where the rows
    are too much alike.
    """
    count = len(rows[0])
    scales = [max(row[at] for row in rows) or 1.0 for at in range(count)]
    scaled = [[row[at] / scales[at] for at in range(count)] for row in rows]
    table = [
        [sum(row[i] * row[j] for row in scaled) for j in range(count)]
        + [sum(row[i] for row in scaled)]
        for i in range(count)
    ]
    for at in range(count):
        pivot = max(range(at, count), key=lambda row: abs(table[row][at]))
        if abs(table[pivot][at]) < NOTHING:
            return None
        table[at], table[pivot] = table[pivot], table[at]
        for row in range(count):
            if row != at:
                times = table[row][at] / table[at][at]
                table[row] = [x - times * y for x, y in zip(table[row], table[at])]
    return [table[at][count] / table[at][at] / scales[at] for at in range(count)]


def off_percent(said: float, measured: float) -> float:
    """How far the model is from what was measured, in percent of that."""
    return 100 * abs(said - measured) / abs(measured)


def read(report: Path = UNITS_REPORT) -> dict[str, Costs]:
    """Quantity -> unit costs, from a report of the benchmark. Raises `OSError` where there is
    none, `ValueError` where it has no unit costs.
    """
    found: dict[str, dict[str, float]] = {}
    for section in json.loads(report.read_text(encoding="utf-8"))["sections"]:
        for row in section["rows"] if section["name"] == SECTION else ():
            share = row["clock"].removeprefix("per ")
            if share in SHARES:
                found.setdefault(row["what"], {})[share] = row["values"][0]
    if not found:
        raise ValueError(f"{report} has no unit costs: run python -m tests.bench.scale first")
    return {what: Costs(**shares) for what, shares in found.items()}
