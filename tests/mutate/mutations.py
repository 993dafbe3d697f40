"""The mutations of a source file: one small change each, of a kind that a careless edit makes.

Only what stands in functions is changed (a mutant replaces the code of functions that are loaded);
what a log line says, assertions, annotations and texts are left alone, and so is what could only
raise another error at once.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
TURNED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
OTHERS = {"min": "max", "max": "min", "any": "all", "all": "any"}
UNTOUCHED_CALLS = ("log.", "warnings.", "logging.", "assert_never")
TEXT_MAX = 90

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Mutant:
    """One change. `path` is relative to the checkout; `number` counts the changes of the file in
    the order of its text; `outer` is the qualified name of the outermost function around it, whose
    code is replaced; `key` names it as long as the function and the line's text stay as they are.
    """

    path: str
    number: int
    line: int
    outer: str
    change: str
    key: str


def _text(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 3]}..."


def _is_condition(node: ast.expr) -> bool:
    """Whether turning it round is a change of its own: comparisons and the like have theirs."""
    return not isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant)


def _removable(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(ast.Call() as call):
            return not ast.unparse(call.func).startswith(UNTOUCHED_CALLS)
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
        case ast.AugAssign() | ast.Delete() | ast.Continue() | ast.Break() | ast.Raise():
            return True
        case ast.Return(None):
            return True
    return False


Apply = Callable[[], None]


class _Finder:
    """Walks a tree in the order of its text, and gives each change with what makes it in place."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree

    def changes(self) -> Iterator[tuple[int, str, str, Apply]]:
        """Line, outermost function, text of the change, and what applies it to the tree."""
        yield from self._in_body(self._tree.body, "")

    def _in_body(self, body: list[ast.stmt], name: str) -> Iterator[tuple[int, str, str, Apply]]:
        for statement in body:
            if isinstance(statement, ast.ClassDef):
                yield from self._in_body(statement.body, f"{name}{statement.name}.")
            elif isinstance(statement, Function):
                for part in statement.body:
                    for line, text, apply in self._of(part, statement.body):
                        yield line, name + statement.name, text, apply

    def _of(self, node: ast.AST, siblings: list[ast.stmt]) -> Iterator[tuple[int, str, Apply]]:
        if isinstance(node, ast.Assert):
            return
        if isinstance(node, ast.stmt):
            if _removable(node):
                yield node.lineno, f"without: {_text(node)}", self._remover(node, siblings)
            if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Await | ast.Call):
                return
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(UNTOUCHED_CALLS):
            return
        if isinstance(node, ast.JoinedStr | ast.Raise | ast.AnnAssign) and not (
            isinstance(node, ast.AnnAssign) and node.value is not None
        ):
            return
        yield from self._expressions(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_ignores"):
                continue
            children = value if isinstance(value, list) else [value]
            inner = [c for c in children if isinstance(c, ast.stmt)]
            for child in children:
                if isinstance(child, ast.AST):
                    yield from self._of(child, value if inner else siblings)

    def _remover(self, node: ast.stmt, siblings: list[ast.stmt]) -> Apply:
        def apply() -> None:
            siblings[siblings.index(node)] = ast.copy_location(ast.Pass(), node)

        return apply

    def _expressions(self, node: ast.AST) -> Iterator[tuple[int, str, Apply]]:
        match node:
            case ast.Compare(ops=ops):
                for at, operator in enumerate(ops):
                    yield self._with(node, "ops", at, SWAPPED[type(operator)]())
            case ast.BoolOp(values=values) if len(values) > 1:
                for at in range(len(values)):
                    yield self._without(node, at)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._replaced(node, operand)
            case ast.BinOp(op=operator) if type(operator) in TURNED and not _of_texts(node):
                yield self._with(node, "op", None, TURNED[type(operator)]())
            case ast.AugAssign(op=operator) if type(operator) in TURNED:
                yield self._with(node, "op", None, TURNED[type(operator)]())
            case ast.Call(func=ast.Name(id=name)) if name in OTHERS:
                other = ast.copy_location(ast.Name(OTHERS[name], ast.Load()), node.func)
                yield self._with(node, "func", None, other)
            case ast.Constant(value=bool() as value):
                yield self._with(node, "value", None, not value)
            case ast.Constant(value=int() as number):
                yield self._with(node, "value", None, number + 1)
        if isinstance(node, ast.If | ast.While | ast.IfExp) and _is_condition(node.test):
            yield self._negated(node, "test", None)
        if isinstance(node, ast.comprehension):
            for at, test in enumerate(node.ifs):
                if _is_condition(test):
                    yield self._negated(node, "ifs", at)

    def _with(
        self, node: ast.AST, field: str, at: int | None, value: object
    ) -> tuple[int, str, Apply]:
        """A change of one field of a node, or of one entry of a field that is a list."""
        changed = copy.deepcopy(node)
        self._put(changed, field, at, value)

        def apply() -> None:
            self._put(node, field, at, value)

        line = getattr(node, "lineno", 0)
        return line, f"{_text(node)} -> {_text(changed)}", apply

    @staticmethod
    def _put(node: ast.AST, field: str, at: int | None, value: object) -> None:
        if at is None:
            setattr(node, field, value)
        else:
            getattr(node, field)[at] = value

    def _negated(self, node: ast.AST, field: str, at: int | None) -> tuple[int, str, Apply]:
        held = getattr(node, field)
        test = held if at is None else held[at]
        turned = ast.copy_location(ast.UnaryOp(ast.Not(), test), test)

        def apply() -> None:
            self._put(node, field, at, turned)

        return test.lineno, f"{_text(test)} -> {_text(turned)}", apply

    def _without(self, node: ast.BoolOp, at: int) -> tuple[int, str, Apply]:
        left = node.values[:at] + node.values[at + 1 :]
        changed = left[0] if len(left) == 1 else ast.BoolOp(node.op, left)
        before, after = _text(node), _text(changed)

        def apply() -> None:
            # one operand left is the operand itself
            node.values = left if len(left) > 1 else [left[0], left[0]]

        return node.lineno, f"{before} -> {after}", apply

    def _replaced(self, node: ast.UnaryOp, operand: ast.expr) -> tuple[int, str, Apply]:
        before = _text(node)

        def apply() -> None:
            node.operand = ast.copy_location(ast.UnaryOp(ast.Not(), operand), operand)

        return node.lineno, f"{before} -> {_text(operand)}", apply


def _of_texts(node: ast.BinOp) -> bool:
    """Whether it joins texts or lists, as far as one can see."""
    return any(
        isinstance(part, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp)
        or (isinstance(part, ast.Constant) and not isinstance(part.value, int | float))
        for part in (node.left, node.right)
    )


def mutants(path: str, root: Path) -> list[Mutant]:
    """All of a file."""
    tree, found, seen = ast.parse((root / path).read_bytes()), [], Counter[str]()
    for number, (line, outer, change, _) in enumerate(_Finder(tree).changes()):
        key = f"{path}::{outer}: {change}"
        seen[key] += 1
        if seen[key] > 1:
            key += f" ({seen[key]})"
        found.append(Mutant(path, number, line, outer, change, key))
    return found


def mutated(mutant: Mutant, root: Path) -> ast.Module:
    """The file with this change."""
    tree = ast.parse((root / mutant.path).read_bytes())
    for number, (_, _, _, apply) in enumerate(_Finder(tree).changes()):
        if number == mutant.number:
            apply()
            break
    return ast.fix_missing_locations(tree)
