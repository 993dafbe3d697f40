"""The strict JSON reader: what json.loads would take and we do not, and bombs."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkcoord.znodes.strict_json import DOCUMENT_BYTES_MAX, Reason, strict_json

REFUSED = {
    b"": "empty",
    b"[]": "not a JSON object",
    b"null": "not a JSON object",
    b"{": "not JSON",
    b'{"a":1,}': "not JSON",
    b'{"a":1}x': "not JSON",
    b'{"a":NaN}': "NaN",
    b'{"a":-Infinity}': "Infinity",
    b'{"a":1e999}': "too large",
    b'{"a":' + b"9" * 5_000 + b"}": "too long",
    b'{"a":1,"a":1}': "twice",
    b'{"b":{"a":1,"a":2}}': "twice",
    b'{"a":"\xff"}': "UTF-8",
    b'{"a":"\\ud800"}': "UTF-8",
    b'{"a":"\\uDFFF"}': "UTF-8",
    b"\xef\xbb\xbf{}": "not JSON",
    '{"a":1}'.encode("utf-16"): "",
    b'{"a":"\n"}': "not JSON",
    b'{"a":' * 9 + b"1" + b"}" * 9: "deeper",
}


@pytest.mark.parametrize("data", REFUSED, ids=lambda data: data[:20].decode("latin-1"))
def test_refused(data: bytes) -> None:
    found = strict_json(data)
    assert isinstance(found, Reason)
    assert REFUSED[data] in found.text


def test_taken() -> None:
    document = {"a": [1, -2.5, None, True, {"b": ']}[{"\\'}], "ü": "\U0001f600"}
    assert strict_json(json.dumps(document).encode()) == document
    assert strict_json(json.dumps(document, ensure_ascii=False).encode()) == document
    assert strict_json(b'{"a":' * 8 + b"1" + b"}" * 8) == json.loads('{"a":' * 8 + "1" + "}" * 8)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":18446744073709551616}',
        b'{"a":-9223372036854775809}',
        b'{"a":[18446744073709551615,18446744073709551616]}',
        b'{"a":1.0}',
        b'{"a":1e5}',
        b'{"a":0.1,"b":-0}',
        b'{"a":-0.0}',
        b'{"a":"\\/","b":"\\u00e9"}',
        b'{ "a" : 1 }',
        b' {"a":1}\n',
        '{"ü":"\u2028\x7f"}'.encode(),
        b'{"a":"\\u0000"}',
        b'{"":{"":[]}}',
    ],
)
def test_what_two_parsers_might_read_otherwise_is_read_as_the_library_does(data: bytes) -> None:
    assert repr(strict_json(data)) == repr(json.loads(data))


def test_the_cap_is_exact() -> None:
    padding = DOCUMENT_BYTES_MAX - len(b'{"a":""}')
    assert isinstance(strict_json(b'{"a":"' + b"x" * padding + b'"}'), dict)
    assert isinstance(strict_json(b'{"a":"' + b"x" * (padding + 1) + b'"}'), Reason)


N = DOCUMENT_BYTES_MAX
BOMBS = [
    b"[" * N,
    b"{" * N,
    b'{"a":' * (N // 5),
    b"[" * (N // 2) + b"]" * (N // 2),
    b"[]" * (N // 2),
    b'"' * N,
    b'\\"' * (N // 2),
    b'"' + b'\\"' * (N // 2 - 1),
    b'{"a' + b'\\"' * (N // 2 - 2),
    b"\\" * N,
    b"[{" * (N // 2),
    b'{"a":[' + b"[]," * (N // 3 - 4) + b"1]}",
    b'{"a":' + b"9" * (N - 6) + b"}",
    b'{"a":1e' + b"9" * (N - 8) + b"}",
    b"\x00" * N,
]


@pytest.mark.parametrize(
    "data", BOMBS, ids=lambda data: data[:8].decode("latin-1").replace("\x00", "0")
)
def test_bombs_cost_no_more_than_their_size(data: bytes) -> None:
    assert len(data) <= N
    before = time.process_time()
    strict_json(data)
    # a quadratic scan takes many seconds, a linear one milliseconds
    assert time.process_time() - before < 1.0


@given(st.binary(max_size=300) | st.text(alphabet='{}[]":,\\1aeN-.u', max_size=200).map(str.encode))
def test_agrees_with_the_library_where_both_take_it(data: bytes) -> None:
    found = strict_json(data)
    if isinstance(found, dict):
        assert found == json.loads(data)
