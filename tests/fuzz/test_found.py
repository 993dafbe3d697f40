"""What was found, as it was found; and some hundred inputs for each parser, without a fuzzer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.finding import FOUND, OVERWORKED, found_in, is_known, signature_of
from tests.fuzz.harness import Broken, Harness, Work, holds, lines_of, memory_of, overworked
from tests.fuzz.known import KNOWN
from tests.fuzz.making import inputs, smaller
from tests.fuzz.parsers import all_harnesses, harness_in, module_of
from zkcoord.znodes import strict_json

GENERATED = 200
FEW = {"recording": 40, "all-topics-answer": 40, "audit-lines": 60, "c-extension": 100}
"""Where one input takes milliseconds."""

WEIGHED = 6
HARNESSES = all_harnesses()
REASONS = {one.file: one.reason for one in KNOWN}


def kept() -> list[object]:
    """Every file of `found/`; of those that are known, that they fail."""
    return [
        pytest.param(
            path,
            id=(name := path.relative_to(FOUND).as_posix()),
            marks=[pytest.mark.xfail(strict=True, reason=REASONS[name])] if name in REASONS else [],
        )
        for path in sorted(FOUND.glob("*/*.bin"))
    ]


@pytest.mark.parametrize("path", kept())
def test_what_was_found_is_mended(path: Path) -> None:
    harness, data = HARNESSES[path.parent.name], path.read_bytes()
    harness.check(data)
    assert not overworked(harness, data)


def test_what_is_known_is_what_is_found() -> None:
    for file in REASONS:
        parser, data = file.partition("/")[0], (FOUND / file).read_bytes()
        signature = found_in(HARNESSES[parser], data)
        if not signature and overworked(HARNESSES[parser], data):
            signature = OVERWORKED
        assert is_known(parser, signature), f"it is another finding now: {file}: {signature}"


@pytest.mark.parametrize("name", HARNESSES)
def test_generated_inputs(name: str) -> None:
    """Each property holds for the seeds and for what is made of them, within its work."""
    harness, found = HARNESSES[name], {}
    every = list(inputs(harness, FEW.get(name, GENERATED)))
    for data in every:
        signature = found_in(harness, data)
        if signature and not is_known(name, signature):
            found.setdefault(signature, data)
    assert not found
    for data in sorted(every, key=len)[-WEIGHED:]:
        assert not overworked(harness, data)


def test_a_parser_that_is_broken_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a fast reader that takes what it should leave to the other: a key that is there twice."""
    harness = HARNESSES["strict-json"]
    assert not any(found_in(harness, data) for data in inputs(harness, GENERATED))
    monkeypatch.setattr(strict_json, "_usual", lambda data: read(data) if b'"a":' in data else None)
    found = {found_in(harness, data) for data in inputs(harness, 2 * GENERATED)} - {""}
    assert found == {"Broken in tests/fuzz/parsers/expressions.py (json_object)"}


def read(data: bytes) -> object:
    try:
        value = strict_json.orjson.loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def deeper(data: bytes) -> None:
    total = 0
    for one in data:
        for other in data:
            total += one * other


def test_work_that_grows_faster_than_its_input_is_seen() -> None:
    harness = Harness("x", (), deeper, list, work=Work(lines=1_000, lines_per_byte=20))
    assert not overworked(harness, b"x" * 5) and "lines for 500 bytes" in overworked(
        harness, b"x" * 500
    )
    hungry = Harness("y", (), lambda data: holds(bool([0] * 10**6)), list)
    assert "bytes of memory" in overworked(hungry, b"")
    assert lines_of(lambda: deeper(b"xxx"), 100) < 50
    assert memory_of(lambda: holds(bool(bytearray(10**6)))) >= 10**6


def test_a_finding_is_told_from_others_by_where_it_comes_out() -> None:
    with pytest.raises(Broken) as broken:
        holds(False, "seen")
    assert (
        signature_of(broken.value) == "Broken in tests/fuzz/test_found.py ("
        "test_a_finding_is_told_from_others_by_where_it_comes_out)"
    )
    assert not is_known("handover", OVERWORKED)


def test_an_input_is_made_smaller() -> None:
    assert smaller(b"abcXdefYghi", lambda data: b"X" in data and b"Y" in data) == b"XY"
    assert smaller(b"7777", lambda data: len(data) == 4) == b"0000"


def test_a_harness_is_found_in_its_module() -> None:
    module = module_of("handover")
    assert module == "tests.fuzz.parsers.processes"
    assert harness_in(module, "handover").name == "handover"
    with pytest.raises(KeyError):
        module_of("nobody")
