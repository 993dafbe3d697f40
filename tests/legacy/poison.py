"""Registrations that other clients and tools have written, and which releases of the old consumer
they kill: every member of a group reads every registration, and gives up when it cannot.

What each does to the real consumers is shown by test_poison.py, release by release; a group of ours
goes on beside all of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.legacy.jars import V0_8, V0_11, V1_1

ALL = (V1_1, V0_11, V0_8)
SCALA_JSON = (V0_11, V0_8)
SINCE_010 = (V1_1, V0_11)
ELSEWHERE = "elsewhere"


@dataclass(frozen=True)
class Registration:
    """One child of ids. `kills`: the releases whose members give up while it is there."""

    name: str
    data: bytes | None
    kills: tuple[str, ...] = ()


def _document(**fields: Any) -> bytes:
    """A valid registration for a topic that does not exist, some fields changed; None leaves one
    out.
    """
    usual: dict[str, Any] = {
        "version": 1,
        "subscription": {ELSEWHERE: 1},
        "pattern": "static",
        "timestamp": "1700000000000",
    }
    return json.dumps(
        {name: value for name, value in {**usual, **fields}.items() if value is not None},
        ensure_ascii=False,
    ).encode()


POISON = (
    Registration("a topic's name", ELSEWHERE.encode(), ALL),
    Registration("empty", b"", ALL),
    Registration("null", None, ALL),
    Registration("no pattern", _document(pattern=None), ALL),
    Registration("no threads", _document(subscription={ELSEWHERE: 0}), ALL),
    Registration("not an expression", _document(subscription={"*[": 1}, pattern="white_list"), ALL),
    Registration("a number as timestamp", _document(timestamp=1_700_000_000_000), SCALA_JSON),
    Registration("a fraction", _document(weight=1.5), SCALA_JSON),
)
HARMLESS = (
    Registration("one field more", _document(zkcoord="1")),
    Registration("small numbers in an object", _document(more={"a": 1, "b": 2})),
    Registration("version 2", _document(version=2)),
    Registration("no version, no timestamp", _document(version=None, timestamp=None)),
    Registration("no topics", _document(subscription={})),
    Registration("an unknown kind of pattern", _document(pattern="grey_list")),
    Registration("not only ASCII", _document(note="n\u00f6t only ASCII")),
)


USUAL = _document()
DEEP = b'"more":' + b"[" * 3_000 + b"]" * 3_000


def _more(field: bytes) -> bytes:
    """A valid registration with one more field, as it stands."""
    return USUAL[:-1] + b", " + field + b"}"


def _with(subscription: bytes, pattern: bytes = b'"static"') -> bytes:
    """A registration with these two as they stand."""
    return b'{"version":1,"subscription":' + subscription + b',"pattern":' + pattern + b"}"


# Like those above, but for parts that only parsers care about.
BATTERY = (
    Registration("a pattern that is a number", _document(pattern=7), ALL),
    Registration("a pattern that is null", _with(b'{"elsewhere":1}', b"null"), (V1_1,)),
    Registration("no subscription", _document(subscription=None), ALL),
    Registration("a list as subscription", _document(subscription=[ELSEWHERE]), ALL),
    Registration("a text as subscription", _document(subscription=ELSEWHERE), ALL),
    Registration("null as subscription", _with(b"null"), ALL),
    Registration("minus one thread", _document(subscription={ELSEWHERE: -1}), ALL),
    Registration("one and a half threads", _document(subscription={ELSEWHERE: 1.5}), ALL),
    Registration("1.0 threads", _document(subscription={ELSEWHERE: 1.0}), ALL),
    Registration("1e0 threads", _with(b'{"elsewhere":1e0}'), ALL),
    Registration("a text as threads", _document(subscription={ELSEWHERE: "1"}), ALL),
    Registration("true as threads", _document(subscription={ELSEWHERE: True}), ALL),
    Registration("null as threads", _with(b'{"elsewhere":null}'), ALL),
    Registration("2^31 threads", _document(subscription={ELSEWHERE: 2**31}), ALL),
    Registration("10,001 threads", _document(subscription={ELSEWHERE: 10_001})),
    Registration("a topic without a name", _document(subscription={"": 1}), SINCE_010),
    Registration("a topic that no topic can be", _document(subscription={"a b": 1})),
    Registration("a topic with a slash", _document(subscription={"a/b": 1})),
    Registration("a white list of nothing", _document(subscription={}, pattern="white_list")),
    Registration("a black list of nothing", _document(subscription={}, pattern="black_list")),
    Registration("an empty expression", _document(subscription={"": 1}, pattern="white_list")),
    Registration(
        "look-ahead", _document(subscription={"elsewhere(?=x).*": 1}, pattern="white_list")
    ),
    Registration("two lists", _document(subscription={"x1": 1, "x2": 1}, pattern="white_list")),
    Registration(
        "a list of no threads", _document(subscription={".*": 0}, pattern="white_list"), ALL
    ),
    Registration("1e3 somewhere", _more(b'"more":1e3'), SCALA_JSON),
    Registration("2^31 somewhere", _more(b'"more":2147483648'), SCALA_JSON),
    Registration("2^31 in a list", _more(b'"more":[{"a":2147483648}]'), SCALA_JSON),
    Registration("30 digits", _more(b'"more":' + b"1" * 30), SCALA_JSON),
    Registration("-2^31", _more(b'"more":-2147483648')),
    Registration("NaN", _more(b'"more":NaN'), ALL),
    Registration("a leading zero", _more(b'"more":01'), ALL),
    Registration("a leading plus", _more(b'"more":+1'), ALL),
    Registration("a leading dot", _more(b'"more":.5'), ALL),
    Registration(
        "an expression as 0.8.1 escapes it",
        _with(b'{"elsewhere\\..*":1}', b'"white_list"'),
    ),
    Registration("the first subscription bad", b'{"subscription":{"elsewhere":0},' + USUAL[1:]),
    Registration("the subscription twice", USUAL[:-1] + b',"subscription":{"elsewhere":0}}', ALL),
    Registration("trailing junk", USUAL + b" and more", SCALA_JSON),
    Registration("two documents", USUAL + USUAL, SCALA_JSON),
    Registration("a comma behind the last field", USUAL[:-1] + b",}", ALL),
    Registration("single quotes", USUAL.replace(b'"', b"'"), ALL),
    Registration("bare keys", USUAL.replace(b'"version"', b"version"), ALL),
    Registration("a comment", b"/* mine */" + USUAL, ALL),
    Registration("space around it", b"  \n\t" + USUAL + b"\n"),
    Registration("a byte order mark", b"\xef\xbb\xbf" + USUAL, ALL),
    Registration("UTF-16", USUAL.decode().encode("utf-16"), ALL),
    Registration("not UTF-8", _more(b'"more":"\xff\xfe"')),
    Registration("half a surrogate", _more(b'"more":"\\ud800"')),
    Registration("a line feed in a text", _more(b'"more":"a\nb"'), ALL),
    Registration("an escape that is none", _more(b'"more":"a\\qb"')),
    Registration("3,000 brackets", _more(DEEP), SCALA_JSON),
    Registration("50 brackets", _more(b'"more":' + b"[" * 50 + b"]" * 50)),
    Registration("100,000 bytes", _more(b'"more":"' + b"x" * 100_000 + b'"')),
    Registration("a list of documents", b"[" + USUAL + b"]", ALL),
    Registration("a number", b"1", ALL),
    Registration("a text in quotes", b'"elsewhere"', ALL),
    Registration("half a document", USUAL[: len(USUAL) // 2], ALL),
    Registration("a zero byte behind it", USUAL + b"\x00"),
)
