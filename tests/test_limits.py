"""The limits that docs/design.md names are those of the code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from zkcoord.core.options import CoordinatorOptions

TEXT = (Path(__file__).parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| [^|]+ \| (\d+) \| `([a-z_.]+):(?:CoordinatorOptions\.)?([A-Za-z_]+)` \|", re.MULTILINE
)
LIMITS_MIN = 20


def test_the_table_of_limits_says_what_the_code_says() -> None:
    rows = ROW.findall(TEXT.split("## Limits", 1)[1].split("\n## ", 1)[0])
    assert len(rows) >= LIMITS_MIN
    for value, module, name in rows:
        holder = (
            CoordinatorOptions()
            if module == "zkcoord.core.options"
            else importlib.import_module(module)
        )
        assert getattr(holder, name) == int(value), (module, name)
