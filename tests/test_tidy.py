"""Style as a test: what the design says about limits, imports and forbidden forms is checked on
every file, and each checker is checked on a small file that breaks its rule.

A checker takes a `Source` and yields sentences of the form `path:line what is wrong`. The rules:

* Every function is fully annotated;
  every module says in a docstring what it is for.
* The core can only say what should be done: it imports data types and itself, so it can read no
  clock, start no thread, log nothing and draw no number; and it calls no builtin that would.
* The lowest layers import what `LAYERS` says, and what belongs to programs is imported by nobody
  else (floors, circles, sizes and inheritance: `tests/test_structure.py`).
* What has gone wrong before with ZooKeeper clients is not written at all: `with
  client.transaction()` (it drops the result), `client.retry(...)` (a write is repeated under
  another session), kazoo's recipes.
* A broad `except` stands only in the main of a thread or process, marked `# thread main`, or passes
  the error on with a bare `raise`.
* No file names a place of one machine or a package host, and product code has no note to self.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE_BYTES_MAX = 1_000_000
PRODUCT = ("zkcoord", "consumer", "migrations")
TREES = (*PRODUCT, "tests", "docs", "docker", ".ci")

PURE = ("zkcoord.core", "consumer.core")
PURE_IMPORTS = frozenset(
    {
        "__future__",
        "bisect",
        "collections",
        "collections.abc",
        "dataclasses",
        "enum",
        "functools",
        "heapq",
        "itertools",
        "math",
        "typing",
        "typing_extensions",  # for type checkers only
    }
)
IMPURE_CALLS = frozenset(
    {"open", "print", "input", "exec", "eval", "compile", "breakpoint", "__import__", "hash", "id"}
)

# Layer -> what of this project it may import beside itself. The first layer that a module's name
# begins with counts.
ANYWHERE = ("zkcoord.errors", "zkcoord.terminal", "zkcoord.tls", "zkcoord.__version__")
LAYERS: dict[str, tuple[str, ...]] = {
    "zkcoord.core": (),
    "consumer.core": ("zkcoord.core",),
    "zkcoord.znodes": ("zkcoord.core",),
    "zkcoord.zk": ("zkcoord.core", "zkcoord.znodes"),
    "zkcoord.guardian": (),
    "zkcoord.assignors": ("zkcoord.core",),
    "zkcoord.stack": (),
}
# What belongs to programs: imported by each other and by the programs on top of them.
PROGRAM_ROOMS = (
    "zkcoord.config",
    "zkcoord.check",
    "zkcoord.admin",
    "zkcoord.coordinator",
    "zkcoord.health",
    "zkcoord.replay",
    "zkcoord.cli",
)
PROGRAMS = (
    *PROGRAM_ROOMS,
    "zkcoord.console",
    "zkcoord.demo",
    "migrations",
    "consumer.spark.sink.__main__",
    "consumer.gateway",
)

# Put together from pieces, so that this file does not contain what it forbids.
MACHINE_PATHS = re.compile(
    r"(?<![\w./-])/(?:"
    + "|".join(("wor" + "k", "ro" + "ot", "tmp/pro" + "be", "ho" + r"me/\w+"))
    + r")/\w"
)
OTHER_PLACES = re.compile(
    "|".join(
        (
            r"\bpypi" + r"\.org",
            "pythonhos" + "ted",
            r"repo1?\.mav" + "en",
            "mav" + r"en\.org",
            r"(?<!/)\bsha" + "red/(?:design|facts|sources|tools)",
        )
    )
)
NOTES = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK")) + r")\b")


@dataclass(frozen=True)
class Source:
    """A file: its path from the project's root, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def module(self) -> str:
        """The dotted name, `zkcoord.core.model`; a package's is that of its folder."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def is_product(self) -> bool:
        return self.path.split("/")[0] in PRODUCT

    @cached_property
    def comments(self) -> dict[int, str]:
        """Line -> its comment."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}

    @cached_property
    def imports(self) -> list[tuple[int, str]]:
        """(line, dotted name) of everything imported, relative names resolved; `from a import b`
        counts as `a.b` where that is a module of this project, else as `a`.
        """
        found: list[tuple[int, str]] = []
        package = (
            self.module if self.path.endswith("__init__.py") else self.module.rpartition(".")[0]
        )
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found += [(node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = (
                    package.split(".")[: len(package.split(".")) - node.level + 1]
                    if node.level
                    else []
                )
                origin = ".".join([*base, *([node.module] if node.module else [])])
                found += [(node.lineno, self._from(origin, alias.name)) for alias in node.names]
        return found

    @staticmethod
    def _from(origin: str, name: str) -> str:
        inner = f"{origin}.{name}"
        folder = ROOT.joinpath(*inner.split("."))
        return (
            inner
            if inner in ANYWHERE or folder.is_dir() or folder.with_suffix(".py").is_file()
            else origin
        )


Checker = Callable[[Source], Iterator[str]]


def functions(source: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def begins(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def annotations(source: Source) -> Iterator[str]:
    methods = {
        child
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
        for child in node.body
    }
    for node in functions(source):
        where = f"{source.path}:{node.lineno} {node.name}"
        if node.returns is None:
            yield f"{where} does not say what it returns"
        given = [
            *node.args.posonlyargs,
            *node.args.args,
            *node.args.kwonlyargs,
            *filter(None, (node.args.vararg, node.args.kwarg)),
        ]
        static = any(
            isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in node.decorator_list
        )
        first = given[0] if given and node in methods and not static else None
        for argument in given:
            if argument.annotation is None and argument is not first:
                yield f"{where} does not annotate {argument.arg}"


def docstrings(source: Source) -> Iterator[str]:
    if not ast.get_docstring(source.tree):
        yield f"{source.path}:1 has no docstring that says what it is for"
    if source.tree.body[1:] and not any(name == "__future__" for _, name in source.imports):
        yield f"{source.path}:1 lacks `from __future__ import annotations`"


def purity(source: Source) -> Iterator[str]:
    if not begins(source.module, PURE):
        return
    for line, name in source.imports:
        if name not in PURE_IMPORTS and not begins(name, PURE):
            yield f"{source.path}:{line} imports {name}, which the core may not"
    for node in ast.walk(source.tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in IMPURE_CALLS
        ):
            yield f"{source.path}:{node.lineno} calls {node.func.id}, which the core may not"


def layers(source: Source) -> Iterator[str]:
    if not source.is_product:
        return
    layer = next((name for name in LAYERS if begins(source.module, (name,))), None)
    for line, name in source.imports:
        if not begins(name, PRODUCT):
            continue
        if layer is not None and not begins(
            name, (layer, *LAYERS[layer], *(() if layer in PURE else ANYWHERE))
        ):
            yield f"{source.path}:{line} imports {name}, which {layer} may not"
        if begins(name, PROGRAM_ROOMS) and not begins(source.module, PROGRAMS):
            yield (
                f"{source.path}:{line} imports {name}: what belongs to programs is imported by"
                " programs only"
            )


def forbidden_forms(source: Source) -> Iterator[str]:
    if not source.is_product:
        return
    for line, name in source.imports:
        if begins(name, ("kazoo.recipe",)):
            yield f"{source.path}:{line} uses a kazoo recipe"
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.With, ast.AsyncWith)) and any(
            _called(item.context_expr) == "transaction" for item in node.items
        ):
            yield (
                f"{source.path}:{node.lineno} `with ...transaction()` drops the outcome: commit it"
                " and look at every result"
            )
        if isinstance(node, ast.Call) and _called(node) == "retry":
            yield f"{source.path}:{node.lineno} `...retry(...)` may write under another session"
        calls_a_loop = isinstance(node, ast.Call) and _called(node) == "call_soon_threadsafe"
        if calls_a_loop and source.path != "zkcoord/event_loops.py":
            yield f"{source.path}:{node.lineno} a loop may have ended: run_there(...)"
        if isinstance(node, ast.Raise) and any(
            isinstance(part, ast.Name) and part.id == "NotImplementedError"
            for part in ast.walk(node)
        ):
            yield f"{source.path}:{node.lineno} raises NotImplementedError"


def broad_excepts(source: Source) -> Iterator[str]:
    if not source.is_product:
        return
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = [node.type] if not isinstance(node.type, ast.Tuple) else node.type.elts
        broad = any(
            kind is None
            or (isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException"))
            for kind in caught
        )
        passed_on = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
        marked = re.search(r"thread('s)? main|process main", source.comments.get(node.lineno, ""))
        if broad and not passed_on and not marked:
            yield f"{source.path}:{node.lineno} catches everything outside the main of a thread"


def places(source: Source) -> Iterator[str]:
    """Any text file: no path of one machine, no package host. Product code: no note to self."""
    for number, line in enumerate(source.text.splitlines(), 1):
        for pattern in (MACHINE_PATHS, OTHER_PLACES):
            found = pattern.search(line)
            if found:
                yield f"{source.path}:{number} names {found.group(0)!r}"
        if source.is_product and NOTES.search(line):
            yield f"{source.path}:{number} holds a note to self"


def packages(source: Source) -> Iterator[str]:
    """A folder without `__init__.py` is left out of the wheel without a word."""
    folder = (ROOT / source.path).parent
    if source.is_product and folder.is_dir() and not (folder / "__init__.py").is_file():
        yield f"{source.path}:1 lies in a folder without __init__.py, which no wheel would hold"


OF_PYTHON: tuple[Checker, ...] = (
    annotations,
    docstrings,
    purity,
    layers,
    forbidden_forms,
    broad_excepts,
    packages,
)


def text_files() -> list[Source]:
    """Every text file of the project: what lies in its trees, and the files at the top."""
    paths = [path for tree in TREES for path in (ROOT / tree).rglob("*")] + list(ROOT.iterdir())
    found: list[Source] = []
    for path in sorted(paths):
        if (
            not path.is_file()
            or "__pycache__" in path.parts
            or path.stat().st_size > FILE_BYTES_MAX
        ):
            continue
        try:
            found.append(
                Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
            )
        except UnicodeDecodeError:  # a picture
            continue
    return found


FILES = text_files()
PYTHON = [source for source in FILES if source.path.endswith(".py")]


@pytest.mark.parametrize("checker", OF_PYTHON, ids=lambda checker: checker.__name__)
def test_python(checker: Checker) -> None:
    assert len(PYTHON) > 50, "the files were not found"
    findings = [finding for source in PYTHON for finding in checker(source)]
    assert not findings, "\n" + "\n".join(findings)


def test_places() -> None:
    findings = [finding for source in FILES for finding in places(source)]
    assert not findings, "\n" + "\n".join(findings)


BODY = '"""For a test."""\n\nfrom __future__ import annotations\n\n'
BAD: list[tuple[Checker, str, str, str]] = [
    (annotations, "zkcoord/a.py", "def f(a) -> None: ...", "annotate a"),
    (annotations, "zkcoord/a.py", "def f(a: int): ...", "what it returns"),
    (annotations, "zkcoord/a.py", "def f(self) -> None: ...", "annotate self"),
    (
        annotations,
        "zkcoord/a.py",
        "class C:\n    def f(self, *rest, **more) -> None: ...",
        "annotate rest",
    ),
    (
        annotations,
        "zkcoord/a.py",
        "class C:\n    @staticmethod\n    def f(a) -> None: ...",
        "annotate a",
    ),
    (annotations, "tests/a.py", "async def f(*, a) -> None: ...", "annotate a"),
    (docstrings, "tests/a.py", "import os", "no docstring"),
    (docstrings, "tests/a.py", '"""Doc."""\nimport os', "__future__"),
    (purity, "zkcoord/core/a.py", "import time", "imports time"),
    (purity, "zkcoord/core/a.py", "from random import random", "imports random"),
    (
        purity,
        "zkcoord/core/a.py",
        "from zkcoord.errors import ZkcoordError",
        "imports zkcoord.errors",
    ),
    (purity, "zkcoord/core/a.py", "from ..zk import port", "imports zkcoord.zk.port"),
    (purity, "consumer/core/a.py", "def f() -> None:\n    import logging", "imports logging"),
    (purity, "zkcoord/core/a.py", "print(1)", "calls print"),
    (
        layers,
        "zkcoord/znodes/a.py",
        "from zkcoord.zk.kazoo_port.session import KazooEnsemble",
        "zkcoord.znodes may not",
    ),
    (layers, "zkcoord/znodes/a.py", "from zkcoord import zk", "imports zkcoord.zk,"),
    (layers, "zkcoord/zk/a.py", "import consumer.options", "imports consumer.options"),
    (layers, "consumer/core/a.py", "from ..options import X", "imports consumer.options"),
    (layers, "zkcoord/guardian/a.py", "from zkcoord.zk import port", "zkcoord.guardian may not"),
    (layers, "consumer/a.py", "from zkcoord.config.sources import X", "by programs only"),
    (forbidden_forms, "zkcoord/a.py", "with client.transaction() as t: pass", "drops the outcome"),
    (
        forbidden_forms,
        "zkcoord/a.py",
        "self.client.retry(self.client.set, '/a', b'')",
        "another session",
    ),
    (forbidden_forms, "zkcoord/a.py", "loop.call_soon_threadsafe(f)", "may have ended"),
    (forbidden_forms, "zkcoord/a.py", "from kazoo.recipe.election import Election", "recipe"),
    (
        forbidden_forms,
        "zkcoord/a.py",
        "def f() -> None:\n    raise NotImplementedError('x')",
        "NotImplementedError",
    ),
    (broad_excepts, "zkcoord/a.py", "try: pass\nexcept Exception: pass", "catches everything"),
    (broad_excepts, "zkcoord/a.py", "try: pass\nexcept: pass", "catches everything"),
    (
        broad_excepts,
        "zkcoord/a.py",
        "try: pass\nexcept (OSError, BaseException) as e: raise ValueError from e",
        "catches everything",
    ),
    (places, "docs/a.md", "see /" + "work/main/x", "names"),
    (places, "tests/a.py", "open('/ro" + "ot/x')", "names"),
    (places, "Makefile", "curl https://pypi" + ".org/simple", "names"),
    (places, "docs/a.md", "as sha" + "red/facts/zookeeper.md says", "names"),
    (places, "zkcoord/a.py", "# TO" + "DO later", "note to self"),
    (packages, "zkcoord/../docs/a.py", "", "without __init__.py"),
]
GOOD: list[tuple[Checker, str, str]] = [
    (
        annotations,
        "zkcoord/a.py",
        (
            "class C:\n    def f(self, a: int, *b: int) -> None: ...\n    @classmethod\n    def"
            " g(cls) -> None: ..."
        ),
    ),
    (annotations, "zkcoord/a.py", "def f(a: int = 1) -> int:\n    return (lambda b: b)(a)"),
    (docstrings, "tests/a.py", '"""Doc."""'),
    (
        purity,
        "zkcoord/core/a.py",
        (
            "import heapq\nfrom collections.abc import Mapping\nfrom .model import Member\nfrom ."
            " import model"
        ),
    ),
    (purity, "consumer/core/a.py", "from zkcoord.core.model import Member"),
    (purity, "zkcoord/zk/a.py", "import time\nprint(1)"),
    (
        layers,
        "zkcoord/zk/a.py",
        (
            "from zkcoord.znodes.paths import Layout\nfrom .port import Stat\nfrom zkcoord.errors"
            " import ZkcoordError\nfrom zkcoord import __version__"
        ),
    ),
    (
        layers,
        "zkcoord/cli/a.py",
        "from zkcoord.config.sources import X\nfrom zkcoord.guardian.client import Guardian",
    ),
    (layers, "zkcoord/demo/a.py", "from zkcoord.config.sources import X"),
    (
        forbidden_forms,
        "zkcoord/a.py",
        "t = client.transaction()\nresults = t.commit()\nwith open('a') as b: pass",
    ),
    (forbidden_forms, "tests/a.py", "client.retry(client.set, '/a', b'')"),
    (broad_excepts, "zkcoord/a.py", "try: pass\nexcept Exception:  # thread main\n    stop()"),
    (broad_excepts, "zkcoord/a.py", "try: pass\nexcept BaseException:\n    close()\n    raise"),
    (broad_excepts, "zkcoord/a.py", "try: pass\nexcept OSError: pass"),
    (places, "docs/a.md", "the chroot /root-of/it, a/work/b, ./root, /tmp/a"),
]


@pytest.mark.parametrize(("checker", "path", "text", "finding"), BAD)
def test_a_checker_sees_what_breaks_its_rule(
    checker: Checker, path: str, text: str, finding: str
) -> None:
    found = list(checker(Source(path, BODY + text if checker is not docstrings else text)))
    assert any(finding in sentence for sentence in found), found


@pytest.mark.parametrize(("checker", "path", "text"), GOOD)
def test_a_checker_lets_the_rest_pass(checker: Checker, path: str, text: str) -> None:
    assert list(checker(Source(path, BODY + text if checker is not docstrings else text))) == []


def _called(node: ast.expr) -> str | None:
    """`retry` from `a.b.retry(...)`; None from anything that is not a call of an attribute."""
    return (
        node.func.attr
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        else None
    )
