"""Whoever reads JSON expects what readers raise: text that is nested a thousand deep ends in
RecursionError, which is no ValueError.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from zkcoord.verdict.lines import UNREADABLE

ROOT = Path(__file__).parents[1]
FOLDERS = ("zkcoord", "consumer", "migrations")
EXPECTED = ("RecursionError", "UNREADABLE")
TRUSTED = {
    "zkcoord/assignors/frames.py::decode_request": "a child's, from the coordinator it belongs to",
    "zkcoord/demo/timeline.py::marks": "the scenario's lines, after the verdict has read them",
    "zkcoord/znodes/legacy_json.py::_scala": "whoever calls it expects what it raises",
    "consumer/spark/audit/rows.py::report_of": "what a worker of the same audit wrote",
    "consumer/spark/graceful_stop.py::_members": "what Spark says of its own query",
}


def readers(text: str) -> Iterator[tuple[str, int, bool]]:
    """Of each call of `json.load` or `json.loads`: its function, its line, and whether it stands in
    a `try` that expects RecursionError.
    """

    def walk(node: ast.AST, function: str, expected: bool) -> Iterator[tuple[str, int, bool]]:
        if isinstance(node, ast.FunctionDef):
            function = node.name
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("json.loads", "json.load"):
            yield function, node.lineno, expected
        for child in ast.iter_child_nodes(node):
            inside = isinstance(node, ast.Try) and child in node.body and expects(node)
            yield from walk(child, function, expected or inside)

    yield from walk(ast.parse(text), "", False)


def expects(node: ast.Try) -> bool:
    """Whether one of its handlers names it."""
    return any(
        name in ast.unparse(handler.type)
        for handler in node.handlers
        if handler.type is not None
        for name in EXPECTED
    )


def test_whoever_reads_json_expects_what_readers_raise() -> None:
    found = {
        f"{path.relative_to(ROOT).as_posix()}::{function}": line
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for function, line, expected in readers(path.read_text(encoding="utf-8"))
        if not expected
    }
    assert sorted(found) == sorted(TRUSTED), "catch RecursionError, or say who wrote what is read"
    assert RecursionError in UNREADABLE


@pytest.mark.parametrize(
    ("handler", "expected"),
    [("ValueError", False), ("(ValueError, RecursionError)", True), ("lines.UNREADABLE", True)],
)
def test_the_rule_sees_what_breaks_it(handler: str, expected: bool) -> None:
    text = (
        f"def f(a):\n    try:\n        return json.loads(a)\n    except {handler}:\n        pass\n"
    )
    assert list(readers(text)) == [("f", 3, expected)]
    assert not list(readers("def f(a):\n    return strict_json(a)\n"))
