"""Columns of text, as kafka-consumer-groups.sh prints them."""

from __future__ import annotations

from collections.abc import Sequence

from zkcoord.terminal import printable

WIDTH_MIN = 15


def table(columns: Sequence[tuple[str, int]], rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns, one space between them; each is as wide as its widest cell, and at
    least as given. A row is one line, whatever its cells hold.
    """
    cells = [[name for name, _ in columns], *(list(map(printable, row)) for row in rows)]
    widths = [max(low, *(len(row[n]) for row in cells)) for n, (_, low) in enumerate(columns)]
    return "".join(
        " ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)).rstrip()
        + "\n"
        for row in cells
    )
