"""Every test that docs/design.md names for a trap exists, and is one that runs."""

from __future__ import annotations

import re
from pathlib import Path

from tests.zk.port_contract import CONTRACT

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"`(tests/[a-z_/]+\.py)::([a-z0-9_]+)`")
TRAPS_MIN = 20


def test_every_trap_has_tests_that_exist() -> None:
    """A row of the table without a test, or with one that somebody renamed, is found here."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    section = text.split("## Traps of ZooKeeper", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= TRAPS_MIN
    contract = {function.__name__ for function in CONTRACT}
    for row in rows:
        tests = NAMED.findall(row)
        assert tests, row
        for file, name in tests:
            found = re.search(
                rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE
            )
            assert found and (name.startswith("test_") or name in contract), f"{file}::{name}"
