"""Every test that docs/design.md names for a trap, and docs/faults.md for a fault, exists."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from tests.zk.port_contract import CONTRACT

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"`(tests/[a-z0-9_/]+\.py)::([a-z0-9_]+)`")
OPEN = "open"
TRAPS_MIN = 20
FAULTS_MIN = 90
QUESTIONS_MIN = 13


def test_every_trap_has_tests_that_exist() -> None:
    """A row of the table without a test, or with one that somebody renamed, is found here."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    section = text.split("## Traps of ZooKeeper", 1)[1].split("\n## ", 1)[0]
    rows = table_rows(section)
    assert len(rows) >= TRAPS_MIN
    for row in rows:
        assert_tests_exist(row)


def test_every_fault_has_tests_that_exist() -> None:
    """As above; a fault that is open says so in so many letters."""
    rows = table_rows((ROOT / "docs" / "faults.md").read_text(encoding="utf-8"))
    assert len(rows) >= FAULTS_MIN
    for row in rows:
        if row.rsplit("|", 2)[1].strip() != OPEN:
            assert_tests_exist(row)


def test_every_answer_to_an_open_question_has_a_test_that_exists() -> None:
    """A folder shows nothing."""
    text = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    rows = table_rows(text.split("## Open questions", 1)[1].split("\n## ", 1)[0])
    assert len(rows) >= QUESTIONS_MIN
    for row in rows:
        assert_tests_exist(row)


def table_rows(text: str) -> list[str]:
    """The rows of all tables, without their heads."""
    lines = text.splitlines()
    return [
        line
        for before, line in itertools.pairwise(lines)
        if line.startswith("| ") and before.startswith("|")
    ]


def assert_tests_exist(row: str) -> None:
    """Each test that the row names, and it names one."""
    contract = {function.__name__ for function in CONTRACT}
    tests = NAMED.findall(row)
    assert tests, row
    for file, name in tests:
        found = re.search(
            rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE
        )
        assert found and (name.startswith("test_") or name in contract), f"{file}::{name}"
