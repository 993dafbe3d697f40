"""A registration as the JSON parsers of old consumers read it, which is laxer than `strict_json`,
and not the same in all releases: what none of them can use is nobody's, and what one can use is an
old consumer's, whatever zkcoord makes of it.

Up to 0.11 it is Scala's own parser: every number must be a Java int, wherever it stands; nesting is
recursion; a backslash before another character stands for itself; behind the document only space
may stand. Since 1.0 it is Jackson's: what stands behind the document does not count, and (since
1.0.1) a document that cannot be read is read again with every backslash doubled. In both a text
holds no line feed, the last of two equal keys counts, and bytes that are not UTF-8 are replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from zkcoord.core.model import Malformed
from zkcoord.core.value_type import value
from zkcoord.znodes import names
from zkcoord.znodes.java_patterns import Refusal
from zkcoord.znodes.patterns import check_old_regex
from zkcoord.znodes.strict_json import JsonObject, UnfitField

INT_MAX = 2**31 - 1
DIGITS_MAX = 40
QUOTED_BYTES_MAX = 200
SCALA_DEPTH_MAX = 500
KEPT_DEPTH = 8
OPENING, CLOSING = ("[", "{"), ("]", "}")
BRACKETS_MAX = 5_000
BYTES_MAX = 256 * 1024
PATTERNS = ("white_list", "black_list")

_SPACE = " \t\n\r"
_ESCAPE = re.compile(r'\\(u[0-9a-fA-F]{4}|["\\/bfnrt])|\\')
# Below U+0020 all is space to Scala's parser, but for the end of its input.
_SCALA_SPACE = {code: " " for code in range(0x20) if code not in (0x0A, 0x1A)}


@value
class LegacyDocument:
    """A JSON object that old consumers of some release can parse: `before_10` and `since_10` say
    why those before 1.0, or since 1.0, cannot ("": they can).
    """

    fields: JsonObject
    before_10: str = ""
    since_10: str = ""
    # The numbers in it that are no Java int, as text for people: none before 1.0 can read those.
    large: tuple[str, ...] = ()


def decode_legacy_document(name: str, data: bytes) -> LegacyDocument | Malformed:
    """The document in the registration `name`. Never raises."""
    if not data:
        return Malformed("registration", name, "it is empty")
    if len(data) > BYTES_MAX or data.count(b"[") + data.count(b"{") > BRACKETS_MAX:
        what = f"it has more than {BYTES_MAX} bytes or {BRACKETS_MAX} brackets"
        return Malformed("registration", name, what)
    text = data.decode("utf-8", "replace")
    large: list[str] = []
    scala = _read(lambda: _scala(text, large))
    jackson = _read(lambda: _jackson(text))
    quoted = names.shown(data[:QUOTED_BYTES_MAX].decode("utf-8", "replace"))
    fields = jackson if isinstance(jackson, dict) else scala
    if not isinstance(fields, dict):
        what = jackson if isinstance(jackson, str) else "not JSON"
        return Malformed("registration", name, f"it is {what}: {quoted}")
    return LegacyDocument(
        fields,
        f"it is {scala}: {quoted}" if isinstance(scala, str) else "",
        f"it is {jackson}: {quoted}" if isinstance(jackson, str) else "",
        tuple(large),
    )


def unusable(document: LegacyDocument) -> str:
    """Why no release can use what this document subscribes to, so that nobody consumes by it; ""
    where one can.
    """
    pattern, found = document.fields.get("pattern", 0), document.fields.get("subscription")
    if pattern is not None and type(pattern) is not str:
        return "its pattern is not a text"
    if pattern is None and document.before_10:
        return "its pattern is null"
    if type(found) is not dict:
        return "its subscription is not an object"
    if any(type(n) is not int or not 1 <= n <= INT_MAX for n in found.values()):
        return "it has a number of streams that is none"
    if pattern not in PATTERNS:
        return "a topic's name is empty" if "" in found else ""
    for regex in found:
        checked = check_old_regex(regex)
        if isinstance(checked, Refusal) and checked.by_java:
            return f"the expression {names.shown(regex)} is none in Java: {checked.reason}"
    return ""


def _read(read: Callable[[], Any]) -> JsonObject | str:
    """The object, or what the document is instead."""
    try:
        value = read()
    except (ValueError, RecursionError):
        return "not JSON"
    return value if isinstance(value, dict) else "not a JSON object"


def _scala(text: str, large: list[str]) -> Any:
    if _depth(text) > SCALA_DEPTH_MAX:
        raise UnfitField("nested too deeply")

    def number(digits: str) -> int:
        value = int(digits) if len(digits) < DIGITS_MAX else INT_MAX + 1
        if not -INT_MAX - 1 <= value <= INT_MAX:
            large.append(names.shown(digits))
        return value

    def fraction(digits: str) -> float:
        large.append(names.shown(digits))
        return 0.0

    escaped = _ESCAPE.sub(lambda found: found[0] if found[1] else r"\\", text)
    return json.loads(
        escaped.translate(_SCALA_SPACE),
        parse_int=number,
        parse_float=fraction,
        parse_constant=_refuse,
    )


def _jackson(text: str) -> Any:
    try:
        return _first_of(text)
    except ValueError:
        return _first_of(text.replace("\\", "\\\\"))


def _first_of(text: str) -> Any:
    if _depth(text) > SCALA_DEPTH_MAX:
        text = _flattened(text)
    return _LAX.raw_decode(text.lstrip(_SPACE))[0]


def _long(digits: str) -> int:
    return int(digits) if len(digits) < DIGITS_MAX else INT_MAX + 1


def _refuse(text: str) -> Any:
    raise UnfitField(f"{text} is not a number")


_TOKEN = re.compile(r'"(?:[^"\\]+|\\.)*"?|[\[\]{}]', re.DOTALL)
_LAX = json.JSONDecoder(parse_int=_long, parse_constant=_refuse)


def _depth(text: str) -> int:
    """How deep its brackets are, those in texts left out."""
    depth = most = 0
    for found in _TOKEN.finditer(text):
        if found[0] in OPENING:
            depth += 1
            most = max(most, depth)
        elif found[0] in CLOSING:
            depth -= 1
    return most


def _flattened(text: str) -> str:
    """The same without what is nested deeper than anything that counts, null in its place."""
    kept, depth, at = [], 0, 0
    for found in _TOKEN.finditer(text):
        if found[0] in OPENING:
            depth += 1
            if depth == KEPT_DEPTH + 1:
                kept.append(text[at : found.start()] + "null")
        elif found[0] in CLOSING:
            depth -= 1
            if depth == KEPT_DEPTH:
                at = found.end()
    return "".join(kept) + (text[at:] if depth <= KEPT_DEPTH else "")
