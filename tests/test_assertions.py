"""Assertions that cannot fail, in the tests: what compares a thing with itself, what is true of
everything, what repeats the code under test.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def idle(tree: ast.AST) -> Iterator[int]:
    """Lines of assertions that hold whatever the code does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and any(map(_always, _operands(node.test))):
            yield node.lineno


def _operands(test: ast.expr) -> list[ast.expr]:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [one for value in test.values for one in _operands(value)]
    return [test]


def _always(test: ast.expr) -> bool:
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Tuple(elts=elements):
            return bool(elements)
        case ast.JoinedStr() | ast.Lambda():
            return True
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(map(_always, values))
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            same = ast.dump(left) == ast.dump(right)
            # two calls may well differ: that they do not is what is tested then
            called = any(isinstance(n, ast.Call) and not _sorts(n) for n in ast.walk(left))
            if same and isinstance(operator, ast.Eq | ast.LtE | ast.GtE | ast.Is):
                return not called
            return (
                isinstance(operator, ast.GtE)
                and isinstance(right, ast.Constant)
                and right.value == 0
                and isinstance(left, ast.Call)
                and isinstance(left.func, ast.Name)
                and left.func.id == "len"
            )
    return False


def _sorts(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in {"set", "sorted", "list", "len"}


def test_no_assertion_holds_whatever_the_code_does() -> None:
    files = sorted((ROOT / "tests").rglob("*.py"))
    assert len(files) > 100
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in files
        for line in idle(ast.parse(path.read_bytes()))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "assert x == x",
        "assert set(a.b) == set(a.b)",
        "assert f(y) and x <= x",
        "assert (x == 1, 'said')",
        "assert 'text'",
        "assert len(found) >= 0",
        "assert f'{x}'",
        "assert x == 1 or True",
    ],
)
def test_what_cannot_fail_is_seen(text: str) -> None:
    assert list(idle(ast.parse(text))) == [1]


@pytest.mark.parametrize(
    "text",
    ["assert x == y", "assert digest(1) == digest(1)", "assert x != x", "assert len(x) >= 1"],
)
def test_what_can_fail_is_let_pass(text: str) -> None:
    assert not list(idle(ast.parse(text)))
