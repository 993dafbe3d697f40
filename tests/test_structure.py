"""The structure as a test: floors, circles, sizes, names and inheritance of the product.

docs/design.md says on which floor each room stands; this reads it from there. Each rule is a
function from a tree of sources to sentences, and each is shown a small tree that breaks it.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import pytest

from tests.test_tidy import FILES, PRODUCT, ROOT, Source, begins

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
FOLDER_MODULES_MAX = 12
REASONS_MAX = 5
CUT = f"cut it by what it does (LARGER is for what cannot be cut, {REASONS_MAX} at most)"
COLUMNS_MAX = 100
PROSE_COLUMNS_MAX = 120
IGNORES_MAX = 25

# What may be larger, and why. Five at most.
LARGER = {
    "consumer/spark": "Spark imports all of it by one name, and each module is one thing it asks",
    "migrations": "what each step writes, and what all steps share: cut in two, both halves ask",
    "zkcoord/cli": "one module a command, found by the command's name",
    "zkcoord/demo": "one program: what it starts, shows and judges",
    "zkcoord/znodes": "one parser a znode, beside paths, names and the strict reader they share",
}

# A class name that two modules share, and why.
NAMED_TWICE: dict[str, str] = {}

# Packages whose own file is a room, without what lies in them.
ALONE = ("zkcoord", "consumer")

Tree = Mapping[str, Source]


def product(files: Iterable[Source]) -> dict[str, Source]:
    """Dotted name -> module of the product."""
    return {
        s.module: s for s in files if s.path.endswith(".py") and s.path.split("/")[0] in PRODUCT
    }


def floors(text: str) -> dict[str, int]:
    """Room -> its floor, from the table in docs/design.md."""
    table = text.partition("<!-- floors: begin -->")[2].partition("<!-- floors: end -->")[0]
    rows = [row.split("|") for row in table.splitlines() if re.match(r"\| *\d+ *\|", row)]
    return {
        room: int(row[1]) for row in rows for room in re.findall(r"`([\w.]+)`", " ".join(row[2:]))
    }


def room_of(module: str, known: Mapping[str, int]) -> str | None:
    """The room that a module stands in: the longest name on the table that its own begins with."""
    fitting = [room for room in known if begins(module, (room,)) and room not in ALONE]
    exact = [room for room in known if room == module]
    return max(exact or fitting, key=len, default=None)


def upwards(tree: Tree, known: Mapping[str, int]) -> Iterator[str]:
    """A module imports from its own room, or from rooms on lower floors."""
    for module, source in tree.items():
        room = room_of(module, known)
        if room is None:
            yield f"{source.path}: docs/design.md does not say on which floor it stands"
            continue
        for line, name in source.imports:
            target = room_of(name, known) if name in tree else None
            if target is not None and target != room and known[target] >= known[room]:
                yield f"{source.path}:{line} imports {name}: not on a floor below"


def circles(tree: Tree) -> Iterator[str]:
    """No two modules need each other, however far the way round is."""
    imports = {m: {name for _, name in s.imports if name in tree} for m, s in tree.items()}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for name in sorted(imports[module]):
            if name not in index:
                visit(name)
                low[module] = min(low[module], low[name])
            elif name in stack:
                low[module] = min(low[module], index[name])
        if low[module] == index[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 10 * len(tree)))
    try:
        for module in imports:
            if module not in index:
                visit(module)
    finally:
        sys.setrecursionlimit(limit)
    for circle in found:
        yield f"these modules import each other: {', '.join(circle)}"


def sizes(tree: Tree, larger: Mapping[str, str] = LARGER) -> Iterator[str]:
    """Files, functions and folders, but for those with a reason."""
    folders: dict[str, int] = defaultdict(int)
    for source in tree.values():
        count = len(source.text.splitlines())
        if count > FILE_LINES_MAX and source.path not in larger:
            yield f"{source.path}: {count} lines, {FILE_LINES_MAX} are allowed: {CUT}"
        for node in ast.walk(source.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    yield f"{source.path}:{node.lineno} {node.name} has {lines} lines"
        if not source.path.endswith("__init__.py"):
            folders[source.path.rpartition("/")[0]] += 1
    for folder, count in folders.items():
        if count > FOLDER_MODULES_MAX and folder not in larger:
            yield f"{folder}: {count} modules, {FOLDER_MODULES_MAX} are allowed: {CUT}"


def classes(tree: Tree) -> Iterator[tuple[Source, ast.ClassDef]]:
    """Every class at the top of a module."""
    for source in tree.values():
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef):
                yield source, node


def names_twice(tree: Tree) -> Iterator[str]:
    """A class name means one thing."""
    where: dict[str, list[str]] = defaultdict(list)
    for source, node in classes(tree):
        where[node.name].append(source.path)
    for name, paths in where.items():
        if len(paths) > 1 and name not in NAMED_TWICE:
            yield f"the class {name} stands in {', '.join(sorted(paths))}"


BUILT_IN_ERRORS = frozenset(
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
)


def _every_class(source: Source) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef))


def _other_names(source: Source) -> dict[str, str]:
    """What this module calls a class -> that class's own name."""
    found = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom):
            found.update({a.asname: a.name for a in node.names if a.asname})
        elif isinstance(node, ast.Assign) and isinstance(node.value, (ast.Name, ast.Attribute)):
            name = ast.unparse(node.value).rpartition(".")[2]
            found.update({t.id: name for t in node.targets if isinstance(t, ast.Name)})
    return found


def _bases(node: ast.ClassDef, others: Mapping[str, str]) -> list[str]:
    names = [ast.unparse(base).split("[")[0] for base in node.bases]
    return [
        name
        if name.startswith("threading.")
        else others.get(name.rpartition(".")[2], name.rpartition(".")[2])
        for name in names
    ]


def _is_error(name: str, ours: Mapping[str, list[str]]) -> bool:
    """By its ancestors; what is not ours by its name."""
    if name in BUILT_IN_ERRORS or name not in ours:
        return name in BUILT_IN_ERRORS or name.endswith(("Error", "Exception"))
    return any(base != name and _is_error(base, ours) for base in ours[name])


def _says_only(node: ast.ClassDef) -> bool:
    """A protocol whose methods have no bodies: nothing comes with it."""
    if not any(ast.unparse(base).split("[")[0].endswith("Protocol") for base in node.bases):
        return False
    return all(
        isinstance(line, ast.Pass)
        or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        for method in node.body
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef))
        for line in method.body
    )


def inherits(tree: Tree) -> Iterator[str]:
    """Parts instead of inheritance: a product class is the base of none, unless it is an error, or
    a protocol that only says what there is.
    """
    known = [(s, node, _other_names(s)) for s in tree.values() for node in _every_class(s)]
    ours = {node.name: _bases(node, others) for _, node, others in known}
    protocols = {node.name for _, node, _ in known if _says_only(node)}
    for source, node, others in known:
        for name in _bases(node, others):
            if name == node.name or name not in ours or name in protocols:
                continue
            if not _is_error(name, ours):
                yield f"{source.path}:{node.lineno} {node.name} inherits from {name}"


def nested_conditionals(tree: Tree) -> Iterator[str]:
    """A conditional expression within another one is an if, a match or a table."""
    for source in tree.values():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.IfExp) and any(
                isinstance(part, ast.IfExp) for part in (node.test, node.body, node.orelse)
            ):
                yield f"{source.path}:{node.lineno} has a conditional expression in another one"


def ignores(tree: Tree) -> Iterator[str]:
    """`# type: ignore` says which error, and why; and there are few."""
    count = 0
    for source in tree.values():
        for line, comment in source.comments.items():
            if re.match(r"#\s*mypy:", comment):
                yield f"{source.path}:{line} changes the type checker for all of the file"
            if "type: ignore" in comment:
                count += 1
                if not re.search(r"type: ignore\[[\w, -]+\]\s+# \w", comment):
                    yield f"{source.path}:{line} does not say which error it ignores, and why"
    if count > IGNORES_MAX:
        yield f"{count} errors of the type checker are ignored, {IGNORES_MAX} are allowed"


def long_prose(files: Iterable[Source]) -> Iterator[str]:
    """Markdown prose: not tables, code, a line that is one link, or generated figures."""
    for source in files:
        if not source.path.endswith(".md") or source.path.startswith("docs/figures/"):
            continue
        fenced = False
        for number, line in enumerate(source.text.splitlines(), 1):
            if line.lstrip().startswith("```"):
                fenced = not fenced
            long = len(line) > PROSE_COLUMNS_MAX and " " in line.strip()
            if long and not fenced and not line.lstrip().startswith("|"):
                yield f"{source.path}:{number} has {len(line)} columns"
        if fenced:
            yield f"{source.path} has a code block without an end"


def long_lines(files: Iterable[Source]) -> Iterator[str]:
    """Python: whatever cannot be broken aside, and notes to the checkers."""
    for source in files:
        for number, line in enumerate(source.text.splitlines(), 1):
            code = re.sub(r"\s+# (type: ignore|noqa).*$", "", line)
            if source.path.endswith(".py") and len(code) > COLUMNS_MAX and " " in code.strip():
                yield f"{source.path}:{number} has {len(line)} columns"


DESIGN = ROOT / "docs" / "design.md"


def in_floors(tree: Tree) -> Iterator[str]:
    """`upwards`, by today's table."""
    return upwards(tree, floors(DESIGN.read_text(encoding="utf-8")))


Rule = Callable[[Tree], Iterator[str]]
RULES: tuple[Rule, ...] = (
    in_floors,
    circles,
    sizes,
    names_twice,
    inherits,
    nested_conditionals,
    ignores,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_product(rule: Rule) -> None:
    tree = product(FILES)
    assert len(tree) > 200, "the files were not found"
    findings = list(rule(tree))
    assert not findings, "\n" + "\n".join(findings)


@pytest.mark.parametrize("rule", [long_prose, long_lines], ids=lambda rule: rule.__name__)
def test_the_texts(rule: Callable[[Iterable[Source]], Iterator[str]]) -> None:
    findings = list(rule(FILES))
    assert not findings, "\n" + "\n".join(findings)


def test_what_may_be_larger_exists_and_has_a_reason() -> None:
    assert len(LARGER) <= REASONS_MAX
    assert all((ROOT / path.partition(":")[0]).exists() and why for path, why in LARGER.items())


def test_each_room_of_the_table_exists() -> None:
    rooms = floors(DESIGN.read_text(encoding="utf-8"))
    assert len(rooms) > 20
    for room in rooms:
        path = ROOT / room.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), room


def missing_files(text: str) -> Iterator[str]:
    """What the file map names and is not there. A name without a folder is in the folder of the one
    before it.
    """
    table = text.partition("<!-- map: begin -->")[2].partition("<!-- map: end -->")[0]
    for row in table.splitlines():
        folder = ROOT
        for name in re.findall(r"`([\w./]+(?:\.py|\.md|/))`", row):
            path = next((p for p in (ROOT / name, folder / name) if p.exists()), None)
            if path is None:
                yield f"docs/design.md names {name}, and there is no such file"
            elif folder is ROOT or "/" in name.rstrip("/"):
                folder = path if path.is_dir() else path.parent


def test_the_file_map_names_files_that_exist() -> None:
    text = DESIGN.read_text(encoding="utf-8")
    assert not list(missing_files(text))
    broken = text.replace("`zkcoord/zk/loop.py`", "`zkcoord/zk/gone.py`")
    found = list(missing_files(broken))
    assert found[0] == "docs/design.md names zkcoord/zk/gone.py, and there is no such file"


FLOORS = {"zkcoord.low": 0, "zkcoord.high": 1}
BAD: list[tuple[Rule, dict[str, str], str]] = [
    (
        lambda tree: upwards(tree, FLOORS),
        {"zkcoord/low/a.py": "import zkcoord.high.b", "zkcoord/high/b.py": ""},
        "not on a floor below",
    ),
    (lambda tree: upwards(tree, FLOORS), {"zkcoord/other.py": ""}, "does not say"),
    (
        circles,
        {
            "zkcoord/a.py": "import zkcoord.b",
            "zkcoord/b.py": "def f():\n    import zkcoord.c",
            "zkcoord/c.py": "import zkcoord.a",
        },
        "zkcoord.a, zkcoord.b, zkcoord.c",
    ),
    (sizes, {"zkcoord/a.py": "\n" * 501}, "501 lines"),
    (sizes, {"zkcoord/a.py": "def f():\n" + "    pass\n" * 70}, "f has 71 lines"),
    (sizes, {f"zkcoord/x/m{n}.py": "" for n in range(13)}, "13 modules"),
    (
        names_twice,
        {"zkcoord/a.py": "class A: ...", "consumer/a.py": "class A: ..."},
        "the class A",
    ),
    (
        inherits,
        {"zkcoord/a.py": "class A: ...", "zkcoord/b.py": "class B(a.A): ..."},
        "B inherits from A",
    ),
    (
        inherits,
        {"zkcoord/a.py": "class A: ...", "zkcoord/b.py": "from a import A as C\nclass B(C): ..."},
        "B inherits from A",
    ),
    (inherits, {"zkcoord/a.py": "class A: ...\nC = A\nclass B(C): ..."}, "B inherits from A"),
    (
        inherits,
        {"zkcoord/a.py": "class A: ...\ndef f():\n    class B(A): ..."},
        "B inherits from A",
    ),
    (
        inherits,
        {"zkcoord/a.py": "class A(Protocol):\n    def f(self): return 1\nclass B(A): ..."},
        "B inherits from A",
    ),
    (inherits, {"zkcoord/a.py": "class AError: ...\nclass B(AError): ..."}, "B inherits from"),
    (nested_conditionals, {"zkcoord/a.py": "x = 1 if a else 2 if b else 3"}, "in another one"),
    (ignores, {"zkcoord/a.py": "x = 1  # type: ignore[misc]"}, "which error"),
    (ignores, {"zkcoord/a.py": "# mypy: ignore-errors\nx = 1"}, "all of the file"),
    (ignores, {"zkcoord/a.py": "x = 1  # type: ignore  # a reason"}, "which error"),
    (
        ignores,
        {"zkcoord/a.py": "x = 1  # type: ignore[misc]  # a reason\n" * (IGNORES_MAX + 1)},
        f"{IGNORES_MAX + 1} errors",
    ),
]
GOOD: list[tuple[Rule, dict[str, str]]] = [
    (
        lambda tree: upwards(tree, FLOORS),
        {"zkcoord/high/a.py": "import zkcoord.low.b\nimport os", "zkcoord/low/b.py": ""},
    ),
    (circles, {"zkcoord/a.py": "import zkcoord.b\nimport zkcoord.a", "zkcoord/b.py": ""}),
    (sizes, {"zkcoord/a.py": "\n" * 500, "zkcoord/b.py": "def f():\n" + "    pass\n" * 69}),
    (
        inherits,
        {
            "zkcoord/a.py": "class A(Protocol): ...\nclass B(A): ...\nclass CError(OSError): ...",
            "zkcoord/b.py": "class DError(CError): ...\nclass E(enum.Enum): ...",
        },
    ),
    (nested_conditionals, {"zkcoord/a.py": "x = (1 if a else 2) + (1 if b else 3)"}),
    (ignores, {"zkcoord/a.py": "x = 1  # type: ignore[misc]  # kazoo has no types"}),
]


def _tree(files: Mapping[str, str]) -> dict[str, Source]:
    return {s.module: s for s in (Source(path, text) for path, text in files.items())}


@pytest.mark.parametrize(("rule", "files", "finding"), BAD)
def test_a_rule_sees_what_breaks_it(rule: Rule, files: dict[str, str], finding: str) -> None:
    found = list(rule(_tree(files)))
    assert any(finding in sentence for sentence in found), found


@pytest.mark.parametrize(("rule", "files"), GOOD)
def test_a_rule_lets_the_rest_pass(rule: Rule, files: dict[str, str]) -> None:
    assert list(rule(_tree(files))) == []


def test_texts_that_are_too_long_are_seen() -> None:
    long = "word " * 30
    assert (
        len(list(long_prose([Source("docs/a.md", f"{long}\n| {long}|\n```\n{long}\n```\n")]))) == 1
    )
    assert list(long_prose([Source("docs/a.md", "```\nx = 1\n")]))
    assert len(list(long_lines([Source("tests/a.py", f"# {long}\n"), Source("a.md", long)]))) == 1
