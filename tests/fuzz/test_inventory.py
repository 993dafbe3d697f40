"""No parser of what comes from outside is forgotten: rules find them, and each has a harness that
calls it.
"""

from __future__ import annotations

import ast
import importlib
import sys
from types import CodeType, FrameType
from typing import Any

import pytest

from tests.fuzz import sanitized, shim
from tests.fuzz.finding import found_in
from tests.fuzz.harness import Harness
from tests.fuzz.inventory import ELSEWHERE, named_parsers, reads, sources, uncovered
from tests.fuzz.making import inputs
from tests.fuzz.parsers import all_harnesses

HARNESSES = all_harnesses()
EACH = pytest.mark.parametrize("name", HARNESSES)


def test_every_parser_has_a_harness() -> None:
    assert not list(uncovered(sources(), HARNESSES.values()))


def test_what_has_no_harness_reads_something_and_says_why() -> None:
    trees = dict(sources())
    for module, why in ELSEWHERE.items():
        assert module in trees and len(why) > 20
        assert reads(trees[module]) or list(named_parsers(module, trees[module])), module


@pytest.mark.parametrize(
    "text",
    [
        "def decode_x(data: bytes) -> int: ...",
        "def parse(text): ...",
        "class A:\n    def parse_it(self): ...",
        "import json\ndef f(x): return json.loads(x)",
        "HEAD.unpack_from(b'')",
        "import csv\ncsv.reader([])",
        "from zkcoord.znodes.strict_json import reading\nreading('a', 'b', b'', f)",
    ],
)
def test_a_new_parser_is_seen(text: str) -> None:
    found = list(uncovered([("zkcoord.new", ast.parse(text))], HARNESSES.values()))
    assert len(found) == 1 and found[0].startswith("zkcoord.new")


@pytest.mark.parametrize(
    "text",
    [
        "def parser(): ...",
        "def _decode_x(data): ...",
        "def reading(): ...\nreading()",
        "reader([])",
        "class A(Protocol):\n    def decode(self): ...",
    ],
)
def test_what_is_no_parser_is_none(text: str) -> None:
    assert not list(uncovered([("zkcoord.new", ast.parse(text))], HARNESSES.values()))


def code_of(covered: str) -> CodeType:
    """The code of what a harness says that it covers."""
    module, _, name = covered.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if hasattr(found, "cache_clear"):
        found.cache_clear()
        found = found.__wrapped__
    code: CodeType = getattr(found, "__func__", found).__code__
    return code


@EACH
def test_a_harness_calls_what_it_covers(name: str) -> None:
    harness: Harness = HARNESSES[name]
    if name == sanitized.PARSER and shim.built() is None:
        pytest.skip("there is no gcc, or there are no headers of Python, to compile it with")
    wanted = {code_of(one): one for one in harness.covers}
    called: set[CodeType] = set()

    def look(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            called.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        for data in inputs(harness, 0):
            found_in(harness, data)
    finally:
        sys.setprofile(before)
    missing = {covered for code, covered in wanted.items() if code not in called}
    assert not missing


@EACH
def test_a_harness_has_seeds_that_are_good(name: str) -> None:
    """Some are taken: else only refusals would be looked at."""
    seeds = list(inputs(HARNESSES[name], 0))
    assert seeds and all(isinstance(seed, bytes) for seed in seeds)
