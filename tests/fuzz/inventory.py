"""Which code reads what comes from outside, found by rules instead of remembered:

* a public function or method whose name begins with `decode` or `parse` (or is `parsed`);
* a module that calls what makes values of bytes or texts (`json.loads`, `struct.unpack`, `reading`
  of `strict_json`, ... : `READERS`).

Each is what some harness `covers`, or stands in `ELSEWHERE` with the reason why there is none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.fuzz.harness import Harness

ROOT = Path(__file__).parents[2]
PRODUCT = ("zkcoord", "consumer", "migrations")
NAMED = re.compile(r"(decode|parse)(_\w+)?|parsed")
READERS = frozenset(
    (
        "loads unpack unpack_from iter_unpack fromhex b64decode from_bytes fromisoformat strptime"
        " urlsplit urlparse parse_qsl parse_qs ip_address ip_network literal_eval raw_decode"
        " strict_json varint after_tags"
    ).split()
)
OF_MODULES = {"csv": ("reader", "DictReader"), "wire": ("read_string", "read_buffer")}
STRICT = "zkcoord.znodes.strict_json"

ITS_OWN = "reads only what the same process, or one that it has started, has written"
ELSEWHERE = {
    "consumer.gateway.relay.connection": "takes frames apart by `front_of` and `taken`, which are"
    " covered; the rest is an event loop (tests/gateway)",
    "consumer.gateway.relay.tls_options": "asks whether a name of an operator's is an address",
    "consumer.spark.graceful_stop": "reads the progress of the query in the same driver",
    "consumer.spark.sink.files": "a directory from the command line, for Hadoop to judge",
    "consumer.spark.workers": ITS_OWN,
    "zkcoord.console.flags": "asks whether an address that `parse_listen` has read is loopback's",
    "zkcoord.demo.gateway.console_output": ITS_OWN,
    "zkcoord.demo.timeline": ITS_OWN,
    "zkcoord.guardian.link": "what the kernel says of a peer",
    "zkcoord.guardian.serve": "what the kernel says of a peer; words of peers: `Inbox.feed`",
    "zkcoord.stack.jars": "addresses that stand in the code",
    "zkcoord.stack.stack": ITS_OWN,
    "zkcoord.topics.whole_request": "hands bytes on to `WholeAnswers` or kafka-python",
}
"""Modules without a harness, and why."""


@cache
def sources() -> tuple[tuple[str, ast.Module], ...]:
    """The product's modules by dotted name."""
    return tuple(_sources())


def _sources() -> Iterator[tuple[str, ast.Module]]:
    for room in PRODUCT:
        for path in sorted((ROOT / room).rglob("*.py")):
            dotted = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
            yield dotted.removesuffix(".__init__"), ast.parse(path.read_text(encoding="utf-8"))


def named_parsers(module: str, tree: ast.Module) -> Iterator[str]:
    """`module:function` or `module:Class.method` of what is called like a parser."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and NAMED.fullmatch(node.name):
            yield f"{module}:{node.name}"
        elif isinstance(node, ast.ClassDef) and not is_protocol(node):
            yield from (
                f"{module}:{node.name}.{inner.name}"
                for inner in node.body
                if isinstance(inner, ast.FunctionDef) and NAMED.fullmatch(inner.name)
            )


def is_protocol(node: ast.ClassDef) -> bool:
    return any("Protocol" in ast.unparse(base) for base in node.bases)


def reads(tree: ast.Module) -> frozenset[str]:
    """What a module calls of what makes values of bytes or texts."""
    strict = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == STRICT
        for alias in node.names
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Attribute):
            of = called.value.id if isinstance(called.value, ast.Name) else ""
            if called.attr in READERS or called.attr in OF_MODULES.get(of, ()):
                found.add(called.attr)
        elif isinstance(called, ast.Name) and (
            called.id in READERS or (called.id == "reading" and "reading" in strict)
        ):
            found.add(called.id)
    return frozenset(found)


def uncovered(
    trees: Iterable[tuple[str, ast.Module]], harnesses: Iterable[Harness]
) -> Iterator[str]:
    """A sentence for each parser that no harness covers."""
    covered = {one for harness in harnesses for one in harness.covers}
    modules = {one.partition(":")[0] for one in covered}
    for module, tree in trees:
        if module in ELSEWHERE:
            continue
        for one in named_parsers(module, tree):
            if one not in covered:
                yield f"{one} is called like a parser, and no harness of tests/fuzz covers it"
        called = reads(tree)
        if called and module not in modules:
            yield (
                f"{module} reads bytes or texts ({', '.join(sorted(called))}), and no harness of"
                " tests/fuzz covers anything of it: add one (tests/README.md), or say in ELSEWHERE"
                " of tests/fuzz/inventory.py why there is none"
            )
