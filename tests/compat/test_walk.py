"""Both classes, member by member: whatever kafka-python's consumer has, ours has with the same
signature, or refuses by name with a reason that docs/consumer.md gives.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import kafka
import pytest

import consumer
from consumer.errors import ConsumerOptionError
from consumer.options import CHANGED_DEFAULTS
from tests.compat.upstream import DIFFERENCES

THEIRS, OURS = kafka.KafkaConsumer, consumer.KafkaConsumer
PAGE = Path(__file__).parents[2] / "docs" / "consumer.md"
PROTOCOLS = {"__init__", "__iter__", "__next__", "__enter__", "__exit__"}
REFUSED_MAX = 6
NO_SURFACE = {"DEFAULT_CONFIG", "DEFAULT_SESSION_TIMEOUT_MS_PRE_KIP_735"}


def surface(cls: type) -> set[str]:
    """Names of the public methods and properties."""
    return {
        name
        for name in dir(cls)
        if (not name.startswith("_") or name in PROTOCOLS) and name not in NO_SURFACE
    }


def shape(method: Any) -> list[tuple[str, Any, Any]]:
    """Name, kind and default of each parameter."""
    return [(p.name, p.kind, p.default) for p in inspect.signature(method).parameters.values()]


def test_every_method_and_property_is_there() -> None:
    assert surface(THEIRS) - surface(OURS) == set()


@pytest.mark.parametrize("name", sorted(surface(THEIRS)))
def test_signatures_are_the_same(name: str) -> None:
    theirs, ours = getattr(THEIRS, name), getattr(OURS, name, None)
    assert type(ours) is type(theirs)
    if callable(theirs):
        assert shape(ours) == shape(theirs)


def test_every_option_is_there_with_its_default_or_a_documented_one() -> None:
    assert set(THEIRS.DEFAULT_CONFIG) <= set(OURS.DEFAULT_CONFIG)
    changed = {
        name
        for name, default in THEIRS.DEFAULT_CONFIG.items()
        if OURS.DEFAULT_CONFIG[name] != default
    }
    assert changed == set(CHANGED_DEFAULTS)
    assert {
        name for name in changed if f"| `{name}` |" not in PAGE.read_text(encoding="utf-8")
    } == set()


def test_every_option_of_ours_is_in_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8").partition("## Options")[2]
    own = set(OURS.DEFAULT_CONFIG) - set(THEIRS.DEFAULT_CONFIG)
    assert {name for name in own if f"| `{name}` |" not in page} == set()
    named = set(re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE))
    assert named - set(OURS.DEFAULT_CONFIG) == set(), "and the table names nothing else"


def test_at_most_six_things_are_refused() -> None:
    table = (
        PAGE.read_text(encoding="utf-8")
        .partition("## Refused by name")[2]
        .partition("\n\n")[2]
        .partition("\n\n")[0]
    )
    assert 0 < len(table.splitlines()[2:]) <= REFUSED_MAX


def test_an_unknown_option_is_refused_by_both() -> None:
    with pytest.raises(kafka.errors.KafkaConfigurationError):
        THEIRS(no_such_option=1)
    with pytest.raises(ConsumerOptionError, match="no_such_option"):
        OURS(no_such_option=1)


def differences() -> set[str]:
    """The names by which tests ask for differences."""
    calls = (
        node
        for path in Path(__file__).parent.glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )
    return {
        node.args[0].value
        for node in calls
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "differs"
        and isinstance(node.args[0], ast.Constant)
    }


def test_every_difference_is_documented_and_tested() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("| difference |")[2].partition("\n\n")[0]
    documented = {line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]}
    assert documented == differences() | set(DIFFERENCES.values())
