"""What the tests of the table "When things are down" (docs/consumer.md) share: a line of the table
with its cells, calls that must end in time, and what the log says.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SLACK_S = 20.0  # what a busy machine may add to a limit; a call without a limit takes longer
OURS = ("consumer", "zkcoord")
# said of a consumer that was closed while ZooKeeper was away, seconds later
LATE = "session could not be closed"
PAGE = Path(__file__).parents[2] / "docs" / "consumer.md"
HEAD = "| when | poll |"


class Row:
    """A line of the table. Each of its cells is checked inside `with row.cell(column)`, which puts
    the names into an error.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @contextmanager
    def cell(self, column: str) -> Iterator[None]:
        """The checks of one cell."""
        try:
            yield
        except AssertionError as e:
            raise AssertionError(f"{self.name}: {column}: {e}") from e


class Logged:
    """Lines of our own loggers since a moment."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        self._from = len(caplog.records)

    def of(self, word: str, level: str | None = None) -> list[str]:
        """Lines that hold a word."""
        return [
            r.getMessage()
            for r in self._records()
            if word in r.getMessage() and level in (None, r.levelname)
        ]

    def warnings(self) -> list[str]:
        """Lines that somebody should read."""
        return [r.getMessage() for r in self._records() if r.levelname not in ("DEBUG", "INFO")]

    def foreign(self) -> int:
        """How many lines kafka-python wrote."""
        return sum(r.name.startswith("kafka.") for r in self._caplog.records[self._from :])

    def _records(self) -> list[Any]:
        return [
            r
            for r in self._caplog.records[self._from :]
            if r.name.split(".")[0] in OURS and LATE not in r.getMessage()
        ]


def bounded(limit_ms: float, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    """What the call gives, or the exception that it raises; AssertionError when it goes on beyond
    its limit.
    """
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(call(*arguments, **named))
        except Exception as e:  # whatever it is: the test looks at it
            outcome.append(e)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_ms / 1000 + SLACK_S)
    assert outcome, f"{getattr(call, '__name__', call)} goes on after {limit_ms / 1000:.1f} s"
    return outcome[0]


def checked(folder: Path) -> dict[str, set[str]]:
    """The columns that the tests check, by row: of each function that makes a Row, the names of its
    cells.
    """
    found: dict[str, set[str]] = {}
    for path in folder.glob("test_when_down*.py"):
        for function in (
            node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef)
        ):
            calls = [
                node
                for node in ast.walk(function)
                if isinstance(node, ast.Call)
                and node.args
                and isinstance(node.args[0], ast.Constant)
            ]
            rows = [
                str(node.args[0].value)
                for node in calls
                if isinstance(node.func, ast.Name) and node.func.id == "Row"
            ]  # type: ignore[attr-defined]
            for row in rows:
                found.setdefault(row, set()).update(
                    str(node.args[0].value)
                    for node in calls
                    if isinstance(node.func, ast.Attribute) and node.func.attr == "cell"
                )  # type: ignore[attr-defined]
    return found


def documented() -> dict[str, set[str]]:
    """The columns that have a text in the table, by row."""
    lines = [
        line
        for line in (
            HEAD + PAGE.read_text(encoding="utf-8").partition(HEAD)[2].partition("\n\n")[0]
        ).splitlines()
        if line.startswith("|")
    ]
    columns = [cell.strip() for cell in lines[0].strip("|").split("|")][1:]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]
    return {row[0]: {column for column, text in zip(columns, row[1:]) if text} for row in rows}
