"""The table of differences in docs/gateway.md. Pure, but for reading it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.gateway.tools.compare import Difference

PAGE = Path(__file__).parents[3] / "docs" / "gateway.md"
BEGIN, END = "<!-- tools: begin -->", "<!-- tools: end -->"
COLUMNS = 6


@dataclass(frozen=True)
class Row:
    """Each cell is a pattern, in which `*` is anything; the last one is the reason."""

    cells: tuple[str, ...]

    def fits(self, one: Difference) -> bool:
        """Whether it is about this difference."""
        found = (one.who, one.asked, one.field, one.kafka, one.here)
        return all(matches(pattern, text) for pattern, text in zip(self.cells, found))


def matches(pattern: str, text: str) -> bool:
    """Whether a text is of a pattern."""
    parts = ".*".join(re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(parts, text.strip(), re.DOTALL) is not None


def rows(page: str) -> list[Row]:
    """Of the page's table; what is code is taken without its marks."""
    table = page.partition(BEGIN)[2].partition(END)[0]
    found = []
    for line in table.strip().splitlines()[2:]:
        cells = [cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")]
        assert len(cells) == COLUMNS, line
        found.append(Row(tuple(cells)))
    return found


def wrong(found: Sequence[Difference], table: Iterable[Row]) -> list[str]:
    """Differences that are not in the table, and rows that are about none."""
    rows_left = list(table)
    unused = [row for row in rows_left if not any(row.fits(one) for one in found)]
    unknown = [one for one in found if not any(row.fits(one) for row in rows_left)]
    return [f"not in the table: {one}" for one in unknown] + [
        f"does not occur any more: {' | '.join(row.cells)}" for row in unused
    ]
