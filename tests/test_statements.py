"""What is done for its effect is a statement: `f() if a else b()` whose value nobody takes is an
`if`. PyPy 7.3.19, on which long runs of the simulator are fast, does both at the end of a block.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.test_tidy import PYTHON


def choosing(tree: ast.AST) -> Iterator[int]:
    """The lines of expressions that choose what to do."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.IfExp | ast.BoolOp):
            yield node.lineno


def test_no_expression_chooses_what_to_do() -> None:
    assert len(PYTHON) > 50, "the files were not found"
    found = [f"{source.path}:{line}" for source in PYTHON for line in choosing(source.tree)]
    assert not found, "write `if`: " + ", ".join(found)


@pytest.mark.parametrize(("text", "lines"), [("f() if a else g()", [1]), ("a and f()", [1])])
def test_one_is_seen(text: str, lines: list[int]) -> None:
    assert list(choosing(ast.parse(text))) == lines


def test_a_value_that_somebody_takes_is_none() -> None:
    assert list(choosing(ast.parse("b = f() if a else g()\nx(a and b)"))) == []
