"""docs/reference: everything that is public is in it, and everything in it has a docstring."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from types import ModuleType

import pytest

import zkcoord.consumer
import zkcoord.consumer.spark
import zkcoord.consumer.spark.sink
import zkcoord.consumer.streams
import zkcoord.errors
from tests.docs.pages import blocks
from tests.packages.tools import ROOT

PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
NAMED = re.compile(r"^\.\. (?:auto\w+|py:data):: (\S+)$", re.MULTILINE)
KAFKA_PYTHONS = {"ConsumerRebalanceListener", "TopicPartition", "OffsetAndMetadata"}
NO_CODE = {"DEFAULT_CONFIG", "TopicFilter"}
"""A dict and a union: what they are is said on their page."""
MODULES_OF_ERRORS = (
    "zkcoord.errors",
    "zkcoord.consumer.errors",
    "zkcoord.consumer.spark.errors",
    "zkcoord.consumer.spark.sink.errors",
    "zkcoord.consumer.spark.decode.errors",
)


def named() -> dict[str, str]:
    """Dotted name -> the page that it is on."""
    return {
        name: path.name
        for path in PAGES
        for name in NAMED.findall(path.read_text(encoding="utf-8"))
    }


def found(name: str) -> object:
    """What has this dotted name."""
    module, _, last = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), last)


def undocumented(name: str, thing: object) -> Iterator[str]:
    """It, and what it has in public, as far as its class says so itself."""
    if not (vars(thing).get("__doc__") if isinstance(thing, type) else inspect.getdoc(thing)):
        yield name
    if not isinstance(thing, type):
        return
    for part, value in vars(thing).items():
        looked = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        is_code = isinstance(looked, (property, cached_property)) or inspect.isfunction(looked)
        if is_code and not part.startswith("_") and not inspect.getdoc(looked):
            yield f"{name}.{part}"


def test_each_public_name_has_a_docstring() -> None:
    names = [name for name in named() if name.rpartition(".")[2] not in NO_CODE]
    assert len(names) > 60
    lacking = [lack for name in names for lack in undocumented(name, found(name))]
    assert not lacking, lacking


def test_what_has_no_docstring_is_seen() -> None:
    class Bare:
        def called(self) -> None: ...

        @property
        def looked_at(self) -> int:
            return 1

        def _private(self) -> None: ...

    assert list(undocumented("Bare", Bare)) == ["Bare", "Bare.called", "Bare.looked_at"]


@pytest.mark.parametrize(
    ("module", "left_out"),
    [
        (zkcoord.consumer, KAFKA_PYTHONS),
        (zkcoord.consumer.streams, {"TopicFilter"}),
        (zkcoord.consumer.spark, set()),
        (zkcoord.consumer.spark.sink, set()),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_each_name_that_a_package_offers_is_there(module: ModuleType, left_out: set[str]) -> None:
    there = {found(name) for name in named() if name.rpartition(".")[2] not in NO_CODE}
    offered = set(module.__all__) - left_out - NO_CODE
    assert not [name for name in offered if getattr(module, name) not in there]


def test_each_error_is_there() -> None:
    there = {name.rpartition(".")[2] for name in named()}
    for path in MODULES_OF_ERRORS:
        module = importlib.import_module(path)
        errors = {
            name
            for name, kind in vars(module).items()
            if isinstance(kind, type)
            and issubclass(kind, Exception)
            and kind.__module__ == module.__name__
            and not name.startswith("_")
        }
        assert errors and errors <= there, (path, errors - there)


def test_what_the_docs_import_is_there() -> None:
    """In code on any page, and in docs/examples."""
    there = named()
    pages = [path for path in (ROOT / "docs").glob("*.md")]
    sources = {
        f"{path.name}:{block.line}": block.text
        for path in [*pages, ROOT / "README.md"]
        for block in blocks(path.read_text(encoding="utf-8"))
        if block.language == "python"
    }
    sources |= {
        path.name: path.read_text(encoding="utf-8")
        for path in (ROOT / "docs" / "examples").glob("*.py")
    }
    lacking = [
        f"{where} imports {node.module}.{alias.name}"
        for where, text in sources.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("zkcoord")
        for alias in node.names
        if f"{node.module}.{alias.name}" not in there and alias.name not in KAFKA_PYTHONS
    ]
    assert not lacking, lacking
