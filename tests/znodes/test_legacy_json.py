"""Registrations as the parsers of old consumers read them: Scala's before 1.0, Jackson's since."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zkcoord.core.model import Malformed
from zkcoord.znodes import legacy_json
from zkcoord.znodes.legacy_json import LegacyDocument, decode_legacy_document, unusable


def read(data: bytes) -> LegacyDocument:
    found = decode_legacy_document("c", data)
    assert isinstance(found, LegacyDocument), found
    return found


@pytest.mark.parametrize(
    ("data", "before_10", "since_10"),
    [
        (b'{"a":1}', True, True),
        (b' \t\r\n{"a":1}\n', True, True),
        (b'{"a":1} x', False, True),
        (b'{\x0b"a":1}', True, False),
        (b'{"a":1,"b":"' + b"[" * 501 + b'"}', True, True),
        (b'{"a":1,"b":' + b"[" * 499 + b"]" * 499 + b"}", True, True),
        (b'{"a":1,"b":' + b"[" * 500 + b"]" * 500 + b"}", False, True),
        (b'{"a":1,"b":[[],[]],"c":' + b"[" * 500 + b"]" * 500 + b"}", False, True),
        (b'{"a":1,"b":[' + b"[]," * 600 + b"{}]}", True, True),
    ],
)
def test_which_releases_can_read_it(data: bytes, before_10: bool, since_10: bool) -> None:
    """And what the others say of it, quoting its begin."""
    found = read(data)
    assert found.fields["a"] == 1 and not found.large
    for why, can in ((found.before_10, before_10), (found.since_10, since_10)):
        assert (why == "") is can
        assert can or (why.startswith("it is not JSON: '{") and len(why) < 300)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is empty"),
        (b"x", "it is not JSON: 'x'"),
        (b"[1]", "it is not a JSON object: '[1]'"),
        (b'{"a":NaN}', "it is not JSON: "),
        (b'{\x1a"a":1}', "it is not JSON: "),
        (b'{"a":"\n"}', "it is not JSON: "),
        (b'{"a":' + b"[" * 600, "it is not JSON: "),
    ],
)
def test_what_none_of_them_can_read(data: bytes, why: str) -> None:
    found = decode_legacy_document("c", data)
    assert isinstance(found, Malformed) and found.name == "c" and found.reason.startswith(why)


def test_the_most_bytes_and_brackets() -> None:
    room = legacy_json.BYTES_MAX - len(b'{"a":""}')
    brackets = (legacy_json.BRACKETS_MAX - 2) // 2
    for more in (0, 1):
        for data in (
            b'{"a":"' + b"x" * (room + more) + b'"}',
            b'{"a":[' + b"[],{}," * brackets + (b"[]" if more else b"1") + b"]}",
        ):
            found = decode_legacy_document("c", data)
            assert isinstance(found, Malformed) is bool(more)
            assert not isinstance(found, Malformed) or "more than" in found.reason


@pytest.mark.parametrize(
    ("number", "value", "large"),
    [
        ("2147483647", 2**31 - 1, False),
        ("2147483648", 2**31, True),
        ("-2147483648", -(2**31), False),
        ("-2147483649", -(2**31) - 1, True),
        ("1.5", 1.5, True),
        ("1e3", 1000.0, True),
        ("9" * 39, int("9" * 39), True),
        ("9" * 40, 2**31, True),  # it is too large, and not read
    ],
)
def test_numbers_that_are_no_ints_of_java(number: str, value: object, large: bool) -> None:
    found = read(b'{"a":%s}' % number.encode())
    assert found.fields == {"a": value}
    assert found.large == ((repr(number),) if large else ())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"\n", "\n"),
        (r"\u0041", "A"),
        (r"\x", r"\x"),
        (r"\n\x", r"\n\x"),  # read again with every backslash doubled
        ("\\\\", "\\"),
    ],
)
def test_backslashes(text: str, value: str) -> None:
    assert read(f'{{"a":"{text}"}}'.encode()).fields == {"a": value}


@pytest.mark.parametrize(("text", "value"), [(r"\n", "\n"), (r"\x", r"\x"), (r"\u004", r"\u004")])
def test_backslashes_as_scala_reads_them(text: str, value: str) -> None:
    found = read(f'{{\x0b"a":"{text}"}}'.encode())
    assert found.since_10 and found.fields == {"a": value}


def test_a_number_that_is_too_long_is_only_said_to_be_large() -> None:
    assert read(b'{\x0b"a":%s}' % (b"9" * 40)).fields == {"a": 2**31}


def test_as_deep_as_all_releases_read_it_nothing_is_left_out() -> None:
    data = b'{"a":' + b"[" * 499 + b"]" * 499 + b"}"
    assert read(data).fields == json.loads(data)


def test_of_what_is_nested_too_deeply_the_rest_is_read() -> None:
    deep = b"[" * 600 + b"]" * 600
    kept: Any = None
    for _ in range(legacy_json.KEPT_DEPTH - 1):
        kept = [kept]
    found = read(b'{"a":' + deep + b',"b":{"c":2},"d":' + deep + b',"e":"[{"}')
    assert found.fields == {"a": kept, "b": {"c": 2}, "d": kept, "e": "[{"}


NOT_BEFORE = "it is not JSON"


@pytest.mark.parametrize(
    ("fields", "before_10", "why"),
    [
        ({"pattern": "static", "subscription": {"a": 1}}, "", ""),
        ({"pattern": "static", "subscription": {"a": 1}}, NOT_BEFORE, ""),
        ({"subscription": {"a": 1}}, "", "pattern is not a text"),
        ({"pattern": 7, "subscription": {"a": 1}}, "", "pattern is not a text"),
        ({"pattern": None, "subscription": {"a": 1}}, "", ""),
        ({"pattern": None, "subscription": {"a": 1}}, NOT_BEFORE, "pattern is null"),
        ({"pattern": "static"}, "", "not an object"),
        ({"pattern": "static", "subscription": ["a"]}, "", "not an object"),
        ({"pattern": "static", "subscription": {}}, "", ""),
        ({"pattern": "static", "subscription": {"a": 1, "b": 0}}, "", "number of streams"),
        ({"pattern": "static", "subscription": {"a": True}}, "", "number of streams"),
        ({"pattern": "static", "subscription": {"a": 2**31 - 1}}, "", ""),
        ({"pattern": "static", "subscription": {"a": 2**31}}, "", "number of streams"),
        ({"pattern": "static", "subscription": {"a": 1, "": 1}}, "", "name is empty"),
        ({"pattern": "white_list", "subscription": {"": 1}}, "", ""),
        ({"pattern": "black_list", "subscription": {"a.*": 1, "*": 1}}, "", "'*' is none in Java"),
        ({"pattern": "white_list", "subscription": {r"(a)\1": 1}}, "", ""),
    ],
)
def test_what_no_release_can_use(fields: dict[str, Any], before_10: str, why: str) -> None:
    found = unusable(LegacyDocument(fields, before_10))
    assert why in found and (found == "") is (why == "")
