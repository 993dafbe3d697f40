"""JSON from anybody, and regular expressions of consumers, old and new."""

from __future__ import annotations

import json
from typing import Any

import re2

from tests.fuzz.harness import Harness, equal, holds, text_of
from tests.fuzz.parsers.nodes import MANY, STRANGE
from tests.znodes import seeds
from zkcoord.core.model import Malformed
from zkcoord.znodes import strict_json as product
from zkcoord.znodes.java_patterns import Refusal, follow
from zkcoord.znodes.patterns import check_old_regex, check_regex, compiled
from zkcoord.znodes.strict_json import Reason, Texts, UnfitField, string

TOPICS = ("a", "orders", "orders.eu", "A-1", "_x", "__consumer_offsets", "0", "z.z.z", "orders-9")


def slowly(data: bytes) -> object:
    """As `strict_json`, without its fast parser."""
    usual = product._usual
    product._usual = lambda data: None
    try:
        return product.strict_json(data)
    finally:
        product._usual = usual


def json_object(data: bytes) -> None:
    """Its fast and its slow parser agree; what is taken can be written, and no deeper than said."""
    found, other = product.strict_json(data), slowly(data)
    equal(type(found), type(other))
    if isinstance(found, Reason):
        holds(bool(found.text) and len(found.text) < 300, found)
        return
    # of numbers, 1 and 1.0 and True are equal in Python
    equal(json.dumps(found, sort_keys=True), json.dumps(other, sort_keys=True))
    json.dumps(found, ensure_ascii=False).encode("utf-8")
    holds(depth(found) <= product.DOCUMENT_DEPTH_MAX, depth(found))
    equal(product.strict_json(product.to_bytes(found)), found)


def depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth, inner), default=0) if isinstance(value, dict | list) else 0


FIELDS: dict[str, tuple[int, str | None]] = {"a": (5, None), "b": (9, "x"), "c": (3, "")}
TEXTS = Texts(FIELDS)


def texts(data: bytes) -> None:
    """Several fields at once are what one after the other is."""
    document = product.strict_json(data)
    if isinstance(document, Reason):
        return
    one = said(lambda: TEXTS.read(document))
    other = said(lambda: tuple(string(document, k, n, d) for k, (n, d) in FIELDS.items()))
    equal(one, other)


def said(read: Any) -> object:
    try:
        return read()
    except UnfitField as unfit:
        return str(unfit)


def expression(data: bytes) -> None:
    """Is it RE2's, then it compiles, and stays within its bounds."""
    regex = text_of(data)
    found = check_regex(regex)
    if isinstance(found, Malformed):
        holds(bool(found.reason) and len(found.reason) < 300, found)
        return
    engine = compiled(regex)
    holds(not isinstance(engine, Malformed), engine)
    for topic in TOPICS:
        engine.fullmatch(topic)


def old_expression(data: bytes) -> None:
    """What is followed is an expression of RE2's, which followed again means the same."""
    regex = text_of(data)
    followed = follow(regex)
    if isinstance(followed, Refusal):
        holds(bool(followed.reason), followed)
    else:
        again = follow(followed)
        engine = engine_of(followed)
        if engine is not None and isinstance(again, str):
            other = engine_of(again)
            holds(other is not None, followed, again)
            for topic in TOPICS:
                equal(bool(engine.fullmatch(topic)), bool(other.fullmatch(topic)))
    checked = check_old_regex(regex)
    holds(isinstance(checked, Refusal) or not isinstance(compiled(checked), Malformed), checked)


def engine_of(regex: str) -> Any:
    """RE2's; None where it is more than that takes."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 8 << 20
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        # too large is no contradiction; anything else is: it was said that RE2 can say this
        text = str(error.args[0])
        holds("too large" in text or "repetition" in text or "too deep" in text, regex, text)
        return None


PIECES = (
    *(b"(?!a).*", b"(?!a|b$).*", b"[a-z&&[^x]]", b"[^", b"\\p{Lu}", b"\\Q", b"\\E", b"\\x{41}"),
    *(b"(?i)", b"(?i:", b"(?-i)", b"{1,3}", b"{1000}", b"\\0", b"\\u0041", b"\\b", b"\\Z", b"*+"),
    *(b"a|b", b".*", b"(?:", b"\\d", b"[\\w-]", b"++", b"??", b"\\cA", b"&&"),
)
EXPRESSIONS = (b"orders\\..*", b"(?!test).*", b"a|b,c", b"[a-z]{1,3}", b'"quoted"', b"^a$")
ODD = (b'{"a":1,"a":2}', b'{"a":1e999}', b'{"a":' + b"9" * 30 + b"}", b'{"a":"\\ud800"}')
HARNESSES = (
    Harness(
        "strict-json",
        ("zkcoord.znodes.strict_json:strict_json", "zkcoord.znodes.strict_json:reading"),
        lambda data: (json_object(data), seeds.DECODERS["mode"][0](data), None)[-1],
        lambda: [*(one for _, many in seeds.DECODERS.values() for one in many), *ODD, *STRANGE],
        MANY,
    ),
    Harness(
        "json-texts",
        ("zkcoord.znodes.strict_json:Texts.read",),
        texts,
        lambda: [b'{"a":"x"}', b'{"a":"x","b":"yyyy","c":1}', b'{"b":"long long long","a":""}'],
        (b'"a":', b'"b":', b'"c":', b"\\u0000", b"\\ud83d"),
        bytes_max=200,
    ),
    Harness(
        "expression",
        ("zkcoord.znodes.patterns:check_regex",),
        expression,
        lambda: EXPRESSIONS,
        PIECES,
        bytes_max=300,
    ),
    Harness(
        "old-expression",
        ("zkcoord.znodes.java_patterns:follow", "zkcoord.znodes.patterns:check_old_regex"),
        old_expression,
        lambda: EXPRESSIONS,
        PIECES,
        bytes_max=300,
    ),
)
